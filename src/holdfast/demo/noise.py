"""Seeded text perturbations for the demo: typing slips inside words, and slips with whole words.

Both functions are pure: the same text, rate and state of `rng` give the same result, and nothing global is touched.
"""

from __future__ import annotations

import random
import re

from holdfast.adversary.characters import delete_letter, keyboard_typo, swap_letters

# Only words this long are misspelt: a slip in a shorter one often makes another word ("for" -> "far").
_MIN_LETTERS = 4
_WORD = re.compile(rf"[^\W\d_]{{{_MIN_LETTERS},}}")


def _dropped(word: str, rng: random.Random) -> str | None:
    """One letter after the first is lost."""
    return delete_letter(word, rng, keep_last=False)


def _doubled(word: str, rng: random.Random) -> str | None:
    """One letter after the first is typed twice."""
    i = rng.randrange(1, len(word))
    return word[: i + 1] + word[i:]


_EDITS = (swap_letters, _dropped, _doubled, keyboard_typo)


def _misspelt(word: str, rng: random.Random) -> str:
    """One edit of `word`, tried in random order; dropping always applies, so the word always changes."""
    for edit in rng.sample(_EDITS, len(_EDITS)):
        result = edit(word, rng)
        if result is not None:
            return result
    raise AssertionError("dropping a letter applies to every word")


def _check_rate(rate: float) -> None:
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"rate must be between 0 and 1, not {rate}")


def character_noise(text: str, rng: random.Random, rate: float = 0.2) -> str:
    """Misspell a share of the words, as quick fingers do: one edit in each word touched, its first letter kept.

    The edits: swap two adjacent inner letters, drop a letter, double a letter, hit a neighbouring QWERTY key.

    Args:
        text: any text.
        rng: the source of chance; its state advances.
        rate: chance of each word of four letters or more to be touched, 0 to 1. Above 0, at least one is touched
            where the text has one; at 0 the text comes back as it is.
    """
    _check_rate(rate)
    words = list(_WORD.finditer(text))
    if not words or rate == 0.0:
        return text
    touched = [word for word in words if rng.random() < rate] or [rng.choice(words)]
    pieces, end = [], 0
    for word in touched:
        pieces += [text[end : word.start()], _misspelt(word.group(), rng)]
        end = word.end()
    return "".join(pieces) + text[end:]


def word_noise(text: str, rng: random.Random, rate: float = 0.1) -> str:
    """Drop a word, swap it with the next, or write it twice, for a share of the words.

    White space between words becomes one space each.

    Args:
        text: any text.
        rng: the source of chance; its state advances.
        rate: chance of each word to be touched, 0 to 1. Above 0, the words of a text that is not blank always
            change, and at least one is left; at 0 the text comes back as it is.
    """
    _check_rate(rate)
    words = text.split()
    if not words or rate == 0.0:
        return text
    noisy: list[str] = []
    i = 0
    while i < len(words):
        here = words[i : i + 1]
        if rng.random() < rate:
            edit = rng.choice(("drop", "swap", "double"))
            if edit == "swap":
                here = words[i : i + 2][::-1]
            noisy += {"drop": [], "swap": here, "double": here * 2}[edit]
        else:
            noisy += here
        i += len(here)
    if noisy and noisy != words:
        return " ".join(noisy)
    # No word drawn, or the edits cancelled out (equal words swapped, everything dropped): one edit that must show.
    i = rng.randrange(len(words))
    again = 0 if len(words) > 1 and rng.random() < 0.5 else 2
    return " ".join(words[:i] + words[i : i + 1] * again + words[i + 1 :])
