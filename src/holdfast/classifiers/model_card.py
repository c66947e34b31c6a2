"""The model card of a classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from holdfast.card_terms import terms_of

_FINE_TUNED = """from transformers import pipeline

classify = pipeline("text-classification", "path/to/this/folder")
print(classify({example}))"""

_FROZEN = """from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/to/this/folder")
logits = model.encode(["A text."])  # one column per class, in the order of classifier.json"""


def card(record: Mapping[str, Any], selected: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the model card: the run's record, the selection (``protocol``, ``score``), the rows."""
    frozen = record["frozen"]
    front = {
        "library_name": "sentence-transformers" if frozen else "transformers",
        "pipeline_tag": "text-classification",
        "tags": ["text-classification", "holdfast", record["task"]],
        **terms_of(record["base_model"]),
    }
    example = '{"text": "One text.", "text_pair": "Another."}' if record["takes_pairs"] else '"A text."'
    training = "a logistic regression on its frozen vectors" if frozen else "fine-tuned"
    kind, outputs = "classifier", f"Classes: {', '.join(record['classes'])}."
    if record.get("regression"):
        kind, outputs = "regression", "One output: the score, on the task's scale."
    settings = "\n".join(f"| {key} | `{value}` |" for key, value in _settings(record))
    scores = "\n".join(f"| {row['split']} | {row['n']:,} | {_metrics(row)} |" for row in rows)
    return f"""---
{yaml.safe_dump(front, sort_keys=False).strip()}
---

# {Path(record["base_model"]).name}, {training}, as a {kind} of {record["task"]}

{outputs}

```python
{_FROZEN if frozen else _FINE_TUNED.replace("{example}", example)}
```

## Training

| | |
|---|---|
{settings}

**Selection:** {selected["protocol"]} ({selected["score"]:.2f}). No test split was used to choose anything.

## Scores (fp32)

| split | texts | |
|---|---|---|
{scores}
"""


def _settings(record: Mapping[str, Any]) -> list[tuple[str, Any]]:
    train = record["data"]["train"]
    rows: list[tuple[str, Any]] = [
        ("base model", f"{record['base_model']} (sha256 {record['base_model_sha256'][:16]}…)"),
        ("task", f"{record['task']} {train['split']}: {train['texts']} texts (sha256 {train['sha256'][:16]}…)"),
        ("defence", _defence(record)),
    ]
    training = dict(record["training"])
    training.pop("epochs" if training["max_steps"] else "max_steps")  # the one that is not used
    if record["frozen"]:
        training = {key: training[key] for key in ("max_length", "examples", "seed", "precision")}
    rows += [(key.replace("_", " "), value) for key, value in training.items()]
    for out in record["excluded"]:
        count = "not available" if out["texts"] is None else f"{out['from_train']} texts"
        rows.append((f"left out: in {out['because']}", count))
    return rows + [("note", note) for note in record.get("notes", ())]


def _defence(record: Mapping[str, Any]) -> str:
    options = ", ".join(f"{name}={value}" for name, value in record["defence_options"].items())
    return f"{record['defence']} ({options})" if options else str(record["defence"])


def _metrics(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in row["metrics"].items())
