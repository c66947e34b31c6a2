"""Encoders as targets, without a classifier: scored pairs (AdvSTS), vectors pushed away, nearest neighbours lost."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.isotonic import IsotonicRegression
from torch import Tensor

from holdfast.adversary.geometry import word_importance
from holdfast.adversary.words import Words
from holdfast.attacks.examples import Example, Verdict
from holdfast.attacks.requests import Slope
from holdfast.attacks.targets import Output, Texts, characters_seen, unknown_token
from holdfast.encoding import Precision, Progress, Vectors, encode_sentences
from holdfast.errors import UserError
from holdfast.functions import VectorFunction

if TYPE_CHECKING:
    from holdfast.functions import SentenceEncoder

_DECIMALS = 5
_NOISE = 2e-5  # of cosines with so many decimals
SCALE = (0.0, 5.0)
"""What people's similarity scores may be."""

_COSINES_AT_ONCE = 1 << 23
"""Texts that are searched for, times texts that are searched, in one product: 32 MB of cosines."""

Unit = npt.NDArray[np.float64]
Scale = Callable[[npt.ArrayLike], npt.NDArray[np.float64]]


class EncoderTarget(abc.ABC):
    """A sentence encoder; the outputs of a text are its vector, normalised.

    Args:
        model: any SentenceTransformer, or a function.
        source: its name, for the record.
    """

    has_classes = False

    def __init__(self, model: SentenceEncoder, *, source: str) -> None:
        self.model, self.source = model, source
        self.has_gradients = not isinstance(model, VectorFunction)
        self.unknown = unknown_token(model.tokenizer)

    def prepare(self, examples: Sequence[Example]) -> list[str | None]:
        """Nothing is refused."""
        return [None] * len(examples)

    def hopeless(self, example: Example) -> str | None:
        """Any vector may be reached."""
        return None

    def seen(self, example: Example) -> int:
        """Up to the end of its last token."""
        return characters_seen(self.model.tokenizer, (example.text,), 0)

    def question(self, example: Example, text: str) -> Texts:
        """The attacked text alone."""
        return (text,)

    def outputs(self, texts: Sequence[Texts], *, exact: bool) -> Sequence[Output]:
        """Normalised vectors."""
        return self.read(self.units([text for (text,) in texts], exact=exact))

    def read(self, units: Unit) -> Sequence[Output]:
        """What the verdicts are made from, of each row of normalised vectors (n, d)."""
        return [unit.copy() for unit in units]

    def units(self, texts: Sequence[str], *, exact: bool = True) -> Unit:
        """Normalised vectors, (n, d) fp64."""
        return units_of(self.encoded(list(texts), "fp32" if exact else "bf16"))

    def encoded(self, texts: Sequence[str], precision: Precision = "fp32", progress: Progress | None = None) -> Vectors:
        """The vectors of n texts, (n, d).

        Raises:
            UserError: they are not all finite.
        """
        vectors = encode_sentences(self.model, texts, precision=precision, progress=progress)
        if not np.isfinite(vectors).all():
            raise UserError(f"{self.source} gives vectors that are not finite: its weights are damaged or it overflows")
        return vectors

    @abc.abstractmethod
    def verdict(self, example: Example, output: Output) -> Verdict:
        """How near to the goal."""

    @abc.abstractmethod
    def loss(self, z: Tensor, examples: Sequence[Example]) -> Tensor:
        """What the geometry recipe climbs: the summed loss, a scalar, of normalised vectors z (n, d)."""

    def climb(self, questions: Sequence[tuple[Example, Words]]) -> list[Slope]:
        """Gradients of :meth:`loss` at the normalised vector and at the embeddings of the words."""
        from holdfast.adversary.victim import EncoderVictim
        from holdfast.encoder import Encoder

        if isinstance(self.model, VectorFunction):
            raise UserError(f"{self.source} is a plain function and has no gradients: leave the geometry recipe out")
        # Without the template's bias, which is of training alone: `locate` gives the vectors in use.
        encoder = Encoder(self.model, template_bias=False)
        examples = [example for example, _ in questions]

        def mean_loss(z: Tensor, rows: Sequence[int]) -> Tensor:
            return self.loss(z, [examples[row] for row in rows]) / len(rows)

        victim = EncoderVictim(encoder, lambda z: torch.nn.functional.normalize(z.float(), dim=1), mean_loss)
        with encoder.attack_mode():
            slopes = victim.slopes([words.text for _, words in questions], range(len(questions)))
        z, direction, tokens = slopes.z.cpu(), slopes.direction.cpu(), slopes.tokens.cpu()
        found = []
        for i, (_, words) in enumerate(questions):
            importance = word_importance(tokens[i], slopes.offsets[i], words.spans, "mean-l2")
            found.append(Slope(z[i], direction[i], tuple(importance)))
        return found

    def locate(self, questions: Sequence[tuple[Example, str]]) -> list[tuple[Any, Output]]:
        """Normalised vectors, twice: as places and as outputs."""
        units = self.units([text for _, text in questions])
        return [(torch.from_numpy(unit).float(), output) for unit, output in zip(units, self.read(units), strict=True)]


