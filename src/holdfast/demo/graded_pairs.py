"""The demo's sentence pairs, with graded similarities."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class GradedPair:
    """Two sentences and the similarity of their meanings, from 0 (unrelated) to 5 (the same).

    `kind` is the phenomenon that the pair tests.
    """

    sentence1: str
    sentence2: str
    score: float
    kind: str


def load_pairs() -> list[GradedPair]:
    """Load the demo's sentence pairs, graded 0 to 5 in steps of 0.2.

    They were written and graded by holdfast's authors on the scale of the STS tasks, for demonstration. One person's
    grades of a few hundred invented sentences are not a benchmark: do not report scores on them as one.
    """
    text = resources.files("holdfast.demo").joinpath("pairs.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.split("\n")[1:] if line]
    return [GradedPair(first, second, float(score), kind) for first, second, score, kind in rows]
