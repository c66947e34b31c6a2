"""A word replaced by its opposite: pairs with their contexts, and WordNet's words with a negative prefix.

Part of speech, inflection and the article before the word are kept right. WordNet's other antonyms (of all senses) are
not used: most depend on the sense of the word.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.edits import antonym_adjectives, antonym_words
from holdfast.edits.inflection import can_inflect
from holdfast.edits.tagging import Tagger
from holdfast.edits.word_rules import Condition, Rule, RuleEdit, read_rules
from holdfast.edits.wordnet import WordNet

_TAGGED = {
    "ADJ": antonym_adjectives.ADJECTIVES,
    "ADV": antonym_words.ADVERBS,
    "NOUN": antonym_words.NOUNS,
    "VERB": antonym_words.VERBS,
}
_FORMS = {"NOUN": ("NNS",), "VERB": ("VBZ", "VBG", "VBD", "VBN")}
# One of these precedes a passive or perfect; only then is an ambiguous form in -ed a participle.
_AUXILIARIES = frozenset("be been being is are was were am get got has have had having".split())
# Before a verb that the tagger took a noun for.
_NOT_NOUN = Condition("after", frozenset("a an the its his their our my your this no s ADJ NUM".split()), negated=True)

_PREFIXES = ("un", "in", "im", "ir", "il", "dis")


class Antonym(RuleEdit):
    """A word replaced by its opposite."""

    NAME = "antonym"
    SIDE = "move"
    ABOUT = "a word replaced by its opposite"


def antonym_edits(wordnet: WordNet | None, tagger: Tagger) -> list[Antonym]:
    """Return the edit `Antonym`.

    Args:
        wordnet: source of further pairs, such as stable and unstable; None: the pairs listed here alone.
        tagger: the part-of-speech tagger.
    """
    rules = [
        *read_rules(antonym_words.ANY_TAG),
        *read_rules(antonym_adjectives.PREFIXED, "ADJ"),
    ]
    for tag, text in _TAGGED.items():
        for rule in read_rules(text, tag):
            whole = rule.given(_NOT_NOUN) if tag == "VERB" else rule
            rules += [whole, *_inflected(whole)]
    if wordnet is not None:
        known = {rule.old for rule in rules}
        rules += [rule for rule in _prefix_rules(wordnet) if rule.old not in known]
    # "Win or lose", "a man and a woman": with its opposite near by, a change would say a thing twice.
    rules = [rule.given(Condition("with", frozenset([rule.new]), negated=True)) for rule in rules]
    idioms = antonym_words.IDIOMS.replace("\n", " ").split(", ")
    return [Antonym(rules, tagger, idioms)]


def _inflected(rule: Rule) -> Iterator[Rule]:
    """Yield the rule for the inflected forms of a noun or verb; none if lemminflect is not installed."""
    if rule.tag not in _FORMS or not can_inflect():
        return
    from lemminflect import getInflection

    (old,), made = rule.old, dict[str, str]()
    for form in _FORMS[rule.tag]:
        old_form, new_form = (getInflection(word, form, inflect_oov=True)[0] for word in (old, rule.new))
        if old_form == old:
            continue
        if form == "VBN" and made.get(old_form, new_form) != new_form:
            # The past is the participle (allowed), but not that of the opposite (forbade, forbidden).
            yield Rule((old_form,), new_form, rule.tag, (Condition("behind", _AUXILIARIES, False), *rule.conditions))
            past = made.pop(old_form)
            yield Rule((old_form,), past, rule.tag, (Condition("behind", _AUXILIARIES, True), *rule.conditions))
            continue
        made[old_form] = new_form
    for old_form, new_form in made.items():
        yield Rule((old_form,), new_form, rule.tag, rule.conditions)


def _prefix_rules(wordnet: WordNet) -> Iterator[Rule]:
    """Yield rules that take a prefix away (unmanned: manned), for WordNet's adjectives and adverbs.

    The other direction is not safe: many a word has a prefixed opposite in a rare sense only (certain, real, due).
    """
    for tag in ("ADJ", "ADV"):
        for word, opposite in wordnet.antonym_pairs(tag):
            prefix = word.removesuffix(opposite)
            if prefix in _PREFIXES and word not in antonym_adjectives.NOT_OPPOSITE:
                yield Rule((word,), opposite, tag)
