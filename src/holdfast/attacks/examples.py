"""Examples, verdicts of a target on a text, and attempts (the results of attacks)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from holdfast.edits.words import Words

Outcome = Literal["succeeded", "failed", "skipped"]


@dataclass(frozen=True)
class Example:
    """A text, or a pair of texts of which one is attacked.

    Attributes:
        number: position in the data, from 0; its identifier in journals and results.
        texts: one or two texts, as the model takes them.
        attacked: index of the text that may be changed.
        label: the gold class, the gold score, or None if there is neither.
    """

    number: int
    texts: tuple[str, ...]
    attacked: int = 0
    label: int | float | None = None

    @property
    def text(self) -> str:
        """The text that is attacked."""
        return self.texts[self.attacked]

    def with_text(self, text: str) -> tuple[str, ...]:
        """Return the model input with ``text`` in place of the attacked text."""
        return (*self.texts[: self.attacked], text, *self.texts[self.attacked + 1 :])


@dataclass(frozen=True)
class Verdict:
    """The target's result for a text with respect to the goal of the attack.

    Attributes:
        score: closeness to the goal; higher is closer.
        noise: scores that differ by no more than this are equal. The last digits of a model's output depend on the
            batch, and attacks must not depend on them.
        reached: whether the goal is reached.
        label: the predicted class, or None if the target has no classes.
        value: the number to show: the probability of the gold class, a cosine, or the share of neighbours kept.
        scores: the probabilities of all classes, if there are classes.
        neighbours: the nearest texts, nearest first, for the goal "neighbours".
    """

    score: float
    noise: float
    reached: bool
    value: float
    label: int | None = None
    scores: tuple[float, ...] = ()
    neighbours: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attempt:
    """The outcome of an attack on one example; a row of journals and results.

    Attributes:
        number: number of the example.
        recipe: the attack's name.
        outcome: "succeeded", "failed" (``adversarial`` is the best text found), or "skipped".
        reason: reason for skipping.
        original: the attacked text.
        adversarial: the text after the attack.
        other: the other text of the pair, which is not changed.
        label: the gold class or the gold score.
        before: the model's verdict on the original (see :class:`Verdict`), with ``label`` if it predicts classes and
            ``neighbours`` for the goal "neighbours".
        after: its verdict on the adversarial text, computed in fp32.
        words: number of words of the original.
        changed: ``(place, old word, new word)`` for each changed word, in the order of the changes.
        changed_by: the recipe that made each of these changes, for an ensemble of recipes; else empty.
        queries: texts queried, including repeated ones, as the papers count.
        passes: texts that were actually computed by the target.
        similarity: cosine of original and adversarial text by the encoder that the result names.
    """

    number: int
    recipe: str
    outcome: Outcome
    original: str
    adversarial: str
    reason: str | None = None
    other: str | None = None
    label: int | float | None = None
    before: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)
    words: int = 0
    changed: tuple[tuple[int, str, str], ...] = ()
    changed_by: tuple[str, ...] = ()
    queries: int = 0
    passes: int = 0
    similarity: float | None = None

    def row(self) -> dict[str, Any]:
        """Return the attempt as a JSON-serialisable dict."""
        row = {**asdict(self), "changed": [list(change) for change in self.changed]}
        by = list(row.pop("changed_by"))
        return {**row, "changed_by": by} if by else row

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Attempt:
        """Create an attempt from a row; the inverse of :meth:`row`."""
        changed = tuple((place, old, new) for place, old, new in row["changed"])
        return cls(**{**row, "changed": changed, "changed_by": tuple(row.get("changed_by", ()))})

    @property
    def correct_before(self) -> bool:
        """True if the model classified the original correctly; always True for goals without classes."""
        return bool(self.before.get("correct", True))


def verdict_record(verdict: Verdict, example: Example, classes: bool) -> dict[str, Any]:
    """Convert a verdict to the form stored in results."""
    if not classes:
        return {"value": verdict.value, **({"neighbours": list(verdict.neighbours)} if verdict.neighbours else {})}
    return {"label": verdict.label, "value": verdict.value, "correct": verdict.label == example.label}


def skipped(example: Example, recipe: str, reason: str | None) -> Attempt:
    """Create the attempt of an example that is not attacked (yet)."""
    return Attempt(
        number=example.number,
        recipe=recipe,
        outcome="skipped",
        reason=reason,
        original=example.text,
        adversarial=example.text,
        other=example.texts[1 - example.attacked] if len(example.texts) == 2 else None,
        label=example.label,
        words=len(Words.of(example.text).words),
    )
