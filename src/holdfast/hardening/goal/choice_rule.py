"""The rule that chooses the weights: most noise recovered, while clean recall and hold/move do not fall."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.evaluation.comparison import difference, resample
from holdfast.evaluation.samples import Means, Sample, Shares
from holdfast.hardening.goal.goal_queries import CLEAN
from holdfast.hardening.goal.measured_goal import Outcomes

TOLERANCE = 0.3
"""Points that clean recall may fall, as long as the fall is not significant."""
LEAST_LOSS = 1.0
"""Points of recall that a kind of noise must cost the original encoder: of a smaller loss no share can be measured."""

RULE = (
    "of the weights that recover most of what noise costs on the hold-out, within one standard error, those nearest to "
    f"the original were kept, among those whose clean recall falls by at most {TOLERANCE} points and not "
    "significantly, and whose hold/move does not fall significantly"
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
        error: standard error of ``recovered`` over the queries.
    """

    step: int
    weight: float
    recovered: float | None
    recall: dict[str, float]
    clean: Change
    hold_move: Change | None
    error: float = 0.0

    @property
    def gain(self) -> float:
        """The percentage that is recovered; 0 if noise costs nothing."""
        return self.recovered or 0.0

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
            "error": self.error,
            "admissible": self.admissible,
            "recall": self.recall,
            "differences": {name: dict(vars(change)) for name, change in changes.items() if change is not None},
        }


def kept(candidates: Iterable[Candidate]) -> Candidate | None:
    """Return the admissible candidate nearest to the original among the best; None: keep the original.

    The best are those that recover more than nothing, and as much as the one that recovers most, less a standard error
    of the latter: the one-standard-error rule of Breiman et al. 1984. What the hold-out does not measure is best left
    as it is. Of equal weights it is the one that recovers more, then the earlier step.
    """
    useful = [each for each in candidates if each.admissible and each.gain > 0.0]
    if not useful:
        return None
    most = max(useful, key=lambda each: each.gain)
    enough = [each for each in useful if each.gain >= most.gain - most.error]
    return min(enough, key=lambda each: (each.weight, -each.gain, each.step))


def judge(original: Outcomes, new: Outcomes, *, step: int, weight: float = 1.0, seed: int = 0) -> Candidate:
    """Compare what an encoder finds with what the original finds."""
    pairs = original.nearer.size > 0
    share, error = recovered(original, new)
    return Candidate(
        step,
        weight,
        share,
        recalls(new),
        change(Shares(np.stack([original.clean(), new.clean()])), "clean", seed),
        change(Means(100.0 * np.stack([original.nearer, new.nearer])), "hold/move", seed) if pairs else None,
        error,
    )


def recovered(original: Outcomes, new: Outcomes) -> tuple[float | None, float]:
    """Return the percentage of what noise costs the original that the new encoder recovers, and its standard error.

    For one kind of noise it is (noisy recall of the new encoder − that of the original) / (clean recall of the
    original − its noisy recall), both over the queries of all groups that lose `LEAST_LOSS` points or more, so that a
    group of few queries counts little; then the mean over the kinds. None: noise costs nothing. The error is that of
    the gains over the queries, for the loss as it is.
    """
    losses: dict[str, float] = {}
    counted = []
    for (group, version), before in original.found.items():
        loss = _mean(original.found[group, CLEAN]) - _mean(before)
        if version != CLEAN and 100.0 * loss >= LEAST_LOSS:
            losses[version] = losses.get(version, 0.0) + loss * before.size
            counted.append((group, version))
    if not losses:
        return None, 0.0
    gains: dict[str, npt.NDArray[np.float64]] = {}  # of each query of a group, over the kinds of noise
    for group, version in counted:
        gain = new.found[group, version].astype(float) - original.found[group, version]
        gains[group] = gains.get(group, 0.0) + 100.0 * gain / losses[version] / len(losses)
    every = np.concatenate(list(gains.values()))
    return float(every.sum()), float(np.sqrt(every.size) * every.std())


def recalls(found: Outcomes) -> dict[str, float]:
    """Return recall@1 ×100 by name: ``clean`` of all labelled groups, else ``GROUP VERSION``; and hold/move ×100."""
    named = {CLEAN: 100.0 * _mean(found.clean())}
    named |= {f"{group} {version}": 100.0 * _mean(own) for (group, version), own in found.found.items()}
    return named | ({"hold_move": 100.0 * _mean(found.nearer)} if found.nearer.size else {})


def change(sample: Sample, name: str, seed: int = 0) -> Change:
    """Return the difference between two encoders on the same items."""
    if not sample.count:
        return Change(0.0, 0.0, 0.0, 1.0)
    made = difference([resample(sample, seed=seed, name=name)], 1)
    return Change(made.difference, made.low, made.high, made.p)


def _mean(values: npt.NDArray[np.bool_] | npt.NDArray[np.float64]) -> float:
    return float(np.mean(values)) if values.size else 0.0
