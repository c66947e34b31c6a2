"""Subject and object of a simple transitive clause swapped.

Rules:

1. The main clause is subject, verb, object in the active voice: "The cat chased a dog" → "A dog chased the cat".
2. The verb agrees with its new subject ("The dogs chase a cat" → "A cat chases the dogs"); pronouns take their case
   ("He saw me" → "I saw him"). Otherwise the words stay the same, so that a bag of words sees no change.
3. The object is a noun phrase with an article, a name, a plural or a pronoun; after it the sentence ends, or a
   preposition, an adverb or a conjunction follows. What follows stays where it is.
4. In the passive, the subject and the agent are swapped: "The bill was opposed by the mayor" → "The mayor was opposed
   by the bill".
5. Refused: verbs that mean the same both ways ("met"), verbs with a complement ("became"), objects of time or measure
   ("three days"), reflexives in either part, objects with a relative clause or a participle, common nouns before "to",
   "for" and "between" ("a claim to the throne").
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.edits.clauses import Clause, is_plural, main_clause, noun_phrase_end, shares_subject
from holdfast.edits.grammar import Changes, GrammaticalEdit
from holdfast.edits.inflection import inflected, is_form, is_known_noun, lemma
from holdfast.edits.sentences import BE, DO, HAVE, Sentence, Token, is_finite, is_noun, phrase_text
from holdfast.edits.tagging import Tagger

_NOT_SWAPPED = frozenset(
    """
    be become remain seem appear feel look sound turn get stay prove weigh cost last measure number total say tell
    think claim announce state note report go come arrive die live happen act work serve rank finish start
    meet marry resemble equal divorce match rival neighbor adjoin border parallel date kiss hug fight encounter
    intersect tie draw face oppose wed embrace mean constitute represent comprise form average span
    need want like let make call name elect appoint consider help take give have hold do would lack
    """.split()
)
_TIME = frozenset(
    """
    second minute hour day week weekend month year decade century season time night morning evening afternoon today
    yesterday tomorrow monday tuesday wednesday thursday friday saturday sunday january february march april may june
    july august september october november december spring summer autumn winter way mile kilometer metre meter percent
    bit part place advantage care lot number home dollar euro million
    """.split()
)
_SUBJECT_CASE = {"me": "I", "him": "he", "her": "she", "us": "we", "them": "they", "it": "it", "you": "you"}
_OBJECT_CASE = {subject.lower(): object_ for object_, subject in _SUBJECT_CASE.items()}
_QUANTIFIERS = frozenset("several many most few more other some such various young old new large small local".split())
_COMPLEMENTS = {"to", "for", "between", "about"}
_ORDINARY = {"DT", "IN", "NN", "NNS", "JJ", "JJR", "JJS", "RBR", "RBS", "CD", "PRP$"}
_AFTER_OBJECT = {"IN", "TO", "RB", "CC", ".", ":"}
_NOT_AFTER_OBJECT = frozenset("that than of which who whom whose as including like such not n't & ( \" “".split())


class RolesSwapped(GrammaticalEdit):
    """Subject and object swapped."""

    NAME = "roles"
    SIDE = "move"
    ABOUT = "subject and object swapped"

    def ways(self, sentence: Sentence) -> Sequence[Changes]:
        """Return the swap in the main clause, if it has the simple shape."""
        clause = main_clause(sentence)
        if clause is None or not _takes_object(clause):
            return []
        begin = clause.main + 1 + is_passive(clause)
        end = object_end(sentence, begin)
        by_follows = end is not None and [token.low for token in sentence[end : end + 1]] == ["by"]
        if (
            end is None
            or by_follows
            or _has_complement(sentence, end)
            or _is_bound(sentence, begin, end)
            or not may_exchange(sentence[clause.begin : clause.subject_end], sentence[begin:end])
        ):
            return []
        way = _swap(clause, begin, end)
        return [way] if way else []


def _has_complement(sentence: Sentence, end: int) -> bool:
    """Return True for "an answer" before "to", or a list: the noun would leave its complement behind."""
    if end == len(sentence):
        return False
    following = sentence[end].low
    return following == ":" or (following in _COMPLEMENTS and sentence[end - 1].tag in {"NN", "NNS"})


def _is_bound(sentence: Sentence, begin: int, end: int) -> bool:
    """Return True for an object that is the country "US", or before a reflexive, which means the subject."""
    return [token.text for token in sentence[begin:end]] == ["US"] or any(
        token.low.endswith(("self", "selves")) for token in sentence[begin:]
    )


def role_edits(tagger: Tagger) -> tuple[RolesSwapped, ...]:
    """Return the edits of this family."""
    return (RolesSwapped(tagger),)


def is_passive(clause: Clause) -> bool:
    """Return True for a form of "be" and a past participle."""
    group = [token.low for token in clause.sentence[clause.finite : clause.main]]
    main = clause.sentence[clause.main]
    return any(low in BE | {"is", "been", "be", "being"} for low in group) and not main.low.endswith("ing")


def _takes_object(clause: Clause) -> bool:
    """Return True for an active verb that may take an object, or a passive with "by"."""
    sentence, verb = clause.sentence, clause.sentence[clause.main]
    if lemma(verb.low) in _NOT_SWAPPED or verb.low in BE | DO | HAVE | {"been", "being"}:
        return False
    if "'s" in [token.low for token in sentence[clause.finite : clause.main]]:
        return False
    following = sentence[clause.main + 1].low if clause.main + 1 < len(sentence) else ""
    return not is_passive(clause) or following == "by"


def object_end(sentence: Sentence, begin: int) -> int | None:
    """Return the end of the object that begins here, with its "of" phrase and a coordinated noun phrase; or None."""
    end = noun_phrase_end(sentence, begin)
    while end is not None and end < len(sentence) and sentence[end].low in {"of", "and", "or"}:
        further = noun_phrase_end(sentence, end + 1)
        if sentence[end].low == "of":
            end = further
        elif further is None or (further < len(sentence) and _is_verb_like(sentence[further])):
            break
        else:
            end = further
    return end if end is not None and _ends_well(sentence, end) else None


def _is_verb_like(token: Token) -> bool:
    return token.tag[:2] in {"VB", "MD"} or token.low == "'s"


def _ends_well(sentence: Sentence, end: int) -> bool:
    if end >= len(sentence):
        return True
    token = sentence[end]
    following = sentence[end + 1] if end + 1 < len(sentence) else None
    if token.low == ",":
        return following is not None and following.tag in {"IN", "CC", "VBG", "RB"} and following.low != "that"
    if token.low == "and" and following is not None and not _is_verb_like(following) and following.tag != "RB":
        further = noun_phrase_end(sentence, end + 1)
        return further is not None and further < len(sentence) and is_finite(sentence[further])
    if token.low == ".":
        return following is None and len(sentence[end - 1].low) > 1
    return token.low in {"!", ";"} or (token.tag in _AFTER_OBJECT and token.low not in _NOT_AFTER_OBJECT)


def may_exchange(subject: Sentence, object_: Sentence) -> bool:
    """Return True if both parts are simple, and their number and capitals are known."""
    for part in (subject, object_):
        if any(token.tag == "EX" or token.low.endswith(("self", "selves")) for token in part):
            return False
        if any(not (token.text[0].isalnum() or token.low == "'s") for token in part) or part[0].low in {
            "this",
            "that",
            "one",
        }:
            return False
        if any(is_noun(token) and (lemma_of_noun(token) in _TIME) for token in part):
            return False
    if any(len(part) > 1 and part[0].tag == "PRP" for part in (subject, object_)):
        return False
    if [token.low for token in subject] == [token.low for token in object_]:
        return False
    if (
        object_[0].low in {"i", "he", "she", "we", "they"}
        or object_[0].tag == "VBG"
        or {subject[0].low, object_[0].low} & {"chances", "thanks"}
    ):
        return False
    if any(token.low in {"and", "or"} for token in object_) and not _is_clear_pair(object_):
        return False
    return _has_determiner(object_) and is_lowerable(subject)


def _is_clear_pair(part: Sentence) -> bool:
    """Return True for "a man and a dog" or names or plurals, but not for "a research and policy group"."""
    place = [token.low in {"and", "or"} for token in part].index(True)
    after = part[place + 1]
    if after.tag in {"VBN", "VBD"}:
        return False
    return after.tag in {"DT", "PRP", "CD"} or (is_noun(part[place - 1]) and part[-1].tag in {"NNS", "NNP"})


def lemma_of_noun(token: Token) -> str:
    """Return the noun without a plural "s"."""
    return token.low[:-1] if token.low.endswith("s") and not token.low.endswith("ss") else token.low


def _has_determiner(object_: Sentence) -> bool:
    """Return True if the noun phrase can stand alone: it has an article, or is a pronoun, a name or a plural."""
    first = object_[0]
    if first.tag == "CD":
        return first.text.isalpha() and object_[-1].tag == "NNS"
    if first.tag in {"DT", "PRP$", "PRP", "NNP", "NNPS"}:
        return first.low not in {"any", "no", "each", "both", "all"}
    of = [token.low for token in object_].index("of") if any(token.low == "of" for token in object_) else len(object_)
    return any(token.tag == "NNS" for token in object_[:of])


def is_lowerable(subject: Sentence) -> bool:
    """Return True if it is known whether the first word keeps its capital inside a sentence."""
    token = subject[0]
    if (
        token.low in _QUANTIFIERS
        or not token.text[:1].isupper()
        or token.tag in {"DT", "PRP", "PRP$", "CD", "IN"}
        or token.text[1:] != token.low[1:]
    ):
        return True
    if token.tag in {"NNP", "NNPS"}:
        following = subject[1].text if len(subject) > 1 else ""
        return not is_known_noun(token.low) and (following[:1].isupper() or following in {"", "and", "of", "in", "'s"})
    alone = len(subject) == 1 or not (subject[1].text[:1].isupper() or subject[1].low == "'s")
    return alone and token.tag in {"NN", "NNS"} and is_known_noun(token.low)


def _swap(clause: Clause, begin: int, end: int) -> Changes | None:
    """Return the swap of the subject with the noun phrase between two tokens."""
    sentence = clause.sentence
    new_subject, new_object = exchanged_phrases(clause, begin, end)
    verb = _agreeing(clause, sentence[begin:end], is_plural(sentence, begin, end))
    if verb is None or (verb != clause.verb.text and shares_subject(clause)):
        return None
    return (
        (sentence[clause.begin].begin, sentence[clause.subject_end - 1].end, new_subject),
        (clause.verb.begin, clause.verb.end, verb),
        (sentence[begin].begin, sentence[end - 1].end, new_object),
    )


def exchanged_phrases(clause: Clause, begin: int, end: int) -> tuple[str, str]:
    """Return the noun phrase between two tokens as a subject, and the subject as an object, with case and capitals."""
    sentence = clause.sentence
    subject, object_ = sentence[clause.begin : clause.subject_end], sentence[begin:end]
    new_subject, new_object = phrase_text(object_), phrase_text(subject)
    if len(subject) == 1 and subject[0].tag == "PRP":
        new_object = _OBJECT_CASE.get(subject[0].low, subject[0].low)
    elif clause.begin == 0 and not keeps_capital(subject[0]):
        new_object = new_object[:1].lower() + new_object[1:]
    if len(object_) == 1 and object_[0].tag.startswith("PRP"):
        new_subject = _SUBJECT_CASE.get(object_[0].low, new_subject)
    if clause.begin == 0 and sentence[0].text[:1].isupper():
        new_subject = new_subject[:1].upper() + new_subject[1:]
    return new_subject, new_object


def keeps_capital(token: Token) -> bool:
    """Return True if the first word of a sentence has a capital in any place, such as a name and "I"."""
    if token.tag == "PRP":
        return token.low == "i"
    ordinary = token.tag in _ORDINARY and token.text[1:] == token.low[1:]
    return not (token.text == "A" or ordinary)


def _agreeing(clause: Clause, subject: Sentence, plural: bool | None) -> str | None:
    """Return the finite verb that agrees with the new subject; None if its number is unknown."""
    verb = clause.verb
    first_person = len(subject) == 1 and subject[0].low == "me"
    if subject[0].low in {"us", "them", "you", "me"} and len(subject) == 1:
        plural = True
    elif subject[0].tag == "PRP" and len(subject) == 1:
        plural = False
    if verb.low in {"is", "are", "am"}:
        singular, other = "is", "am" if first_person else "are"
    elif verb.low in {"was", "were"}:
        singular, other = "was", "was" if first_person else "were"
    elif verb.low in {"has", "have"}:
        singular, other = "has", "have"
    elif verb.low in {"does", "do"}:
        singular, other = "does", "do"
    elif verb.low.startswith("'"):
        return None
    elif clause.main != clause.finite or is_form(verb.low, "VBD"):
        return verb.text
    else:
        base = lemma(verb.low)
        singular, other = (inflected(base, "VBZ") or "", base) if base else ("", "")
    if plural is None or not singular:
        return verb.text if clause.plural == plural else None
    return other if plural else singular
