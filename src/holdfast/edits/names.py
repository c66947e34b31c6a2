"""A name replaced by another of its kind: a place, nationality, person, organisation, month or day of the week.

Places, nationalities and given names are recognised by the lists of `name_lists`, persons by a given name with a
surname, organisations by their last word (University, Museum). The other name comes from the texts if they have several
of the kind, otherwise from the list; persons and organisations come from the texts alone.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.edits.edit import ENGLISH, Edit, Edited
from holdfast.edits.name_lists import AMBIGUOUS, MEN, NATIONS_WITHIN, PLACES, WEEKDAYS, WOMEN, listed
from holdfast.edits.nouns import Noun, nouns_in
from holdfast.edits.number_words import MONTHS
from holdfast.edits.tagged_text import TaggedText, replace_words
from holdfast.edits.tagging import Tagger
from holdfast.edits.words import STOP_WORDS

_ORGANISATIONS = frozenset(
    """
    University College School Academy Institute Museum Hospital Church Cathedral Library Company Corporation Council
    Committee Party Club Association Society Orchestra Airport Stadium Theatre Theater Hotel Bridge Park River Lake
    Island Mountains Street Avenue County Records Prize Award Festival
    """.split()
)
_NO_SURNAMES = frozenset(
    "Foundation Trust Fund Group Band Brothers Cup Trophy Show Day House Hall Road Station Street".split()
)
_MOST_WORDS = 4  # of an organisation
_MONTH_AFTER = frozenset(
    "in on of since until till by from during late early mid last next this before after and to".split()
)
_LONG_MONTHS = frozenset("January March May July August October December".split())
_FEW = 3  # candidates in the texts, below which the list is used
_VERBS_TOO = frozenset("mark bill frank jack will grant sally eva grace".split())


def _listed_kinds() -> dict[str, tuple[str, str]]:
    """Return the name in its case and its kind for each listed name in lower case."""
    kinds = {name.lower(): (name, kind) for kind, text in PLACES.items() for name in listed(text)}
    kinds |= {name.lower(): (name, "month") for name in MONTHS}
    kinds |= {name.lower(): (name, "weekday") for name in listed(WEEKDAYS)}
    return kinds | {f"{name.lower()}s": (f"{name}s", "weekdays") for name in listed(WEEKDAYS)}


_KINDS: Mapping[str, tuple[str, str]] = _listed_kinds()
_GENDER: Mapping[str, str] = {
    name.lower(): gender for gender, names in (("man", MEN), ("woman", WOMEN)) for name in listed(names)
}


def _listed_names() -> dict[str, list[str]]:
    """Return the listed names by kind."""
    names: dict[str, list[str]] = {}
    for name, kind in _KINDS.values():
        names.setdefault(kind, []).append(name)
    for name, gender in _GENDER.items():
        names.setdefault(f"given name of a {gender}", []).append(name.capitalize())
    return names


class Mention(NamedTuple):
    """A name in a text.

    Attributes:
        first: place of its first word.
        last: place of its last word.
        kind: its kind; names of a kind can stand in for one another.
        name: its words.
    """

    first: int
    last: int
    kind: str
    name: str


class Name(Edit):
    """A name replaced by another of its kind.

    Args:
        candidates: names by kind.
        tagger: the part-of-speech tagger.
    """

    NAME = "name"
    SIDE = "move"
    LANGUAGE = ENGLISH
    ABOUT = "a name replaced by another of its kind"

    def __init__(self, candidates: Mapping[str, Sequence[str]], tagger: Tagger) -> None:
        self._candidates, self._tagger = candidates, tagger

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """See `Edit`."""
        tagged = TaggedText(text, self._tagger)
        mentions = list(names_in(tagged))
        rng.shuffle(mentions)
        known = set(tagged.lower)
        for mention in mentions:
            others = self._others(tagged, mention, known)
            if others:
                new = rng.choice(others)
                made = replace_words(tagged, mention.first, mention.last, new if not _is_lower(tagged) else new.lower())
                if made is not None:
                    return made
        return None

    def _others(self, tagged: TaggedText, mention: Mention, known: set[str]) -> list[str]:
        """Return the names of a mention's kind that have no word of the text and are not within one another.

        A month has the day beside it.
        """
        # Named twice, it would be two.
        if tagged.text.count(mention.name) > 1:
            return []
        own = {word.lower() for word in mention.name.split()} if _is_organisation(mention.kind) else set()
        names = [
            name for name in self._candidates.get(mention.kind, ()) if not (set(name.lower().split()) - own) & known
        ]
        names = [name for name in names if not _contains(name, mention.name) and not _contains(mention.name, name)]
        if mention.kind == "month" and (day := _day(tagged, mention.first)) > 28:
            names = [name for name in names if (name in _LONG_MONTHS if day == 31 else name != "February")]
        return names


def name_edits(texts: Iterable[str], tagger: Tagger) -> list[Edit]:
    """Return the edits `Name` and `Noun`, with the names and nouns of texts.

    Args:
        texts: the texts whose names and nouns stand in for others.
        tagger: the part-of-speech tagger.
    """
    names: dict[str, dict[str, None]] = defaultdict(dict)
    nouns: dict[str, dict[str, None]] = defaultdict(dict)
    for text in texts:
        tagged = TaggedText(text, tagger)
        for mention in names_in(tagged):
            kept = _KINDS.get(mention.name.lower(), (mention.name, ""))[0]
            names[mention.kind][kept] = None
        for noun in nouns_in(tagged):
            nouns[noun.kind][noun.singular] = None
    found = {kind: list(seen) for kind, seen in names.items()}
    few = {kind: every for kind, every in _listed_names().items() if len(found.get(kind, ())) < _FEW}
    return [Name(found | few, tagger), Noun({kind: list(seen) for kind, seen in nouns.items()}, tagger)]


def names_in(tagged: TaggedText) -> Iterator[Mention]:
    """Yield the names of a text that can be replaced."""
    at = 0
    while at < len(tagged.words):
        mention = _mention(tagged, at)
        if mention is not None:
            yield mention
        at = at + 1 if mention is None else mention.last + 1


def _mention(tagged: TaggedText, at: int) -> Mention | None:
    if _is_lower(tagged):
        return _listed(tagged, at, lower=True)
    if not _is_capital(tagged, at) or not _begins_name(tagged, at):
        return None
    last = at
    while (after := tagged.after(last)) is not None and _is_capital(tagged, after):
        last = after
    if _is_bound(tagged, at, last):
        return None
    return _person(tagged, at, last) or _organisation(tagged, at, last) or _listed(tagged, at, lower=False)


def _is_lower(tagged: TaggedText) -> bool:
    """Return True for a text without capitals, as people type questions."""
    return tagged.text.islower()


def _is_capital(tagged: TaggedText, at: int) -> bool:
    word = tagged.words[at]
    return word[0].isupper() and (len(word) > 1 or word not in ("I", "A"))


def _begins_name(tagged: TaggedText, at: int) -> bool:
    """Return True if the words before do not belong to the name: no capital, no "University of"."""
    if at == 0:
        return True
    begin, previous = tagged.spans[at][0], tagged.words[at - 1]
    if tagged.text[:begin].endswith(". ") and len(previous) <= 3 and previous[0].isupper():
        return False  # an abbreviation: St. James
    before = tagged.before(at)
    if before is None:
        return True
    if _is_capital(tagged, before):
        return tagged.opens_sentence(before) and tagged.lower[before] in STOP_WORDS
    if tagged.lower[before] in ("of", "de", "von", "van", "and", "for", "the", "di", "al", "la", "le"):
        further = tagged.before(before)
        capital = further is not None and _is_capital(tagged, further) and not tagged.opens_sentence(further)
        return not capital or tagged.lower[before] == "the"
    return True


def _is_bound(tagged: TaggedText, first: int, last: int) -> bool:
    """Return True for a part of a longer word; a genitive is none, nor a compound such as German-born."""
    begin, end = tagged.spans[first][0], tagged.spans[last][1]
    if begin > 0 and tagged.text[begin - 1] in "-'\u2019/&@#_.\u2013":
        return True
    mark, behind = tagged.text[end : end + 1], tagged.text[end + 1 : end + 2]
    if mark in ("'", "\u2019"):
        return behind != "s"
    return mark in ("-", "/", "&", "@", "_", "\u2013") or (mark == "." and behind.isalnum())


def _listed(tagged: TaggedText, at: int, *, lower: bool) -> Mention | None:
    """Return the name of a list at a place, if it is the whole name."""
    for last in (at + 1, at):
        words = tagged.lower[at : last + 1]
        if len(words) != last - at + 1 or (last > at and not tagged.joined(last)):
            continue
        name = " ".join(words)
        found = _KINDS.get(name)
        if found is None:
            given = _given_name(tagged, at) if last == at and not lower else None
            if given is not None:
                return given
            continue
        proper, kind = found
        if (lower and name in AMBIGUOUS) or (not lower and " ".join(tagged.words[at : last + 1]) != proper):
            return None
        return Mention(at, last, kind, proper if not lower else name) if _fits(tagged, at, last, kind) else None
    return None


def _fits(tagged: TaggedText, at: int, last: int, kind: str) -> bool:
    """Return True if the words around leave the name in its kind."""
    before, after = tagged.before(at), tagged.after(last)
    previous = tagged.lower[before] if before is not None else ""
    following = tagged.words[after] if after is not None else ""
    if kind == "month":
        beside_number = following[:1].isdigit() or (before is not None and previous[:1].isdigit())
        return not following[:1].isupper() and (beside_number or previous in _MONTH_AFTER)
    if following[:1].isupper() or _is_bound(tagged, at, last):
        return False
    if kind.startswith("nationality"):
        return following.isalpha() and tagged.tags[after or 0] in ("NOUN", "ADJ") and previous not in (
            "native", "african", "latin", "north", "south", "east", "west", "anglo", "and", "or"
        )  # fmt: skip
    if kind.startswith("weekday"):
        return previous not in ("black", "good", "ash", "palm", "super")
    return previous not in ("the", "new", "south", "north", "west", "east", "san", "saint", "st", "fort", "lake", "a")


def _given_name(tagged: TaggedText, at: int) -> Mention | None:
    gender, after = _GENDER.get(tagged.lower[at]), tagged.after(at)
    if gender is None or (after is not None and _is_capital(tagged, after)):
        return None
    if tagged.lower[at] in _VERBS_TOO and tagged.opens_sentence(at):
        return None
    before = tagged.before(at)
    if before is not None and tagged.lower[before] in ("the", "a", "an"):
        return None
    return Mention(at, at, f"given name of a {gender}", tagged.words[at])


def _person(tagged: TaggedText, first: int, last: int) -> Mention | None:
    """Return a name of two or three words that begins with a given name and is no organisation's."""
    gender = _GENDER.get(tagged.lower[first])
    words = tagged.words[first : last + 1]
    if gender is None or not 2 <= len(words) <= 3 or words[-1] in _ORGANISATIONS or not all(map(str.isalpha, words)):
        return None
    after = tagged.after(last)
    if words[-1] in _NO_SURNAMES or (after is not None and tagged.lower[after] in ("de", "da", "van", "von", "of")):
        return None
    if any(word.isupper() or word.lower() in _KINDS for word in words):
        return None
    return Mention(first, last, f"name of a {gender}", " ".join(words))


