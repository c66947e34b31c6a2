"""A phrase of time or place moved between the front and the end of a simple sentence, which keeps the meaning.

Rules:

1. To the end: "In 1990, he moved to Rome." → "He moved to Rome in 1990."
2. To the front: "He moved to Rome in 1990." → "In 1990, he moved to Rome."
3. The phrase is "in" or "since" with a year, "in" with a month, or "on" with a date.
4. Refused: sentences with a second clause, a list or another phrase of time; first words whose capital may be a name's;
   "only" and "also"; "was becoming"; "for his work" next to the phrase of time, which might then belong to "work".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from holdfast.edits.clauses import Clause, main_clause
from holdfast.edits.grammar import Changes, GrammaticalEdit
from holdfast.edits.inflection import is_form
from holdfast.edits.roles import is_lowerable, keeps_capital
from holdfast.edits.sentences import BE, Sentence, is_finite, is_noun, phrase_text
from holdfast.edits.tagging import Tagger

_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_TIME = re.compile(
    rf"in (?:(?:early|late|mid) )?(?:(?:{_MONTHS})(?: of)? )?(?:1\d\d\d|20\d\d)|in (?:{_MONTHS})"
    rf"|in the (?:early |late )?1\d\d0s|on (?:\d\d? (?:{_MONTHS})|(?:{_MONTHS}) \d\d?)(?: (?:, )?(?:1\d\d\d|20\d\d))?"
    r"|during (?:the )?world war (?:i|ii|one|two)"
)
_LONGEST = 6  # tokens
_OPENS_CLAUSE = frozenset("that which who whom whose where when while because although though if than as but".split())
_FOCUS = frozenset("only even also just".split())
_MARKS = frozenset(", ; : ( -- — – -".split())
_QUOTES = frozenset('" “ ”'.split())
_OTHER_TIMES = frozenset(
    "until till since from between before after during when later then year years season month months day days".split()
)


class WordOrder(GrammaticalEdit):
    """A phrase of time moved."""

    NAME = "word-order"
    SIDE = "hold"
    ABOUT = "a phrase of time moved to the front or the end"

    def ways(self, sentence: Sentence) -> Sequence[Changes]:
        """Return the move of a phrase of time, if the sentence is simple."""
        clause = main_clause(sentence)
        if clause is None or sentence[-1].text != "." or not _is_simple(clause):
            return []
        way = _to_end(clause) if clause.begin else _to_front(clause)
        return [way] if way else []


def word_order_edits(tagger: Tagger) -> tuple[WordOrder, ...]:
    """Return the edits of this family."""
    return (WordOrder(tagger),)


def _is_time(tokens: Sentence) -> bool:
    return _TIME.fullmatch(" ".join(token.low for token in tokens).lower()) is not None


def _is_simple(clause: Clause) -> bool:
    """Return True if the sentence has one clause: no comma, infinitive or second verb after the verb."""
    rest = clause.sentence[clause.finite + 1 :]
    if any(token.low in _OPENS_CLAUSE | _MARKS for token in rest):
        return False
    if any(token.low in _FOCUS for token in clause.sentence) or _is_progressive(clause):
        return False
    if any(is_noun(one) and two.low in _QUOTES for one, two in itertools.pairwise(rest)):
        return False  # 'the song "Blue Door"'
    for token, following in itertools.pairwise(rest):
        if token.low in {"to", "and", "or"} and not (is_noun(following) or following.tag in {"DT", "PRP$", "JJ"}):
            return False
        if token.low == "to" and following.text == following.low and is_form(following.low, "VB"):
            return False
    group = range(clause.finite, clause.main + 1)
    after = list(enumerate(clause.sentence))[clause.finite + 1 :]
    return not any((is_finite(token) or token.tag in {"VBG", "VBN"}) and place not in group for place, token in after)


def _is_progressive(clause: Clause) -> bool:
    return clause.verb.low in BE and clause.sentence[clause.main].low.endswith("ing")


def _last_preposition(tokens: Sentence) -> str:
    return next((token.low for token in reversed(tokens) if token.tag in {"IN", "TO"}), "")


def _to_end(clause: Clause) -> Changes | None:
    """Return the move of an introductory phrase behind the last word."""
    sentence, first = clause.sentence, clause.sentence[clause.begin]
    phrase = sentence[: clause.begin - 1]
    if not _is_time(phrase) or sentence[clause.begin - 1].low != ",":
        return None
    rest = sentence[clause.finite : -1]
    if any(token.low in _OTHER_TIMES or token.tag == "CD" for token in rest) or sentence[-2].tag == "IN":
        return None
    if _last_preposition(rest) in {"for", "of"}:
        return None  # "a prize for his work in 1990": the work of 1990
    words = phrase_text(phrase)
    start = first.text[:1].upper() + first.text[1:]
    lead = (phrase[0].begin, first.begin, "") if start == first.text else (phrase[0].begin, first.end, start)
    return (lead, (sentence[-2].end, sentence[-2].end, f" {words[:1].lower()}{words[1:]}"))


def _to_front(clause: Clause) -> Changes | None:
    """Return the move of a final phrase before the subject."""
    sentence, first = clause.sentence, clause.sentence[0]
    begin = next(
        (i for i in range(len(sentence) - 2, len(sentence) - 2 - _LONGEST, -1) if _starts_time(sentence, i)), None
    )
    if begin is None or not is_lowerable(sentence[: clause.subject_end]):
        return None
    if any(token.low in _OTHER_TIMES or token.tag == "CD" for token in sentence[clause.finite : begin]):
        return None
    if _last_preposition(sentence[clause.finite : begin]) == "for":
        return None
    words = phrase_text(sentence[begin:-1])
    start = first.text if keeps_capital(first) else first.text[:1].lower() + first.text[1:]
    front = f"{words[:1].upper()}{words[1:]}, "
    same = start == first.text
    lead = (first.begin, first.begin, front) if same else (first.begin, first.end, front + start)
    return (lead, (sentence[begin - 1].end, sentence[-2].end, ""))


def _starts_time(sentence: Sentence, place: int) -> bool:
    return place > 0 and _is_time(sentence[place:-1])
