"""Negation put in or taken out.

Rules, in this order; the first that applies is used:

1. A negation that the sentence has is taken out: "is not" → "is", "didn't go" → "went", "never went" → "went",
   "no dogs" → "dogs", "no longer" → "still", "nobody" → "somebody", "without a hat" → "with a hat".
2. "not" is put into the main clause: "is" → "is not", "can" → "cannot", "walks" → "does not walk".
3. "not" is put after another auxiliary that follows its subject: "…, which was built" → "…, which was not built".

A sentence that has a negation which rule 1 cannot take out stays as it is, and so do those with words that do not go
with a negation ("only", "already", "some") next to the verb.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from holdfast.edits.clauses import ADVERBS, Clause, main_clause, past_or_present
from holdfast.edits.grammar import Changes, GrammaticalEdit
from holdfast.edits.inflection import inflected, is_form, lemma
from holdfast.edits.sentences import BE, DO, HAVE, MODALS, Sentence, Token, is_noun
from holdfast.edits.tagging import Tagger

NEGATIVE = frozenset(
    "not n't never no none nobody nothing nowhere neither nor cannot without hardly scarcely barely rarely seldom "
    "unable few little lack lacks lacked only unless".split()
)
_SPEAKER_ADVERBS = frozenset(
    "also probably certainly perhaps possibly apparently reportedly allegedly clearly obviously however thus therefore "
    "still later then now subsequently ultimately eventually generally actually really simply".split()
)
_AFTER_NOT = frozenset(  # words that do not follow "not", or with it mean something else
    "only just merely even some several already almost nearly rather at one mostly mainly primarily largely too once "
    "about approximately around over roughly pretty both either because until till such like soon best most more less "
    'yes no other another all well quite ( " “ , . ; : and or but'.split()
)
_AFTER_FULL_VERB = frozenset('at over ( " “ about around . more all some and both'.split())
_BEFORE_VERB = frozenset(
    "often always usually fully currently really necessarily regularly widely officially formally".split()
)
_AFTER_SUBJECT = frozenset(
    "also later then now still thus therefore subsequently eventually initially ultimately".split()
)
_NEEDS_NEGATION = frozenset(
    "any anyone anybody anything anywhere ever yet either anymore until till much many long longer least nor but "
    "because because even neither rather instead nor unless enough so".split()
)
_SOME = {"any": "some", "anyone": "someone", "anybody": "somebody", "anything": "something", "anywhere": "somewhere"}
_PLAIN_AUXILIARY = {"ca": "can", "wo": "will", "sha": "shall"}
_SOME_NOUNS = (["number"], ["few"], ["couple"], ["variety"], ["handful"], ["lot"])
_POSITIVE_PRONOUNS = {"nobody": "somebody", "nothing": "something", "nowhere": "somewhere"}
_FULL = {"'ll": " will", "'ve": " have"}


class Negation(GrammaticalEdit):
    """A negation put in or taken out."""

    NAME = "negation"
    SIDE = "move"
    ABOUT = "a negation put in or taken out"

    def ways(self, sentence: Sentence) -> Sequence[Changes]:
        """Return the ways to change the polarity of a sentence."""
        if any(token.low in NEGATIVE for token in sentence):
            return list(_taken_out(sentence))
        clause = main_clause(sentence)
        way = _put_into(clause) if clause else None
        if way is None:
            way = _put_into_question(sentence) or next(_put_after_auxiliary(sentence), None)
        return [way] if way else []


def negation_edits(tagger: Tagger) -> tuple[Negation, ...]:
    """Return the edits of this family."""
    return (Negation(tagger),)


# Rule 1


def _taken_out(sentence: Sentence) -> Iterator[Changes]:
    """Yield the ways to take out a negation."""
    if sum(token.low in NEGATIVE for token in sentence) > 1:
        return
    place = next(place for place, token in enumerate(sentence) if token.low in NEGATIVE)
    token, before = sentence[place], sentence[place - 1] if place else None
    following = sentence[place + 1] if place + 1 < len(sentence) else None
    if following is None or not _stands_without(sentence, place):
        return
    change: Changes | None = None
    if token.low in {"not", "n't"}:
        change = _without_not(sentence, place)
    elif token.low == "cannot":
        change = ((token.begin, token.end, _like(token, "can")),)
    elif token.low == "never" and before and following.low not in {"before", "again", "mind", "-"}:
        change = _without_never(sentence, place)
    elif token.low == "no":
        change = _without_no(sentence, place)
    elif (
        token.low in _POSITIVE_PRONOUNS
        and not (before and before.tag == "RB")
        and following.low not in {"but", "more", "less", "except", "to", "like"}
    ):
        change = ((token.begin, token.end, _like(token, _POSITIVE_PRONOUNS[token.low])),)
    elif token.low == "without" and _opens_plain_noun(following):
        change = ((token.begin, token.end, _like(token, "with")),)
    if change:
        yield (*change, *_any_to_some(sentence, place))


def _opens_plain_noun(token: Token) -> bool:
    return token.low in {"a", "an", "the"} or token.tag == "PRP$" or (is_noun(token) and not token.low.endswith("ing"))


def _stands_without(sentence: Sentence, place: int) -> bool:
    """Return True if no word in the same clause needs the negation."""
    longer = place + 1 if sentence[place + 1].low == "longer" else place
    for token in _rest_of_clause(sentence, longer):
        if token.low in _NEEDS_NEGATION - set(_SOME):
            return False
    rest = [token.low for token in sentence[place:]]
    return ("at", "all") not in itertools.pairwise(rest)


def _rest_of_clause(sentence: Sentence, place: int) -> Iterator[Token]:
    for token in sentence[place + 1 :]:
        if token.low in {",", ";", ":"} and token is not sentence[place + 1]:
            following = sentence[sentence.index(token) + 1] if token is not sentence[-1] else token
            if following.low not in {"but", "nor"}:
                return
        yield token


def _any_to_some(sentence: Sentence, place: int) -> Changes:
    rest = [token for token in _rest_of_clause(sentence, place) if token.low in _SOME]
    return tuple((token.begin, token.end, _SOME[token.low]) for token in rest)


def _without_not(sentence: Sentence, place: int) -> Changes | None:
    token, before = sentence[place], sentence[place - 1]
    if place == 0 or sentence[place + 1].low in _AFTER_NOT | {"to", "there"}:
        return None
    if place > 2 and (sentence[0].tag == "WRB" or (token.low == "n't" and sentence[0].tag in {"WP", "WDT"})):
        return None
    if before.low in HAVE and sentence[place + 1].tag == "VB" and not is_form(sentence[place + 1].low, "VBN"):
        return None
    if before.low == "ai" or (place == 1 and sentence[-1].low == "?") or _is_inverted(sentence, place):
        return None
    if before.low in DO:
        return _without_do(sentence, place)
    if token.low == "n't":
        return ((before.begin, token.end, _like(before, _PLAIN_AUXILIARY.get(before.low, before.low))),)
    auxiliary = sentence[place - 2] if before.low in _SPEAKER_ADVERBS and place > 1 else before
    return (_removed(sentence, place),) if auxiliary.low in BE | HAVE | MODALS | {"'s"} else None


def _is_inverted(sentence: Sentence, place: int) -> bool:
    """Return True for "is he not": the subject stands between auxiliary and "not", or "not" opens a yes-no question."""
    return place == 1 and sentence[0].low in BE | HAVE | MODALS


def _without_do(sentence: Sentence, place: int) -> Changes | None:
    """Return the change of "do not go" into "go", with the form that "do", "does" or "did" calls for."""
    helper = sentence[place - 1]
    main = place + 1
    if sentence[main].low in ADVERBS or sentence[main].low.endswith("ly"):
        main += 1
    if main >= len(sentence) or not is_form(sentence[main].low, "VB"):
        question = (
            place > 1 and sentence[0].low in {"why", "what", "which", "who", "how"} and sentence[place].low == "n't"
        )
        return ((helper.begin, sentence[place].end, helper.text),) if question else None
    verb = sentence[main]
    if helper.low == "do" and place == 1:
        return ((helper.begin, verb.end, _like(helper, verb.text)),) if main == place + 1 else None
    form = {"do": verb.low, "does": inflected(verb.low, "VBZ"), "did": inflected(verb.low, "VBD")}[helper.low]
    if form is None or place < 2 or sentence[place - 2].low in {"why", "how", "where", "when", "what"}:
        return None
    return ((helper.begin, sentence[place + 1].begin, ""), (verb.begin, verb.end, form))


def _without_never(sentence: Sentence, place: int) -> Changes | None:
    before, following = sentence[place - 1], sentence[place + 1]
    after_auxiliary = before.low in BE | HAVE | MODALS | {"'s"}
    finite = following.tag in {"VBD", "VBZ", "VBP", "VBN", "MD"} or following.low in MODALS
    if (after_auxiliary and following.tag.startswith("VB")) or (finite and (is_noun(before) or before.tag == "PRP")):
        return (_removed(sentence, place),)
    return None


def _without_no(sentence: Sentence, place: int) -> Changes | None:
    token, following = sentence[place], sentence[place + 1]
    if following.low == "longer":
        before = sentence[place - 1]
        known = place and (before.low in BE | HAVE | MODALS | {"'s"} or is_noun(before) or before.tag in {"PRP", "WDT"})
        return ((token.begin, following.end, "still"),) if known and before.low not in MODALS else None
    if following.low == "one" and place + 2 < len(sentence) and sentence[place + 2].tag[:2] in {"VB", "MD"}:
        return ((token.begin, following.end, _like(token, "someone")),)
    head = place + 1
    while head < len(sentence) and sentence[head].tag in {"JJ", "NN"} and head < place + 3:
        head += 1
    if (
        head >= len(sentence)
        or sentence[head].tag != "NNS"
        or (place and sentence[place - 1].low in {"with", "or", ","})
    ):
        return None
    if any(other.low in {"other", "such", "less", "fewer", "further"} for other in sentence[place + 1 : head]):
        return None
    return (_removed(sentence, place),)


def _removed(sentence: Sentence, place: int) -> tuple[int, int, str]:
    """Return the change that removes a token and the space after it; the next word takes over a capital."""
    token, following = sentence[place], sentence[place + 1]
    if token.text[:1].isupper():
        return (token.begin, following.end, _like(token, following.text))
    return (token.begin, following.begin, "")


def _like(token: Token, word: str) -> str:
    """Return the word with a capital if the token has one."""
    if len(token.text) > 1 and token.text.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if token.text[:1].isupper() else word


# Rule 2


def _put_into(clause: Clause) -> Changes | None:
    """Return the change that negates the main clause."""
    sentence, verb = clause.sentence, clause.verb
    following = sentence[clause.finite + 1] if clause.finite + 1 < len(sentence) else None
    if following is None or sentence[-1].low == "too" or (len(sentence) > 1 and sentence[-2].low == "too"):
        return None
    if clause.has_auxiliary:
        return _after_auxiliary(sentence, clause.finite)
    if following.low in _AFTER_NOT - _AFTER_FULL_VERB:
        return None
    return _with_do(clause, verb, following)


def _after_auxiliary(sentence: Sentence, place: int) -> Changes | None:
    """Return the change that puts "not" after an auxiliary."""
    verb, following = sentence[place], sentence[place + 1]
    if following.low == "there" or _is_some(sentence, place + 1):
        return None
    if following.low in _SPEAKER_ADVERBS and place + 2 < len(sentence):
        if sentence[place + 2].low in _AFTER_NOT:
            return None
        return ((following.end, following.end, _case(verb, " not")),)
    if following.low == "called" and (place + 2 >= len(sentence) or not sentence[place + 2].text[:1].isalnum()):
        return None
    if following.low in _AFTER_NOT or following.low == "'d" or verb.low in {"'d", "ca", "wo", "sha"}:
        return None
    if verb.low == "can":
        return ((verb.begin, verb.end, _like(verb, "cannot")),)
    if verb.low in _FULL:
        return ((verb.begin, verb.end, f"{_FULL[verb.low]} not"),)
    return ((verb.end, verb.end, _case(verb, " not")),)


def _is_some(sentence: Sentence, place: int) -> bool:
    """Return True for "a number of" and the like: they mean "some", which does not go with "not"."""
    return sentence[place].low == "a" and [token.low for token in sentence[place + 1 : place + 2]] in _SOME_NOUNS


def _with_do(clause: Clause, verb: Token, following: Token) -> Changes | None:
    """Return the change of "walks" into "does not walk"; an adverb such as "often" stays next to the verb."""
    base, tag = lemma(verb.low), past_or_present(verb)
    if verb.low in {"has", "have", "had"}:
        base, tag = "have", {"has": "VBZ", "have": "VBP", "had": "VBD"}[verb.low]
    elif verb.low in DO:
        base, tag = "do", {"does": "VBZ", "do": "VBP", "did": "VBD"}[verb.low]
    if base is None or tag is None or following.low in {"better", "best"}:
        return None
    helper = {"VBZ": "does", "VBP": "do", "VBD": "did"}[tag]
    some: Changes = ((following.begin, following.end, "any"),) if following.low == "some" else ()
    adverbs = clause.sentence[clause.subject_end : clause.finite]
    if not adverbs or all(adverb.low in _AFTER_SUBJECT for adverb in adverbs):
        return ((verb.begin, verb.end, _case(verb, f"{helper} not {base}")), *some)
    if len(adverbs) == 1 and adverbs[0].low in _BEFORE_VERB:
        return ((adverbs[0].begin, adverbs[0].begin, f"{helper} not "), (verb.begin, verb.end, base), *some)
    return None


def _case(token: Token, words: str) -> str:
    return words.upper() if token.text.isupper() and len(token.text) > 1 else words


# Rule 3


def _put_after_auxiliary(sentence: Sentence) -> Iterator[Changes]:
    """Yield the changes that put "not" after an auxiliary which follows a noun, pronoun or relative."""
    if sentence[-1].low == "?" or sentence[0].tag in {"WRB", "WP", "WDT", "MD"} or sentence[0].low in BE | DO | HAVE:
        return
    for place in range(1, len(sentence) - 1):
        verb, before, following = sentence[place], sentence[place - 1], sentence[place + 1]
        if verb.low not in BE | MODALS | HAVE or verb.text[:1].isupper() or verb.low[0] == "'":
            continue
        if not (is_noun(before) or before.tag in {"PRP", "WDT", "WP", "EX"} or before.low in {"that", ")"}):
            continue
        if verb.low in HAVE and not is_form(following.low, "VBN"):
            continue
        way = _after_auxiliary(sentence, place)
        if way:
            yield way


def _put_into_question(sentence: Sentence) -> Changes | None:
    """Return the change of "why did he go" into "why didn't he go", or "who wrote it" into "who did not write it"."""
    if sentence[0].low not in {"why", "what", "which", "who"} or len(sentence) < 4:
        return None
    verb, following = sentence[1], sentence[2]
    if verb.low in {"do", "does", "did", "could", "should", "would"} and sentence[0].low in {"why", "what", "who"}:
        has_verb = any(token.tag in {"VB", "VBP"} for token in sentence[3:])
        return ((verb.end, verb.end, "n't"),) if has_verb and following.tag in {"PRP", "DT", "NNS", "PRP$"} else None
    if sentence[0].low != "who" or following.low in _AFTER_NOT:
        return None
    if sentence[-1].tag in {"IN", "TO"}:
        return None  # "who is the book written to": the subject follows the verb
    if verb.low in {"is", "was", "are", "were", "can", "will"} and following.tag in {"DT", "VBN", "VBG", "IN", "VB"}:
        return _after_auxiliary(sentence, 1)
    base = lemma(verb.low)
    if (
        base not in {None, "be", "have"}
        and is_form(verb.low, "VBD")
        and not is_form(verb.low, "VB")
        and following.tag in {"DT", "PRP$", "NN", "IN"}
    ):
        return ((verb.begin, verb.end, f"did not {base}"),)
    return None
