"""Labelled texts for one purpose, and samples of them."""

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
"""Share of the training part that is held out for selection if a task has no dev split, or for tests if it has none."""

HELD_OUT_TEST = "held-out-test"
"""The name of the part held out for tests if a task has no test split."""

# Scores have no classes: the same share is drawn from each fifth of the sorted scores.
_STRATA = 5


@dataclass(frozen=True)
class Part:
    """Labelled texts for one purpose.

    Attributes:
        split: the split's name; "held-out" or "held-out-test" for a part of the training split.
        texts: n texts, or pairs of texts.
        labels: n class numbers, or for a regression n scores (floats).
        source: the file or hub data set.
        data_sha256: hash of the whole split, as in :class:`holdfast.data.registry.Labelled`.
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
        """True if the labels are scores."""
        return isinstance(self.labels[0], float) if len(self) else False

    @property
    def items_sha256(self) -> str:
        """Hash of the texts in their order: equal for parts with the same texts, however they were selected."""
        return hashlib.sha256(json.dumps(self.texts).encode()).hexdigest()

    def rows(self, numbers: Iterable[int], split: str | None = None) -> Part:
        """Return a part with some of the rows."""
        chosen = list(numbers)
        texts, labels = [self.texts[i] for i in chosen], [self.labels[i] for i in chosen]
        return Part(split or self.split, texts, labels, self.source, self.data_sha256)


def sample(part: Part, count: int, seed: int) -> Part:
    """Return at most ``count`` of the rows, drawn with the seed and kept in their order."""
    if count >= len(part):
        return part
    return part.rows(sorted(random.Random(seed).sample(range(len(part)), count)))


def hold_out(part: Part, seed: int, *, grouped: bool = False, split: str = "held-out") -> tuple[Part, Part]:
    """Split off a tenth of each class's rows, drawn with the seed, as ``split``; return it and the rest.

    At least one row of a class that has two is held out. ``grouped`` keeps pairs with the same first text together; the
    held-out part may then be smaller.
    """
    draw = random.Random(seed)
    strata = _strata(part)
    quota = {name: max(round(HELD_OUT * len(rows)), int(len(rows) > 1)) for name, rows in strata.items()}
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
    """Return the rows of each class, or of each fifth of the scores."""
    if part.graded:
        ranked = sorted(range(len(part)), key=part.labels.__getitem__)
        return {fifth: sorted(ranked[fifth * len(part) // _STRATA : (fifth + 1) * len(part) // _STRATA])
                for fifth in range(_STRATA)}  # fmt: skip
    rows: dict[float, list[int]] = {label: [] for label in sorted(set(part.labels))}
    for row, label in enumerate(part.labels):
        rows[label].append(row)
    return rows


def _groups(part: Part, draw: random.Random) -> list[list[int]]:
    """Return the groups of rows with the same first text, in random order."""
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(part.texts):
        groups.setdefault(joined(text[:1], ascii_only=False), []).append(row)
    drawn = list(groups.values())
    draw.shuffle(drawn)
    return drawn


def without(part: Part, excluded: Mapping[str, Sequence[Text]], premises: bool = False) -> tuple[Part, dict[str, int]]:
    """Return the rows whose text is in none of the sets, and the number of rows that each set removed.

    A row that is in several sets counts for the first. With ``premises``, a row is also removed if the first text of
    its pair is the first text of a pair in a set.
    """

    def marks(text: Text) -> set[str]:
        return keys(text) | keys(text[:1]) if premises else keys(text)

    taken = dict.fromkeys(excluded, 0)
    excluded_marks = {name: {key for text in texts for key in marks(text)} for name, texts in excluded.items()}
    kept = []
    for row, text in enumerate(part.texts):
        own_marks = marks(text)
        because = next((name for name, others in excluded_marks.items() if not own_marks.isdisjoint(others)), None)
        if because is None:
            kept.append(row)
        else:
            taken[because] += 1
    return part.rows(kept), taken
