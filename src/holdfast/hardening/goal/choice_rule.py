"""The rule that chooses the weights: most noise recovered, while clean recall and hold/move do not fall."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.evaluation.comparison import Means, Sample, Shares, difference, resample
from holdfast.hardening.goal.goal_queries import CLEAN
from holdfast.hardening.goal.measured_goal import Outcomes

TOLERANCE = 0.3
"""Points that clean recall may fall, as long as the fall is not significant."""
LEAST_LOSS = 1.0
"""Points of recall that a kind of noise must cost the original encoder: of a smaller loss no share can be measured."""

RULE = (
    "the weights that recover most of what noise costs on the hold-out were kept, among those whose clean recall falls "
    f"by at most {TOLERANCE} points and not significantly, and whose hold/move does not fall significantly"
)


@dataclass(frozen=True)
class Change:
    """A difference to the original encoder with its paired 95 % interval, and the p-value of no difference."""

    difference: float
    low: float
    high: float
    p: float

    @property
    def fell(self) -> bool:
        """True for a significant fall: the whole interval is below 0."""
        return self.high < 0.0


@dataclass(frozen=True)
class Candidate:
    """Weights that may be kept.

    Attributes:
        step: the optimiser step; 0: the original encoder.
        weight: the weight of the trained encoder in the interpolation with the original.
        recovered: percentage of what noise costs the original that is recovered; None: noise costs nothing.
        recall: recall@1 ×100, by version: clean queries with known documents, then each kind of noise in each group.
        clean: change of clean recall, in points.
        hold_move: change of the probability, in points, that a text with the same meaning is nearer than one with
            another; None: not measured.
    """

    step: int
    weight: float
    recovered: float | None
    recall: dict[str, float]
    clean: Change
    hold_move: Change | None

    @property
    def admissible(self) -> bool:
        """True if neither clean recall nor hold/move falls."""
        clean_holds = self.clean.difference >= -TOLERANCE - 1e-9 and not self.clean.fell
        return clean_holds and (self.hold_move is None or not self.hold_move.fell)

    def record(self) -> dict[str, Any]:
        """Return the entry of the curve in the result."""
        changes = {"clean": self.clean, "hold_move": self.hold_move}
        return {
            "step": self.step,
            "weight": self.weight,
            "recovered": self.recovered,
            "admissible": self.admissible,
            "recall": self.recall,
            "differences": {name: dict(vars(change)) for name, change in changes.items() if change is not None},
        }


def kept(candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the admissible candidate that recovers most, more than nothing; None: keep the original.

    Of equal ones it is the one with the smaller weight, then the earlier step.
    """
    useful = [each for each in candidates if each.admissible and each.recovered is not None and each.recovered > 0.0]
    return min(useful, key=lambda each: (-(each.recovered or 0.0), each.weight, each.step), default=None)


def judge(original: Outcomes, new: Outcomes, *, step: int, weight: float = 1.0, seed: int = 0) -> Candidate:
    """Compare what an encoder finds with what the original finds."""
    pairs = original.nearer.size > 0
    return Candidate(
        step,
        weight,
        recovered(original, new),
        recalls(new),
        change(Shares(np.stack([original.clean(), new.clean()])), "clean", seed),
        change(Means(100.0 * np.stack([original.nearer, new.nearer])), "hold/move", seed) if pairs else None,
    )


def recovered(original: Outcomes, new: Outcomes) -> float | None:
    """Return the percentage of what noise costs the original that the new encoder recovers; None: it costs nothing.

    For one kind of noise it is (noisy recall of the new encoder − that of the original) / (clean recall of the
    original − its noisy recall), both over the queries of all groups that lose `LEAST_LOSS` points or more, so that a
    group of few queries counts little; then the mean over the kinds.
    """
    gains: dict[str, float] = {}
    losses: dict[str, float] = {}
    for (group, version), before in original.found.items():
        loss = 100.0 * (_mean(original.found[group, CLEAN]) - _mean(before))
        if version != CLEAN and loss >= LEAST_LOSS:
            gain = 100.0 * (_mean(new.found[group, version]) - _mean(before))
            gains[version] = gains.get(version, 0.0) + gain * before.size
            losses[version] = losses.get(version, 0.0) + loss * before.size
    return float(np.mean([100.0 * gains[version] / losses[version] for version in losses])) if losses else None


def recalls(found: Outcomes) -> dict[str, float]:
    """Return recall@1 ×100 by name: ``clean`` of all labelled groups, else ``GROUP VERSION``; and hold/move ×100."""
    named = {CLEAN: 100.0 * _mean(found.clean())}
    named |= {f"{group} {version}": 100.0 * _mean(own) for (group, version), own in found.found.items()}
    return named | ({"hold_move": 100.0 * _mean(found.nearer)} if found.nearer.size else {})


def change(sample: Sample, name: str, seed: int = 0) -> Change:
    """Return the difference between two encoders on the same items."""
    if not sample.count:
        return Change(0.0, 0.0, 0.0, 1.0)
    made = difference([resample(sample, seed=seed, name=name)], 1, seed=seed)
    return Change(made.difference, made.low, made.high, made.p)


def _mean(values: npt.NDArray[np.bool_] | npt.NDArray[np.float64]) -> float:
    return float(np.mean(values)) if values.size else 0.0
