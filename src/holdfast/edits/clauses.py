"""The main clause of an English sentence: its subject, its verbs, and where it is safe to say so.

The rules are careful, not complete: where a sentence does not begin with an introductory phrase, a subject and a finite
verb that agrees with it, `main_clause` returns None.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from holdfast.edits.inflection import forms, is_form, is_plural_form, lemma
from holdfast.edits.sentences import BE, DO, HAVE, MODALS, Sentence, Token, is_finite, is_noun

ADVERBS = frozenset(
    """
    also still usually often currently later first previously then now once originally never always sometimes generally
    commonly typically initially eventually finally frequently subsequently formerly primarily mainly mostly soon
    recently simply really probably therefore thus however officially formally successfully quickly briefly regularly
    occasionally rarely seldom hardly only just already even almost nearly ultimately apparently reportedly allegedly
    certainly clearly possibly perhaps normally largely widely highly well publicly directly further too together
    immediately temporarily permanently strongly openly personally traditionally historically actually obviously
    """.split()
)
_OPENING = {"IN", "TO", "RB", "VBG", "WRB", "DT", "CD", "JJ", "VBN", "RBR"}
_LONGEST_INTRODUCTION = 14  # tokens
_IN_NOUN_PHRASE = {"JJ", "JJR", "JJS", "CD", "NN", "NNS", "NNP", "NNPS", "POS", "VBN", "VBG", "#", "$"}
_PREPOSITIONS = frozenset("of in at for from on to with between near under by behind against about among".split())
_SUBJECTS = frozenset("i you he she it we they there this that these those".split())
_PLURAL_SUBJECTS = frozenset("you we they these those".split())
_OBJECTS = frozenset("me him us them".split())
_NO_SUBJECTS = frozenset("whos whats hows wheres".split())
_PREDETERMINERS = frozenset("all both half".split())
_QUOTES = {'"': '"', "“": "”"}
_BOUNDARIES = frozenset(", ; : and but or that which who whom whose when where while as because if although".split())
_NOUNS_IN_LY = ("family", "weekly", "monthly", "daily", "assembly", "anomaly", "fly", "supply", "reply")
_NAMING = frozenset("called named entitled titled known born based".split())


@dataclass(frozen=True)
class Clause:
    """The main clause of a sentence; all places are numbers of tokens.

    Attributes:
        sentence: the tokens.
        begin: the first token of the subject.
        subject_end: the token after the subject.
        finite: the finite verb; adverbs may stand between the subject and it.
        main: the main verb: the same, or after the auxiliaries, "not" and adverbs.
        plural: whether the subject is plural, "I" and "you" included; None if unknown.
    """

    sentence: Sentence
    begin: int
    subject_end: int
    finite: int
    main: int
    plural: bool | None

    @property
    def verb(self) -> Token:
        """The finite verb."""
        return self.sentence[self.finite]

    @property
    def has_auxiliary(self) -> bool:
        """True if the finite verb is "be", a modal, or "have" or "do" before another verb."""
        low = self.verb.low
        return low in BE | MODALS | {"is", "'s"} or self.main != self.finite


def main_clause(sentence: Sentence) -> Clause | None:
    """Return the main clause; None where the sentence is a question, a fragment, or of an uncertain shape."""
    if len(sentence) < 3 or sentence[-1].low == "?":
        return None
    for begin in _starts(sentence):
        clause = _clause_from(sentence, begin)
        if clause:
            return clause
    return None


def _starts(sentence: Sentence) -> list[int]:
    """Return where the subject may begin: at the start, and after the commas of an introductory phrase."""
    starts = [0]
    if sentence[0].tag in _OPENING or sentence[0].low in {"while", "when", "after", "as"}:
        commas = [i for i, token in enumerate(sentence[:_LONGEST_INTRODUCTION]) if token.low == ","]
        starts += [comma + 1 for comma in commas if comma + 1 < len(sentence)]
    return starts


def _clause_from(sentence: Sentence, begin: int) -> Clause | None:
    end = _subject_end(sentence, begin)
    if end is None:
        return None
    finite = end
    while finite < len(sentence) and _is_adverb(sentence[finite]):
        finite += 1
    if finite >= len(sentence) or finite - end > 2 or not _is_verb(sentence, begin, end, finite):
        return None
    return Clause(sentence, begin, end, finite, _main_verb(sentence, finite), is_plural(sentence, begin, end))


def noun_phrase_end(sentence: Sentence, begin: int) -> int | None:
    """Return the end of the simple noun phrase that begins here: a pronoun, or a noun with what stands before it."""
    if begin >= len(sentence):
        return None
    token = sentence[begin]
    if token.low in _QUOTES:
        return _quoted_end(sentence, begin)
    if token.tag in {"PRP", "EX"} or (token.low in _SUBJECTS and not _opens_noun(sentence, begin + 1)):
        return begin + 1
    place = begin + (token.low in _PREDETERMINERS)
    if place < len(sentence) and sentence[place].tag in {"DT", "PRP$"}:
        place += 1
    end = None
    while place < len(sentence):
        if sentence[place].low in _QUOTES:
            place = _quoted_end(sentence, place) or len(sentence)
            end = place if place < len(sentence) else end
            continue
        if not _in_noun_phrase(sentence, place):
            break
        place += 1
        if is_noun(sentence[place - 1]) or (sentence[place - 1].tag == "CD" and place - begin == 1):
            end = place
    return end


def _in_noun_phrase(sentence: Sentence, place: int) -> bool:
    token = sentence[place]
    if token.tag in {"RB", "RBS", "RBR"}:
        return place + 1 < len(sentence) and sentence[place + 1].tag in {"JJ", "VBN"} and token.low not in ADVERBS
    if token.tag in {"VBN", "VBG"} and place and (is_noun(sentence[place - 1]) or token.low in _NAMING):
        return False
    return token.tag in _IN_NOUN_PHRASE and token.low not in BE | HAVE | DO | MODALS


def _opens_noun(sentence: Sentence, place: int) -> bool:
    return place < len(sentence) and sentence[place].tag in _IN_NOUN_PHRASE


def _quoted_end(sentence: Sentence, begin: int) -> int | None:
    closing = _QUOTES[sentence[begin].low]
    for place in range(begin + 1, min(begin + 12, len(sentence))):
        if sentence[place].low == closing:
            return place + 1
    return None


def _subject_end(sentence: Sentence, begin: int) -> int | None:
    """Return the end of a noun phrase with its prepositional phrases, coordination and parentheses."""
    end = noun_phrase_end(sentence, begin)
    if end is None or sentence[begin].low in _OBJECTS | _NO_SUBJECTS:
        return None
    for _ in range(5):
        if end >= len(sentence):
            return None
        low = sentence[end].low
        if low == "(":
            closing = next((i for i in range(end, min(end + 25, len(sentence))) if sentence[i].low == ")"), None)
            following = closing + 1 if closing else None
        elif low in _PREPOSITIONS or low == "and":
            following = noun_phrase_end(sentence, end + 1)
        else:
            return end
        if following is None:
            return None
        end = following
    return end


def _is_adverb(token: Token) -> bool:
    return token.low in ADVERBS or (
        token.tag == "RB" and token.low.endswith("ly") and not token.low.endswith(_NOUNS_IN_LY)
    )


def is_plural(sentence: Sentence, begin: int, end: int) -> bool | None:
    """Return whether the subject between two tokens takes a plural verb, as "I" and "you" do; None if unknown."""
    first, head_end = sentence[begin], noun_phrase_end(sentence, begin) or end
    if head_end < end and sentence[head_end].low == "and":
        return True
    if first.low in _PLURAL_SUBJECTS or (first.low == "i" and first.tag == "PRP"):
        return True
    if first.tag == "PRP" or first.low in {"this", "that"}:
        return False
    head = sentence[head_end - 1]
    if head.tag == "NNS":
        return True if is_plural_form(head.low) else None
    if head.tag == "NNPS" or (head.tag == "NNP" and first.low == "the" and head.low.endswith("s")):
        return None  # "the Parkers", but also "the United States"
    if head.tag == "NN" and head.low.endswith("s") and is_plural_form(head.low, ending=False):
        return None  # a plural that the tagger does not know
    paired = any(token.low == "and" for token in sentence[head_end:end])
    return False if head.tag in {"NN", "NNP"} and not paired else None


def _is_verb(sentence: Sentence, begin: int, end: int, place: int) -> bool:
    """Return True if the token is the finite verb of the subject, and not a participle after its noun."""
    token = sentence[place]
    if token.text != token.low and not sentence[begin].text.isupper():
        return False
    if token.low in BE | HAVE | DO | MODALS or (token.low == "'s" and token.tag == "VBZ"):
        return token.low not in {"be", "been", "being"}
    if not token.text.isalpha() or len(token.text) < 3:
        return False
    plural = is_plural(sentence, begin, end)
    if token.tag == "NNS" and sentence[begin].low in {"he", "she", "it"} and end == begin + 1:
        return is_form(token.low, "VBZ")
    if not token.tag.startswith("VB"):
        return False
    if is_form(token.low, "VBZ") and token.tag == "VBZ":
        return plural is not True and lemma(token.low) != token.low
    if is_form(token.low, "VB") and token.tag in {"VBP", "VB"} and not is_form(token.low, "VBD"):
        return plural is not False
    return token.tag in {"VBD", "VBN"} and _is_past(sentence, begin, place)


def _is_past(sentence: Sentence, begin: int, place: int) -> bool:
    """Return True for a past tense; a form that may be a participle needs an object, or no finite verb after it."""
    token = sentence[place]
    if not is_form(token.low, "VBD") or is_form(token.low, "VB") or token.low in _NAMING:
        return False
    if not is_form(token.low, "VBN") or sentence[begin].tag == "PRP":
        return True
    following = sentence[place + 1] if place + 1 < len(sentence) else None
    if following is None or following.low == "by" or _may_hold_verb(sentence[begin:place]):
        return False
    if following.tag in {"DT", "PRP", "PRP$"}:
        return True
    headline = sentence[begin].tag.startswith("NN") and sentence[-1].text.isalnum() and following.tag == "IN"
    if headline or following.low in {"to", "as"} or sentence[begin].tag not in {"DT", "PRP$", "NNP", "NNPS"}:
        return False
    for later in sentence[place + 1 :]:
        if later.low in _BOUNDARIES:
            return True
        if is_finite(later):
            return False
    return True


def _may_hold_verb(subject: Sentence) -> bool:
    """Return True if a plural noun before another noun may be a headline's verb: "Minister signs law aimed at …"."""
    last = subject[-1]
    if len(subject) > 2 and last.tag == "NNS" and subject[-2].tag == "NN" and is_form(last.low, "VBZ"):
        return True
    pairs = itertools.pairwise(subject[1:])
    return any(a.tag == "NNS" and is_noun(b) and is_form(a.low, "VBZ") for a, b in pairs)


