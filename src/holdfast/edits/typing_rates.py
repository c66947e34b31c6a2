"""Rates of people's typing errors inside a word, from the table `typing_rates.tsv`, and words drawn by them.

A wrongly typed word is a *misspelling* (its writer would spell it so) or a *slip* (the fingers missed). The rates of
misspellings are fitted on words as learners of English wrote them; those of slips are what typed questions have beside
misspellings (`benchmarks/fit_typing.py`). The table holds shares of operations, places and letters, and no words.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from holdfast.edits.typing_errors import KEYBOARD
from holdfast.edits.words import STOP_WORDS

Shares = Mapping[str, float]

MISSPELLING = "misspelling"
SLIP = "slip"
PLACES = ("first", "second", "middle", "next to last", "last")
LENGTHS = ("1-3", "4-6", "7-9", "10+")
NEAR, SPLIT, JOIN = "insert near", "split", "join"
_TRIES = 8


def length_class(word: str) -> str:
    """Return the word's class of length, one of `LENGTHS`."""
    return LENGTHS[min((max(len(word), 1) - 1) // 3, len(LENGTHS) - 1)]


def frequency_class(word: str) -> str:
    """Return "function" for one of the few hundred function words, which are by far the most frequent, else "other"."""
    return "function" if word.lower() in STOP_WORDS else "other"


def place_class(index: int, length: int) -> str:
    """Return the place of letter ``index`` in a word, one of `PLACES`; the beginning goes before the end."""
    if index < 2:
        return PLACES[index]
    return {length - 1: "last", length - 2: "next to last"}.get(index, "middle")


@dataclass(frozen=True)
class TypingRates:
    """Rates of typing errors: groups of shares, each of which sums to 1.

    Attributes:
        groups: by (table, key), the share of each outcome. For both kinds of error: ``KIND/count``,
            ``KIND/operation`` (key: length, or empty for all) and ``KIND/place`` (key: operation). Of slips:
            ``slip/key`` (by frequency), ``slip/capital``, ``slip/letter`` (key: operation; " last": of the word's last
            letter). Of misspellings: ``misspelling/apostrophe``, ``misspelling/letter``, ``misspelling/substitute`` and
            ``misspelling/insert`` (key: letter). Others: ``mixture``, ``risk``, ``final mark``.
    """

    groups: Mapping[tuple[str, str], Shares]

    @classmethod
    def parse(cls, text: str) -> TypingRates:
        """Read a table: a header, then rows of table, key, outcome and share."""
        groups: dict[tuple[str, str], dict[str, float]] = {}
        for row in text.rstrip("\n").split("\n")[1:]:
            table, key, outcome, share = row.split("\t")
            groups.setdefault((table, key), {})[outcome] = float(share)
        return cls(groups)

    def shares(self, table: str, key: str) -> Shares:
        """Return a group; an empty one if the table has none."""
        return self.groups.get((table, key), {})

    def kinds(self, words: Sequence[str]) -> list[tuple[float, float]]:
        """Return for each word of a text the shares of its misspellings and slips among the text's typing errors.

        A slip may happen at each key (a capital needs one more), somewhat more often in function words; a misspelling
        at a rate of the word's length and frequency. Words with a digit have none: an error could change their meaning.
        """
        risks = [0.0 if _has_digit(word) else self._risk(word) for word in words]
        keys = [0.0 if _has_digit(word) else self._keys(word) for word in words]
        mixture = self.shares("mixture", "")
        misspelling, slip = mixture[MISSPELLING] / (sum(risks) or 1.0), mixture[SLIP] / (sum(keys) or 1.0)
        return [(misspelling * risk, slip * length) for risk, length in zip(risks, keys, strict=True)]

    def _risk(self, word: str) -> float:
        return self.shares("risk", "")[f"{frequency_class(word)} {length_class(word)}"]

    def _keys(self, word: str) -> float:
        return (len(word) + word[:1].isupper()) * self.shares(f"{SLIP}/key", "").get(frequency_class(word), 1.0)

    def operations(self, kind: str, word: str, rng: random.Random) -> list[str]:
        """Draw the operations of a wrong word: mostly one, of a longer word sometimes more."""
        key = length_class(word)
        count = int(_drawn(self.shares(f"{kind}/count", key), rng))
        shares = self.shares(f"{kind}/operation", key) or self.shares(f"{kind}/operation", "")
        return [_drawn(shares, rng) for _ in range(count)]

    def drawn(self, table: str, rng: random.Random) -> str:
        """Draw an outcome of a table with one group; an empty string if there is no such table."""
        shares = self.shares(table, "")
        return _drawn(shares, rng) if shares else ""

    def mistyped(self, kind: str, word: str, operations: Sequence[str], rng: random.Random) -> str | None:
        """Return the word with the operations applied; one that does not apply is exchanged for another.

        None if no operation changes the word (as in scripts without keys and case, a word of one letter).
        """
        for attempt in range(_TRIES):
            new = word
            for operation in operations if not attempt else self.operations(kind, word, rng):
                new = self._applied(kind, new, operation, rng) or new
            if new != word and new.strip():
                return new
        return None

    def _applied(self, kind: str, word: str, operation: str, rng: random.Random) -> str | None:
        places = self.place_weights(kind, operation, word)
        if not any(places):
            return None
        index = rng.choices(range(len(word)), places)[0]
        letter = word[index].lower()
        if operation in ("substitute", "insert", NEAR):
            source = MISSPELLING if operation == "insert" else kind
            choices = self.shares(f"{source}/{operation}", letter + _end(word, index))
            choices = choices or dict.fromkeys(KEYBOARD.get(letter, ""), 1.0)
            return _with_letter(word, index, _drawn(choices, rng), operation, rng) if choices else None
        return _changed(word, index, operation)

    def place_weights(self, kind: str, operation: str, word: str) -> list[float]:
        """Return how likely an operation hits each letter of a word, relative to the others; 0 where it cannot."""
        return [
            place * self._letter(kind, operation, word, index) if _applies(operation, word, index) else 0.0
            for index, place in enumerate(self._places(kind, operation.removesuffix(" near"), len(word)))
        ]

    def _letter(self, kind: str, operation: str, word: str, index: int) -> float:
        """Return how likely the operation hits a letter; one that the table lacks is rare in a misspelling."""
        shares = self.shares(f"{kind}/letter", operation + _end(word, index))
        return shares.get(word[index].lower(), 0.001) if shares else 1.0

    def _places(self, kind: str, operation: str, length: int) -> list[float]:
        """Return the weight of each place in a word: a class's share is divided among the places of the class."""
        classes = [place_class(index, length) for index in range(length)]
        shares = self.shares(f"{kind}/place", operation)
        if not shares:
            return [1.0] * length
        return [shares.get(name, 0.0) / classes.count(name) for name in classes]


@functools.cache
def typing_rates() -> TypingRates:
    """Return the fitted rates, which come with holdfast."""
    file = resources.files("holdfast.edits") / "typing_rates.tsv"
    return TypingRates.parse(file.read_text(encoding="utf-8"))


def _end(word: str, index: int) -> str:
    return " last" if index == len(word) - 1 else ""


def _applies(operation: str, word: str, index: int) -> bool:
    letter, before, after = word[index], word[index - 1 : index], word[index + 1 : index + 2]
    if operation == "single":
        return letter == after
    if operation == "delete":
        return len(word) > 1 and letter != after and letter != before
    if operation == "swap":
        return bool(after) and letter != after
    if operation == SPLIT:
        return index > 0
    return operation != JOIN and letter.isalpha()


def _changed(word: str, index: int, operation: str) -> str | None:
    letter, rest = word[index], word[index + 1 :]
    if operation in ("delete", "single"):
        return word[:index] + rest
    if operation == "double":
        return word[: index + 1] + letter + rest
    if operation == "swap":
        return word[:index] + rest[0] + letter + rest[1:]
    return f"{word[:index]} {letter}{rest}" if operation == SPLIT else None


def _with_letter(word: str, index: int, letter: str, operation: str, rng: random.Random) -> str:
    """Replace letter ``index``, or insert one after it; a key hit beside the right one may also come before it."""
    old = word[index]
    new = letter.upper() if old.isupper() and word.isupper() else letter
    if operation == "substitute":
        return word[:index] + (letter.upper() if old.isupper() else letter) + word[index + 1 :]
    at = index if operation == NEAR and rng.random() < 0.5 else index + 1
    return word[:at] + new + word[at:]


def _drawn(shares: Shares, rng: random.Random) -> str:
    return rng.choices(list(shares), list(shares.values()))[0]


def _has_digit(word: str) -> bool:
    return any(letter.isdigit() for letter in word)
