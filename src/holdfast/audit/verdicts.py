"""Verdicts of the audit ("holds", "bends", "breaks", "too few") and their thresholds.

An item whose 95 % interval spans two verdicts has too few texts, and says between which verdicts it is. An exception is
a value so near to the threshold, with an interval so narrow (`NEAR`), that it does not matter on which side it is.

The thresholds are conventions, the same for every model:

- **A rate** (successful attacks, texts that do not find themselves). Up to one text in ten is an exception
  (`RATE_HOLDS`); more than half of the texts is the rule (`RATE_BREAKS`).
- **A changed word.** ``1 - stability`` is the movement of a text's vector, in units of the mean (squared) distance to
  another text. Divided by the share of changed words, it is the *pull* of a changed word. If a vector is the mean of
  its word vectors, a word replaced by an unrelated one has a pull of exactly 1. If only content words counted, which
  are about half of all words, it would be 2. So up to 1 a change has no more effect than its share of the words
  (`PULL_HOLDS`); above 2 it has more effect than an unrelated word would have (`PULL_BREAKS`).
- **A meaning-preserving change** (case, a full stop, a trailing space) should have no pull. Up to a quarter of a word
  it is noise (`SURFACE_HOLDS`); above one word it has more effect than a word (`SURFACE_BREAKS`).
- **A changed meaning.** Of two copies of a text that are alike in the share of changed words, one with the same meaning
  and one with another, the first should be nearer. Random vectors have P(hold edit nearer) = 0.5, and a
  model that does not see the move edit is near 0. Up to one text in ten is an exception here, too (`NEARER_HOLDS`). At
  or below `NEARER_BREAKS` the model is hardly better than chance.
- **Quality** on STS-B dev: averaged GloVe vectors have a Spearman correlation near 60, the first encoders trained
  contrastively without labels above 75 (SimCSE, Table 5: 58.02 and 76.85 on the test set).
- **The space**: if distinct texts have a mean cosine above `ANISOTROPIC`, cosines have little meaning by themselves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "bends", "breaks", "too few", "absent"]
VERDICTS: tuple[Verdict, ...] = ("holds", "bends", "breaks", "too few", "absent")

RATE_HOLDS, RATE_BREAKS = 10.0, 50.0
PULL_HOLDS, PULL_BREAKS = 1.0, 2.0
SURFACE_HOLDS, SURFACE_BREAKS = 0.25, 1.0
QUALITY_HOLDS, QUALITY_BREAKS = 75.0, 60.0
NEARER_HOLDS, NEARER_BREAKS = 0.9, 0.6
CHANCE = 0.5
"""P(hold edit nearer) of a model that gives each text a random vector."""
ANISOTROPIC = 0.8
BATCH_HOLDS = 1e-3
"""1 - cosine of a text's vectors, encoded alone and with longer texts, that fp32 rounding can explain."""
LEAST = 5
"""Texts of an item that has a verdict."""
NEAR = 0.1
"""Share of the distance between the two thresholds: an interval within it around a threshold has a verdict."""


def thresholds() -> dict[str, float]:
    """Return all thresholds by name, for the result."""
    return {
        "rate_holds": RATE_HOLDS,
        "rate_breaks": RATE_BREAKS,
        "pull_holds": PULL_HOLDS,
        "pull_breaks": PULL_BREAKS,
        "idle_holds": SURFACE_HOLDS,
        "idle_breaks": SURFACE_BREAKS,
        "quality_holds": QUALITY_HOLDS,
        "quality_breaks": QUALITY_BREAKS,
        "nearer_holds": NEARER_HOLDS,
        "nearer_breaks": NEARER_BREAKS,
        "anisotropic": ANISOTROPIC,
        "batch_holds": BATCH_HOLDS,
        "near": NEAR,
    }


def of_harm(value: float, holds: float, breaks: float) -> Verdict:
    """Return the verdict for a number that is better if lower; both thresholds belong to the better verdict."""
    return "holds" if value <= holds else "bends" if value <= breaks else "breaks"


def of_rate(percent: float) -> Verdict:
    """Return the verdict for a rate of affected texts, ×100."""
    return of_harm(percent, RATE_HOLDS, RATE_BREAKS)


