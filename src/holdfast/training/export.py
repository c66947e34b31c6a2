"""Export of the finished model: a SentenceTransformer of native modules, with a model card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from sentence_transformers import SentenceTransformer

from holdfast.adapters import save_with_base
from holdfast.card_terms import terms_of
from holdfast.files import read_object, write_json, write_text
from holdfast.models import saved_plainly
from holdfast.runs import run_folder
from holdfast.training.method_options import objective_class
from holdfast.user_classes import is_user_class

MODULES_FILE = "modules.json"

USAGE = """\
```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/to/this/folder")
vectors = model.encode(["A cat sits on the mat.", "On the mat there is a cat."])
print(model.similarity(vectors, vectors))
```

It is made of sentence-transformers' own modules; holdfast is not needed to use it."""
"""Text of a card on the use of a finished encoder."""

_NO_TEST = "No test split was used to choose anything."
_ON_STSB_DEV = (
    "No test split was used to choose anything; but, as with all encoders that are chosen so, 1,131 of the 1,500 pairs "
    "of STS-B dev are also in the test sets of STS12 to STS16."
)


def export(model: SentenceTransformer, output: Path, card: str, *, half: bool = False) -> None:
    """Write ``model`` and its card into ``output``; ``modules.json`` comes last and makes the folder a model.

    With ``half`` its weights are in fp16, and its configuration lets the libraries compute in fp32.
    """

    def save(folder: Path) -> None:
        with saved_plainly(model.tokenizer):
            save_with_base(model, folder)
        if half:
            config = read_object(folder / "config.json")
            write_json(folder / "config.json", {**config, "dtype": "float32"})
        write_text(folder / "README.md", card)

    run_folder.export(output, save, MODULES_FILE)


def model_card(
    record: Mapping[str, Any], selection: Mapping[str, Any], sts_rows: Sequence[Mapping[str, Any]] | None
) -> str:
    """Return the text of the model card.

    Args:
        record: the run's record (``run.json``): method, options, base model, corpus, training settings, versions.
        selection: how the weights were chosen: ``protocol``, and if a step was selected ``step`` and ``score``, or
            ``line``, a sentence on the choice; ``typo_entries``, if the choice took those of the record out.
        sts_rows: rows of :func:`holdfast.evaluation.sts.evaluate_sts`; None: no test data was available.
    """
    method = objective_class(record["method"])
    names = [] if is_user_class(record["method"]) else [record["method"]]
    front = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "sentence-similarity", "feature-extraction", "holdfast", *names],
        **terms_of(record["base_model"]),
    }
    chosen = f", step {selection['step']} with {selection['score']:.2f}" if "score" in selection else ""
    chosen = f"; {selection['line']}" if "line" in selection else chosen
    training = "\n".join(f"| {key} | `{value}` |" for key, value in _settings(record, selection))
    return f"""---
{yaml.safe_dump(front, sort_keys=False).strip()}
---

# {Path(record["base_model"]).name}, trained with {method.TITLE}

A sentence encoder trained without labels: {method.IDEA}.

{USAGE}{_shortening(record)}

## Training

| | |
|---|---|
{training}

**Selection:** {selection["protocol"]}{chosen}. {_ON_STSB_DEV if record.get("selection") == "stsb-dev" else _NO_TEST}

## Semantic textual similarity

{_sts_table(sts_rows)}

## Citation

{method.CITATION}
"""


def _shortening(record: Mapping[str, Any]) -> str:
    """Return a paragraph on the sizes to which the vectors may be shortened; "" if they were not trained for it."""
    sizes = record.get("matryoshka")
    if not sizes:
        return ""
    named = ", ".join(map(str, sizes[1:])) or str(sizes[0])
    return (
        f"\n\nThe vectors were trained to be shortened, to {named} dimensions: "
        f'`SentenceTransformer("path/to/this/folder", truncate_dim={sizes[-1]})`.'
    )


def _settings(record: Mapping[str, Any], selection: Mapping[str, Any]) -> list[tuple[str, Any]]:
    corpus = record["corpus"]
    rows: list[tuple[str, Any]] = [
        ("method", record["method"]),
        ("preset", record["preset"] or "default"),
        ("base model", f"{record['base_model']} (sha256 {record['base_model_sha256'][:16]}…)"),
        ("corpus", f"{corpus['source']}: {corpus['sentences']} sentences (sha256 {corpus['sha256'][:16]}…)"),
    ]
    if record.get("prompt"):
        rows.append(("prompt before every sentence", record["prompt"]))
    if record["pooling"] is not None:
        rows.insert(3, ("pooling", record["pooling"]))
    if lora := record.get("lora"):
        settings = ", ".join(f"{key}={value}" for key, value in lora.items() if value != [])
        rows.append(("trained weights", f"adapters (LoRA): {settings}"))
    if sizes := record.get("matryoshka"):
        rows.append(("trained at dimensions (Matryoshka)", ", ".join(map(str, sizes))))
    if entries := selection.get("typo_entries", record.get("typo_entries")):
        rows.append(("misspellings in the vocabulary, which begin with the vectors of their words", f"{entries:,}"))
    training = dict(record["training"])
    training.pop("epochs" if training["max_steps"] else "max_steps")  # the one that did not decide
    rows += [(key.replace("_", " "), value) for key, value in training.items()]
    rows += [(key, value) for key, value in record["options"].items()]
    return [*rows, ("holdfast", record["versions"]["holdfast"])]


def _sts_table(rows: Sequence[Mapping[str, Any]] | None) -> str:
    if rows is None:
        return "Not measured: no STS test data was available. `holdfast evaluate` measures it."
    names = " | ".join(row["task"] for row in rows)
    scores = [row["metrics"]["spearman"] for row in rows]
    cells = " | ".join(f"{score:.2f}" for score in scores)
    mean = sum(scores) / len(scores)
    return (
        f"Spearman ×100 on the test sets (cosine, all subsets of a year together, fp32).\n\n| {names} | average |\n"
        f"|{'---|' * (len(scores) + 1)}\n| {cells} | {mean:.2f} |"
    )
