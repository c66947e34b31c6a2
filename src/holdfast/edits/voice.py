"""Active and passive exchanged in a simple transitive clause, which keeps the meaning.

Rules:

1. Active to passive: "The mayor opened a bridge" → "A bridge was opened by the mayor", "A man is playing a guitar" →
   "A guitar is being played by a man". The verb is a simple past or present, progressive, or a modal with a base form.
2. Passive to active: "The book was written by a nurse" → "A nurse wrote the book".
3. What follows stays where it is. Pronouns take their case; "be" agrees with the new subject.
4. Refused: verbs that have no passive in common use ("had", "became"), verbs with a direction or a second object,
   objects without an article that are no names or plurals, subjects that are "it", "there" or a clause; a plural
   without an article in the simple present ("He writes books"), agents with a pronoun ("by her brother"), a phrase of
   place after the object, which may belong to it, unless the verb is progressive; "As a nurse, she …".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from holdfast.edits.clauses import Clause, is_plural, main_clause
from holdfast.edits.grammar import Changes, GrammaticalEdit
from holdfast.edits.inflection import inflected, is_form, lemma
from holdfast.edits.roles import exchanged_phrases, is_passive, may_exchange, object_end
from holdfast.edits.sentences import BE, DO, HAVE, MODALS, Sentence, is_noun
from holdfast.edits.tagging import Tagger

_NO_PASSIVE = frozenset(
    """
    be have become remain resemble lack cost weigh fit suit equal contain hold last mean belong get let want like love
    wish need seem stay look prove enter leave reach join visit attend tour climb turn go come arrive say tell
    think claim know see watch hear feel make help call name elect appoint consider give send take win lose score
    earn gain spend begin start continue finish enjoy learn try decide try step walk run ride drive fly swim jump
    receive get obtain undertake include feature involve represent possess own marry meet share face miss hope ask
    undergo scatter put shake nod raise lower move follow precede near prefer believe mark comprise constitute
    """.split()
)
_NO_ACTIVE = frozenset("base situate locate bear know comprise resemble lack fit cost contain become mean have".split())
_THIRD_PERSON = frozenset("he him his she her hers it its they them their theirs".split())
_TIME = re.compile(
    r"1\d{3}s?|20\d\ds?|january|february|march|april|may|june|july|august|september|october|november|december"
    r"|spring|summer|autumn|winter|war|(?:mon|tues|wednes|thurs|fri|satur|sun)?days?|century|night|morning|evening"
)
_MAY_FOLLOW = frozenset(". ! ; in on at during near inside outside before after until throughout".split())
_MAY_FOLLOW_ADVERBS = frozenset("outdoors indoors together again outside inside here there today yesterday".split())
_OPENS_RELATIVE = frozenset("that which who whom whose where than as".split())


class Voice(GrammaticalEdit):
    """Active and passive exchanged."""

    NAME = "voice"
    SIDE = "hold"
    ABOUT = "active and passive exchanged"

    def ways(self, sentence: Sentence) -> Sequence[Changes]:
        """Return the other voice of the main clause, if it has the simple shape."""
        clause = main_clause(sentence)
        if clause is None or "n't" in [token.low for token in sentence]:
            return []
        way = _active(clause) if is_passive(clause) else _passive(clause)
        return [way] if way else []


def voice_edits(tagger: Tagger) -> tuple[Voice, ...]:
    """Return the edits of this family."""
    return (Voice(tagger),)


def _passive(clause: Clause) -> Changes | None:
    """Return the passive of an active clause."""
    sentence, begin = clause.sentence, clause.main + 1
    base = lemma(sentence[clause.main].low)
    end = object_end(sentence, begin)
    if base is None or base in _NO_PASSIVE or end is None or not _may_move(clause, begin, end):
        return None
    if any(token.tag == "PRP$" for token in sentence[begin:end]):
        return None  # "The man lost his hat": whose would it be?
    if sentence[end - 1].low in {"role", "part"}:
        return None  # "played a role": one expression
    if sentence[begin].tag not in {"DT", "PRP", "NNP", "NNPS", "CD"} and _is_simple_present(clause):
        return None  # "He writes books": books in general, not some books
    participle, plural = inflected(base, "VBN"), _be_plural(sentence, begin, end)
    group = _passive_group(clause, plural)
    if participle is None or group is None:
        return None
    subject, object_ = exchanged_phrases(clause, begin, end)
    adverbs = "".join(f" {token.text}" for token in sentence[clause.subject_end : clause.finite])
    first, _, rest = group.partition(" ")
    verbs = (
        sentence[clause.subject_end].begin,
        sentence[clause.main].end,
        f"{first}{adverbs}{' ' if rest else ''}{rest} {participle} by",
    )
    return _in_place(clause, begin, end, subject, verbs, object_)


def _is_simple_present(clause: Clause) -> bool:
    return clause.finite == clause.main and not is_form(clause.verb.low, "VBD")


def _be_plural(sentence: Sentence, begin: int, end: int) -> str | None:
    """Return whether the noun phrase takes "is" ("singular"), "am" or "are"; None if its number is unknown."""
    first = sentence[begin].low
    if end - begin == 1 and first in {"me", "us", "them", "you", "him", "her", "it"}:
        return {"me": "am", "us": "are", "them": "are", "you": "are"}.get(first, "is")
    plural = is_plural(sentence, begin, end)
    return None if plural is None else "are" if plural else "is"


def _passive_group(clause: Clause, be: str | None) -> str | None:
    """Return the forms of "be" before the participle, with the adverbs and "not" of the active clause."""
    sentence, verb = clause.sentence, clause.verb
    if be is None:
        return None
    was = "were" if be == "are" else "was"
    between = sentence[clause.finite + 1 : clause.main]
    if clause.finite == clause.main:
        if is_form(verb.low, "VBD") and not is_form(verb.low, "VB"):
            return was
        return be if verb.tag in {"VBZ", "VBP", "VB"} and not is_form(verb.low, "VBD") else None
    if between:
        return None
    if verb.low in MODALS and verb.low.isalpha():
        return f"{verb.low} be"
    if verb.low in BE | {"is"} and sentence[clause.main].low.endswith("ing"):
        return f"{was if verb.low in {'was', 'were'} else be} being"
    if verb.low in HAVE - {"'ve"}:
        return "had been" if verb.low == "had" else f"{'have' if be != 'is' else 'has'} been"
    return None


def _active(clause: Clause) -> Changes | None:
    """Return the active of a passive clause with "by"."""
    sentence, main = clause.sentence, clause.main
    base, begin = lemma(sentence[main].low), clause.main + 2
    if base is None or begin >= len(sentence) or sentence[main + 1].low != "by" or clause.subject_end != clause.finite:
        return None
    end = object_end(sentence, begin)
    if end is None or base in _NO_ACTIVE or not _may_move(clause, begin, end):
        return None
    if any(token.low in _THIRD_PERSON for token in sentence[begin:end]):
        return None  # the pronoun would stand before the word that it refers to
    group = _active_group(clause, base, _be_plural(sentence, begin, end))
    if group is None:
        return None
    subject, object_ = exchanged_phrases(clause, begin, end)
    return _in_place(clause, begin, end, subject, (clause.verb.begin, sentence[main + 1].end, group), object_)


def _active_group(clause: Clause, base: str, be: str | None) -> str | None:
    """Return the verbs of the active for those of the passive; ``be`` is the form of "be" that the agent takes."""
    sentence, main, verb = clause.sentence, clause.main, clause.verb.low
    between = [token.low for token in sentence[clause.finite + 1 : main]]
    if not between and verb in {"was", "were"}:
        return inflected(base, "VBD")
    if between == ["be"] and verb in MODALS:
        return f"{verb} {base}"
    if between == ["been"] and verb == "had":
        return f"had {sentence[main].low}"
    if be is None:
        return None
    if not between and verb in {"is", "are"}:
        return inflected(base, "VBZ") if be == "is" else base
    if between == ["been"] and verb in {"has", "have"}:
        return f"{'has' if be == 'is' else 'have'} {sentence[main].low}"
    progressive = inflected(base, "VBG")
    if between == ["being"] and verb in {"was", "were", "is", "are"} and progressive:
        past = "were" if be == "are" else "was"
        return f"{past if verb in {'was', 'were'} else be} {progressive}"
    return None


def _may_move(clause: Clause, begin: int, end: int) -> bool:
    """Return True if subject and object may change places, and no word after the object needs the verb next to it."""
    sentence = clause.sentence
    subject = sentence[clause.begin : clause.subject_end]
    following = sentence[end].low if end < len(sentence) else "."
    if following not in _MAY_FOLLOW | _MAY_FOLLOW_ADVERBS or sentence[0].low in {"as", "like", "unlike"}:
        return False
    if following in _MAY_FOLLOW - set(".!;") and _may_belong_to_object(clause, begin, end):
        return False
    if any(token.low.endswith("ing") and not is_noun(token) for token in sentence[end:]):
        return False  # "after hearing", "accusing": what does it belong to?
    if any(one.tag == "IN" and two.low.endswith("ing") for one, two in itertools.pairwise(sentence[end:])):
        return False
    if any(token.low in _OPENS_RELATIVE | {"and", "but", "or", ","} for token in sentence[end:]):
        return False
    if sentence[clause.main].low in BE | DO | HAVE or (clause.begin > 0 and sentence[0].tag not in {"IN", "RB"}):
        return False
    if any(token.tag in {"VBG", "VBN"} for token in sentence[: clause.begin]):
        return False  # its subject is that of the clause: "While playing, he …"
    if len(subject) > 1 and subject[0].tag == "PRP":
        return False
    if subject[0].low in {"it", "there", "this", "that", "they", "i", "you", "we"}:
        return False
    if sentence[0].text.islower() and sentence[0].tag not in {"DT", "PRP"}:
        return False
    return may_exchange(subject, sentence[begin:end])


def _may_belong_to_object(clause: Clause, begin: int, end: int) -> bool:
    """Return True if the phrase after the object is none of time, and may belong to the object rather than the verb."""
    sentence = clause.sentence
    if any(_TIME.fullmatch(token.low) for token in sentence[end + 1 :]):
        return False
    progressive = sentence[clause.main].low.endswith("ing") or "being" in [
        token.low for token in sentence[clause.finite : clause.main]
    ]
    return not progressive or end - begin > 3 or any(token.low == "of" for token in sentence[begin:end])


def _in_place(clause: Clause, begin: int, end: int, subject: str, verbs: tuple[int, int, str], object_: str) -> Changes:
    first, last = clause.sentence[clause.begin], clause.sentence[clause.subject_end - 1]
    phrase = (clause.sentence[begin].begin, clause.sentence[end - 1].end, object_)
    return ((first.begin, last.end, subject), verbs, phrase)