def of_quality(spearman: float) -> Verdict:
    """Return the verdict for Spearman ×100 on STS-B dev."""
    return of_harm(-spearman, -QUALITY_HOLDS, -QUALITY_BREAKS)


def of_nearer(probability: float) -> Verdict:
    """Return the verdict for P(hold edit nearer than move edit), 0 to 1; `NEARER_BREAKS` itself breaks."""
    return "holds" if probability >= NEARER_HOLDS else "bends" if probability > NEARER_BREAKS else "breaks"


def worst(*verdicts: Verdict) -> Verdict:
    """Return the worst of some verdicts."""
    return max(verdicts, key=("holds", "bends", "breaks").index)


# --- verdicts with intervals ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    """A number that decides a verdict, as a harm: lower is better.

    Attributes:
        value: the number.
        low: the better end of its 95 % interval; without one, the number itself.
        high: the worse end.
        holds: the largest number that holds.
        breaks: the largest number that bends; if ``at_breaks``, the smallest one that breaks.
        at_breaks: ``breaks`` itself breaks.
    """

    value: float
    low: float
    high: float
    holds: float
    breaks: float
    at_breaks: bool = False

    def verdict(self, value: float) -> Verdict:
        """Return the verdict for a value."""
        if self.at_breaks and value == self.breaks:
            return "breaks"
        return of_harm(value, self.holds, self.breaks)

    def crossed(self) -> list[float]:
        """Return the thresholds within the interval that are not near to both of its ends."""
        return [limit for limit in (self.holds, self.breaks) if self._spans(limit) and self._reach(limit) > self._near]

    def needed(self, n: int) -> int:
        """Return about how many texts, in place of ``n``, would have an interval that spans one verdict."""
        most = n
        for limit in self.crossed():
            end, gap = (self.low, self.value - limit) if limit <= self.value else (self.high, limit - self.value)
            clear = abs(end - self.value) / gap if gap > 0.0 else math.inf
            most = max(most, math.ceil(n * min(clear, self._reach(limit) / self._near) ** 2))
        return most

    def _spans(self, limit: float) -> bool:
        low, high = self.verdict(self.low), self.verdict(self.high)
        return low != high and self.low <= limit <= self.high

    def _reach(self, limit: float) -> float:
        return max(limit - self.low, self.high - limit)

    @property
    def _near(self) -> float:
        return NEAR * (self.breaks - self.holds)


@dataclass(frozen=True)
class Judgement:
    """The verdict of an item with an interval.

    Attributes:
        verdict: the verdict.
        of_value: the verdict of the value alone.
        between: if there are too few texts, the verdicts of the better and the worse end of the interval.
        needed: about how many texts would have a verdict, if there are too few.
    """

    verdict: Verdict
    of_value: Verdict
    between: tuple[Verdict, Verdict] | None = None
    needed: int = 0


def judged(n: int, *measures: Measure) -> Judgement:
    """Return the worst verdict of some measures of n texts; "too few" if their intervals span two verdicts.

    Fewer than `LEAST` texts are too few in any case: the bootstrap's interval of so few is far too narrow.
    """
    value = worst(*(each.verdict(each.value) for each in measures))
    if n < LEAST:
        return Judgement("too few", value, ("holds", "breaks"), LEAST)
    better = worst(*(each.verdict(each.low) for each in measures))
    worse = worst(*(each.verdict(each.high) for each in measures))
    crossing = [each for each in measures if each.crossed()]
    if better == worse or not crossing:
        return Judgement(value, value)
    return Judgement("too few", value, (better, worse), max(each.needed(n) for each in crossing))


def rate(percent: float, low: float, high: float) -> Measure:
    """Return the measure of a rate of affected texts, ×100, with the ends of its interval."""
    return Measure(percent, low, high, RATE_HOLDS, RATE_BREAKS)


def nearer(probability: float, low: float, high: float) -> Measure:
    """Return the measure of P(hold edit nearer than move edit), 0 to 1, with the ends of its interval."""
    return Measure(-probability, -high, -low, -NEARER_HOLDS, -NEARER_BREAKS, at_breaks=True)


def quality(spearman: float, low: float, high: float) -> Measure:
    """Return the measure of Spearman ×100 on STS-B dev, with the ends of its interval."""
    return Measure(-spearman, -high, -low, -QUALITY_HOLDS, -QUALITY_BREAKS)
