"""The vectors of all texts of an audit: each distinct text is encoded once, whichever items need it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from holdfast.audit.vector_movement import Units
from holdfast.encoding import Progress, Vectors, encode_sentences, normalised

if TYPE_CHECKING:
    from holdfast.forms import FittedForm
    from holdfast.input_limits import Cuts
    from holdfast.text_prompts import Role
    from holdfast.user_functions import Memory, SentenceEncoder

PORTION = 1024
"""Texts encoded between two looks at the clock: enough to be sorted into full batches."""


class SharedVectors:
    """The vectors of texts, in fp32, by text.

    Args:
        model: any SentenceTransformer, or a function.
        memory: vectors that were encoded before and need not be again, apart from those whose truncated texts are
            counted; new ones are added. None: there are none.
        role: side of the texts.
    """

    def __init__(self, model: SentenceEncoder, memory: Memory | None = None, *, role: Role | None = None) -> None:
        self._model, self._memory, self._role = model, memory, role
        self._places: dict[str, tuple[int, int]] = {}  # the block and the row
        self._blocks: list[Vectors] = []
        self._seconds, self._timed = 0.0, 0

    def __contains__(self, text: str) -> bool:
        return text in self._places

    def add(
        self,
        texts: Iterable[str],
        progress: Progress | None = None,
        *,
        deadline: float = float("inf"),
        portion: int = PORTION,
        cuts: Cuts | None = None,
    ) -> bool:
        """Encode the texts that are not known, in their order, in portions.

        Args:
            texts: the texts.
            progress: called with (texts done, texts to encode).
            deadline: no portion begins after this time, by `time.monotonic`.
            portion: texts per portion.
            cuts: counter of truncated texts.

        Returns:
            True if all were encoded before the deadline.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._places]
        memory = self._memory if cuts is None else None
        if memory is not None:
            new = self._remembered(new, memory)
        for start in range(0, len(new), portion):
            if time.monotonic() > deadline:
                return False
            part = new[start : start + portion]
            block, began = len(self._blocks), time.monotonic()
            self._blocks.append(
                encode_sentences(
                    self._model, part, role=self._role, progress=_shifted(progress, start, len(new)), cuts=cuts
                )
            )
            self._places |= {text: (block, row) for row, text in enumerate(part)}
            if memory is not None:
                memory.add(part, None, self._blocks[-1])
            if block:  # the first call is slower than the others
                self._seconds, self._timed = self._seconds + time.monotonic() - began, self._timed + len(part)
        return True

    def _remembered(self, texts: Sequence[str], memory: Memory) -> list[str]:
        """Take the vectors that are kept; return the other texts."""
        kept = memory.known(texts, None)
        if kept:
            self._places |= {texts[place]: (len(self._blocks), row) for row, place in enumerate(kept)}
            self._blocks.append(np.stack(list(kept.values())))
        return [text for place, text in enumerate(texts) if place not in kept]

    @property
    def seconds_per_text(self) -> float:
        """The mean time that a text took, without the first block; 0 if nothing else was encoded."""
        return self._seconds / self._timed if self._timed else 0.0

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts as the model gives them, (n, d) float32; unknown texts are encoded first."""
        self.add(texts)
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        return np.stack([self._blocks[block][row] for block, row in map(self._places.__getitem__, texts)])

    def units(self, texts: Sequence[str]) -> Units:
        """Return the normalised vectors of texts, (n, d); zeros for a vector that is zero or not finite."""
        return normalised(self.vectors(texts))


class FormVectors(SharedVectors):
    """Vectors in a form, from the plain ones, which are encoded once for all forms.

    Args:
        plain: the plain vectors.
        fitted: the form.
    """

    def __init__(self, plain: SharedVectors, fitted: FittedForm) -> None:
        self._plain, self._fitted = plain, fitted

    def __contains__(self, text: str) -> bool:
        return text in self._plain

    @property
    def seconds_per_text(self) -> float:
        """The mean time that a text took."""
        return self._plain.seconds_per_text

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts in the form, (n, d) float32; unknown texts are encoded first."""
        return self._fitted.documents(self._plain.vectors(texts))


def _shifted(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Return a progress function for a portion of ``total`` texts, with ``before`` texts before it."""
    if progress is None:
        return None

    def report(done: int, _portion: int) -> None:
        progress(before + done, total)

    return report