class ScoredPairTarget(EncoderTarget):
    """AdvSTS: move the similarity of a scored pair away from what people say.

    The cosine is mapped to people's scale by ``scale``, an isotonic fit on held-out pairs. The predicted score has to
    move more than ``margin`` further from gold than it was, on the side of gold where it is already; where the scale
    leaves no room on that side, on the other one.

    Args:
        model: any SentenceTransformer, or a function.
        source: its name.
        scale: from cosines (n,) to scores (n,), increasing.
        margin: in points of people's scale.
    """

    def __init__(
        self,
        model: SentenceEncoder,
        *,
        source: str,
        scale: Scale,
        margin: float = 1.0,
    ) -> None:
        super().__init__(model, source=source)
        self.scale, self.margin = scale, margin
        self._ends = tuple(float(end) for end in scale([-1.0, 1.0]))
        self._others: dict[int, Unit] = {}
        self._first: dict[int, float] = {}
        # One goal for all of an example's texts: the scale is asked about each text, not thrice.
        self._goal = functools.cache(self._goal_of)

    def prepare(self, examples: Sequence[Example]) -> list[str | None]:
        """Take the vectors of the texts that are left alone, and the similarity before the attack."""
        if not examples:
            return []
        vectors = self.units([text for example in examples for text in (example.text, _other(example))])
        for i, example in enumerate(examples):
            own, other = vectors[2 * i : 2 * i + 2]
            self._others[example.number] = other
            self._first[example.number] = round(float(own @ other), _DECIMALS)
        return [None] * len(examples)

    def hopeless(self, example: Example) -> str | None:
        """On neither side of gold is there room for the margin."""
        return None if self._side(example) else "no score is as far from gold as the goal asks for"

    def _predicted(self, cosine: float) -> float:
        return float(self.scale([cosine])[0])

    def _side(self, example: Example) -> int:
        """Where to move the score: +1 up, -1 down, 0 nowhere."""
        return self._goal(self._first[example.number], float(example.label or 0.0))[0]

    def _goal_of(self, first: float, gold: float) -> tuple[int, float]:
        """The side, and the distance from gold that has to be passed, for a first cosine."""
        error = self._predicted(first) - gold
        away = abs(error) + self.margin
        low, high = self._ends
        room = {+1: high - gold > away, -1: gold - low > away}
        natural = +1 if error > 0 else -1 if error < 0 else (-1 if gold > sum(SCALE) / 2 else +1)
        return (natural if room[natural] else -natural if room[-natural] else 0), away

    def verdict(self, example: Example, output: Output) -> Verdict:
        """Score: the cosine, or its negative where it has to fall."""
        cosine = round(float(output @ self._others[example.number]), _DECIMALS)
        gold = float(example.label or 0.0)
        side, away = self._goal(self._first[example.number], gold)
        moved = side * (self._predicted(cosine) - gold)
        return Verdict(side * cosine, _NOISE, moved > away, cosine)

    def loss(self, z: Tensor, examples: Sequence[Example]) -> Tensor:
        """The cosine with the other text, or its negative."""
        others = torch.tensor(np.stack([self._others[e.number] for e in examples]), dtype=z.dtype, device=z.device)
        sides = torch.tensor([float(self._side(e)) for e in examples], dtype=z.dtype, device=z.device)
        return (sides * (z * others).sum(dim=1)).sum()


