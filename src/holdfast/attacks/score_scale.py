"""The scored pairs by which cosines are mapped to human scores in attacks on scored pairs (AdvSTS)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from holdfast.attacks.scored_pair_target import SCALE
from holdfast.data.registry import ScoredPairs, load_pairs
from holdfast.errors import UserError

_FIT = {"stsb": ("dev", "train"), "sickr": ("trial", "train")}
"""Splits for fitting; the first one that is not attacked is used. SICK-R is fitted by its own, all other tasks, and
sickr-full, which is all of SICK, by STS-B's."""


class FittingPairs(NamedTuple):
    """Scored pairs that are not attacked: n first and second texts, their scores, the lowest score of the scale.

    ``source`` names them, with their number.
    """

    first: list[str]
    second: list[str]
    scores: list[float]
    lowest: float
    source: str


def fitting_split(task: str, attacked: str) -> tuple[str, str]:
    """Return the task and split by which cosines are scaled to scores, if ``attacked`` is the attacked split."""
    fitting = "sickr" if task == "sickr" else "stsb"
    return fitting, next(split for split in _FIT[fitting] if (fitting, split) != (task, attacked))


def fitting_pairs(task: str, attacked: str, data: Path | None) -> FittingPairs:
    """Load the pairs for fitting, without those that are also in the attacked split, in either order.

    Many pairs of STS-B are from STS12 to STS16.

    Raises:
        UserError: the data cannot be loaded, or all pairs are in the attacked split.
    """
    fitting, split = fitting_split(task, attacked)
    pairs = load_pairs(fitting, split, data=data)
    known = set(_unordered(load_pairs(task, attacked, data=data, scale=SCALE)))
    kept = [row for row, pair in enumerate(_unordered(pairs)) if pair not in known]
    if not kept:
        raise UserError(f"{task} {attacked}: all pairs of {fitting} {split}, which scale the scores, are attacked")
    first, second = ([column[row] for row in kept] for column in (pairs.sentences1, pairs.sentences2))
    scores = [pairs.scores[row] for row in kept]
    lowest = 1.0 if fitting == "sickr" else SCALE[0]
    return FittingPairs(first, second, scores, lowest, f"{len(kept)} pairs of {fitting} {split}")


def _unordered(pairs: ScoredPairs) -> list[frozenset[str]]:
    return [frozenset(pair) for pair in zip(pairs.sentences1, pairs.sentences2, strict=True)]
