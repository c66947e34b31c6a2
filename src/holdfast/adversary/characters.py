"""Small changes inside a word: typing slips, look-alike letters, case. Pure functions of a word and a source of chance.

The edits of TextBugger (Li et al. 2019, §III-C): a space inside the word, an inner letter deleted, two inner letters
exchanged, a letter replaced by one that looks like it or that lies beside it on the keyboard. None of them keeps a list
of which words it may touch; that is the recipe's decision. Each returns None for a word that it cannot change.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


def _keyboard() -> dict[str, str]:
    """Each letter's neighbours on a QWERTY keyboard, where every row is shifted right by about half a key."""
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
"""A letter of another script (Cyrillic, Greek, Armenian, IPA) that looks like the Latin one.

All are letters, so that a word stays one word; TextBugger's own examples (o to 0, l to 1, a to @) are not.
"""


def insert_space(word: str, rng: random.Random) -> str | None:
    """A space before one of the letters after the first; None below two letters."""
    if len(word) < 2:
        return None
    i = rng.randrange(1, len(word))
    return f"{word[:i]} {word[i:]}"


def delete_letter(word: str, rng: random.Random, *, keep_last: bool = True) -> str | None:
    """One letter after the first is lost, with ``keep_last`` (TextBugger) never the last; None where there is none."""
    end = len(word) - keep_last
    if end < 2:
        return None
    i = rng.randrange(1, end)
    return word[:i] + word[i + 1 :]


def swap_letters(word: str, rng: random.Random) -> str | None:
    """Two unequal adjacent inner letters change places; None where there are none."""
    places = [i for i in range(1, len(word) - 2) if word[i] != word[i + 1]]
    if not places:
        return None
    i = rng.choice(places)
    return word[:i] + word[i + 1] + word[i] + word[i + 2 :]


def homoglyph(word: str, rng: random.Random) -> str | None:
    """One letter becomes one that looks like it (`HOMOGLYPHS`); None where no letter has such a one."""
    places = [i for i, letter in enumerate(word) if letter in HOMOGLYPHS]
    if not places:
        return None
    i = rng.choice(places)
    return word[:i] + HOMOGLYPHS[word[i]] + word[i + 1 :]


def keyboard_typo(word: str, rng: random.Random) -> str | None:
    """One letter after the first becomes a neighbouring key (`KEYBOARD`), in the same case; None where none can."""
    places = [i for i in range(1, len(word)) if word[i].lower() in KEYBOARD]
    if not places:
        return None
    i = rng.choice(places)
    key = rng.choice(KEYBOARD[word[i].lower()])
    return word[:i] + (key.upper() if word[i].isupper() else key) + word[i + 1 :]


def change_case(word: str, rng: random.Random) -> str | None:
    """The word in small letters, with a capital, or in capitals, as it is not yet; None where these do not differ."""
    forms = [form for form in dict.fromkeys((word.lower(), word.capitalize(), word.upper())) if form != word]
    return rng.choice(forms) if forms else None
