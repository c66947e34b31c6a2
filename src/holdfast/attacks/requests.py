"""What an attack may ask for.

An attack on one text is a generator: it yields one of these and is sent the answer. Many run side by side, and the
engine answers the questions of all of them together.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from holdfast.adversary.words import Words


@dataclass(frozen=True)
class Judge:
    """What the target makes of n texts. Answer: n :class:`~holdfast.attacks.examples.Verdict`. Counted as n queries."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Compare:
    """How similar n pairs of texts are. Answer: n cosines, rounded."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Fill:
    """What a masked language model would put in the place of a word. Answer: words, most probable first."""

    words: Words
    place: int


@dataclass(frozen=True)
class Read:
    """What a masked language model, shown the whole text, would put for each of its words.

    Answer: for each word its n best readings, most probable first (:meth:`holdfast.adversary.masked_lm.MaskedLM.read`).
    """

    words: Words
    limit: int


@dataclass(frozen=True)
class Climb:
    """Where a text is, and where the target's loss rises. Answer: :class:`Slope`. Counted as one query."""

    words: Words


@dataclass(frozen=True)
class Locate:
    """The vectors of n texts in the space of :class:`Slope`, with their verdicts. Answer: a list of n
    ``(vector, verdict)``. Counted as n queries."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Slope:
    """The answer to :class:`Climb`.

    Attributes:
        z: the text's vector, (d,).
        direction: the gradient of the loss at z, (d,).
        importance: for each word the norm of the gradient at its sub-words' embeddings; 0 for one that is not seen.
    """

    z: Tensor
    direction: Tensor
    importance: tuple[float, ...]


Request = Judge | Compare | Fill | Read | Climb | Locate
Search = Generator[Request, Any, None]


def characters(request: Request) -> int:
    """Of all texts that a request holds."""
    if isinstance(request, (Judge, Locate)):
        return sum(map(len, request.texts))
    if isinstance(request, Compare):
        return sum(len(first) + len(second) for first, second in request.pairs)
    return sum(map(len, request.words.parts))
