"""Targets of attacks: a classifier or any function of texts. (Encoders: :mod:`holdfast.attacks.encoder_targets`.)"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, softmax

from holdfast.attacks.examples import Example, Verdict
from holdfast.attacks.requests import LossGradient
from holdfast.edits.words import Words
from holdfast.errors import UserError
from holdfast.model_lookup import CALL_BATCH
from holdfast.precision import ResolvedPrecision
from holdfast.shortening import shortened_for
from holdfast.user_functions import Batched, Function

if TYPE_CHECKING:
    from holdfast.attacks.classifier import Classifier

Texts = tuple[str, ...]
Groups = Sequence[Sequence[int]]
Logits = npt.NDArray[np.float64]
Output = Any
"""Output of a target for a text, as its ``verdict`` takes it; usually logits or a vector, (n,) fp64."""

LOGIT_NOISE = 1e-4
"""Logits that differ by less are equal. In fp32 they vary by about 1e-6 with the batch."""


class Target(abc.ABC):
    """A model together with the goal of attacks on it; by default the goal is another class than the gold class.

    Attributes:
        source: name of the model, for the result.
        unknown: the token of unknown words.
        has_classes: True if the verdicts are predictions of classes.
        has_gradients: True if :meth:`gradients` and :meth:`vectors` are supported.
    """

    source: str
    unknown: str
    has_classes = True
    has_gradients = False

    def prepare(self, examples: Sequence[Example]) -> list[str | None]:
        """Prepare examples for the attack; return for each the reason why it cannot be attacked, or None."""
        return [None] * len(examples)

    def unreachable(self, example: Example) -> str | None:
        """Return the reason why no text can reach the goal for a prepared example, or None if that is not known."""
        return None

    def seen(self, example: Example) -> int:
        """Return the number of characters of the attacked text that the model reads; all, if its limit is unknown."""
        return len(example.text)

    def model_input(self, example: Example, text: str) -> Texts:
        """Return the model input with ``text`` in place of the attacked text."""
        return example.with_text(text)

    @abc.abstractmethod
    def outputs(self, texts: Sequence[Texts], *, exact: bool) -> Sequence[Output]:
        """Return the output for each distinct text; in fp32 if ``exact``."""

    def verdict(self, example: Example, output: Output) -> Verdict:
        """Return the verdict that an output gives for the attack on ``example``."""
        return class_verdict(example, output)

    def gradients(self, questions: Sequence[tuple[Example, Words]]) -> list[LossGradient]:
        """Return vectors and gradients of the loss, in fp32.

        Raises:
            UserError: the target has no gradients.
        """
        raise UserError(f"{self.source} is a plain function and has no gradients: leave the geometry recipe out")

    def vectors(self, questions: Sequence[tuple[Example, str]]) -> list[tuple[Any, Output]]:
        """Return vectors in the space of :meth:`gradients`, and outputs, in fp32.

        Raises:
            UserError: the target has no gradients.
        """
        raise UserError(f"{self.source} is a plain function and has no gradients: leave the geometry recipe out")

    def vector(self, output: Output) -> Any | None:
        """Return the vector of :meth:`vectors` that an exact output holds; None if it holds none."""
        return None


class ClassifierTarget(Target):
    """A classifier of texts or pairs as a target; the goal is any class other than the gold class.

    Args:
        classifier: the model.
        groups: groups of the model's classes that form one class of the task; each class is in one group. None: one
            group per class. The probability of a group is the sum over its classes.

    Attributes:
        search_classifier: a cheaper form of the classifier, which answers the search in fp32; None: the classifier
            does, in bf16.
    """

    search_classifier: Classifier | None = None

    def __init__(self, classifier: Classifier, groups: Groups | None = None) -> None:
        self.classifier, self.groups = classifier, groups
        self.has_gradients = classifier.has_gradients
        self.source = classifier.source
        self.unknown = unknown_token(classifier.tokenizer)

    def prepare(self, examples: Sequence[Example]) -> list[str | None]:
        """Reject inputs of the wrong kind (single texts or pairs) and labels that the model does not have."""
        return [self._refusal(example) for example in examples]

    def _refusal(self, example: Example) -> str | None:
        pairs, count = self.classifier.takes_pairs, len(self.groups or self.classifier.classes)
        if pairs is not None and pairs != (len(example.texts) == 2):
            return f"the model takes {'pairs' if pairs else 'single texts'}"
        return refused_label(example, count)

    def seen(self, example: Example) -> int:
        """Return the position of the end of the last token that the model reads."""
        classifier = self.classifier
        return characters_seen(classifier.tokenizer, example.texts, example.attacked, classifier.max_tokens)

    def outputs(self, texts: Sequence[Texts], *, exact: bool) -> Sequence[Output]:
        """Return the logits."""
        form = self.classifier if exact or self.search_classifier is None else self.search_classifier
        precision: ResolvedPrecision = "bf16" if not exact and form is self.classifier else "fp32"
        logits = form.logits(texts, precision=precision).astype(np.float64)
        if not np.isfinite(logits).all():
            raise UserError(f"{self.source} gives scores that are not finite: its weights are damaged or it overflows")
        logits = merged(logits, self.groups)
        # Copies, since a view would keep the whole batch in memory.
        return [row.copy() for row in logits]

    def gradients(self, questions: Sequence[tuple[Example, Words]]) -> list[LossGradient]:
        """Return the gradients of the cross-entropy at the input of the classification layer."""
        from holdfast.attacks.gradient_classifier import cross_entropy_gradients

        return cross_entropy_gradients(self.classifier, questions, self.groups)

    def vectors(self, questions: Sequence[tuple[Example, str]]) -> list[tuple[Any, Output]]:
        """Return the inputs of the classification layer, and the logits."""
        from holdfast.attacks.gradient_classifier import gradient_classifier

        model = gradient_classifier(self.classifier)
        z, logits = model.vectors([example.with_text(text) for example, text in questions])
        return list(zip(z.cpu(), merged(logits.cpu().numpy().astype(np.float64), self.groups), strict=True))


class CallableTarget(Target):
    """Any function from texts to class scores as a target: a remote model, an ensemble, a rule.

    Args:
        function: takes n texts, or n pairs, and returns n rows of one number per class: probabilities if all rows are
            non-negative and sum to 1, otherwise logits.
        name: its name, for the result.
        call_batch: maximum number of texts per call.
        retries: how often a failed call is repeated.
        groups: groups of columns that form one class of the task, as in :class:`ClassifierTarget`.
    """

    unknown = "[UNK]"

    def __init__(
        self,
        function: Function,
        *,
        name: str,
        call_batch: int = CALL_BATCH,
        retries: int = 0,
        groups: Groups | None = None,
    ) -> None:
        self._function = Batched(function, name=name, call_batch=call_batch, retries=retries)
        self.source, self.groups = name, groups
        self._columns: int | None = None
        self._probabilities: bool | None = None

    def prepare(self, examples: Sequence[Example]) -> list[str | None]:
        """Find the number of classes with the first example, and reject labels that are out of range."""
        count = len(self.groups) if self.groups is not None else self.columns(examples)
        return [refused_label(example, count) for example in examples]

    def columns(self, examples: Sequence[Example]) -> int:
        """Return the number of scores per text; the function is called with the first example to find it."""
        if self._columns is None and examples:
            self.outputs([examples[0].texts], exact=True)
        return self._columns or 0

    def outputs(self, texts: Sequence[Texts], *, exact: bool) -> Sequence[Output]:
        """Return logits; probabilities become log-probabilities, as decided by the first answer of the function."""
        outputs: list[Output] = [None] * len(texts)
        for places, scores in self._function.outputs([text[0] if len(text) == 1 else text for text in texts]):
            for place, logits in zip(places, self._logits(scores), strict=True):
                outputs[place] = logits.copy()  # a view would keep the whole call in memory
        return outputs

    def _logits(self, scores: Logits) -> Logits:
        """Convert the scores (n, classes) of a call to logits."""
        self._columns = scores.shape[1]
        if scores.shape[1] < 2:
            raise UserError(f"{self.source} returned one number per text: it must return one per class, two at least")
        # Each probability may be rounded to two decimals.
        sums, off = scores.sum(axis=1), 1e-3 + 0.005 * scores.shape[1]
        probable = bool((scores >= 0.0).all() and np.allclose(sums, 1.0, rtol=0.0, atol=off))
        if self._probabilities is None:
            self._probabilities = probable
        if self._probabilities and not probable:
            raise UserError(
                f"{self.source} returned probabilities at first, and now rows with sums from {sums.min():g} to "
                f"{sums.max():g}: return probabilities of sum 1 always, or logits always"
            )
        logits: Logits = np.log(np.maximum(scores, 1e-12)) if self._probabilities else scores
        return merged(logits, self.groups)


def merged(logits: Logits, groups: Groups | None) -> Logits:
    """Merge logits (n, classes) to (n, groups); the probability of a group is the sum over its classes."""
    if groups is None:
        return logits
    return np.stack([logsumexp(logits[:, list(group)], axis=1) for group in groups], axis=1)


def class_verdict(example: Example, logits: Logits) -> Verdict:
    """Return the verdict for the goal of any class other than the gold class.

    A tie is not a success. The noise of a probability p is the noise of the logits times the derivative, p(1 - p).
    """
    label = int(example.label or 0)
    probabilities = softmax(logits)
    rivals = np.delete(logits, label)
    reached = bool(rivals.max() > logits[label])
    best = int(np.argmax(logits)) if reached else label
    right = float(probabilities[label])
    # 1 - p loses precision for p close to 1; the sum of the other probabilities does not.
    score = float(np.delete(probabilities, label).sum())
    return Verdict(score, LOGIT_NOISE * score * right, reached, right, best, tuple(float(p) for p in probabilities))


def refused_label(example: Example, classes: int) -> str | None:
    """Return a reason if an example's label is not among ``classes`` classes, otherwise None."""
    label = example.label
    if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < classes:
        return f"its label {label!r} is none of the model's {classes} classes"
    return None


