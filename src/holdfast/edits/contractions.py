"""Contractions made or written out, which keeps the meaning.

Rules:

1. "not" after an auxiliary: "is not" ↔ "isn't", "cannot" ↔ "can't", "will not" ↔ "won't".
2. A verb after a pronoun, "there", or "who", "what" and "where" at the start of a question: "we are" ↔ "we're",
   "it is" ↔ "it's", "they will" ↔ "they'll", "she has seen" → "she's seen".
3. Refused: verbs at the end of a clause ("that is what we are"), questions such as "isn't he" (written out, "not"
   would move), 's before what may be a participle other than "been" and "got", with adverbs or the subject of a
   question between them ("he's" is "he is" or "he has"), and 'd
   ("had" or "would") written out; "it's" where "its" may be meant ("it's colour", "of it's"); titles in questions
   without capitals ("the song you are here").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.edits.grammar import Changes, GrammaticalEdit
from holdfast.edits.inflection import is_form
from holdfast.edits.sentences import Sentence, Token, is_noun
from holdfast.edits.tagging import Tagger

_NOT_TO_SHORT = frozenset(
    "is are was were has have had do does did can could would should must".split()
)  # the others have no contraction in common use: may not, might not, shall not
_SHORT_TO_FULL = {"ca": "can", "wo": "will", "sha": "shall"}
_PRONOUNS = frozenset("i you he she it we they there".split())
_OPENERS = frozenset("who what where".split())
_CLITICS = {"are": "'re", "is": "'s", "am": "'m", "will": "'ll", "have": "'ve", "has": "'s", "would": "'d"}
_FULL = {"'re": "are", "'m": "am", "'ll": "will", "'ve": "have"}
_TITLED = frozenset("song film book show movie series album lyrics called named titled sing sings sang".split())
_PREPOSITIONS = frozenset("of in at for from on to with by into onto within through over under between about".split())
_STRESSED_AFTER = frozenset("what how as than where so when whatever wherever".split())


class Contraction(GrammaticalEdit):
    """A contraction made or written out."""

    NAME = "contraction"
    SIDE = "hold"
    ABOUT = "a contraction made or written out"
    REPEATS = True

    def ways(self, sentence: Sentence) -> Sequence[Changes]:
        """Return every place where a contraction can be made or written out."""
        found = [way for place in range(len(sentence) - 1) for way in _at(sentence, place)]
        return [way for way in found if all(change[2].islower() or "I" in change[2] for change in way)]


def contraction_edits(tagger: Tagger) -> tuple[Contraction, ...]:
    """Return the edits of this family."""
    return (Contraction(tagger),)


def _at(sentence: Sentence, place: int) -> Iterator[Changes]:
    token, following = sentence[place], sentence[place + 1]
    if not token.text.islower() and token.text[1:].isupper():
        return
    if _is_in_title(sentence, place):
        return
    if token.low == "cannot":
        yield ((token.begin, token.end, token.text[0] + "an't"),)
    elif following.low == "not" and following.text == "not":
        yield from _not_shortened(sentence, place)
    elif following.low == "n't" and place and _is_after_subject(sentence, place):
        full = _SHORT_TO_FULL.get(token.low, token.text)
        if token.low == "ca":
            yield ((token.begin, following.end, "cannot"),)
        elif token.low not in {"ai", "sha"}:
            yield ((token.begin, following.end, f"{full} not"),)
    elif token.low in _PRONOUNS or (place == 0 and token.low in _OPENERS):
        yield from _verb_after(sentence, place)


def _is_in_title(sentence: Sentence, place: int) -> bool:
    """Return True after "song" or "film" directly, and anywhere after it in a text without capitals."""
    before = [token.low for token in sentence[:place]]
    if any(token.text != token.text.lower() for token in sentence):
        before = before[-1:]
    return any(low in _TITLED for low in before)


def _is_after_subject(sentence: Sentence, place: int) -> bool:
    """Return True if the auxiliary follows its subject, so that it is not a question with the subject after it."""
    before = sentence[place - 1]
    return is_noun(before) or (before.tag in {"PRP", "WDT", "EX"} and sentence[0].low not in {"why", "how"})


def _not_shortened(sentence: Sentence, place: int) -> Iterator[Changes]:
    token, following = sentence[place], sentence[place + 1]
    after = sentence[place + 2] if place + 2 < len(sentence) else None
    if (
        after is None
        or not after.text[0].isalnum()
        or after.low in {"only", "just", "merely", "to", "or", "necessarily"}
    ):
        return
    short = {"will": "won't"}.get(token.low) or (f"{token.text}n't" if token.low in _NOT_TO_SHORT - {"can"} else None)
    if short and token.text == token.low and place and _is_after_subject(sentence, place):
        yield ((token.begin, following.end, short),)


def _verb_after(sentence: Sentence, place: int) -> Iterator[Changes]:
    """Yield the change of the verb after a pronoun, if the verb is not stressed."""
    pronoun, verb = sentence[place], sentence[place + 1]
    after = sentence[place + 2] if place + 2 < len(sentence) else None
    if (
        after is None
        or not after.text[0].isalnum()
        or verb.text != verb.low
        or after.low in {"and", "or", "but", "not", "n't"}
    ):
        return
    if place and (sentence[place - 1].low in _STRESSED_AFTER or sentence[place - 1].low in _CLITICS):
        return
    if verb.low in _FULL and verb.begin == pronoun.end:
        yield ((verb.begin, verb.end, f" {_FULL[verb.low]}"),)
    elif verb.low == "'s" and pronoun.low == "it" and _may_be_its(sentence, place):
        return
    elif verb.low == "'s":
        after = _main_word(sentence, place + 2)
        has = after.low in {"been", "got"}
        if has or not (after.tag == "VBN" or after.low.endswith("ed") or is_form(after.low, "VBN")):
            yield ((verb.begin, verb.end, " has" if has else " is"),)
    elif verb.low in _CLITICS and verb.begin > pronoun.end and _fits(pronoun.low, verb.low, after.tag, after.low):
        yield ((pronoun.end, verb.end, _CLITICS[verb.low]),)


def _main_word(sentence: Sentence, place: int) -> Token:
    """Return the word at a place, or the first one after adverbs and after the subject of a question ("where's he")."""
    while place + 1 < len(sentence) and (
        sentence[place].tag.startswith("RB") or (sentence[place].tag == "PRP" and sentence[0].low in _OPENERS)
    ):
        place += 1
    return sentence[place]


def _may_be_its(sentence: Sentence, place: int) -> bool:
    """Return True for "it's" before a noun, or after a preposition or verb: "its" may be meant."""
    before = sentence[place - 1] if place else None
    if before and (before.low in _PREPOSITIONS or before.tag.startswith("VB")):
        return True
    end = place + 2
    while end + 1 < len(sentence) and (sentence[end].tag.startswith("JJ") or sentence[end].tag == "VBN"):
        end += 1
    return is_noun(sentence[end]) or sentence[place + 2].low == "own"


def _fits(pronoun: str, verb: str, after_tag: str, after: str) -> bool:
    """Return True if the pronoun and the verb contract before the next word."""
    if verb in {"have", "has"}:
        return after_tag == "VBN" and after not in {"to"} and pronoun not in _OPENERS | {"there"}
    if verb in {"will", "would"}:
        return (after_tag == "VB" or after == "be") and pronoun not in _OPENERS | {"there", "it"}
    if pronoun in _OPENERS | {"there"}:
        return verb == "is"
    return verb in {"i": {"am"}, "he": {"is"}, "she": {"is"}, "it": {"is"}}.get(pronoun, {"are"})