class DriftTarget(EncoderTarget):
    """Label-free: push a text's vector away from where it was, until their cosine is below ``threshold``.

    Args:
        model: any SentenceTransformer, or a function.
        source: its name.
        threshold: a cosine.
    """

    def __init__(self, model: SentenceEncoder, *, source: str, threshold: float) -> None:
        super().__init__(model, source=source)
        self.threshold = threshold
        self._origins: dict[int, Unit] = {}

    def prepare(self, examples: Sequence[Example]) -> list[str | None]:
        """Take the vectors of the originals."""
        for example, unit in zip(examples, self.units([e.text for e in examples]), strict=True):
            self._origins[example.number] = unit
        return [None] * len(examples)

    def verdict(self, example: Example, output: Output) -> Verdict:
        """Score: one less the cosine."""
        cosine = round(float(output @ self._origins[example.number]), _DECIMALS)
        return Verdict(1.0 - cosine, _NOISE, cosine < self.threshold, cosine)

    def loss(self, z: Tensor, examples: Sequence[Example]) -> Tensor:
        """The negative cosine with the original, climbed from a point beside it: at the original it has no slope."""
        origins = torch.tensor(np.stack([self._origins[e.number] for e in examples]), dtype=z.dtype, device=z.device)
        # One fixed direction for all texts, at a right angle to each: the first step needs some direction to go in.
        aside = torch.ones_like(origins) / origins.shape[1] ** 0.5
        aside = aside - (aside * origins).sum(dim=1, keepdim=True) * origins
        loss: Tensor = ((z * aside).sum(dim=1) * 1e-3 - (z * origins).sum(dim=1)).sum()
        return loss


@dataclass(frozen=True)
class Nearest:
    """A text's vector, and what of the texts that are searched is nearest to it.

    Attributes:
        unit: the vector, normalised, (d,) fp64.
        places: of the m nearest ones, nearest first; of those that are equally near the earlier one first.
        cosines: theirs, (m,), rounded.
    """

    unit: Unit
    places: npt.NDArray[np.intp]
    cosines: npt.NDArray[np.float64]