def _main_verb(sentence: Sentence, finite: int) -> int:
    """Return the last verb of the verb group: "has not been widely used" gives "used"."""
    low = sentence[finite].low
    if low not in BE | HAVE | DO | MODALS | {"'s"}:
        return finite
    found = place = finite
    allowed = _following_tags(low)
    while place + 1 < len(sentence):
        place += 1
        token = sentence[place]
        if token.low in {"not", "n't"} or _is_adverb(token):
            continue
        if not _follows(token, allowed):
            break
        found, allowed = place, _following_tags(token.low)
        if not allowed:
            break
    return found


def _following_tags(low: str) -> tuple[str, ...]:
    """Return the forms that may follow an auxiliary."""
    if low in BE or low in {"be", "been", "being", "'s"}:
        return ("VBN", "VBG")
    if low in HAVE or low == "have":
        return ("VBN",)
    return ("VB",) if low in MODALS | DO else ()


def _follows(token: Token, allowed: tuple[str, ...]) -> bool:
    if token.low in {"been", "being", "be", "have", "had"}:
        return {"been": "VBN", "being": "VBG", "be": "VB", "have": "VB", "had": "VBN"}[token.low] in allowed
    if not token.tag.startswith("VB"):
        return token.tag in {"NN", "JJ"} and allowed == ("VB",) and is_form(token.low, "VB")
    return any(is_form(token.low, tag) for tag in allowed)


