"""Random, non-adversarial changes: typing errors, synonyms, masked-LM fillers, case, punctuation, spaces.

A tenth of the words (`SHARE`, at least one) is changed, chosen from the words that an attack may change: content words
that the model reads. Each text has its own random generator, so that its copy does not depend on the other texts.
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.attacks.attack_state import changeable
from holdfast.attacks.constraints import TAGGED_AROUND
from holdfast.attacks.targets import characters_seen
from holdfast.audit.vector_movement import Copy
from holdfast.edits import characters
from holdfast.edits.words import Words, others

if TYPE_CHECKING:
    from holdfast.adversary.masked_lm import MaskedLM
    from holdfast.attacks.tagging import Tagger
    from holdfast.edits.synonyms import Synonyms
    from holdfast.edits.wordnet import WordNet

SHARE = 0.1
LIKELY = 10
"""Number of most probable fillers from which one is sampled."""
_NEIGHBOURS = 8

Exchange = Callable[[Words, int, random.Random], str | None]


def typing_error(words: Words, place: int, rng: random.Random) -> str | None:
    """Return the word with a neighbouring key, two swapped letters or a deleted letter; None if none applies."""
    word = words.words[place]
    kinds = (characters.keyboard_typo, characters.swap_letters, characters.delete_letter)
    errors = (kind(word, rng) for kind in rng.sample(kinds, len(kinds)))
    return next((error for error in errors if error is not None and error != word), None)


def wordnet_synonym(wordnet: WordNet, tagger: Tagger | None) -> Exchange:
    """Create a function that samples a WordNet synonym of a word, inflected if lemminflect is installed.

    Args:
        wordnet: WordNet.
        tagger: restricts synonyms to the word's part of speech; None: any part of speech.
    """
    inflected = can_inflect()

    def exchange(words: Words, place: int, rng: random.Random) -> str | None:
        tag = None
        if tagger is not None:
            begin = max(0, place - TAGGED_AROUND)
            tag = tagger.tags(words.words[begin : place + 1 + TAGGED_AROUND])[place - begin]
        return _drawn(wordnet.synonyms(words.words[place], tag=tag, inflected=inflected), rng)

    return exchange


def can_inflect() -> bool:
    """Return True if synonyms can be inflected like the original word: lemminflect is installed."""
    return importlib.util.find_spec("lemminflect") is not None


def listed_synonym(synonyms: Synonyms) -> Exchange:
    """Create a function that samples one of a word's nearest neighbours."""

    def exchange(words: Words, place: int, rng: random.Random) -> str | None:
        return _drawn(synonyms.nearest(words.words[place], _NEIGHBOURS), rng)

    return exchange


def _drawn(candidates: Sequence[str], rng: random.Random) -> str | None:
    return rng.choice(candidates) if candidates else None


# --- copies ------------------------------------------------------------------------------------------------------


def exchanged_words(
    texts: Sequence[str], numbers: Sequence[int], exchange: Exchange, *, tokenizer: Any, kind: str, seed: int
) -> list[Copy]:
    """Return a copy of each text with `SHARE` of the words replaced; texts without replaceable words are left out.

    Args:
        texts: n texts.
        numbers: n numbers that are part of the texts' random seeds.
        exchange: returns a substitute for a word, or None.
        tokenizer: tokeniser of the model; truncated words are not changed.
        kind: name that is part of the random seeds.
        seed: the random seed.
    """
    copies = []
    for index, (text, number) in enumerate(zip(texts, numbers, strict=True)):
        words, rng = Words.of(text), random.Random(f"{seed}/{kind}/{number}")
        places = _places(words, text, tokenizer, rng)
        new: dict[int, str] = {}
        for place in places:
            if len(new) == how_many(words):
                break
            word = exchange(words, place, rng)
            if word is not None:
                new[place] = word
        if new:
            copies.append(_copy(index, words, new))
    return copies


def likely_others(
    texts: Sequence[str], numbers: Sequence[int], masked_lm: MaskedLM, *, tokenizer: Any, seed: int
) -> list[Copy]:
    """Return copies like `exchanged_words`, with substitutes from the `LIKELY` best fillers of a masked LM."""
    asked: list[tuple[int, Words, int, random.Random]] = []
    for index, (text, number) in enumerate(zip(texts, numbers, strict=True)):
        words, rng = Words.of(text), random.Random(f"{seed}/fillers/{number}")
        places = _places(words, text, tokenizer, rng)[: how_many(words)]
        asked += [(index, words, place, rng) for place in places]
    if not asked:
        return []
    proposals = masked_lm.propose([words for _, words, _, _ in asked], [place for _, _, place, _ in asked])
    new: dict[int, tuple[Words, dict[int, str]]] = {}
    for (index, words, place, rng), proposed in zip(asked, proposals, strict=True):
        word = _drawn(others(words.words[place], proposed)[:LIKELY], rng)
        if word is not None:
            new.setdefault(index, (words, {}))[1][place] = word
    return [_copy(index, words, exchanges) for index, (words, exchanges) in new.items()]


def how_many(words: Words) -> int:
    """Return the number of words to change: `SHARE` of all words, rounded, at least one."""
    return max(1, int(SHARE * len(words.words) + 0.5))


def _places(words: Words, text: str, tokenizer: Any, rng: random.Random) -> list[int]:
    places = changeable(words, len(text))
    if places:  # a text without words may give no tokens
        places = changeable(words, characters_seen(tokenizer, (text,), 0))
    rng.shuffle(places)
    return places


def _copy(index: int, words: Words, new: Mapping[int, str]) -> Copy:
    text = words
    for place, word in new.items():
        text = text.exchanged(place, word)
    changed = tuple((place, words.words[place], new[place]) for place in sorted(new))
    return Copy(index, text.text, changed, len(new) / len(words.words))


# --- meaning-preserving changes ----------------------------------------------------------------------------------


def in_small_letters(text: str) -> str | None:
    """Return the text in lower case; None if that changes nothing."""
    return _if_other(text.lower(), text)


def in_capitals(text: str) -> str | None:
    """Return the text in upper case; None if that changes nothing."""
    return _if_other(text.upper(), text)


def other_full_stop(text: str) -> str | None:
    """Remove or add the final full stop; None if the text ends in another punctuation mark or an ellipsis."""
    bare = text.rstrip()
    if bare.endswith(".") and bare[-2:-1].isalnum():
        return bare[:-1]
    return f"{bare}." if bare[-1:].isalnum() else None


def trailing_blank(text: str) -> str | None:
    """Add a trailing space."""
    return f"{text} "


def _if_other(new: str, text: str) -> str | None:
    return new if new != text else None


IDLE: Mapping[tuple[str, str], Callable[[str], str | None]] = {
    ("audit-case", "lower"): in_small_letters,
    ("audit-case", "upper"): in_capitals,
    ("audit-full-stop", "all"): other_full_stop,
    ("audit-blank", "all"): trailing_blank,
}
"""The meaning-preserving changes, by task and split."""


def changed_idly(texts: Sequence[str], change: Callable[[str], str | None]) -> list[Copy]:
    """Return a copy of each text that the change applies to."""
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
