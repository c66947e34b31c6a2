"""Rules that replace a word or phrase by another in a given context, written in a small notation, one a line.

    big = small                                  each by the other
    famous > obscure ; not before for            one direction; not if the next word is "for"
    old > young ; before man woman people        only before one of these words
    closed > opened ; not near to                not if "to" is one of the next four words (behind: of the last four)
    far > near ; not after so as . ; before from several conditions, all needed

A line that begins with a space continues the one before. A phrase has its words joined by ``_``. In a condition, a word
in capitals stands for a part of speech (NOUN), for PLURAL (a noun in -s), CAPITAL (a word with a capital) or DIGIT (a
number), and ``.`` for the begin or end of a phrase (punctuation, end of the text). ``ahead`` looks at the next words
of the sentence, ``with`` at all other words of the text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from holdfast.edits.edit import ENGLISH, Edit, Edited
from holdfast.edits.tagged_text import TaggedText, replace_words
from holdfast.edits.tagging import Tagger
from holdfast.edits.words import UNIVERSAL_TAGS

Place = Literal["before", "after", "near", "behind", "ahead", "with"]
_NEAR = 4
_SIGNS = ("CAPITAL", "DIGIT", "PLURAL")


@dataclass(frozen=True)
class Condition:
    """A condition on the words around a place.

    Attributes:
        place: "before": the next word; "after": the previous one; "near": the next four; "behind": the
            last four; "ahead": the next ones of the sentence; "with": any other of the text.
        words: lower-case words, or the signs of the notation.
        negated: none of the words may stand there.
    """

    place: Place
    words: frozenset[str]
    negated: bool

    def holds(self, tagged: TaggedText, at: int, last: int) -> bool:
        """Return True if the condition holds for the words ``at`` to ``last``."""
        if self.place == "with":
            found = any(word in self.words for word in (*tagged.lower[:at], *tagged.lower[last + 1 :]))
        elif self.place == "ahead":
            found = any(self._is_one(tagged, place) for place in tagged.ahead(last))
        elif self.place in ("near", "behind"):
            around = range(last + 1, last + 1 + _NEAR) if self.place == "near" else range(at - _NEAR, at)
            found = any(self._is_one(tagged, place) for place in around if 0 <= place < len(tagged.words))
        else:
            place = tagged.after(last) if self.place == "before" else tagged.before(at)
            found = "." in self.words if place is None else self._is_one(tagged, place)
        return found != self.negated

    def _is_one(self, tagged: TaggedText, place: int) -> bool:
        if tagged.lower[place] in self.words:
            return True
        word = tagged.words[place]
        if ("CAPITAL" in self.words and word[0].isupper()) or ("DIGIT" in self.words and word[0].isdigit()):
            return True
        if not any(sign.isupper() for sign in self.words):
            return False
        if "PLURAL" in self.words and is_plural(tagged.lower[place]) and tagged.tags[place] == "NOUN":
            return True
        return tagged.tags[place] in self.words


@dataclass(frozen=True)
class Rule:
    """A replacement of a word or phrase in a context.

    Attributes:
        old: the words of the old phrase, lower case.
        new: the new word or phrase.
        tag: the universal part of speech of the first old word; None: any.
        conditions: conditions on the context; all must hold.
    """

    old: tuple[str, ...]
    new: str
    tag: str | None = None
    conditions: tuple[Condition, ...] = ()

    def last(self, tagged: TaggedText, at: int) -> int | None:
        """Return the place of the last word of the old phrase if the rule applies at a place, otherwise None."""
        last = at + len(self.old) - 1
        if tagged.lower[at : last + 1] != self.old or not all(tagged.joined(i) for i in range(at + 1, last + 1)):
            return None
        if self.tag is not None and tagged.tags[at] != self.tag:
            return None
        return last if all(condition.holds(tagged, at, last) for condition in self.conditions) else None

    def given(self, *conditions: Condition) -> Rule:
        """Return the rule with more conditions."""
        return replace(self, conditions=(*self.conditions, *conditions))


def is_plural(word: str) -> bool:
    """Return True for a lower-case noun with the ending of a plural, or a frequent irregular plural."""
    if word in ("men", "women", "children", "people", "feet", "teeth"):
        return True
    return (
        word.endswith("s") and not word.endswith(("ss", "us", "is")) and word not in ("news", "series", "lens", "gas")
    )


def read_rules(text: str, tag: str | None = None) -> Iterator[Rule]:
    """Yield the rules of a text in the notation of this module.

    Args:
        text: one rule a line; empty ones and those that begin with ``#`` are left out.
        tag: universal part of speech of the old words.

    Raises:
        ValueError: a line is no rule.
    """
    for line in re.sub(r"\n\s+", " ", text).splitlines():
        if not line or line.startswith("#"):
            continue
        pair, *parts = (part.strip() for part in line.split(" ; "))
        conditions = tuple(_condition(part) for part in parts)
        words = pair.split()
        if len(words) != 3 or words[1] not in (">", "="):
            raise ValueError(f"not a rule: {line!r}")
        old, sign, new = words
        yield _rule(old, new, tag, conditions)
        if sign == "=":
            yield _rule(new, old, tag, conditions)


def _rule(old: str, new: str, tag: str | None, conditions: tuple[Condition, ...]) -> Rule:
    return Rule(tuple(old.split("_")), new.replace("_", " "), tag, conditions)


def _condition(text: str) -> Condition:
    words = text.split()
    negated = words[0] == "not"
    place, *named = words[negated:]
    if place not in get_args(Place) or not named:
        raise ValueError(f"not a condition: {text!r}")
    for name in named:
        if name.isupper() and name not in UNIVERSAL_TAGS and name not in _SIGNS:
            raise ValueError(f"not a sign: {name!r}")
    return Condition(place, frozenset(named), negated)  # type: ignore[arg-type]


class RuleEdit(Edit):
    """An edit that applies one of its rules at one place of a text, all places being equally likely.

    Args:
        rules: the rules.
        tagger: the part-of-speech tagger.
        refused: phrases, in lower case, of which no word is replaced (idioms).
    """

    LANGUAGE = ENGLISH

    def __init__(self, rules: Iterable[Rule], tagger: Tagger, refused: Iterable[str] = ()) -> None:
        self._rules: Mapping[str, list[Rule]] = _by_first_word(rules)
        self._refused = _phrases_by_word(refused)
        self._tagger = tagger

    def __call__(self, text: str, rng: random.Random, strength: float = 0.0) -> Edited | None:
        """See `Edit`."""
        tagged = TaggedText(text, self._tagger)
        found = [made for made in (self._at(tagged, at) for at in range(len(tagged.words))) if made is not None]
        return rng.choice(found) if found else None

    def _at(self, tagged: TaggedText, at: int) -> Edited | None:
        """Return the text changed at a place by the first rule that applies, None if none does."""
        for rule in self._rules.get(tagged.lower[at], ()):
            last = rule.last(tagged, at)
            if last is not None:
                usable = (
                    not tagged.is_part(at, last) and not tagged.is_name(at) and not self._in_idiom(tagged, at, last)
                )
                return replace_words(tagged, at, last, rule.new) if usable else None
        return None

    def _in_idiom(self, tagged: TaggedText, at: int, last: int) -> bool:
        for place in range(at, last + 1):
            for phrase, offset in self._refused.get(tagged.lower[place], ()):
                begin = place - offset
                if begin >= 0 and tagged.lower[begin : begin + len(phrase)] == phrase:
                    return True
        return False


def _by_first_word(rules: Iterable[Rule]) -> dict[str, list[Rule]]:
    by_word: dict[str, list[Rule]] = {}
    for rule in rules:
        by_word.setdefault(rule.old[0], []).append(rule)
    for listed in by_word.values():  # longer phrases and narrower rules first
        listed.sort(key=lambda rule: -len(rule.old))
    return by_word


def _phrases_by_word(phrases: Iterable[str]) -> dict[str, list[tuple[tuple[str, ...], int]]]:
    """Return the phrases by each of their words, with the word's place in the phrase."""
    by_word: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for phrase in phrases:
        words = tuple(phrase.split())
        for offset, word in enumerate(words):
            by_word.setdefault(word, []).append((words, offset))
    return by_word
