"""Copies of the audited texts with random, non-adversarial changes.

Changes of words concern a tenth of them (`SHARE`, at least one), chosen from the words that an attack may change:
content words that the model reads. Each text has its own random generator, so that its copy does not depend on the
other texts.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.attacks.attack_state import changeable
from holdfast.attacks.constraints import ContentWords
from holdfast.attacks.encoder_targets import characters_read
from holdfast.audit.vector_movement import Copy, NumberedTexts
from holdfast.edits.synonym_edit import Exchange
from holdfast.edits.synonyms import Synonyms, draw_synonym
from holdfast.edits.typing_errors import draw_typing_error
from holdfast.edits.words import Words, draw_word, others

if TYPE_CHECKING:
    from holdfast.adversary.masked_lm import MaskedLM

SHARE = 0.1
LIKELY = 10
"""Number of most probable fillers from which one is sampled."""
_CONTENT_WORDS = (ContentWords(),)
_TYPING_ERRORS = ("key", "swap", "drop")

_FILLED_AT_ONCE = 256
"""Places that a masked LM fills between two looks at the clock."""

_Place = tuple[int, Words, int, random.Random]


def typing_error(words: Words, place: int, rng: random.Random) -> str | None:
    """Draw a neighbouring key, two swapped letters or a deleted letter for a word; None if none applies."""
    return draw_typing_error(words.words[place], rng, _TYPING_ERRORS)


def listed_synonym(synonyms: Synonyms) -> Exchange:
    """Create a function that draws one of a word's nearest neighbours."""
    return lambda words, place, rng: draw_synonym(synonyms, words.words[place], rng)


# --- copies ------------------------------------------------------------------------------------------------------


def exchanged_words(
    space: NumberedTexts, exchange: Exchange, *, kind: str, seed: int, deadline: float = float("inf")
) -> list[Copy]:
    """Return a copy of each text with `SHARE` of the words replaced; texts without replaceable words are left out.

    Args:
        space: the texts, whose numbers are part of their random seeds, and the model; truncated words are not changed.
        exchange: returns a substitute for a word, or None.
        kind: name that is part of the random seeds.
        seed: the random seed.
        deadline: no copy is begun after this time, by `time.monotonic`.
    """
    copies: list[Copy] = []
    for index, words, rng in _texts(space, kind, seed):
        if time.monotonic() > deadline:
            break
        new: dict[int, str] = {}
        for place in _places(space, words, rng):
            if len(new) == number_to_change(words):
                break
            word = exchange(words, place, rng)
            if word is not None:
                new[place] = word
        if new:
            copies.append(_copy(index, words, new))
    return copies


def filled_words(space: NumberedTexts, masked_lm: MaskedLM, *, seed: int, deadline: float = float("inf")) -> list[Copy]:
    """Return copies like `exchanged_words`, with substitutes from the `LIKELY` best fillers of a masked LM."""
    copies: list[Copy] = []
    chosen: list[_Place] = []
    for index, words, rng in _texts(space, "fillers", seed):
        places = _places(space, words, rng)[: number_to_change(words)]
        chosen += [(index, words, place, rng) for place in places]
        if len(chosen) >= _FILLED_AT_ONCE:
            copies += _filled(chosen, masked_lm)
            chosen = []
            if time.monotonic() > deadline:
                break
    return copies + _filled(chosen, masked_lm)


def _filled(chosen: Sequence[_Place], masked_lm: MaskedLM) -> list[Copy]:
    """Return copies of texts with a word drawn for each chosen place."""
    if not chosen:
        return []
    fillers = masked_lm.propose([words for _, words, _, _ in chosen], [place for _, _, place, _ in chosen])
    new: dict[int, tuple[Words, dict[int, str]]] = {}
    for (index, words, place, rng), candidates in zip(chosen, fillers, strict=True):
        word = draw_word(others(words.words[place], candidates)[:LIKELY], rng)
        if word is not None:
            new.setdefault(index, (words, {}))[1][place] = word
    return [_copy(index, words, exchanges) for index, (words, exchanges) in new.items()]


def number_to_change(words: Words) -> int:
    """Return the number of words to change: `SHARE` of all words, rounded, at least one."""
    return max(1, int(SHARE * len(words.words) + 0.5))


def _texts(space: NumberedTexts, kind: str, seed: int) -> Iterator[tuple[int, Words, random.Random]]:
    """Yield the index, the words and the random generator of each text."""
    for index, (text, number) in enumerate(zip(space.texts, space.numbers, strict=True)):
        yield index, Words.of(text), random.Random(f"{seed}/{kind}/{number}")


def _places(space: NumberedTexts, words: Words, rng: random.Random) -> list[int]:
    """Return the positions of the words that may be changed, in random order."""
    places = changeable(words, len(words.text), _CONTENT_WORDS)
    if places:  # a text without words may give no tokens
        places = changeable(words, characters_read(space.model, words.text), _CONTENT_WORDS)
    rng.shuffle(places)
    return places


def _copy(index: int, words: Words, new: Mapping[int, str]) -> Copy:
    text = words
    for place, word in new.items():
        text = text.exchanged(place, word)
    changed = tuple((place, words.words[place], new[place]) for place in sorted(new))
    return Copy(index, text.text, changed, len(new) / len(words.words))


def changed_texts(texts: Sequence[str], change: Callable[[str], str | None]) -> list[Copy]:
    """Return a copy of each text that a meaning-preserving change applies to."""
    copies = []
    for index, text in enumerate(texts):
        new = change(text)
        if new is None:
            continue
        before, after = Words.of(text).words, Words.of(new).words
        changed: tuple[tuple[int, str, str], ...] = ()
        if len(before) == len(after):  # a change of case may turn one letter into two characters
            pairs = enumerate(zip(before, after, strict=True))
            changed = tuple((place, old, word) for place, (old, word) in pairs if old != word)
        copies.append(Copy(index, new, changed, 1 / max(1, len(before))))
    return copies
