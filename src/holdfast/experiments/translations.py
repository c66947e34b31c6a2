"""Back-translation of a corpus as a piece of work: the positives of BTCL in ADCL's tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.adversary.translation import Translator, back_translate
from holdfast.data.corpus import SpooledCorpus
from holdfast.errors import EndsRun, UserError
from holdfast.files import sha256, write_text
from holdfast.progress import stage
from holdfast.results import read_result

if TYPE_CHECKING:
    from rich.console import Console

PAIRS_FILE = "pairs.jsonl"
COLUMN, POSITIVE_COLUMN = "sentence", "positive"
_PART = 512
"""Sentences per part file; a killed run loses at most one unfinished part."""


def drawn(corpus: SpooledCorpus, count: int | None, seed: int) -> list[str]:
    """Draw ``count`` sentences of a corpus by the seed, in their order; all if there are no more or it is None."""
    import numpy as np

    if count is None or count >= corpus.sentences:
        return list(corpus.dataset["sentence"])
    chosen = np.random.default_rng(seed).choice(corpus.sentences, count, replace=False)
    return list(corpus.dataset[sorted(chosen)]["sentence"])


def write_pairs(
    folder: Path, sentences: Sequence[str], there: Translator, back: Translator, console: Console
) -> list[dict[str, Any]]:
    """Write each sentence and its back-translation to ``folder / PAIRS_FILE``; finished parts are not made again.

    Returns:
        One row of a result: the number of sentences, the share that came back unchanged (%), and the file's hash.
    """
    parts = {
        folder / f"part-{start:09}.jsonl": sentences[start : start + _PART] for start in range(0, len(sentences), _PART)
    }
    missing = [part for part in parts if not part.exists()]
    with stage(console, "translating", unit="sentences") as progress:
        progress.restart(total=len(sentences), first=min(len(sentences), (len(parts) - len(missing)) * _PART))
        for part in missing:
            chosen = parts[part]
            pairs = zip(chosen, back_translate(chosen, there, back), strict=True)
            write_text(part, "".join(json.dumps({COLUMN: old, POSITIVE_COLUMN: new}) + "\n" for old, new in pairs))
            progress.update(min(len(sentences), progress.done + len(chosen)))
    text = "".join(_part_of(part, chosen) for part, chosen in parts.items())
    write_text(folder / PAIRS_FILE, text)
    for part in parts:
        part.unlink()
    records = [json.loads(line) for line in text.splitlines()]
    unchanged = 100.0 * sum(record[COLUMN] == record[POSITIVE_COLUMN] for record in records) / len(records)
    row = {"task": "back-translation", "split": "train", "n": len(records), "metrics": {"unchanged": unchanged}}
    return [{**row, "pairs_sha256": sha256(folder / PAIRS_FILE)}]


def _part_of(path: Path, sentences: Sequence[str]) -> str:
    """Read the pairs of a part.

    Raises:
        UserError: the part is damaged, or of other sentences.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        found = [json.loads(line)[COLUMN] for line in text.splitlines()]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged: delete it, and its sentences are translated again") from error
    if found != list(sentences):
        raise EndsRun(f"{path} is of other sentences than this cell's: delete it, and they are translated")
    return text


def pairs_of(result_file: Path) -> Path:
    """Return the path of the pairs beside a finished translation's result.

    Raises:
        UserError: the file is missing, or was changed after it was written.
    """
    path = result_file.parent / PAIRS_FILE
    (row,) = read_result(result_file)["results"]
    if not path.is_file() or sha256(path) != row["pairs_sha256"]:
        raise UserError(f"{path} is missing or was changed: remove the folder {path.parent}")
    return path
