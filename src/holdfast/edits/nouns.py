"""A common noun replaced by another of its kind (an animal by an animal), or a colour by another colour.

The kinds are the lists of `name_lists`. A noun stands alone: not in a compound or a fixed phrase, and with a determiner
before it if it is counted.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.edits.edit import ENGLISH, Edit, Edited
from holdfast.edits.name_lists import ALIKE, COLOURS, NOUNS, listed
from holdfast.edits.number_words import CARDINALS
from holdfast.edits.tagged_text import TaggedText, replace_words
from holdfast.edits.tagging import Tagger

# Kinds without a plural, and the words that stand before them.
_MASS = {
    "drink": frozenset("some drink drinks drinking of drank pouring pours the with hot cold".split()),
    "material": frozenset("of from in".split()),
    "science": frozenset("of in studied taught teaches study studying studies teaching and".split()),
    "sport": frozenset("play plays playing played of professional".split()),
    "illness": frozenset("of from with against has had".split()),
    "meal": frozenset("for at after before during eat eats eating ate the having had".split()),
}
_DETERMINERS = frozenset(
    """
    a an the his her their its my your our this that these those two three four five six several many some another each
    every no old new young small large big little black white brown red green blue grey famous former local beautiful
    wooden female male tall
    """.split()
)
# Nouns with another frequent sense, or parts of fixed phrases: they only stand in for others.
_NEVER_REPLACED = frozenset(
    "water game play law history glass table field bank judge cook iron medicine yard cap cook rat".split()
)
_NO_COLOUR_OF = frozenset(
    """
    people man men woman women person wine meat tape hole holes market card cards blood bear bears dwarf metal
    magic belt noise paper papers collar tea pepper peppers matter sea cross rice bread sugar beans bean board
    comedy power energy party area areas spaces light lights list lists house race majority population community
    families family skin squirrel fox whale ink cell cells south nationalist supremacist eye minority students
    voters slaves americans peas salad onion onions gram fever ray day grass movement star giant line lines flag
    army guard room sox devils giants hat dye child children baby babies boy boys girl girls kid kids teen teens
    teenager teenagers youth youths adult adults male males female females guy guys folk folks townsfolk individual
    individuals society vote votes voter resident residents citizen citizens neighborhood neighborhoods neighbourhood
    minister attorney lawyer lawyers judge officer officers president congressman senator mayor soldier soldiers
    worker workers trucker truckers settler settlers immigrant immigrants player players elite household households
    """.split()
)
_IRREGULAR = {"knife": "knives", "wolf": "wolves", "fisherman": "fishermen", "puppy": "puppies"}
_IRREGULAR |= {"sheep": "sheep", "deer": "deer", "scarf": "scarves"}
_ONE, _SEVERAL = frozenset("a an this that each every another".split()), frozenset("these those several many".split())


class Mention(NamedTuple):
    """A noun in a text: its place, its kind, its singular, and whether it stands in the plural."""

    at: int
    kind: str
    singular: str
    plural: bool


def _plural(noun: str) -> str:
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh", "ato")) else f"{noun}s"


_MEN = frozenset("brother father grandfather nephew son uncle".split())
_SPANS = ("week", "month", "year", "decade")  # "last day" is not said
_COLOURS = listed(COLOURS)
_PEOPLE = ("person", "kin", "officer")


def _listed_kinds() -> dict[str, str]:
    """Return the kind of each listed noun; kin is of two kinds, so that the pronouns around stay right."""
    kinds = {noun: kind for kind, text in NOUNS.items() for noun in listed(text)}
    return {
        noun: f"{kind}, {'male' if noun in _MEN else 'female'}" if kind == "kin" else kind
        for noun, kind in kinds.items()
    }


_KINDS: Mapping[str, str] = _listed_kinds()
_SINGULARS: Mapping[str, str] = {_plural(noun): noun for noun, kind in _KINDS.items() if kind not in _MASS}


def _listed_nouns() -> dict[str, list[str]]:
    """Return the listed nouns and colours by kind."""
    nouns = {"one span of time": list(_SPANS), "colour": list(_COLOURS)}
    for noun, kind in _KINDS.items():
        nouns.setdefault(kind, []).append(noun)
    return nouns


def _nouns_alike() -> dict[str, set[str]]:
    """Return the nouns that mean nearly the same, for each noun that has some."""
    alike: dict[str, set[str]] = {}
    for group in ALIKE.split(";"):
        for noun in group.split():
            alike.setdefault(noun, set()).update(group.split())
    return alike


_FEW = 3  # nouns of a kind in the texts, below which the list is used


class Noun(Edit):
    """A noun or colour replaced by another of its kind.

    Args:
        candidates: nouns of the texts by kind, singular.
        tagger: the part-of-speech tagger.
    """

    NAME = "noun"
    SIDE = "move"
    LANGUAGE = ENGLISH
    ABOUT = "a noun or colour replaced by another of its kind"

    def __init__(self, candidates: Mapping[str, Sequence[str]], tagger: Tagger) -> None:
        few = {kind: every for kind, every in _listed_nouns().items() if len(candidates.get(kind, ())) < _FEW}
        self._candidates, self._alike, self._tagger = {**candidates, **few}, _nouns_alike(), tagger

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """See `Edit`."""
        tagged = TaggedText(text, self._tagger)
        mentions = list(nouns_in(tagged))
        rng.shuffle(mentions)
        for mention in mentions:
            others = [
                noun
                for noun in self._candidates.get(mention.kind, ())
                if noun not in tagged.lower
                and _plural(noun) not in tagged.lower
                and noun not in self._alike.get(mention.singular, ())
            ]
            if others:
                new = rng.choice(others)
                made = replace_words(tagged, mention.at, mention.at, _plural(new) if mention.plural else new)
                if made is not None:
                    return made
        return None


def nouns_in(tagged: TaggedText) -> Iterator[Mention]:
    """Yield the nouns and colours of a text that can be replaced."""
    for at, word in enumerate(tagged.lower):
        if word in _COLOURS:
            if _is_colour(tagged, at):
                yield Mention(at, "colour", word, plural=False)
            continue
        singular = _SINGULARS.get(word, word)
        kind = _KINDS.get(singular)
        if kind is not None and singular not in _NEVER_REPLACED and _stands_alone(tagged, at, kind):
            one = kind == "time" and singular == word
            plural = _is_plural(tagged, at, singular)
            if plural is not None and (not one or word in _SPANS):
                yield Mention(at, "one span of time" if one else kind, singular, plural)


def _is_plural(tagged: TaggedText, at: int, singular: str) -> bool | None:
    """Return True for a plural; of a noun with one form by the word before it, and None if that leaves it open."""
    if _plural(singular) != singular:
        return tagged.lower[at] != singular
    before = tagged.before(at)
    word = "" if before is None else tagged.lower[before]
    several = word in _SEVERAL or CARDINALS.get(word, 0) > 1 or (word.isdecimal() and word != "1")
    return True if several else False if word in _ONE or word == "one" else None


def _stands_alone(tagged: TaggedText, at: int, kind: str) -> bool:
    if tagged.is_part(at) or tagged.is_name(at) or tagged.tags[at] != "NOUN":
        return False
    before, after = tagged.before(at), tagged.after(at)
    if after is not None and (tagged.tags[after] in ("NOUN", "NUM", "X") or tagged.lower[after] in ("of", "to", "s")):
        return False
    if after is not None and tagged.words[after][0].isupper():
        return False
    if kind == "illness" and "tropic" in tagged.lower:
        return False
    if kind == "time":
        return _is_span_of_time(tagged, at)
    needed = _MASS.get(kind, _DETERMINERS)
    if before is None:
        return kind not in _MASS and tagged.lower[at] in _SINGULARS and tagged.opens_sentence(at)
    return tagged.lower[before] in needed


def _is_span_of_time(tagged: TaggedText, at: int) -> bool:
    """Return True for a counted unit of time ("two years", "a few days"), and one of "last week"."""
    before, plural = tagged.before(at), tagged.lower[at] in _SINGULARS
    if before is None:
        return False
    word = tagged.lower[before]
    if plural:
        return word in ("few", "several", "many", "some") or (word in CARDINALS and word != "one") or word.isdecimal()
    return word in ("last", "next", "this") and tagged.after(at) is None


def _is_colour(tagged: TaggedText, at: int) -> bool:
    """Return True for a colour before a noun whose colour is free."""
    before, after = tagged.before(at), tagged.after(at)
    if tagged.is_part(at) or tagged.is_name(at) or after is None or tagged.tags[after] != "NOUN":
        return False
    noun = tagged.lower[after]
    if tagged.words[after][0].isupper() or noun in _NO_COLOUR_OF:
        return False
    if _KINDS.get(_SINGULARS.get(noun, noun), "").partition(",")[0] in _PEOPLE:  # of a person it is no colour
        return False
    if before is None:
        return True
    shade = tagged.lower[before] in ("and", "or", "dark", "light", "bright", "pale", "deep", "to")
    return not shade and not tagged.lower[before].endswith("ish") and tagged.tags[before] != "NOUN"
