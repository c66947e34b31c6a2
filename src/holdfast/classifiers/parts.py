"""Labelled texts for one purpose, and the drawing of some of them."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.attacks.classifier import Text
from holdfast.classifiers.text_keys import joined, keys

HELD_OUT = 0.1
"""The share of the training part that selects where a task has no dev split, and that tests where it has no other."""

HELD_OUT_TEST = "held-out-test"
"""What the part is called that tests where a task has no test split."""

# Of the scores, which have no classes, every fifth of them is drawn from alike.
_STRATA = 5


@dataclass(frozen=True)
class Part:
    """Labelled texts for one purpose.

    Attributes:
        split: the split's name; "held-out" or "held-out-test" for a part of the training split.
        texts: n texts, or pairs of texts.
        labels: n class numbers, or for a regression n scores, all of them floats.
        source: the file or hub data set.
        data_sha256: of the whole split, as :class:`holdfast.data.registry.Labelled` has it.
    """

    split: str
    texts: list[Text]
    labels: Sequence[float]
    source: str
    data_sha256: str

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def graded(self) -> bool:
        """Whether its labels are scores."""
        return isinstance(self.labels[0], float) if len(self) else False

    @property
    def items_sha256(self) -> str:
        """Of its texts in their order: equal for parts of the same texts, whatever drew them or left others out."""
        return hashlib.sha256(json.dumps(self.texts).encode()).hexdigest()

    def rows(self, numbers: Iterable[int], split: str | None = None) -> Part:
        """Some of its rows."""
        chosen = list(numbers)
        texts, labels = [self.texts[i] for i in chosen], [self.labels[i] for i in chosen]
        return Part(split or self.split, texts, labels, self.source, self.data_sha256)


def sample(part: Part, count: int, seed: int) -> Part:
    """At most ``count`` of the rows, drawn by the seed and left in their order."""
    if count >= len(part):
        return part
    return part.rows(sorted(random.Random(seed).sample(range(len(part)), count)))


def hold_out(
    part: Part, seed: int, share: float = HELD_OUT, *, grouped: bool = False, split: str = "held-out"
) -> tuple[Part, Part]:
    """A share of each class's rows, drawn by the seed, and the rest.

    Args:
        part: what is drawn from.
        seed: of the drawing.
        share: of each class; at least one row of a class that has two.
        grouped: pairs with the same first text stay together; the share is then never more, and may be less.
        split: what the share is called.
    """
    draw = random.Random(seed)
    strata = _strata(part)
    quota = {name: max(round(share * len(rows)), int(len(rows) > 1)) for name, rows in strata.items()}
    held: set[int] = set()
    if grouped:
        of = {row: name for name, rows in strata.items() for row in rows}
        for group in _groups(part, draw):
            taken = Counter(of[row] for row in group)
            if all(count <= quota[name] for name, count in taken.items()):
                held.update(group)
                for name, count in taken.items():
                    quota[name] -= count
    else:
        for name, rows in strata.items():
            held.update(draw.sample(rows, quota[name]))
    return part.rows(sorted(held), split), part.rows(row for row in range(len(part)) if row not in held)


def _strata(part: Part) -> dict[float, list[int]]:
    """The rows of each class, or of each fifth of the scores."""
    if part.graded:
        ranked = sorted(range(len(part)), key=part.labels.__getitem__)
        return {fifth: sorted(ranked[fifth * len(part) // _STRATA : (fifth + 1) * len(part) // _STRATA])
                for fifth in range(_STRATA)}  # fmt: skip
    rows: dict[float, list[int]] = {label: [] for label in sorted(set(part.labels))}
    for row, label in enumerate(part.labels):
        rows[label].append(row)
    return rows


def _groups(part: Part, draw: random.Random) -> list[list[int]]:
    """The rows with the same first text, in an order that is drawn."""
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(part.texts):
        groups.setdefault(joined(text[:1], ascii_only=False), []).append(row)
    drawn = list(groups.values())
    draw.shuffle(drawn)
    return drawn


def without(part: Part, barred: Mapping[str, Sequence[Text]], premises: bool = False) -> tuple[Part, dict[str, int]]:
    """The rows whose text is in none of the sets, and how many each set took out; a row counts for the first.

    With ``premises`` it is enough that the first text of a pair is the first text of one of theirs.
    """

    def marks(text: Text) -> set[str]:
        return keys(text) | keys(text[:1]) if premises else keys(text)

    taken = dict.fromkeys(barred, 0)
    theirs = {name: {key for text in texts for key in marks(text)} for name, texts in barred.items()}
    kept = []
    for row, text in enumerate(part.texts):
        own_marks = marks(text)
        because = next((name for name, others in theirs.items() if not own_marks.isdisjoint(others)), None)
        if because is None:
            kept.append(row)
        else:
            taken[because] += 1
    return part.rows(kept), taken
