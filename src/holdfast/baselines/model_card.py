"""The model card of a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from holdfast.baselines.registry import BASELINES
from holdfast.card_terms import terms_of
from holdfast.version import __version__

_UNCHANGED = " The encoder's own weights are as they were."


def card(name: str, protocol: Mapping[str, Any], fit: Mapping[str, Any], notes: Sequence[str]) -> str:
    """Return the text of the model card; ``fit`` has the results of the fit, ``notes`` a sentence each for users."""
    baseline = BASELINES[name]
    front = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "sentence-similarity", "feature-extraction", "holdfast", name],
        **terms_of(protocol.get("base_model")),
    }
    table_rows = "\n".join(
        f"| {key} | `{value}` |" for key, value in (*_rows(protocol), *_rows(fit), ("holdfast", __version__))
    )
    note_lines = "\n".join(f"- {note}" for note in notes)
    source = protocol.get("base_model") or protocol["vectors"]["file"]
    return f"""---
{yaml.safe_dump(front, sort_keys=False).strip()}
---

# {Path(source).name}: {baseline.title}

A baseline: {baseline.summary}.{_UNCHANGED if "base_model" in protocol else ""}

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("path/to/this/folder")
vectors = model.encode(["A cat sits on the mat.", "On the mat there is a cat."])
print(model.similarity(vectors, vectors))
```

It is made of sentence-transformers' own modules (release 6 or newer); holdfast is not needed to use it.
{note_lines and chr(10) + note_lines + chr(10)}
## How it was made

| | |
|---|---|
{table_rows}

## Source

{baseline.citation}
"""


def _rows(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return keys and values; keys of nested mappings are joined to the outer key, and long hashes are cut."""
    rows: list[tuple[str, Any]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            rows += [(f"{key.replace('_', ' ')}: {inner}", shown) for inner, shown in _rows(value)]
        elif value is not None:
            short = f"{value[:16]}…" if key.endswith("sha256") else value
            rows.append((key.replace("_", " "), f"{short:.6g}" if isinstance(short, float) else short))
    return rows
