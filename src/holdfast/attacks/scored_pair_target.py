"""Scored pairs of texts as targets of attacks on an encoder (AdvSTS)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from sklearn.isotonic import IsotonicRegression
from torch import Tensor

from holdfast.attacks.encoder_targets import DECIMALS, NOISE, EncoderTarget, Unit, stored
from holdfast.attacks.examples import Example, Verdict
from holdfast.attacks.targets import Output
from holdfast.encoding import encode_sentences, normalised
from holdfast.forms import FittedForm
from holdfast.text_prompts import side_of

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder

SCALE = (0.0, 5.0)
"""The range of human similarity scores."""

Scale = Callable[[npt.ArrayLike], npt.NDArray[np.float64]]


class ScoredPairTarget(EncoderTarget):
    """AdvSTS target: move the predicted similarity of a scored pair away from its gold score.

    ``scale``, an isotonic fit on held-out pairs, maps the cosine to the scale of human scores. The goal is an error
    more than ``margin`` larger than the original error, on the same side of gold; if the scale has no room on that
    side, on the other side.

    Args:
        scale: increasing function from cosines (n,) to scores (n,).
        margin: in points of the human scale.
    """

    def __init__(
        self,
        model: SentenceEncoder,
        *,
        source: str,
        scale: Scale,
        margin: float = 1.0,
        form: FittedForm | None = None,
    ) -> None:
        super().__init__(model, source=source, role=side_of(model, "query", named=True), form=form)
        self._other_role = side_of(model, "document", named=True)
        self.scale, self.margin = scale, margin
        self._ends = tuple(float(end) for end in scale([-1.0, 1.0]))
        self._others: dict[int, Unit] = {}
        self._first: dict[int, float] = {}
        # The goal depends on the example only. It is cached, so that the scale is evaluated once per text.
        self._goal = functools.cache(self._goal_of)

    def prepare(self, examples: Sequence[Example]) -> list[str | None]:
        """Store the vectors of the texts that are not attacked, and the similarity before the attack."""
        if not examples:
            return []
        texts = [(example.text, example.texts[1 - example.attacked]) for example in examples]
        if self.role is None:
            vectors = self.units([text for pair in texts for text in pair])
            units, others = vectors[::2], vectors[1::2]
        else:
            units = self.units([text for text, _ in texts])
            others = normalised(stored(self.encoded([other for _, other in texts], self._other_role), self.form))
        for example, own, other in zip(examples, units, others, strict=True):
            self._others[example.number] = other
            self._first[example.number] = round(float(own @ other), DECIMALS)
        return [None] * len(examples)

    def unreachable(self, example: Example) -> str | None:
        """Return a reason if the scale has no room for the margin on either side of gold."""
        return None if self._side(example) else "no score is as far from gold as the goal asks for"

    def _predicted(self, cosine: float) -> float:
        return float(self.scale([cosine])[0])

    def _side(self, example: Example) -> int:
        """Return the direction to move the score: +1 up, -1 down, 0 if neither is possible."""
        return self._goal(self._first[example.number], float(example.label or 0.0))[0]

    def _goal_of(self, first: float, gold: float) -> tuple[int, float]:
        """Return the direction, and the distance from gold to exceed, given the cosine before the attack."""
        error = self._predicted(first) - gold
        away = abs(error) + self.margin
        low, high = self._ends
        room = {+1: high - gold > away, -1: gold - low > away}
        natural = +1 if error > 0 else -1 if error < 0 else (-1 if gold > sum(SCALE) / 2 else +1)
        return (natural if room[natural] else -natural if room[-natural] else 0), away

    def verdict(self, example: Example, output: Output) -> Verdict:
        """Return the verdict; its score is the cosine, or the negative cosine if the cosine has to decrease."""
        cosine = round(float(output @ self._others[example.number]), DECIMALS)
        gold = float(example.label or 0.0)
        side, away = self._goal(self._first[example.number], gold)
        moved = side * (self._predicted(cosine) - gold)
        return Verdict(side * cosine, NOISE, moved > away, cosine)

    def loss(self, z: Tensor, examples: Sequence[Example]) -> Tensor:
        """Return the summed cosine with the other text, negated if the cosine has to decrease."""
        others = torch.tensor(np.stack([self._others[e.number] for e in examples]), dtype=z.dtype, device=z.device)
        sides = torch.tensor([float(self._side(e)) for e in examples], dtype=z.dtype, device=z.device)
        return (sides * (z * others).sum(dim=1)).sum()


def fitted_scale(
    encoder: SentenceEncoder,
    first: Sequence[str],
    second: Sequence[str],
    scores: Sequence[float],
    *,
    lowest: float = SCALE[0],
    form: FittedForm | None = None,
) -> Scale:
    """Fit an isotonic map from cosines to human scores, on pairs that are not attacked; vectors are in fp32.

    Args:
        encoder: any SentenceTransformer, or a function.
        first: n texts; documents if the user chose a prompt for one side, as in `ScoredPairTarget`.
        second: n texts; queries if the user did.
        scores: human scores of the n pairs.
        lowest: the lowest score of the annotation scale.
        form: the form of the vectors; None: the plain one.
    """
    sides = ((first, side_of(encoder, "document", named=True)), (second, side_of(encoder, "query", named=True)))
    vectors = [encode_sentences(encoder, list(texts), role=role) for texts, role in sides]
    units = [normalised(stored(own, form)) for own in vectors]
    cosines = np.round((units[0] * units[1]).sum(axis=1), DECIMALS)
    fit = IsotonicRegression(y_min=lowest, y_max=SCALE[1], out_of_bounds="clip").fit(cosines, scores)

    def scale(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        return np.asarray(fit.predict(np.asarray(values, dtype=np.float64)), dtype=np.float64)

    return scale
