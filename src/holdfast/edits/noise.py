"""Noise in a text, at a rate: typing errors inside words, and errors with whole words.

Both functions depend only on the text, the rate and the state of `rng`, and change no global state.
"""

from __future__ import annotations

import random
import re

from holdfast.edits.typing_errors import draw_typing_error

# Minimum length of a misspelt word: an error in a shorter one often gives another word ("for" -> "far").
_MIN_LETTERS = 4
_WORD = re.compile(rf"[^\W\d_]{{{_MIN_LETTERS},}}")
_KINDS = ("swap", "drop-any", "double", "key")


def _check_rate(rate: float) -> None:
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"rate must be between 0 and 1, not {rate}")


def character_noise(text: str, rng: random.Random, rate: float = 0.2) -> str:
    """Misspell a share of the words as in fast typing: one edit per changed word, which keeps its first letter.

    The edits: swap two adjacent inner letters, drop a letter, double a letter, hit a neighbouring QWERTY key.

    Args:
        text: any text.
        rng: the random number generator; its state advances.
        rate: probability of a change for each word of four letters or more, 0 to 1. Above 0, at least one such word
            is changed if the text has one; with 0 the text is returned unchanged.
    """
    _check_rate(rate)
    words = list(_WORD.finditer(text))
    if not words or rate == 0.0:
        return text
    chosen = [word for word in words if rng.random() < rate] or [rng.choice(words)]
    pieces, end = [], 0
    for word in chosen:
        # "drop-any" applies to every word, so there always is an error.
        pieces += [text[end : word.start()], draw_typing_error(word.group(), rng, _KINDS) or word.group()]
        end = word.end()
    return "".join(pieces) + text[end:]


def word_noise(text: str, rng: random.Random, rate: float = 0.1) -> str:
    """Drop, swap with the next word, or double a share of the words.

    White space between words becomes one space.

    Args:
        text: any text.
        rng: the random number generator; its state advances.
        rate: probability of a change for each word, 0 to 1. Above 0, a text that is not blank always changes, and at
            least one word is left; with 0 the text is returned unchanged.
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
    # No word was drawn, or the edits had no effect (equal words swapped) or dropped all words: make one visible edit.
    i = rng.randrange(len(words))
    again = 0 if len(words) > 1 and rng.random() < 0.5 else 2
    return " ".join(words[:i] + words[i : i + 1] * again + words[i + 1 :])