class RetrievalTarget(EncoderTarget):
    """Make a text lose its nearest neighbours in a corpus: none of the first ``k`` may be among the first ``k`` after.

    Args:
        model: any SentenceTransformer, or a function.
        source: its name.
        corpus: the texts searched; a text is not its own neighbour.
        k: how many neighbours count.
        progress: called with (texts done, different texts) while the corpus is encoded.
    """

    def __init__(
        self,
        model: SentenceEncoder,
        *,
        source: str,
        corpus: Sequence[str],
        k: int = 5,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(model, source=source)
        self.k = k
        self._corpus = list(dict.fromkeys(corpus))
        self._number = {text: i for i, text in enumerate(self._corpus)}
        self._vectors = self.encoded(self._corpus, progress=progress)
        for rows in self._blocks(len(self._vectors)):  # in fp64 only as many at a time
            self._vectors[rows] = units_of(self._vectors[rows])
        self._near: dict[int, npt.NDArray[np.intp]] = {}

    def prepare(self, examples: Sequence[Example]) -> list[str | None]:
        """Find the neighbours of the originals."""
        if len(self._corpus) <= 2 * self.k:
            return [f"the corpus has no more than {2 * self.k} texts"] * len(examples)
        for example, nearest in zip(examples, self.read(self.units([e.text for e in examples])), strict=True):
            self._near[example.number] = self._others(example, nearest)[0][: self.k]
        return [None] * len(examples)

    def read(self, units: Unit) -> list[Nearest]:
        """The 2k + 1 nearest texts: with the text itself and its k old neighbours left out, k are still there.

        Of equal cosines the earlier text is nearer. All cosines are in fp32, whose last digits depend on how many texts
        are compared at once; of the texts that can be among the nearest they are taken anew, exactly.
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

    def _cosines(self, places: npt.NDArray[np.intp], unit: Unit) -> npt.NDArray[np.float64]:
        """The cosines with some texts of the corpus, rounded."""
        cosines: npt.NDArray[np.float64] = np.round(self._vectors[places].astype(np.float64) @ unit, _DECIMALS)
        return cosines

    def _blocks(self, count: int) -> list[slice]:
        """Slices of ``count`` vectors, each of so many as are compared with the whole corpus at once."""
        size = max(1, _COSINES_AT_ONCE // max(1, len(self._corpus)))
        return [slice(start, start + size) for start in range(0, count, size)]

    def _others(self, example: Example, nearest: Nearest) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
        """Places and cosines of what is nearest, without the text that was attacked."""
        others = nearest.places != self._number.get(example.text, -1)
        return nearest.places[others], nearest.cosines[others]

    def neighbours(self, example: Example) -> list[str]:
        """The texts that were nearest, nearest first."""
        return [self._corpus[i] for i in self._near[example.number]]

    def verdict(self, example: Example, output: Output) -> Verdict:
        """Score: by how much the k-th best of the other texts is nearer than the nearest of the old neighbours."""
        places, cosines = self._others(example, output)
        near = self._near[example.number]
        old = np.isin(places, near)
        rival = float(cosines[~old][self.k - 1])
        score = rival - float(cosines[old][0] if old.any() else self._cosines(near, output.unit).max())
        first = places[: self.k]
        neighbours = tuple(self._corpus[i] for i in first)
        return Verdict(score, _NOISE, score > 0.0, float(np.isin(near, first).mean()), neighbours=neighbours)

    def loss(self, z: Tensor, examples: Sequence[Example]) -> Tensor:
        """The negative cosine with the mean of the old neighbours."""
        centres = np.stack([self._vectors[self._near[e.number]].mean(axis=0) for e in examples])
        return -(z * torch.tensor(centres, dtype=z.dtype, device=z.device)).sum()


def _candidates(row: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.intp]:
    """Places of what can be among the ``count`` largest numbers once they are exact, and rounded; in order."""
    count = min(count, len(row))
    # What is smaller than the last of them by two rounded digits is still smaller then: fp32 errs by less than one.
    bound = np.partition(row, -count)[-count] - 2 * 10.0**-_DECIMALS
    return np.flatnonzero(row >= bound)


def fitted_scale(
    encoder: SentenceEncoder,
    first: Sequence[str],
    second: Sequence[str],
    scores: Sequence[float],
    *,
    lowest: float = SCALE[0],
) -> Scale:
    """From cosines to people's scores: an isotonic fit, in fp32, on pairs that are not to be attacked.

    Args:
        encoder: any SentenceTransformer, or a function.
        first: n texts.
        second: n texts.
        scores: what people say of the n pairs.
        lowest: the lowest score that people could give.
    """
    units = [units_of(encode_sentences(encoder, list(texts))) for texts in (first, second)]
    cosines = np.round((units[0] * units[1]).sum(axis=1), _DECIMALS)
    fit = IsotonicRegression(y_min=lowest, y_max=SCALE[1], out_of_bounds="clip").fit(cosines, scores)

    def scale(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        return np.asarray(fit.predict(np.asarray(values, dtype=np.float64)), dtype=np.float64)

    return scale


def units_of(vectors: npt.ArrayLike) -> Unit:
    """Vectors (n, d), normalised, as fp64."""
    exact = np.asarray(vectors, dtype=np.float64)
    units: Unit = exact / np.maximum(np.linalg.norm(exact, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return units


def halfway(model: EncoderTarget, texts: Sequence[str]) -> float:
    """The cosine half-way between 1 and the mean cosine of different texts.

    What counts as far differs between encoders: of some, any two texts have a cosine of 0.8. Half-way, a text is as far
    from where it was as the mid-point of it and any other text.

    Args:
        model: the encoder.
        texts: at least two different ones.

    Raises:
        UserError: there is one alone.
    """
    distinct = list(dict.fromkeys(texts))
    if len(distinct) < 2:
        raise UserError("with a single text there is nothing to compare it with: give --threshold")
    units = model.units(distinct)
    total = np.linalg.norm(units.sum(axis=0)) ** 2
    mean = (float(total) - len(units)) / (len(units) * (len(units) - 1))
    return round((1.0 + mean) / 2, 3)


def _other(example: Example) -> str:
    return example.texts[1 - example.attacked]
