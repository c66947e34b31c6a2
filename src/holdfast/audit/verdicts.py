"""Verdicts of the audit ("holds", "bends", "breaks") and their thresholds.

The thresholds are conventions, the same for every model:

- **A rate** (successful attacks, texts with another nearest neighbour). Up to one text in ten is an exception
  (`RATE_HOLDS`); more than half of the texts is the rule (`RATE_BREAKS`).
- **A changed word.** ``1 - stability`` is the movement of a text's vector, in units of the mean (squared) distance to
  another text. Divided by the share of changed words, it is the *pull* of a changed word. If a vector is the mean of
  its word vectors, a word replaced by an unrelated one has a pull of exactly 1. If only content words counted, which
  are about half of all words, it would be 2. So up to 1 a change has no more effect than its share of the words
  (`PULL_HOLDS`); above 2 it has more effect than an unrelated word would have (`PULL_BREAKS`).
- **A meaning-preserving change** (case, a full stop, a trailing space) should have no pull. Up to a quarter of a word
  it is noise (`SURFACE_HOLDS`); above one word it has more effect than a word (`SURFACE_BREAKS`).
- **A changed meaning.** Of two copies of a text that are alike in the share of changed words, one with the same meaning
  and one with another, the first should be nearer. A vector that is random, or blind to the changed words, has
  P(hold edit nearer) = 0.5. Up to one text in ten is an exception here, too (`NEARER_HOLDS`). At or below
  `NEARER_BREAKS` the model is hardly better than a coin: it counts as blind.
- **Quality** on STS-B dev: averaged GloVe vectors have a Spearman correlation near 60, the first encoders trained
  contrastively without labels above 75 (SimCSE, Table 5: 58.02 and 76.85 on the test set).
- **The space**: if distinct texts have a mean cosine above `ANISOTROPIC`, cosines have little meaning by themselves.
"""

from __future__ import annotations

from typing import Literal

Verdict = Literal["holds", "bends", "breaks", "absent"]
VERDICTS: tuple[Verdict, ...] = ("holds", "bends", "breaks", "absent")

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
