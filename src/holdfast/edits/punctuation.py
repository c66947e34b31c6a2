"""One punctuation mark changed, which keeps the meaning.

Rules:

1. The full stop at the end of the text is left out, or put there; a question or an unfinished sentence gets none.
2. The comma after a short introductory phrase is left out, or put there: "In 1990, she moved" ↔ "In 1990 she moved".
3. The comma before the "and" of a list of three: "red, green and blue" ↔ "red, green, and blue".
4. Quotation marks and apostrophes: straight ↔ curly.
5. A dash: "--" ↔ "—".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from holdfast.edits.clauses import main_clause, noun_phrase_end
from holdfast.edits.grammar import Changes, GrammaticalEdit
from holdfast.edits.sentences import AUXILIARIES, BE, DO, HAVE, Sentence, Token, is_noun
from holdfast.edits.tagging import Tagger

_CURLY_APOSTROPHE = "’"
_INTRODUCTIONS = frozenset("in on at during after before by since".split())
_PREPOSITIONS_OF_TIME = frozenset("in on during since by".split())
_ASKING = frozenset("whens whos hows whats wheres whys".split())  # "what's" without its apostrophe
_YEAR = re.compile(r"(1[0-9]|20)\d\d")


class Punctuation(GrammaticalEdit):
    """A punctuation mark changed."""

    NAME = "punctuation"
    SIDE = "hold"
    ABOUT = "a full stop, a comma or quotation marks changed"

    def ways(self, sentence: Sentence) -> Sequence[Changes]:
        """Return every change of one mark in a sentence, without that of `last_ways`."""
        return [*_introduction(sentence), *_serial_comma(sentence), *_signs(sentence)]

    def last_ways(self, sentence: Sentence) -> Sequence[Changes]:
        """Return the change of the full stop at the end of the text."""
        return [*_final_stop(sentence)]


def punctuation_edits(tagger: Tagger) -> tuple[Punctuation, ...]:
    """Return the edits of this family."""
    return (Punctuation(tagger),)


def _final_stop(sentence: Sentence) -> Iterator[Changes]:
    """Yield the full stop left out or put at the end; a question without its mark and an abbreviation stay."""
    last = sentence[-1]
    if last.text == "." and len(sentence) > 1 and len(sentence[-2].text) > 2 and sentence[-2].text.isalnum():
        yield ((last.begin, last.end, ""),)
    elif last.text.isalnum() and len(sentence) > 3 and not (_is_question(sentence) or _is_unfinished(last)):
        yield ((last.end, last.end, "."),)


def _is_question(sentence: Sentence) -> bool:
    first = sentence[0]
    return (
        first.tag in {"WP", "WRB", "WDT", "MD", "WP$"}
        or first.low in BE | DO | HAVE
        or any(token.low in _ASKING or token.tag in {"WP", "WRB", "WDT"} for token in sentence)
    )


def _is_unfinished(last: Token) -> bool:
    """Return True if the text breaks off: its last word needs another after it."""
    return last.tag in {"TO", "DT", "CC", "PRP$", "IN"} or last.low in AUXILIARIES


def _introduction(sentence: Sentence) -> Iterator[Changes]:
    """Yield the comma after a phrase such as "In 1990" left out, or put there before the subject."""
    first = sentence[0]
    if first.low not in _INTRODUCTIONS or not first.text[:1].isupper():
        return
    clause = main_clause(sentence)
    if clause is not None and 2 <= clause.begin <= 5 and sentence[clause.begin - 1].low == ",":
        comma, before, after = sentence[clause.begin - 1], sentence[clause.begin - 2], sentence[clause.begin]
        names_meet = before.tag.startswith("NNP") and after.tag.startswith(("NNP", "CD", "NN"))
        one_phrase = sum(token.low == "," for token in sentence[: clause.begin]) == 1
        if one_phrase and not names_meet and after.tag in {"DT", "PRP", "PRP$", "NNP"}:
            yield ((comma.begin, comma.end, ""),)
    elif first.low in _PREPOSITIONS_OF_TIME and len(sentence) > 4 and _YEAR.fullmatch(sentence[1].text):
        year, after = sentence[1], sentence[2]
        if after.tag in {"PRP", "DT"} and after.low not in {"both", "him", "them"}:
            yield ((year.end, year.end, ","),)


def _serial_comma(sentence: Sentence) -> Iterator[Changes]:
    """Yield the comma of a list of three nouns or adjectives left out or put before "and" or "or"."""
    for place in range(3, len(sentence) - 1):
        if sentence[place].low not in {"and", "or"}:
            continue
        comma = sentence[place - 1].low == ","
        second = place - 2 if comma else place - 1
        if second < 2 or not _is_list(sentence, second, place + 1):
            continue
        if comma:
            yield ((sentence[place - 1].begin, sentence[place - 1].end, ""),)
        else:
            yield ((sentence[second].end, sentence[second].end, ","),)


def _is_list(sentence: Sentence, second: int, third: int) -> bool:
    """Return True for "A, B and C" of single words of one part of speech, with no further words around them."""
    first, parts = second - 2, (second - 2, second, third)
    if first < 0 or sentence[second - 1].low != ",":
        return False
    kinds = {sentence[part].tag[:2] for part in parts}
    if len(kinds) > 1 or not kinds <= {"NN", "JJ"}:
        return False
    return _list_ends(sentence, third) and not (sentence[first].tag == "NNP" and sentence[second].tag != "NNP")


def _list_ends(sentence: Sentence, third: int) -> bool:
    """Return True if the third part is one word, or the last adjectives before a noun."""
    end = noun_phrase_end(sentence, third)
    if sentence[third].tag.startswith("JJ"):
        return third + 1 < len(sentence) and is_noun(sentence[third + 1])
    if end != third + 1:
        return False
    return end >= len(sentence) or sentence[end].low in {".", ",", ";", "in", "for", "at", "from"}


def _signs(sentence: Sentence) -> Iterator[Changes]:
    """Yield quotation marks, apostrophes and dashes in the other form."""
    quotes = [token for token in sentence if token.text in {'"', "“", "”"}]
    if len(quotes) == 2 and {token.text for token in quotes} in ({'"'}, {"“", "”"}):
        straight = quotes[0].text == '"'
        yield tuple(
            (token.begin, token.end, mark if straight else '"') for token, mark in zip(quotes, "“”", strict=True)
        )
    apostrophes = [token for token in sentence if len(token.text) > 1 and ("'" in token.text or "’" in token.text)]
    if apostrophes:
        curly = _CURLY_APOSTROPHE in apostrophes[0].text
        old, new = (_CURLY_APOSTROPHE, "'") if curly else ("'", _CURLY_APOSTROPHE)
        yield tuple((token.begin, token.end, token.text.replace(old, new)) for token in apostrophes)
    for token in sentence:
        if token.text == "--":
            yield ((token.begin, token.end, "—"),)
