"""Typing errors inside a word: the table `TYPING_ERRORS` of all kinds, and functions that draw from it.

"space", "drop", "swap", "look-alike" and "key" are the edits of TextBugger (Li et al. 2019, §III-C). Each kind is a
pure function of a word and a random generator, and returns None for a word that it cannot change.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _keyboard() -> dict[str, str]:
    """Return each letter's neighbours on a QWERTY keyboard; each row is shifted right by about half a key."""
    position = {letter: (r, c) for r, row in enumerate(_ROWS) for c, letter in enumerate(row)}
    near = {(0, -1), (0, 1), (-1, 0), (-1, 1), (1, -1), (1, 0)}
    return {a: "".join(b for b, (s, d) in position.items() if (s - r, d - c) in near) for a, (r, c) in position.items()}


KEYBOARD: Mapping[str, str] = _keyboard()
"""The lower-case letters beside each lower-case letter on a QWERTY keyboard."""

HOMOGLYPHS: Mapping[str, str] = dict(
    zip(
        "abcdeghijklmnopqrstuvwxyzABCEGHIJKMNOPQSTUVWXYZ",
        "аЬсԁеɡһіјкӏмոорԛгѕтսѵԝхуᴢАВСЕԌНІЈКМΝОРԚЅТՍѴԜХҮΖ",
        strict=True,
    )
)
"""Similar letters of other scripts (Cyrillic, Greek, Armenian, IPA), by Latin letter.

All are letters, so that a word remains one word; TextBugger's own examples (o to 0, l to 1, a to @) are not.
"""


def insert_space(word: str, rng: random.Random) -> str | None:
    """Insert a space before a random letter, not the first; None if the word has less than two letters."""
    if len(word) < 2:
        return None
    i = rng.randrange(1, len(word))
    return f"{word[:i]} {word[i:]}"


def delete_letter(word: str, rng: random.Random, *, keep_last: bool = True) -> str | None:
    """Delete a random letter, not the first and, with ``keep_last`` (TextBugger), not the last; None if impossible."""
    end = len(word) - keep_last
    if end < 2:
        return None
    i = rng.randrange(1, end)
    return word[:i] + word[i + 1 :]


def swap_letters(word: str, rng: random.Random) -> str | None:
    """Swap two adjacent, different inner letters; None if there are none."""
    places = [i for i in range(1, len(word) - 2) if word[i] != word[i + 1]]
    if not places:
        return None
    i = rng.choice(places)
    return word[:i] + word[i + 1] + word[i] + word[i + 2 :]


def homoglyph(word: str, rng: random.Random) -> str | None:
    """Replace a random letter by a similar one (`HOMOGLYPHS`); None if impossible."""
    places = [i for i, letter in enumerate(word) if letter in HOMOGLYPHS]
    if not places:
        return None
    i = rng.choice(places)
    return word[:i] + HOMOGLYPHS[word[i]] + word[i + 1 :]


def keyboard_typo(word: str, rng: random.Random) -> str | None:
    """Replace a random letter, not the first, by a neighbouring key (`KEYBOARD`), in its case; None if impossible."""
    places = [i for i in range(1, len(word)) if word[i].lower() in KEYBOARD]
    if not places:
        return None
    i = rng.choice(places)
    key = rng.choice(KEYBOARD[word[i].lower()])
    return word[:i] + (key.upper() if word[i].isupper() else key) + word[i + 1 :]


def double_letter(word: str, rng: random.Random) -> str | None:
    """Double a random letter, not the first; None if the word has less than two letters."""
    if len(word) < 2:
        return None
    i = rng.randrange(1, len(word))
    return word[: i + 1] + word[i:]


def change_case(word: str, rng: random.Random) -> str | None:
    """Change the word to lower case, capitalised or upper case; None if all forms are equal to the word."""
    forms = [form for form in dict.fromkeys((word.lower(), word.capitalize(), word.upper())) if form != word]
    return rng.choice(forms) if forms else None


# --- the table -----------------------------------------------------------------------------------------------------


class TypingError(Protocol):
    """A kind of typing error: returns the changed word, or None for a word that it cannot change."""

    def __call__(self, word: str, rng: random.Random) -> str | None:
        """Return the changed word."""


TYPING_ERRORS: Mapping[str, TypingError] = {
    "key": keyboard_typo,
    "swap": swap_letters,
    "drop": delete_letter,
    "drop-any": functools.partial(delete_letter, keep_last=False),
    "double": double_letter,
    "space": insert_space,
    "case": change_case,
    "look-alike": homoglyph,
}
"""All kinds of typing errors, by name."""


def draw_typing_error(word: str, rng: random.Random, kinds: Sequence[str]) -> str | None:
    """Try the kinds in random order, and return the first result that differs from the word; None if there is none."""
    return first_typing_error(word, rng, rng.sample(kinds, len(kinds)))


def first_typing_error(word: str, rng: random.Random, kinds: Iterable[str]) -> str | None:
    """Try the kinds in the given order, and return the first result that differs from the word; None if there is none.

    Kinds after that one draw nothing from ``rng``.
    """
    errors = (TYPING_ERRORS[kind](word, rng) for kind in kinds)
    return next((error for error in errors if error is not None and error != word), None)


def typing_errors(word: str, rng: random.Random, kinds: Iterable[str], tries: int = 1) -> list[str]:
    """Return the distinct results of ``tries`` draws of each kind, without the word itself."""
    errors = [TYPING_ERRORS[kind](word, rng) for kind in kinds for _ in range(tries)]
    return list(dict.fromkeys(error for error in errors if error is not None and error != word))


# --- all results ---------------------------------------------------------------------------------------------------


def every_typing_error(word: str, kinds: Iterable[str]) -> list[str]:
    """Return all distinct results that draws of some kinds can have, without the word itself, in a fixed order."""
    found = (each for kind in kinds for each in _results(kind, word))
    return list(dict.fromkeys(each for each in found if each != word))


def _results(kind: str, word: str) -> Iterator[str]:
    """Yield all results of a kind."""
    inner = range(1, len(word))
    if kind == "key":
        for i in inner:
            for key in KEYBOARD.get(word[i].lower(), ""):
                yield word[:i] + (key.upper() if word[i].isupper() else key) + word[i + 1 :]
    elif kind == "swap":
        yield from (word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(1, len(word) - 2))
    elif kind in ("drop", "drop-any"):
        last = len(word) - (kind == "drop")
        yield from (word[:i] + word[i + 1 :] for i in range(1, last))
    elif kind == "double":
        yield from (word[: i + 1] + word[i:] for i in inner)
    elif kind == "space":
        yield from (f"{word[:i]} {word[i:]}" for i in inner)
    elif kind == "case":
        yield from (word.lower(), word.capitalize(), word.upper())
    else:
        assert kind == "look-alike", kind
        yield from (
            word[:i] + HOMOGLYPHS[letter] + word[i + 1 :] for i, letter in enumerate(word) if letter in HOMOGLYPHS
        )
