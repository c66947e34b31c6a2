"""Encoders as targets of attacks, without a classifier, and the drift of a vector as their goal."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from holdfast.attacks.examples import Example, Verdict
from holdfast.attacks.requests import LossGradient
from holdfast.attacks.targets import Output, Target, Texts, characters_seen, unknown_token
from holdfast.edits.words import Words
from holdfast.encoding import Progress, Vectors, encode_sentences, normalised
from holdfast.errors import UserError
from holdfast.forms import FittedForm
from holdfast.input_limits import Cuts
from holdfast.models import backend_of
from holdfast.precision import ResolvedPrecision
from holdfast.text_prompts import Role, has_route, prompt_of
from holdfast.user_functions import VectorFunction

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder

DECIMALS = 5
"""Decimals that cosines are rounded to."""
NOISE = 2e-5
"""Noise of cosines that are rounded so."""
Unit = npt.NDArray[np.float64]


def finite_vectors(
    model: SentenceEncoder,
    texts: Sequence[str],
    *,
    source: str,
    role: Role | None,
    precision: ResolvedPrecision = "fp32",
    progress: Progress | None = None,
    cuts: Cuts | None = None,
) -> Vectors:
    """Encode n texts as `encode_sentences` does; return their vectors, (n, d). ``source`` names the model in messages.

    Raises:
        UserError: a vector is not finite.
    """
    vectors = encode_sentences(model, texts, role=role, precision=precision, progress=progress, cuts=cuts)
    if not np.isfinite(vectors).all():
        raise UserError(f"{source} gives vectors that are not finite: its weights are damaged or it overflows")
    return vectors


def characters_read(model: SentenceEncoder, text: str, role: Role | None = None) -> int:
    """Return the number of characters of a text that an encoder reads; the prompt before it takes its share.

    Of a blank text it is 0.

    Args:
        model: any SentenceTransformer, or a function, which is assumed to read all.
        text: the text, without its prompt.
        role: side of the text.
    """
    if not text.strip():  # it may give no tokens
        return 0
    prompt = "" if isinstance(model, VectorFunction) else prompt_of(model, role) or ""
    return max(0, characters_seen(model.tokenizer, (prompt + text,), 0) - len(prompt))


def is_differentiable(model: SentenceEncoder, role: Role | None) -> bool:
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
        shared: function that encodes texts in fp32 and remembers them, for another use of the model; None: no other.
    """

    has_classes = False
    search_model: SentenceEncoder | None = None
    shared: Callable[[Sequence[str]], Vectors] | None = None

    def __init__(
        self, model: SentenceEncoder, *, source: str, role: Role | None = None, form: FittedForm | None = None
    ) -> None:
        self.model, self.source, self.role, self.form = model, source, role, form
        self.has_gradients = form is None and is_differentiable(model, role)
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
        vectors = self._vectors_of(list(texts), exact=exact)
        return normalised(stored(vectors, self.form))

    def _vectors_of(self, texts: Sequence[str], *, exact: bool) -> Vectors:
        """Return the vectors of attacked texts, (n, d)."""
        if self.shared is not None and exact:
            return self.shared(texts)
        return self.encoded(texts, self.role, "fp32" if exact else "bf16")

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
        return finite_vectors(model, texts, source=self.source, role=role, precision=precision, progress=progress)

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
        outputs = self.read(self.units([text for _, text in questions]))
        return [(self.vector(output), output) for output in outputs]

    def vector(self, output: Output) -> Tensor:
        """Return the normalised vector, in fp32."""
        return torch.from_numpy(self.unit(output)).float()

    def unit(self, output: Output) -> Unit:
        """Return the normalised vector in an output of :meth:`read`, (d,) fp64."""
        return output  # type: ignore[no-any-return]


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
        cosine = round(float(output @ self._origins[example.number]), DECIMALS)
        return Verdict(1.0 - cosine, NOISE, cosine < self.threshold, cosine)

    def loss(self, z: Tensor, examples: Sequence[Example]) -> Tensor:
        """Return the negative cosine with the original, plus a small linear term: its gradient is zero at the start."""
        origins = torch.tensor(np.stack([self._origins[e.number] for e in examples]), dtype=z.dtype, device=z.device)
        # A fixed direction, made orthogonal to each original, gives the first step a non-zero gradient.
        aside = torch.ones_like(origins) / origins.shape[1] ** 0.5
        aside = aside - (aside * origins).sum(dim=1, keepdim=True) * origins
        loss: Tensor = ((z * aside).sum(dim=1) * 1e-3 - (z * origins).sum(dim=1)).sum()
        return loss


def stored(vectors: Vectors, form: FittedForm | None) -> Vectors:
    """Return the vectors of stored texts in a form."""
    return vectors if form is None else form.documents(vectors)


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
