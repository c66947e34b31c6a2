"""Encoders as targets, without a classifier: scored pairs (AdvSTS), vector drift, displaced nearest neighbours."""

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

from holdfast.attacks.examples import Example, Verdict
from holdfast.attacks.requests import LossGradient
from holdfast.attacks.targets import Output, Target, Texts, characters_seen, unknown_token
from holdfast.edits.words import Words
from holdfast.encoding import Progress, Vectors, encode_sentences, normalised
from holdfast.errors import UserError
from holdfast.forms import FittedForm, Form
from holdfast.models import backend_of
from holdfast.precision import ResolvedPrecision
from holdfast.text_prompts import Role, has_route, prompt_of, side_of
from holdfast.user_functions import VectorFunction

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder

_DECIMALS = 5
_NOISE = 2e-5  # noise of cosines rounded to _DECIMALS
SCALE = (0.0, 5.0)
"""The range of human similarity scores."""

_COSINES_AT_ONCE = 1 << 23
"""Query texts times corpus texts in one matrix product: 32 MB of cosines."""

Unit = npt.NDArray[np.float64]
Scale = Callable[[npt.ArrayLike], npt.NDArray[np.float64]]


def characters_read(model: SentenceEncoder, text: str, role: Role | None = None) -> int:
    """Return the number of characters of a text that an encoder reads; the prompt before it takes its share.

    Args:
        model: any SentenceTransformer, or a function, which is assumed to read all.
        text: the text, without its prompt.
        role: side of the text.
    """
    prompt = "" if isinstance(model, VectorFunction) else prompt_of(model, role) or ""
    return max(0, characters_seen(model.tokenizer, (prompt + text,), 0) - len(prompt))


def _differentiable(model: SentenceEncoder, role: Role | None) -> bool:
    """Return True for a model with a transformer that torch runs, the same one for both sides of a search."""
    if isinstance(model, VectorFunction) or backend_of(model) is not None or model.transformers_model is None:
        return False
    return role is None or not has_route(model, role)


class EncoderTarget(Target):
    """A sentence encoder as a target; the output for a text is its normalised vector.

    Args:
        model: any SentenceTransformer, or a function.
        source: its name, for the result.
        role: side of the attacked texts.
        form: the form in which vectors are stored and compared; None: the plain one.

    Attributes:
        search_model: a cheaper form of the model, which answers the search in fp32; None: the model does, in bf16.
    """

    has_classes = False
    search_model: SentenceEncoder | None = None

    def __init__(
        self, model: SentenceEncoder, *, source: str, role: Role | None = None, form: FittedForm | None = None
    ) -> None:
        self.model, self.source, self.role, self.form = model, source, role, form
        self.has_gradients = form is None and _differentiable(model, role)
        self.unknown = unknown_token(model.tokenizer)

    def seen(self, example: Example) -> int:
        """Return the position of the end of the last token that the model reads."""
        return characters_read(self.model, example.text, self.role)

    def model_input(self, example: Example, text: str) -> Texts:
        """Return the attacked text only."""
        return (text,)

    def outputs(self, texts: Sequence[Texts], *, exact: bool) -> Sequence[Output]:
        """Return the normalised vectors, as `read` returns them."""
        return self.read(self.units([text for (text,) in texts], exact=exact))

    def read(self, units: Unit) -> Sequence[Output]:
        """Convert each row of normalised vectors (n, d) to the output that `verdict` takes."""
        return [unit.copy() for unit in units]

    def units(self, texts: Sequence[str], *, exact: bool = True) -> Unit:
        """Return the normalised vectors, (n, d) fp64, in the form of stored texts."""
        return normalised(stored(self.encoded(list(texts), self.role, "fp32" if exact else "bf16"), self.form))

    def encoded(
        self,
        texts: Sequence[str],
        role: Role | None,
        precision: ResolvedPrecision = "fp32",
        progress: Progress | None = None,
    ) -> Vectors:
        """Encode n texts of a side; return their vectors, (n, d): in bf16, those of the model for the search, if any.

        Raises:
            UserError: a vector is not finite.
        """
        model = self.model
        if precision == "bf16" and self.search_model is not None:
            model, precision = self.search_model, "fp32"
        vectors = encode_sentences(model, texts, role=role, precision=precision, progress=progress)
        if not np.isfinite(vectors).all():
            raise UserError(f"{self.source} gives vectors that are not finite: its weights are damaged or it overflows")
        return vectors

    @abc.abstractmethod
    def verdict(self, example: Example, output: Output) -> Verdict:
        """Score a text by its distance from the goal of the attack."""

    @abc.abstractmethod
    def loss(self, z: Tensor, examples: Sequence[Example]) -> Tensor:
        """Return the loss that the geometry recipe increases: a scalar, summed over normalised vectors z (n, d)."""

    def gradients(self, questions: Sequence[tuple[Example, Words]]) -> list[LossGradient]:
        """Return the gradients of :meth:`loss` at the normalised vector and at the input of the first layer."""
        from holdfast.adversary.gradient_encoder import GradientEncoder
        from holdfast.encoder import Encoder

        if isinstance(self.model, VectorFunction) or self.form is not None:
            return super().gradients(questions)
        if not self.has_gradients:
            raise UserError(f"{self.source} has no gradients in this form: leave the geometry recipe out")
        # Without the template's bias, which is used in training only: `vectors` returns the vectors used at inference.
        encoder = Encoder(self.model, template_bias=False)
        examples = [example for example, _ in questions]

        def mean_loss(z: Tensor, rows: Sequence[int]) -> Tensor:
            return self.loss(z, [examples[row] for row in rows]) / len(rows)

        model = GradientEncoder(
            encoder, lambda z: torch.nn.functional.normalize(z.float(), dim=1), mean_loss, role=self.role
        )
        texts = [words for _, words in questions]
        with encoder.attack_mode():
            gradients = model.gradients([words.text for words in texts], range(len(texts)))
        return LossGradient.of_batch(gradients, texts)

    def vectors(self, questions: Sequence[tuple[Example, str]]) -> list[tuple[Any, Output]]:
        """Return the normalised vectors twice: as points in the space of :meth:`gradients` and as outputs."""
        units = self.units([text for _, text in questions])
        return [(torch.from_numpy(unit).float(), output) for unit, output in zip(units, self.read(units), strict=True)]


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
            self._first[example.number] = round(float(own @ other), _DECIMALS)
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
        cosine = round(float(output @ self._others[example.number]), _DECIMALS)
        gold = float(example.label or 0.0)
        side, away = self._goal(self._first[example.number], gold)
        moved = side * (self._predicted(cosine) - gold)
        return Verdict(side * cosine, _NOISE, moved > away, cosine)

    def loss(self, z: Tensor, examples: Sequence[Example]) -> Tensor:
        """Return the summed cosine with the other text, negated if the cosine has to decrease."""
        others = torch.tensor(np.stack([self._others[e.number] for e in examples]), dtype=z.dtype, device=z.device)
        sides = torch.tensor([float(self._side(e)) for e in examples], dtype=z.dtype, device=z.device)
        return (sides * (z * others).sum(dim=1)).sum()


