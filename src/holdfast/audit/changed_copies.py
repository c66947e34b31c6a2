"""Copies of the audited texts with random, non-adversarial changes.

Changes of words concern a tenth of those that the model reads (`SHARE`, at least one), chosen from the content words
among them, as an attack chooses. Each text has its own random generator, so that its copy does not depend on the other
texts.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Text:
    """A text with its index, its words, the number of characters that the model reads, and its random generator."""

    index: int
    words: Words
    seen: int
    rng: random.Random

    @property
    def read(self) -> int:
        """The number of words that the model reads."""
        return sum(end <= self.seen for _, end in self.words.spans)

    @property
    def to_change(self) -> int:
        """The number of words to change: `SHARE` of those that are read, rounded, at least one."""
        return max(1, int(SHARE * self.read + 0.5))

    def places(self) -> list[int]:
        """Return the positions of the words that may be changed, in random order."""
        places = changeable(self.words, self.seen, _CONTENT_WORDS)
        self.rng.shuffle(places)
        return places

    def copy(self, new: Mapping[int, str]) -> Copy:
        """Return the copy with new words at some places."""
        text = self.words
        for place, word in new.items():
            text = text.exchanged(place, word)
        changed = tuple((place, self.words.words[place], new[place]) for place in sorted(new))
        return Copy(self.index, text.text, changed, len(new) / self.read)


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
    for text in _texts(space, kind, seed):
        if time.monotonic() > deadline:
            break
        new: dict[int, str] = {}
        wanted = text.to_change
        for place in text.places():
            if len(new) == wanted:
                break
            word = exchange(text.words, place, text.rng)
            if word is not None:
                new[place] = word
        if new:
            copies.append(text.copy(new))
    return copies


def filled_words(space: NumberedTexts, masked_lm: MaskedLM, *, seed: int, deadline: float = float("inf")) -> list[Copy]:
    """Return copies like `exchanged_words`, with substitutes from the `LIKELY` best fillers of a masked LM."""
    copies: list[Copy] = []
    chosen: list[tuple[_Text, int]] = []
    for text in _texts(space, "fillers", seed):
        chosen += [(text, place) for place in text.places()[: text.to_change]]
        if len(chosen) >= _FILLED_AT_ONCE:
            copies += _filled(chosen, masked_lm)
            chosen = []
            if time.monotonic() > deadline:
                break
    return copies + _filled(chosen, masked_lm)


def _filled(chosen: Sequence[tuple[_Text, int]], masked_lm: MaskedLM) -> list[Copy]:
    """Return copies of texts with a word drawn for each chosen place."""
    if not chosen:
        return []
    fillers = masked_lm.propose([text.words for text, _ in chosen], [place for _, place in chosen])
    new: dict[int, tuple[_Text, dict[int, str]]] = {}
    for (text, place), candidates in zip(chosen, fillers, strict=True):
        word = draw_word(others(text.words.words[place], candidates)[:LIKELY], text.rng)
        if word is not None:
            new.setdefault(text.index, (text, {}))[1][place] = word
    return [text.copy(exchanges) for text, exchanges in new.values()]


def _texts(space: NumberedTexts, kind: str, seed: int) -> Iterator[_Text]:
    for index, (text, number) in enumerate(zip(space.texts, space.numbers, strict=True)):
        yield _Text(index, Words.of(text), characters_read(space.model, text), random.Random(f"{seed}/{kind}/{number}"))


def changed_texts(space: NumberedTexts, change: Callable[[str], str | None]) -> list[Copy]:
    """Return a copy of each text that a meaning-preserving change applies to, where the model reads it."""
    copies = []
    for index, text in enumerate(space.texts):
        new, seen = change(text), characters_read(space.model, text)
        if new is None or (text[seen:].strip() and new[:seen] == text[:seen]):  # changed behind what is read
            continue
        before, after = Words.of(text).words, Words.of(new).words
        changed: tuple[tuple[int, str, str], ...] = ()
        if len(before) == len(after):  # a change of case may turn one letter into two characters
            pairs = enumerate(zip(before, after, strict=True))
            changed = tuple((place, old, word) for place, (old, word) in pairs if old != word)
        copies.append(Copy(index, new, changed, 1 / max(1, len(Words.of(text[:seen]).units))))
    return copies