def _organisation(tagged: TaggedText, first: int, last: int) -> Mention | None:
    """Return a name that ends in a word of `_ORGANISATIONS`; its kind is that word, and "the" if that stands before."""
    words = tagged.words[first : last + 1]
    if words[-1] not in _ORGANISATIONS or not 2 <= len(words) <= _MOST_WORDS or words[0].lower() in STOP_WORDS:
        return None
    before, after = tagged.before(first), tagged.after(last)
    if after is not None and tagged.lower[after] in ("of", "for", "and"):
        return None
    if before is not None and (tagged.tags[before] in ("ADJ", "NUM") or tagged.lower[before] in ("a", "an")):
        return None
    article = "the " if before is not None and tagged.lower[before] == "the" else ""
    return Mention(first, last, article + words[-1], " ".join(words))


def _contains(whole: str, part: str) -> bool:
    """Return True for a nationality and one within it."""
    return part.lower() in NATIONS_WITHIN.get(whole.lower(), ())


def _is_organisation(kind: str) -> bool:
    return kind.removeprefix("the ") in _ORGANISATIONS


def _day(tagged: TaggedText, at: int) -> int:
    """Return the day beside a month, 0 if there is none."""
    beside = [tagged.words[place] for place in (tagged.before(at), tagged.after(at)) if place is not None]
    return next((int(word) for word in beside if word.isdecimal() and int(word) <= 31), 0)
