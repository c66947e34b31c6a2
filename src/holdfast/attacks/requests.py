"""Requests of an attack to the engine.

An attack on one text is a generator: it yields a request and receives the answer. Many attacks run in parallel, and the
engine answers their requests in batches.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from holdfast.adversary.geometry import BatchGradients, word_importance
from holdfast.edits.substitution_form import Substitution
from holdfast.edits.words import Words


@dataclass(frozen=True)
class Query:
    """Request for the verdicts on n texts.

    Answer: n :class:`~holdfast.attacks.examples.Verdict`. Counted as n queries.
    """

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Compare:
    """Request for the similarity of n pairs of texts. Answer: n cosines, rounded."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Judge:
    """Request for the validity of n synonyms in the original text. Answer: n truth values."""

    asked: tuple[Substitution, ...]


@dataclass(frozen=True)
class Fill:
    """Request for the masked language model's fillers for a word. Answer: words, most probable first."""

    words: Words
    place: int


@dataclass(frozen=True)
class Predict:
    """Request for the masked language model's predictions for each word of the unmasked text.

    Answer: the best predictions for each word, most probable first
    (:meth:`holdfast.adversary.masked_lm.MaskedLM.read`).
    """

    words: Words
    limit: int


@dataclass(frozen=True)
class Differentiate:
    """Request for the vector and the loss gradient of a text. Answer: :class:`LossGradient`. Counted as one query."""

    words: Words


@dataclass(frozen=True)
class Vectorise:
    """Request for the vectors of n texts in the space of :class:`LossGradient`, with their verdicts.

    Answer: a list of n ``(vector, verdict)``. Counted as n queries.
    """

    texts: tuple[str, ...]


@dataclass(frozen=True)
class LossGradient:
    """The answer to :class:`Differentiate`.

    Attributes:
        z: the text's vector, (d,).
        direction: the gradient of the loss at z, (d,).
        importance: norm of the gradient at the first layer's input for each word; 0 for words the target does not read.
    """

    z: Tensor
    direction: Tensor
    importance: tuple[float, ...]

    @classmethod
    def of_batch(cls, gradients: BatchGradients, texts: Sequence[Words]) -> list[LossGradient]:
        """Return the gradient of each of n texts, on the CPU."""
        z, direction, tokens = gradients.z.cpu(), gradients.direction.cpu(), gradients.tokens.cpu()
        return [
            cls(z[i], direction[i], tuple(word_importance(tokens[i], gradients.offsets[i], words.spans, "mean-l2")))
            for i, words in enumerate(texts)
        ]


Request = Query | Compare | Judge | Fill | Predict | Differentiate | Vectorise
Search = Generator[Request, Any, None]


def characters(request: Request) -> int:
    """Return the number of characters of all texts in a request."""
    if isinstance(request, (Query, Vectorise)):
        return sum(map(len, request.texts))
    if isinstance(request, Compare):
        return sum(len(first) + len(second) for first, second in request.pairs)
    if isinstance(request, Judge):
        return sum(len(each.word) for each in request.asked)
    return sum(map(len, request.words.parts))
