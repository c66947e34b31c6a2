"""The vectors of the audited texts, and the movement of changed copies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdfast.attacks.encoder_targets import mean_cosine
from holdfast.attacks.examples import Attempt
from holdfast.edits.edit import Change
from holdfast.edits.words import Words
from holdfast.encoding import Progress, encode_sentences, normalised
from holdfast.evaluation.intervals import mean_interval, rate_interval
from holdfast.input_limits import Cuts

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder

Units = npt.NDArray[np.float64]

ROUNDING = 1e-5
"""Cosines that differ by less count as equal: the last digits depend on the batch."""
ROWS_AT_ONCE = 2048
"""Texts compared with all others in one product, so that memory grows linearly with the number of texts."""
WORST = 20
"""Number of texts stored per item: those that moved furthest."""


@dataclass(frozen=True)
class Copy:
    """A changed copy of a text.

    Attributes:
        index: index of the audited text.
        text: the changed text.
        changed: ``(place, old word, new word)`` of the replaced words.
        share: share of changed words (characters where no blanks part words); for changes that are not of words, the
            share of one word.
        spans: the changed parts, of a copy that an `Edit` made.
    """

    index: int
    text: str
    changed: tuple[tuple[int, str, str], ...]
    share: float
    spans: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Movement:
    """Movement of m copies in the space, away from their originals.

    Attributes:
        copies: the copies.
        cosines: cosine of each copy with its original, (m,).
        ranks: number of other texts that are nearer to the copy than its original, (m,).
        neighbours: indices of the nearest other text of the original and of the copy, (m, 2); equal if the neighbour
            stayed the same.
    """

    copies: Sequence[Copy]
    cosines: npt.NDArray[np.float64]
    ranks: npt.NDArray[np.intp]
    neighbours: npt.NDArray[np.intp]

    @property
    def found(self) -> npt.NDArray[np.bool_]:
        """True if the text nearest to the copy is its original, (m,)."""
        found: npt.NDArray[np.bool_] = self.ranks == 0
        return found


@dataclass(frozen=True)
class NumberedTexts:
    """Texts to be changed, with their positions in the source, and the model that reads them."""

    model: SentenceEncoder
    texts: list[str]
    numbers: list[int]


class Space:
    """The vectors of n distinct texts.

    Args:
        model: any SentenceTransformer, or a function.
        texts: n texts.
        numbers: their positions in the source, used as identifiers in results.
        units: their normalised vectors, (n, d), as returned by `unit_vectors`.
        encode: returns the normalised vectors of texts; None: they are encoded now.
    """

    def __init__(
        self,
        model: SentenceEncoder,
        texts: list[str],
        numbers: list[int],
        units: Units,
        encode: Callable[[Sequence[str]], Units] | None = None,
    ) -> None:
        self.model, self.texts, self.numbers, self.units = model, texts, numbers, units
        self._encode = encode or (lambda texts: unit_vectors(model, texts))
        self.mean_cosine = mean_cosine(units)
        self._nearest = np.empty(len(units), dtype=np.intp)
        for rows in _blocks(len(units)):
            cosines = units[rows] @ units.T
            own = np.arange(len(units))[rows]
            cosines[np.arange(len(own)), own] = -np.inf
            self._nearest[rows] = cosines.argmax(axis=1)

    def first(self, count: int) -> NumberedTexts:
        """Return the first texts."""
        return NumberedTexts(self.model, self.texts[:count], self.numbers[:count])

    @property
    def halfway(self) -> float:
        """The cosine half-way from a text to another (see :func:`holdfast.attacks.encoder_targets.halfway`)."""
        return round((1.0 + self.mean_cosine) / 2, 3)

    def stability(self, cosines: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return ``(c - r) / (1 - r)``, r the mean cosine of distinct texts: 1 if unmoved, 0 at the mean distance."""
        return (cosines - self.mean_cosine) / (1.0 - self.mean_cosine)

    def cosines(self, copies: Sequence[Copy]) -> npt.NDArray[np.float64]:
        """Return the cosine of each of m copies with its text, (m,), rounded to 5 decimals."""
        own = self.units[[copy.index for copy in copies]]
        units = self._encode([copy.text for copy in copies])
        cosines: npt.NDArray[np.float64] = np.round((own * units).sum(axis=1), 5)
        return cosines

    def move(self, copies: Sequence[Copy]) -> Movement:
        """Compare m copies with the texts."""
        own = np.array([copy.index for copy in copies], dtype=np.intp)
        units = self._encode([copy.text for copy in copies])
        parts = [self._compare(units[rows], own[rows]) for rows in _blocks(len(copies))]
        to_own, ranks, neighbours = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Movement(copies, np.round(to_own, 5), ranks, neighbours)

    def _compare(
        self, units: Units, own: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Compare copies of the texts ``own`` with all texts; return the fields of `Movement` after ``copies``."""
        rows = np.arange(len(own))
        cosines = units @ self.units.T
        to_own = cosines[rows, own]
        cosines[rows, own] = -np.inf
        before = self._nearest[own]
        after = cosines.argmax(axis=1)
        stayed = cosines[rows, after] - cosines[rows, before] <= ROUNDING
        ranks = (cosines > to_own[:, None] + ROUNDING).sum(axis=1)
        return to_own, ranks, np.stack([before, np.where(stayed, before, after)], axis=1)

    def metrics(self, movement: Movement, seed: int) -> dict[str, float]:
        """Compute the metrics of an item, with 95 % bootstrap intervals over the texts; see ``docs/audit.md``."""
        stability = self.stability(movement.cosines)
        low, high = mean_interval(stability, seed=seed)
        changed = movement.neighbours[:, 0] != movement.neighbours[:, 1]
        found_low, found_high = rate_interval(movement.found, seed=seed)
        rate_low, rate_high = rate_interval(changed, seed=seed)
        share = float(np.mean([copy.share for copy in movement.copies]))
        return {
            "stability": float(stability.mean()),
            "stability_low": low,
            "stability_high": high,
            "cosine": float(movement.cosines.mean()),
            "share": 100.0 * share,
            "pull": float(1.0 - stability.mean()) / share,
            "pull_low": (1.0 - high) / share,
            "pull_high": (1.0 - low) / share,
            "found@1": 100.0 * float(movement.found.mean()),
            "found@1_low": 100.0 * found_low,
            "found@1_high": 100.0 * found_high,
            **({"found@10": 100.0 * float((movement.ranks < 10).mean())} if len(self.texts) > 20 else {}),
            "neighbour_changed": 100.0 * float(changed.mean()),
            "neighbour_changed_low": 100.0 * rate_low,
            "neighbour_changed_high": 100.0 * rate_high,
        }

    def items(self, movement: Movement) -> dict[str, Sequence[float]]:
        """Return the stability of each text, for comparisons: ``{text, stability}``, texts by source position."""
        return {"text": self.numbers_of(movement), "stability": np.round(self.stability(movement.cosines), 5).tolist()}

    def numbers_of(self, movement: Movement) -> list[int]:
        """Return the positions of the texts in their source."""
        return [self.numbers[copy.index] for copy in movement.copies]

    def examples(self, movement: Movement, recipe: str) -> list[dict[str, Any]]:
        """Return the `WORST` copies, furthest first; a success is beyond half-way or has another nearest neighbour."""
        rows = []
        for i in np.argsort(movement.cosines, kind="stable")[:WORST]:
            copy, cosine = movement.copies[i], float(movement.cosines[i])
            before, after = movement.neighbours[i]
            attempt = Attempt(
                number=self.numbers[copy.index],
                recipe=recipe,
                outcome="succeeded" if before != after or cosine < self.halfway else "failed",
                original=self.texts[copy.index],
                adversarial=copy.text,
                before={"value": 1.0},
                after={"value": cosine},
                words=len(Words.of(self.texts[copy.index]).words),
                changed=copy.changed,
                queries=1,
                passes=1,
            )
            neighbours = [self.texts[before], self.texts[after]] if before != after else []
            rows.append({**attempt.row(), "neighbours": neighbours, **spans_of(copy)})
        return rows


def _blocks(count: int) -> Iterator[slice]:
    """Yield slices of ``count`` rows; one empty slice if there are none."""
    for start in range(0, max(1, count), ROWS_AT_ONCE):
        yield slice(start, start + ROWS_AT_ONCE)


def spans_of(copy: Copy) -> dict[str, list[list[int | str]]]:
    """Return ``{spans: [[begin, end, new], ...]}`` for the row of an example; empty if an `Edit` did not make it."""
    return {"spans": [list(change) for change in copy.spans]} if copy.spans else {}


def unit_vectors(
    model: SentenceEncoder, texts: Sequence[str], progress: Progress | None = None, cuts: Cuts | None = None
) -> Units:
    """Return normalised fp32 vectors as (n, d) fp64; a row of zeros if the vector is zero or not finite."""
    return normalised(encode_sentences(model, texts, progress=progress, cuts=cuts))
