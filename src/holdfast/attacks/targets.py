"""What is attacked: a classifier or any function of texts. (Encoders: :mod:`holdfast.attacks.encoders`.)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, softmax

from holdfast.adversary.words import Words
from holdfast.attacks.examples import Example, Verdict
from holdfast.attacks.requests import Slope
from holdfast.errors import UserError
from holdfast.functions import CALL_BATCH, Batched, Function
from holdfast.shortening import shortened_for

if TYPE_CHECKING:
    from holdfast.attacks.classifier import Classifier

Texts = tuple[str, ...]
Groups = Sequence[Sequence[int]]
Logits = npt.NDArray[np.float64]
Output = Any
"""What a target makes of a text, as its own ``verdict`` takes it: logits or a vector, (n,) fp64, as a rule."""

LOGIT_NOISE = 1e-4
"""Logits that differ by less are equal. In fp32 they change by about 1e-6 with the batch they are computed in."""


class Target(Protocol):
    """A model together with the goal of attacks on it."""

    source: str
    """What it is, for the record."""
    unknown: str
    """The token that stands for a word the model does not know."""
    has_classes: bool
    """Whether its verdicts are predictions of classes."""
    has_gradients: bool
    """Whether :meth:`climb` and :meth:`locate` answer."""

    def prepare(self, examples: Sequence[Example]) -> list[str | None]:
        """Look at some examples before they are attacked: for each why the model cannot be asked about it, or None."""

    def hopeless(self, example: Example) -> str | None:
        """Why no text could reach the goal, where that is known of a prepared example; such are asked about once."""

    def seen(self, example: Example) -> int:
        """How many characters of the attacked text the model sees before it cuts it off."""

    def question(self, example: Example, text: str) -> Texts:
        """What the model is asked when the attacked text is ``text``."""

    def outputs(self, texts: Sequence[Texts], *, exact: bool) -> Sequence[Output]:
        """What the model says of each distinct text; in fp32 where ``exact``."""

    def verdict(self, example: Example, output: Output) -> Verdict:
        """What that means for the attack on ``example``."""

    def climb(self, questions: Sequence[tuple[Example, Words]]) -> list[Slope]:
        """Vectors and gradients of the loss, in fp32.

        Raises:
            UserError: the target has no gradients to offer.
        """

    def locate(self, questions: Sequence[tuple[Example, str]]) -> list[tuple[Any, Output]]:
        """Vectors in the space of :meth:`climb`, and outputs, in fp32."""


class ClassifierTarget:
    """A classifier of texts or pairs; the goal is any other class than the right one.

    Args:
        classifier: the model.
        groups: the model's classes that are one class to the task, each class in one group; None: each alone. The
            probability of a group is the sum of its classes'.
    """

    has_classes = True

    def __init__(self, classifier: Classifier, groups: Groups | None = None) -> None:
        self.classifier, self.groups = classifier, groups
        self.has_gradients = classifier.has_gradients
        self.source = classifier.source
        self.unknown = unknown_token(classifier.tokenizer)

    def prepare(self, examples: Sequence[Example]) -> list[str | None]:
        """Refuse what is no text for this model, and labels that it does not have."""
        return [self._refusal(example) for example in examples]

    def hopeless(self, example: Example) -> str | None:
        """Any other class may be reached."""
        return None

    def _refusal(self, example: Example) -> str | None:
        pairs, count = self.classifier.takes_pairs, len(self.groups or self.classifier.classes)
        if pairs is not None and pairs != (len(example.texts) == 2):
            return f"the model takes {'pairs' if pairs else 'single texts'}"
        return refused_label(example, count)

    def seen(self, example: Example) -> int:
        """Up to the end of its last token."""
        classifier = self.classifier
        return characters_seen(classifier.tokenizer, example.texts, example.attacked, classifier.max_tokens)

    def question(self, example: Example, text: str) -> Texts:
        """The text, in its place in the pair."""
        return example.with_text(text)

    def outputs(self, texts: Sequence[Texts], *, exact: bool) -> Sequence[Output]:
        """Logits."""
        logits = self.classifier.logits(texts, precision="fp32" if exact else "bf16").astype(np.float64)
        if not np.isfinite(logits).all():
            raise UserError(f"{self.source} gives scores that are not finite: its weights are damaged or it overflows")
        logits = merged(logits, self.groups)
        # Copies: what is remembered of one text would keep the whole batch's numbers alive.
        return [row.copy() for row in logits]

    def verdict(self, example: Example, output: Output) -> Verdict:
        """Score: the probability of all other classes together."""
        return class_verdict(example, output)

    def climb(self, questions: Sequence[tuple[Example, Words]]) -> list[Slope]:
        """Gradients of the cross-entropy, at what enters the classification layer."""
        from holdfast.attacks.slopes import classifier_slopes

        return classifier_slopes(self.classifier, questions, self.groups)

    def locate(self, questions: Sequence[tuple[Example, str]]) -> list[tuple[Any, Output]]:
        """What enters the classification layer, and logits."""
        from holdfast.attacks.slopes import classifier_locations

        located = classifier_locations(self.classifier, [example.with_text(text) for example, text in questions])
        return [(z, merged(logits.astype(np.float64)[None], self.groups)[0]) for z, logits in located]


class CallableTarget:
    """Any function from texts to scores of classes: a model behind an interface, an ensemble, a rule.

    Args:
        function: takes n texts, or n pairs, and returns n rows of one number per class: probabilities where all rows
            are non-negative and sum to 1, otherwise logits.
        name: for the record.
        call_batch: the most texts that it is given in one call.
        groups: the columns that are one class to the task, as for :class:`ClassifierTarget`.
    """

    has_classes = True
    has_gradients = False
    unknown = "[UNK]"

    def __init__(
        self, function: Function, *, name: str, call_batch: int = CALL_BATCH, groups: Groups | None = None
    ) -> None:
        self._function = Batched(function, name=name, call_batch=call_batch)
        self.source, self.groups = name, groups
        self._columns: int | None = None
        self._probabilities: bool | None = None

    def prepare(self, examples: Sequence[Example]) -> list[str | None]:
        """Learn the number of classes from the first texts, and refuse labels beyond it."""
        count = len(self.groups) if self.groups is not None else self.columns(examples)
        return [refused_label(example, count) for example in examples]

    def columns(self, examples: Sequence[Example]) -> int:
        """Return how many numbers the function returns for a text; it is called with the first example to find out."""
        if self._columns is None and examples:
            self.outputs([examples[0].texts], exact=True)
        return self._columns or 0

    def hopeless(self, example: Example) -> str | None:
        """Any other class may be reached."""
        return None

    def seen(self, example: Example) -> int:
        """All of it, as far as we know."""
        return len(example.text)

    def question(self, example: Example, text: str) -> Texts:
        """The text, in its place in the pair."""
        return example.with_text(text)

    def outputs(self, texts: Sequence[Texts], *, exact: bool) -> Sequence[Output]:
        """Logits; of probabilities their logarithms. Which of the two they are its first answer says for good."""
        found: list[Output] = [None] * len(texts)
        for places, scores in self._function.answers([text[0] if len(text) == 1 else text for text in texts]):
            for place, logits in zip(places, self._logits(scores), strict=True):
                found[place] = logits.copy()  # a view would keep the whole call's numbers alive
        return found

    def _logits(self, scores: Logits) -> Logits:
        """Of the scores (n, classes) of a call."""
        self._columns = scores.shape[1]
        if scores.shape[1] < 2:
            raise UserError(f"{self.source} returned one number per text: it must return one per class, two at least")
        # Probabilities may have been rounded to two decimals, each of them.
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

    def verdict(self, example: Example, output: Output) -> Verdict:
        """As for a classifier."""
        return class_verdict(example, output)

    def climb(self, questions: Sequence[tuple[Example, Words]]) -> list[Slope]:
        """A function has no gradients."""
        raise UserError(f"{self.source} is a plain function and has no gradients: leave the geometry recipe out")

    def locate(self, questions: Sequence[tuple[Example, str]]) -> list[tuple[Any, Output]]:
        """A function has no vectors."""
        raise UserError(f"{self.source} is a plain function and has no vectors: leave the geometry recipe out")


def merged(logits: Logits, groups: Groups | None) -> Logits:
    """Return logits (n, groups) whose softmax is the sum over each group of the softmax of ``logits`` (n, classes)."""
    if groups is None:
        return logits
    return np.stack([logsumexp(logits[:, list(group)], axis=1) for group in groups], axis=1)


def class_verdict(example: Example, logits: Logits) -> Verdict:
    """How a classification stands to the goal of any class but the right one.

    A tie is no success. The noise of a probability p is that of the logits times its derivative, p(1 - p).
    """
    label = int(example.label or 0)
    probabilities = softmax(logits)
    rivals = np.delete(logits, label)
    reached = bool(rivals.max() > logits[label])
    best = int(np.argmax(logits)) if reached else label
    right = float(probabilities[label])
    # 1 - p keeps nothing of a p close to 1; the sum of the others does.
    score = float(np.delete(probabilities, label).sum())
    return Verdict(score, LOGIT_NOISE * score * right, reached, right, best, tuple(float(p) for p in probabilities))


def refused_label(example: Example, classes: int) -> str | None:
    """Why an example's label is none of ``classes``."""
    label = example.label
    if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < classes:
        return f"its label {label!r} is none of the model's {classes} classes"
    return None


def unknown_token(tokenizer: Any) -> str:
    """The token of unknown words; a byte-level tokeniser knows all words and has a mask instead.

    The tokeniser of a model without a transformer (static word vectors) names neither.
    """
    return str(getattr(tokenizer, "unk_token", None) or getattr(tokenizer, "mask_token", None) or "[UNK]")


def characters_seen(tokenizer: Any, texts: Texts, attacked: int, max_tokens: int | None = None) -> int:
    """How many characters of one of the texts are left when what is too long has been cut off.

    All of them, as far as we know, where the tokeniser does not tell which characters its tokens stand for: that of a
    model without a transformer, or one without a fast implementation.

    Args:
        tokenizer: of the model.
        texts: one or two.
        attacked: which of them.
        max_tokens: what the model takes; None: what the tokeniser says.
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
