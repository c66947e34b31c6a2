"""What counts as holding, bending and breaking, and why.

The thresholds are conventions, the same for every model, chosen so that each can be said in plain words:

- **A rate** (texts that an attack succeeds on, texts that get another nearest neighbour). Up to one text in ten is an
  exception (`RATE_HOLDS`); more than every second one is the rule (`RATE_BREAKS`).
- **A changed word.** ``1 - stability`` is how far a text's vector moved, in units of the (squared) distance to some
  other text. Divided by the share of the text's words that were changed it is the *pull* of a changed word. In a
  vector that is the mean of its words' vectors, a word that becomes an unrelated one pulls exactly 1: it was worth its
  share. If content words alone counted, which are about half of all words, it would pull 2. So up to 1 a change does
  no more than its share (`PULL_HOLDS`), and above 2 it does more harm than if the word had been lost altogether
  (`PULL_BREAKS`).
- **A change without meaning** (case, a full stop, a trailing blank) ought to pull nothing. Up to a quarter of a word it
  is noise (`IDLE_HOLDS`); above a whole word it weighs more than a word does (`IDLE_BREAKS`).
- **Quality** on STS-B dev: the averaged GloVe vectors of words have a Spearman correlation near 60, the first encoders
  trained contrastively without labels one above 75 (SimCSE, Table 5: 58.02 and 76.85 on the test set).
- **The space**: where different texts have a mean cosine above `ANISOTROPIC`, cosines say little by themselves.
"""

from __future__ import annotations

from typing import Literal

Verdict = Literal["holds", "bends", "breaks", "absent"]
VERDICTS: tuple[Verdict, ...] = ("holds", "bends", "breaks", "absent")

RATE_HOLDS, RATE_BREAKS = 10.0, 50.0
PULL_HOLDS, PULL_BREAKS = 1.0, 2.0
IDLE_HOLDS, IDLE_BREAKS = 0.25, 1.0
QUALITY_HOLDS, QUALITY_BREAKS = 75.0, 60.0
ANISOTROPIC = 0.8
BATCH_HOLDS = 1e-3
"""1 - cosine of a text's vectors, computed alone and beside longer texts, that rounding alone could explain in fp32."""


def thresholds() -> dict[str, float]:
    """All of them by name, for the record."""
    return {
        "rate_holds": RATE_HOLDS,
        "rate_breaks": RATE_BREAKS,
        "pull_holds": PULL_HOLDS,
        "pull_breaks": PULL_BREAKS,
        "idle_holds": IDLE_HOLDS,
        "idle_breaks": IDLE_BREAKS,
        "quality_holds": QUALITY_HOLDS,
        "quality_breaks": QUALITY_BREAKS,
        "anisotropic": ANISOTROPIC,
        "batch_holds": BATCH_HOLDS,
    }


def of_harm(value: float, holds: float, breaks: float) -> Verdict:
    """The verdict of a number that is better when lower: ``holds`` and ``breaks`` still belong to the better side."""
    return "holds" if value <= holds else "bends" if value <= breaks else "breaks"


def of_rate(percent: float) -> Verdict:
    """Of a share of texts that came to harm, ×100."""
    return of_harm(percent, RATE_HOLDS, RATE_BREAKS)


def of_quality(spearman: float) -> Verdict:
    """Of Spearman ×100 on STS-B dev."""
    return of_harm(-spearman, -QUALITY_HOLDS, -QUALITY_BREAKS)


def worst(*verdicts: Verdict) -> Verdict:
    """The worst of some verdicts."""
    return max(verdicts, key=("holds", "bends", "breaks").index)