def shares_subject(clause: Clause) -> bool:
    """Return True if another verb after "and", "or", "but" or a comma may belong to the same subject."""
    sentence = clause.sentence
    for place in range(clause.main + 1, len(sentence) - 1):
        if sentence[place].low in {"and", "or", "but", ",", "&", ";"}:
            following = sentence[place + 1]
            if is_past_before_object(sentence, place + 1):
                return True
            if following.tag == "RB" and place + 2 < len(sentence):
                following = sentence[place + 2]
            base = lemma(following.low) if following.text.islower() else None
            plain_noun = is_noun(following) or following.tag in {"JJ", "IN", "DT", "CD", "PRP", "PRP$", "VBG"}
            if base and not plain_noun and not following.low.endswith("ing"):
                return True
            if following.tag == "NNS" and is_form(following.low, "VBZ") and clause.plural is False:
                return True
    return False


def is_past_before_object(sentence: Sentence, place: int) -> bool:
    """Return True for a past form before an article or pronoun ("shot a man"), whatever the tagger takes it for."""
    if place + 1 >= len(sentence) or not sentence[place].text.islower():
        return False
    low = sentence[place].low
    return sentence[place + 1].tag in {"DT", "PRP", "PRP$"} and is_form(low, "VBD") and not is_form(low, "VB")


def past_or_present(token: Token) -> str | None:
    """Return the tag of a finite full verb: "VBD", "VBZ" or "VBP"; None for a form that may be two of them."""
    if is_form(token.low, "VBD"):
        return None if is_form(token.low, "VB") else "VBD"
    base = lemma(token.low)
    if base is None:
        return None
    return "VBP" if base == token.low else "VBZ" if token.low in forms(base, "VBZ") else None