class DriftTarget(EncoderTarget):
    """Label-free target: move a text's vector until its cosine with the original vector is below ``threshold``."""

    def __init__(
        self, model: SentenceEncoder, *, source: str, threshold: float, form: FittedForm | None = None
    ) -> None:
        super().__init__(model, source=source, form=form)
        self.threshold = threshold
        self._origins: dict[int, Unit] = {}

    def prepare(self, examples: Sequence[Example]) -> list[str | None]:
        """Store the vectors of the original texts."""
        for example, unit in zip(examples, self.units([e.text for e in examples]), strict=True):
            self._origins[example.number] = unit
        return [None] * len(examples)

    def verdict(self, example: Example, output: Output) -> Verdict:
        """Return the verdict; its score is 1 - cosine."""
        cosine = round(float(output @ self._origins[example.number]), _DECIMALS)
        return Verdict(1.0 - cosine, _NOISE, cosine < self.threshold, cosine)

    def loss(self, z: Tensor, examples: Sequence[Example]) -> Tensor:
        """Return the negative cosine with the original, plus a small linear term: its gradient is zero at the start."""
        origins = torch.tensor(np.stack([self._origins[e.number] for e in examples]), dtype=z.dtype, device=z.device)
        # A fixed direction, made orthogonal to each original, gives the first step a non-zero gradient.
        aside = torch.ones_like(origins) / origins.shape[1] ** 0.5
        aside = aside - (aside * origins).sum(dim=1, keepdim=True) * origins
        loss: Tensor = ((z * aside).sum(dim=1) * 1e-3 - (z * origins).sum(dim=1)).sum()
        return loss


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
        vectors = self.encoded(list(texts), self.role, "fp32" if exact else "bf16")
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

    def _cosines(self, places: npt.NDArray[np.intp], unit: Unit) -> npt.NDArray[np.float64]:
        """Return the rounded cosines with some texts of the corpus."""
        cosines: npt.NDArray[np.float64] = np.round(self._vectors[places].astype(np.float64) @ unit, _DECIMALS)
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
        return Verdict(score, _NOISE, score > 0.0, float(np.isin(near, first).mean()), neighbours=neighbours)

    def loss(self, z: Tensor, examples: Sequence[Example]) -> Tensor:
        """Return the negative dot product with the mean vector of the original neighbours, summed."""
        centres = np.stack([self._vectors[self._near[e.number]].mean(axis=0) for e in examples])
        return -(z * torch.tensor(centres, dtype=z.dtype, device=z.device)).sum()


def stored(vectors: Vectors, form: FittedForm | None) -> Vectors:
    """Return the vectors of stored texts in a form."""
    return vectors if form is None else form.documents(vectors)


def _candidates(row: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.intp]:
    """Return, in order, the positions that can be among the ``count`` largest once cosines are exact and rounded."""
    count = min(count, len(row))
    # A value below the count-th largest by two units of the last decimal stays below it: the fp32 error is under one.
    bound = np.partition(row, -count)[-count] - 2 * 10.0**-_DECIMALS
    return np.flatnonzero(row >= bound)


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
    cosines = np.round((units[0] * units[1]).sum(axis=1), _DECIMALS)
    fit = IsotonicRegression(y_min=lowest, y_max=SCALE[1], out_of_bounds="clip").fit(cosines, scores)

    def scale(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        return np.asarray(fit.predict(np.asarray(values, dtype=np.float64)), dtype=np.float64)

    return scale


def halfway(model: EncoderTarget, texts: Sequence[str]) -> float:
    """Return the cosine half-way between 1 and the mean cosine of distinct texts.

    A fixed threshold does not suit all encoders: with some, any two texts have a cosine of 0.8.

    Raises:
        UserError: there is only one distinct text.
    """
    distinct = list(dict.fromkeys(texts))
    if len(distinct) < 2:
        raise UserError("with a single text there is nothing to compare it with: give --threshold")
    return round((1.0 + mean_cosine(model.units(distinct))) / 2, 3)


def mean_cosine(units: Unit) -> float:
    """Return the mean cosine over all pairs of different rows of (n, d) normalised vectors, n ≥ 2."""
    total = float(np.linalg.norm(units.sum(axis=0)) ** 2)
    return (total - len(units)) / (len(units) * (len(units) - 1))
