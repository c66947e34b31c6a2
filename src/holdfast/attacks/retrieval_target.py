"""Nearest neighbours in a corpus as targets of attacks on an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from holdfast.attacks.encoder_targets import DECIMALS, NOISE, EncoderTarget, Unit, stored
from holdfast.attacks.examples import Example, Verdict
from holdfast.attacks.targets import Output
from holdfast.encoding import Progress, Vectors, normalised
from holdfast.forms import Form
from holdfast.text_prompts import side_of

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder

_COSINES_AT_ONCE = 1 << 23
"""Query texts times corpus texts in one matrix product: 32 MB of cosines."""


@dataclass(frozen=True)
class Nearest:
    """A text's vector and its nearest texts in the corpus.

    Attributes:
        unit: the vector, normalised, (d,) fp64.
        places: corpus positions of the m nearest texts, nearest first; ties by position.
        cosines: their cosines, (m,), rounded.
    """

    unit: Unit
    places: npt.NDArray[np.intp]
    cosines: npt.NDArray[np.float64]


class RetrievalTarget(EncoderTarget):
    """Displace all nearest neighbours of a text: none of its first ``k`` may be among the first ``k`` after the attack.

    Args:
        corpus: the texts searched, documents for a model that tells sides apart, as the attacked texts are queries; a
            text is not its own neighbour.
        k: number of neighbours.
        progress: called with (texts done, distinct texts) while the corpus is encoded.
        vectors: the vectors of a corpus of distinct texts, if they are known.
        form: the form of the vectors of the corpus, on which it is calibrated; the attacked texts are float queries.
    """

    def __init__(
        self,
        model: SentenceEncoder,
        *,
        source: str,
        corpus: Sequence[str],
        k: int = 5,
        progress: Progress | None = None,
        vectors: Vectors | None = None,
        form: Form | None = None,
    ) -> None:
        super().__init__(model, source=source, role=side_of(model, "query"))
        self.k = k
        self._corpus = list(dict.fromkeys(corpus))
        self._number = {text: i for i, text in enumerate(self._corpus)}
        role = side_of(model, "document")
        if vectors is None or role is not None:  # known vectors are of texts encoded alike
            vectors = self.encoded(self._corpus, role, progress=progress)
        if form is not None:
            self.form, self.has_gradients = form.fitted(vectors, of="texts of the corpus", spec=source), False
        self._vectors = stored(vectors, self.form).copy()
        for rows in self._blocks(len(self._vectors)):  # in blocks, to limit the fp64 memory
            self._vectors[rows] = normalised(self._vectors[rows])
        self._near: dict[int, npt.NDArray[np.intp]] = {}

    def units(self, texts: Sequence[str], *, exact: bool = True) -> Unit:
        """Return the normalised vectors of queries, (n, d) fp64."""
        vectors = self._vectors_of(list(texts), exact=exact)
        return normalised(vectors if self.form is None else self.form.queries(vectors))

    def prepare(self, examples: Sequence[Example]) -> list[str | None]:
        """Find the nearest neighbours of the original texts; reject all examples if the corpus is too small."""
        if len(self._corpus) <= 2 * self.k:
            return [f"the corpus has no more than {2 * self.k} texts"] * len(examples)
        for example, nearest in zip(examples, self.read(self.units([e.text for e in examples])), strict=True):
            self._near[example.number] = self._others(example, nearest)[0][: self.k]
        return [None] * len(examples)

    def read(self, units: Unit) -> list[Nearest]:
        """Return the 2k + 1 nearest texts: at least k remain without the text itself and its k original neighbours.

        Ties are broken by position in the corpus. Cosines are first computed in fp32, whose last digits depend on the
        size of the block; those of the candidates are computed again in fp64.
        """
        found = []
        for rows in self._blocks(len(units)):
            rough = units[rows].astype(np.float32) @ self._vectors.T  # (rows, n)
            for unit, row in zip(units[rows], rough, strict=True):
                places = _candidates(row, 2 * self.k + 1)
                cosines = self._cosines(places, unit)
                order = np.argsort(-cosines, kind="stable")[: 2 * self.k + 1]
                found.append(Nearest(unit.copy(), places[order], cosines[order]))
        return found

    def unit(self, output: Output) -> Unit:
        """Return the normalised vector of an output."""
        return output.unit  # type: ignore[no-any-return]

    def _cosines(self, places: npt.NDArray[np.intp], unit: Unit) -> npt.NDArray[np.float64]:
        """Return the rounded cosines with some texts of the corpus."""
        cosines: npt.NDArray[np.float64] = np.round(self._vectors[places].astype(np.float64) @ unit, DECIMALS)
        return cosines

    def _blocks(self, count: int) -> list[slice]:
        """Split ``count`` vectors into slices that are compared with the whole corpus in one product."""
        size = max(1, _COSINES_AT_ONCE // max(1, len(self._corpus)))
        return [slice(start, start + size) for start in range(0, count, size)]

    def _others(self, example: Example, nearest: Nearest) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
        """Return positions and cosines of the nearest texts, without the original of the attacked text."""
        others = nearest.places != self._number.get(example.text, -1)
        return nearest.places[others], nearest.cosines[others]

    def neighbours(self, example: Example) -> list[str]:
        """Return the nearest neighbours before the attack, nearest first."""
        return [self._corpus[i] for i in self._near[example.number]]

    def verdict(self, example: Example, output: Output) -> Verdict:
        """Return the verdict; score: cosine of the k-th nearest new text minus the best cosine of an old neighbour."""
        places, cosines = self._others(example, output)
        near = self._near[example.number]
        old = np.isin(places, near)
        rival = float(cosines[~old][self.k - 1])
        score = rival - float(cosines[old][0] if old.any() else self._cosines(near, output.unit).max())
        first = places[: self.k]
        neighbours = tuple(self._corpus[i] for i in first)
        return Verdict(score, NOISE, score > 0.0, float(np.isin(near, first).mean()), neighbours=neighbours)

    def loss(self, z: Tensor, examples: Sequence[Example]) -> Tensor:
        """Return the negative dot product with the mean vector of the original neighbours, summed."""
        centres = np.stack([self._vectors[self._near[e.number]].mean(axis=0) for e in examples])
        return -(z * torch.tensor(centres, dtype=z.dtype, device=z.device)).sum()


def _candidates(row: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.intp]:
    """Return, in order, the positions that can be among the ``count`` largest once cosines are exact and rounded."""
    count = min(count, len(row))
    # A value below the count-th largest by two units of the last decimal stays below it: the fp32 error is under one.
    bound = np.partition(row, -count)[-count] - 2 * 10.0**-DECIMALS
    return np.flatnonzero(row >= bound)
