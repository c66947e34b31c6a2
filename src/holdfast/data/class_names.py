"""Names of classes, and rules for when two names mean the same class.

Names are compared exactly, then without their case, then without their punctuation, then by the synonyms of `SYNONYMS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.data.tasks import TASKS

SYNONYMS = (
    ("negative", "neg"),
    ("neutral", "neu", "notenoughinfo"),
    ("positive", "pos"),
    ("entailment", "entail", "entails", "entailed", "supports", "supported"),
    ("contradiction", "contradict", "contradicts", "contradictory", "refutes", "refuted"),
    ("notentailment", "notentail", "notentailed"),
    ("same", "duplicate", "isduplicate", "paraphrase", "isparaphrase", "equivalent"),
    ("notsame", "notduplicate", "notparaphrase", "notequivalent"),
    ("acceptable", "grammatical"),
    ("notacceptable", "unacceptable", "ungrammatical"),
    ("objective", "obj"),
    ("subjective", "subj"),
    ("sports", "sport"),
    ("scitech", "scienceandtechnology", "sciencetechnology"),
    ("meanoftransportation", "meansoftransportation"),
    ("abbr", "abbreviation"),
    ("enty", "entity"),
    ("desc", "description"),
    ("hum", "human"),
    ("loc", "location"),
    ("num", "numeric", "number"),
)
"""Names of one class in common data sets and models, in lower case and without punctuation."""

ZERO_AND_ONE = (("negative", "positive"), ("notsame", "same"), ("notacceptable", "acceptable"))
"""Usual meanings of the classes 0 and 1. There is none for inference: RTE and WNLI have opposite numbers."""

_SYNONYM = {name: names[0] for names in SYNONYMS for name in names}
_NEGATION = re.compile(r"^(not|non)[\W_]+", re.IGNORECASE)
_NOT_ALNUM = re.compile(r"[\W_]+")
_STARS = re.compile(r"([0-9])(?:\.0)?[\W_]*stars?", re.IGNORECASE)
_NUMBER = re.compile(r"([+-]?[0-9]{1,9})(?:\.0{1,9})?")
# The default names in transformers of classes to which a model's author gave no names.
_LABEL = re.compile(r"label[\W_]*([0-9]{1,9})", re.IGNORECASE)
SHOWN = 20
"""Maximum number of names in a message; the rest of a longer list is counted."""


@dataclass(frozen=True)
class ClassNames:
    """The classes of a model or of a task.

    Attributes:
        owner: the model or task, as the user named it.
        names: the names, in the order of the classes' numbers.
        meanings: the meanings of names that are only numbers, in the same order; () if they are unknown.
        are_columns: True for the columns of a function's output, which have no names.
    """

    owner: str
    names: tuple[str, ...]
    meanings: tuple[str, ...] = ()
    are_columns: bool = False

    @classmethod
    def of(cls, owner: str, names: Sequence[str], task: str | None = None) -> ClassNames:
        """Build names, with the meanings of numbers in the known task ``task`` if it has these classes."""
        numbers = [whole_number(name) for name in names]
        known = next((known for known in TASKS if known.name == task and known.meanings), None)
        meanings: tuple[str, ...] = ()
        if known is not None and None not in numbers:
            by_number = dict(zip((whole_number(name) for name in known.classes or ()), known.meanings, strict=True))
            if set(numbers) <= set(by_number):
                meanings = tuple(by_number[number] for number in numbers)
        return cls(owner, tuple(names), meanings)

    @classmethod
    def of_columns(cls, owner: str, count: int) -> ClassNames:
        """Build the names of a function's columns: their numbers from 0."""
        return cls(owner, tuple(map(str, range(count))), are_columns=True)

    def listed(self) -> str:
        """Return the names and their meanings, joined by commas."""
        named = [
            f"{name} ({meaning})" if meaning else name
            for name, meaning in zip(self.names, self.meanings or ("",) * len(self.names), strict=True)
        ]
        return listed(named)


def are_generic(names: Sequence[str]) -> bool:
    """Return True if all names are the default ones of transformers, ``LABEL_0``, ``LABEL_1``, …"""
    return all(_LABEL.fullmatch(name) for name in names)


def are_numbers(names: Sequence[str]) -> bool:
    """Return True if all names are whole numbers or default names."""
    return all(label_number(name) is not None for name in names)


def label_number(name: str) -> int | None:
    """Return the number in a default name, or the value of a name that is a whole number; None for other names."""
    found = _LABEL.fullmatch(name)
    return int(found[1]) if found else whole_number(name)


def whole_number(name: str) -> int | None:
    """Return the value of a name that is a whole number (1 and 1.0 are the same), else None."""
    found = _NUMBER.fullmatch(name)
    return int(found[1]) if found else None


def plain(name: str) -> str:
    """Return the name in lower case without punctuation; for a number, or a number of stars, the number."""
    name = name.strip()
    number = whole_number(name)
    if number is None and (stars := _STARS.fullmatch(name)):
        number = int(stars[1])
    if number is not None:
        return str(number)
    return _NOT_ALNUM.sub("", _NEGATION.sub("not", name).casefold()) or name


def concept(name: str) -> str:
    """Return the first of the names that mean the same as this one."""
    spelt = plain(name)
    return _SYNONYM.get(spelt, spelt)


KEYS: tuple[Callable[[str], str], ...] = (str, str.casefold, plain, concept)
"""Functions that return the same for two names of one class, the strictest first."""


def listed(names: Sequence[str]) -> str:
    """Return names joined by commas, at most `SHOWN` of them."""
    more = f" … and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
