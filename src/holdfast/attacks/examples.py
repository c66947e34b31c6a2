"""What is attacked, and what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from holdfast.adversary.words import Words

Outcome = Literal["succeeded", "failed", "skipped"]


@dataclass(frozen=True)
class Example:
    """One text, or one pair of which one text is attacked.

    Attributes:
        number: its place in the data, from 0; names it in journals and results.
        texts: one text or two, as the model takes them.
        attacked: which of them may be changed.
        label: the right class, the gold score, or None where there is neither.
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
        """What the model takes when the attacked text is another."""
        return (*self.texts[: self.attacked], text, *self.texts[self.attacked + 1 :])


@dataclass(frozen=True)
class Verdict:
    """What a target makes of a text, seen from the attack's goal.

    Attributes:
        score: how near to the goal; higher is nearer.
        noise: scores that differ by no more than this are equal. The last digits of what a model computes change with
            the batch a text is in, and no attack may depend on that.
        reached: whether the goal is reached.
        label: the predicted class, or None where there are none.
        value: what the model said, for people: the probability of the right class, a cosine, a similarity score.
        scores: the probabilities of all classes, where there are any.
        neighbours: the texts that are nearest, nearest first, where the goal is about them.
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
    """What an attack made of one example; the row of journals and results.

    Attributes:
        number: the example's.
        recipe: the attack's name.
        outcome: "succeeded", "failed" (the adversarial text is the best that was found), or "skipped".
        reason: why it was skipped.
        original: the attacked text.
        adversarial: what became of it.
        other: the text of the pair that was left alone.
        label: the right class or the gold score.
        before: what the model said of the original (see :class:`Verdict`), with ``label`` where it predicts classes
            and ``neighbours`` where the goal is about them.
        after: what it said of the adversarial text, computed in fp32.
        words: words of the original.
        changed: ``(place, word, what stands there now)`` for each changed word, in the order of the changes.
        queries: texts the target was asked about, repeated ones included, as the papers count.
        passes: texts that really went through the target.
        similarity: cosine between original and adversarial text by the encoder that the result names.
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
    queries: int = 0
    passes: int = 0
    similarity: float | None = None

    def row(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "changed": [list(change) for change in self.changed]}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Attempt:
        """The inverse of :meth:`row`."""
        return cls(**{**row, "changed": tuple((place, old, new) for place, old, new in row["changed"])})

    @property
    def correct_before(self) -> bool:
        """Whether the model was right about the original; True where there is no right and wrong."""
        return bool(self.before.get("correct", True))


def told(verdict: Verdict, example: Example, classes: bool) -> dict[str, Any]:
    """A verdict as results hold it."""
    if not classes:
        return {"value": verdict.value, **({"neighbours": list(verdict.neighbours)} if verdict.neighbours else {})}
    return {"label": verdict.label, "value": verdict.value, "correct": verdict.label == example.label}


def skipped(example: Example, recipe: str, reason: str) -> Attempt:
    """An example that cannot be attacked."""
    text = example.text
    other = example.texts[1 - example.attacked] if len(example.texts) == 2 else None
    return Attempt(
        number=example.number,
        recipe=recipe,
        outcome="skipped",
        reason=reason,
        original=text,
        adversarial=text,
        other=other,
        label=example.label,
        words=len(Words.of(text).words),
    )
