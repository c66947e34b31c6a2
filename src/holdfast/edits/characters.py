"""Small changes inside a word: typos, look-alike letters, case. Pure functions of a word and a random generator.

The edits of TextBugger (Li et al. 2019, §III-C): insert a space into the word, delete an inner letter, swap two inner
letters, replace a letter by one that looks similar or by one beside it on the keyboard. The attack decides which words
are changed. Each function returns None for a word that it cannot change.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

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


def change_case(word: str, rng: random.Random) -> str | None:
    """Change the word to lower case, capitalised or upper case; None if all forms are equal to the word."""
    forms = [form for form in dict.fromkeys((word.lower(), word.capitalize(), word.upper())) if form != word]
    return rng.choice(forms) if forms else None