def unknown_token(tokenizer: Any) -> str:
    """Return the token for unknown words, or the mask token of a byte-level tokeniser, which has no unknown words.

    The tokeniser of a model without a transformer (static word vectors) has neither, and that of GPT-2 has one that is
    padding, too, which a decoder does not read at the end of a text: "[UNK]" is used.
    """
    tokens = (getattr(tokenizer, name, None) for name in ("unk_token", "mask_token"))
    padding = getattr(tokenizer, "pad_token", None)
    return next((str(token) for token in tokens if token and token != padding), "[UNK]")


def characters_seen(tokenizer: Any, texts: Texts, attacked: int, max_tokens: int | None = None) -> int:
    """Return the number of characters of one text that are left after truncation.

    This is the whole length if the tokeniser gives no character offsets: that of a model without a transformer, or one
    without a fast implementation.

    Args:
        tokenizer: tokeniser of the model.
        texts: one or two texts.
        attacked: index of the text.
        max_tokens: limit of the model; None: limit of the tokeniser.
    """
    if not getattr(tokenizer, "is_fast", False):
        return len(texts[attacked])
    limit = {} if max_tokens is None else {"max_length": max_tokens}
    reads = tokenizer.model_max_length if max_tokens is None else max_tokens
    if len(texts) == 1:
        texts = (shortened_for(tokenizer, texts, reads)[0],)
    encoded = tokenizer(*texts, truncation=True, return_offsets_mapping=True, verbose=False, **limit)
    ends = [
        end
        for sequence, (_, end) in zip(encoded.sequence_ids(0), encoded["offset_mapping"], strict=True)
        if sequence == attacked
    ]
    return max(ends, default=0)
