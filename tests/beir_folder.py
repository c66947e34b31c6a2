"""Small collections in BEIR's layout."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

DOCUMENTS = [
    {"_id": "d1", "title": "Dogs", "text": "the old dog sleeps in the house"},
    {"_id": "d2", "title": "", "text": "a cat eats in the park"},
    {"_id": "d3", "text": "the woman sings under the big red bed"},
    {"_id": "d4", "title": "Parks", "text": "a man runs in the park"},
]
QUERIES = {
    "queries": {"q1": "the dog sleeps", "q2": "a cat eats", "q3": "the woman sings"},
    "queries-keyboard": {"q1": "the dig sleeps", "q2": "a cst eats", "q3": "the woman sibgs"},
}
QRELS = [("q1", "d1", 1), ("q2", "d2", 1), ("q3", "d3", 1), ("q3", "d4", 0)]


def write_collection(
    folder: Path,
    documents: Iterable[Mapping[str, Any]] = DOCUMENTS,
    queries: Mapping[str, Mapping[str, str]] = QUERIES,
    qrels: Iterable[tuple[str, str, int]] = QRELS,
    *,
    split: str = "test",
    packed: bool = False,
) -> Path:
    """Write a collection, ``packed`` with gzip, and return its folder."""
    lines = {"corpus.jsonl": [json.dumps(document) for document in documents]}
    for name, own in queries.items():
        lines[f"{name}.jsonl"] = [json.dumps({"_id": key, "text": text}) for key, text in own.items()]
    lines[f"qrels/{split}.tsv"] = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in qrels)]
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, own_lines in lines.items():
        data = "".join(f"{line}\n" for line in own_lines).encode()
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(data))
        else:
            (folder / name).write_bytes(data)
    return folder
