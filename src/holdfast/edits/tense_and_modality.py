"""Tense and modality of the main clause changed.

Rules of `Tense`:

1. Past to future: "visited" → "will visit", "was built" → "will be built", "did not go" → "will not go".
2. Present to past or future: "walks" → "walked" or "will walk", "is playing" → "was playing" or "will be playing".
3. Future to past: "will open" → "opened", "will be closed" → "was closed".
4. Refused: a sentence with a second finite verb, a date, or an adverb of time, which the new tense would contradict;
   "the first time"; the present of a headline to the past, which means the same ("Actor quits show").

Rules of `Modality`:

1. A modal is exchanged: "may" ↔ "must", "will" → "might", "can" → "must", "should" → "might".
2. A sentence without a modal takes "may": "is" → "may be", "walks" → "may walk", "visited" → "may have visited".
3. Refused: a second verb of the same subject ("sat down and ate"), a sentence with another modal or "probably".

Both put "be" after an adverb such as "also": "was also" → "will also be", "may also have been".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from holdfast.edits.clauses import Clause, is_past_before_object, main_clause, past_or_present, shares_subject
from holdfast.edits.grammar import Changes, GrammaticalEdit
from holdfast.edits.inflection import inflected, is_form, lemma
from holdfast.edits.sentences import BE, DO, HAVE, MODALS, Sentence, Token, is_finite, is_noun
from holdfast.edits.tagging import Tagger

_TIMES = frozenset(
    """
    yesterday today tomorrow tonight now currently presently ago last next previous previously later recently soon
    already formerly once then since until till during originally initially still yet always never ever used
    monday tuesday wednesday thursday friday saturday sunday january february march april May june july august september
    october november december century centuries recent latest
    """.split()
)
_YEAR = re.compile(r"1\d{3}s?|20\d\ds?")
_EXCHANGED = {
    "may": "must",
    "might": "must",
    "must": "may",
    "will": "might",
    "shall": "may",
    "should": "might",
    "can": "must",
    "could": "must",
    "would": "might",
}
_NOT_AFTER_MODAL = frozenset("not n't only like rather have't also never hardly".split())
_NO_MODAL = frozenset("used ought need dare".split())
_BEFORE_BE = frozenset(  # adverbs that stand before "be" after a modal
    """
    also often always usually still sometimes never currently later first then now once again originally generally
    commonly typically initially eventually finally frequently subsequently formerly soon recently therefore thus
    already even ultimately normally occasionally rarely seldom traditionally historically actually simply officially
    """.split()
)
_UNSURE = frozenset("probably perhaps possibly certainly apparently reportedly allegedly maybe likely".split())
_ORDINAL = re.compile(
    r"only|next|final|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d+(?:st|nd|rd|th)"
)


class Tense(GrammaticalEdit):
    """The tense of the main clause changed."""

    NAME = "tense"
    SIDE = "move"
    ABOUT = "the tense of the main clause changed"

    def ways(self, sentence: Sentence) -> Sequence[Changes]:
        """Return the other tenses that the main clause can take."""
        clause = main_clause(sentence)
        if clause is None or any(token.low in _TIMES or _YEAR.fullmatch(token.low) for token in sentence):
            return []
        if _second_finite(clause) or shares_subject(clause) or _counts_times(sentence):
            return []
        return list(_other_tenses(clause))


class Modality(GrammaticalEdit):
    """A modal verb put in or exchanged."""

    NAME = "modality"
    SIDE = "move"
    ABOUT = "a modal verb put in or exchanged"

    def ways(self, sentence: Sentence) -> Sequence[Changes]:
        """Return the change of a modal, or of the main clause if there is none."""
        modals = [place for place, token in enumerate(sentence) if token.low in MODALS or token.low in {"cannot", "'d"}]
        if modals:
            return list(_exchanged(sentence, modals[0])) if len(modals) == 1 else []
        clause = main_clause(sentence)
        if clause is None or shares_subject(clause) or any(token.low in _UNSURE for token in sentence):
            return []
        way = _with_may(clause)
        return [way] if way else []


def tense_and_modality_edits(tagger: Tagger) -> tuple[Tense, Modality]:
    """Return the edits of this family."""
    return Tense(tagger), Modality(tagger)


def _second_finite(clause: Clause) -> bool:
    """Return True if the sentence has a finite verb outside the verb group of the main clause."""
    group, sentence = range(clause.finite, clause.main + 1), clause.sentence
    if any(is_finite(token) and place not in group for place, token in enumerate(sentence)):
        return True
    if sentence[0].low in {"when", "while", "if", "as", "after", "before", "because", "although", "since"}:
        return True
    if _has_past_after_where(sentence[clause.main + 1 :]):
        return True
    if any(is_past_before_object(sentence, place) for place in range(clause.main + 1, len(sentence))):
        return True
    return any(
        token.tag in {"VBN", "VB", "NNS"} and is_form(token.low, "VBD" if token.tag == "VBN" else "VBZ")
        for before, token in itertools.pairwise(sentence)
        if before.tag in {"PRP", "WDT", "WP", "NNP"}
        and token.text == token.low
        and token not in sentence[group[0] : group[-1] + 1]
    )


def _has_past_after_where(tokens: Sentence) -> bool:
    """Return True if a past form, which may be a participle, follows "where", "when" or a relative pronoun."""
    opened = next((place for place, token in enumerate(tokens) if token.tag in {"WRB", "WDT", "WP"}), len(tokens))
    return any(token.text.islower() and is_form(token.low, "VBD") for token in tokens[opened:])


def _counts_times(sentence: Sentence) -> bool:
    """Return True for "the third time", after which the past stays."""
    return any(two.low == "time" and _ORDINAL.fullmatch(one.low) for one, two in itertools.pairwise(sentence))


def _is_headline(clause: Clause) -> bool:
    """Return True if the sentence has no mark at its end and its subject no article: its present stands for a past."""
    sentence = clause.sentence
    return sentence[-1].text[-1].isalnum() and sentence[clause.begin].tag not in {"DT", "PRP", "PRP$", "EX"}


def _is_negated(clause: Clause) -> bool:
    return any(token.low in {"not", "n't"} for token in clause.sentence[clause.finite : clause.main + 2])


def _verb_tag(clause: Clause) -> str | None:
    """Return the tense of the finite verb as a Penn tag."""
    low = clause.verb.low
    if low in BE | HAVE | DO | {"is"}:
        return "VBD" if low in {"was", "were", "had", "did"} else "VBZ" if low in {"is", "has", "does"} else "VBP"
    return past_or_present(clause.verb)


def _replaced(token: Token, new: str) -> tuple[int, int, str]:
    return (token.begin, token.end, new)


def _other_tenses(clause: Clause) -> Iterator[Changes]:
    verb, tag = clause.verb, _verb_tag(clause)
    if verb.low[0] in "'’" or (verb.low in HAVE - {"had"} and clause.main != clause.finite):
        return
    if verb.low == "will":
        yield from _from_future(clause)
        return
    if verb.low in MODALS or tag is None or (verb.low == "had" and clause.main != clause.finite):
        return
    if verb.low in DO and clause.main != clause.finite:
        if verb.low == "did" and clause.sentence[clause.finite + 1].low == "not":
            yield (_replaced(verb, "will"),)
        return
    future = _future(clause)
    if future:
        yield future
    if tag in {"VBZ", "VBP"} and not _is_headline(clause):
        past = _past_of(clause)
        if past:
            yield (_replaced(verb, past),)


def _past_of(clause: Clause) -> str | None:
    low = clause.verb.low
    if low in {"is", "are", "am"}:
        return "were" if low == "are" else "was"
    if low in HAVE:
        return "had"
    base = lemma(low)
    return inflected(base, "VBD") if base else None


def _future(clause: Clause) -> Changes | None:
    """Return the change of a past or present into "will" and the base form, before the adverbs: "will also visit"."""
    sentence, verb = clause.sentence, clause.verb
    base = "be" if verb.low in BE | {"is"} else "have" if verb.low in HAVE else lemma(verb.low)
    following = sentence[clause.finite + 1].low if clause.finite + 1 < len(sentence) else ""
    if base is None or following == "n't":
        return None
    if base == "be" and following == "not":
        end = sentence[clause.finite + 1].end
        return (_replaced(verb, "will"), (end, end, " be"))
    if base == "be" and _adverbs_end(clause) is not None:
        return _around_adverbs(clause, "will", "be")
    if clause.subject_end < clause.finite:
        adverb = sentence[clause.subject_end]
        return ((adverb.begin, adverb.begin, "will "), _replaced(verb, base))
    return (_replaced(verb, f"will {base}"),)


def _adverbs_end(clause: Clause) -> int | None:
    """Return where the adverbs end that follow the finite verb and stand before "be" after a modal; None without any.

    The end is that of a token in characters.
    """
    sentence, place = clause.sentence, clause.finite + 1
    allowed = _BEFORE_BE | {"all", "both"} if clause.plural else _BEFORE_BE
    while place < len(sentence) and sentence[place].low in allowed:
        place += 1
    return sentence[place - 1].end if place > clause.finite + 1 else None


def _around_adverbs(clause: Clause, modal: str, rest: str) -> Changes | None:
    """Return the change of "was also" into "will also be"; None if adverbs stand before the verb, too."""
    end = _adverbs_end(clause)
    if end is None or clause.subject_end < clause.finite:
        return None
    return (_replaced(clause.verb, modal), (end, end, f" {rest}"))


def _from_future(clause: Clause) -> Iterator[Changes]:
    """Yield "opened" for "will open" and "was closed" for "will be closed"."""
    sentence, place = clause.sentence, clause.finite + 1
    if place >= len(sentence) or clause.plural is None:
        return
    base = sentence[place].low
    past = ("were" if clause.plural and sentence[clause.begin].low != "i" else "was") if base == "be" else None
    past = past or (inflected(base, "VBD") if is_form(base, "VB") else None)
    if past:
        yield ((clause.verb.begin, sentence[place].end, past),)


def _exchanged(sentence: Sentence, place: int) -> Iterator[Changes]:
    """Yield the change of a modal that follows its subject and is followed by a base form."""
    token = sentence[place]
    if token.low not in _EXCHANGED or token.text != token.low or place + 1 >= len(sentence) or place == 0:
        return
    before, following = sentence[place - 1], sentence[place + 1]
    if not (is_noun(before) or before.tag in {"PRP", "WDT", "WP", "EX"} or before.low in {"that", ")", "who", "also"}):
        return
    if token.low == "would" and before.low in {"i", "we"}:
        return  # "I would recommend" is a polite present
    if following.low in _NOT_AFTER_MODAL or not (following.low == "be" or is_form(following.low, "VB")):
        return
    yield (_replaced(token, _EXCHANGED[token.low]),)


def _with_may(clause: Clause) -> Changes | None:
    """Return the change of "walks" into "may walk", and of "visited" into "may have visited"."""
    sentence, verb, tag = clause.sentence, clause.verb, _verb_tag(clause)
    if tag is None or verb.low[0] in "'’" or _is_negated(clause) or verb.low in _NO_MODAL:
        return None
    if (verb.low in DO or verb.low == "had") and clause.main != clause.finite:
        return None
    if verb.low in BE | {"is"}:
        new = "have been" if tag == "VBD" else "be"
        if _adverbs_end(clause) is not None:
            return _around_adverbs(clause, "may", new)
    elif verb.low in HAVE and clause.main != clause.finite:
        new = "have"
    else:
        base = "have" if verb.low in HAVE else "do" if verb.low in DO else lemma(verb.low)
        participle = inflected(base, "VBN") if base and tag == "VBD" else None
        if base is None or (tag == "VBD" and participle is None):
            return None
        new = f"have {participle}" if tag == "VBD" else base
    if clause.subject_end < clause.finite:
        adverb = sentence[clause.subject_end]
        return ((adverb.begin, adverb.begin, "may "), _replaced(verb, new))
    return (_replaced(verb, f"may {new}"),)
