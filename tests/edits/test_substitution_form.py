"""The rules of form, each by a substitution that it alone refuses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.edits.substitution_form import Substitution, SubstitutionForm
from holdfast.edits.wordnet import WordNet
from holdfast.edits.words import Words

SYNSETS = {
    "n": [
        ("sofa", "couch"),
        ("couch", "frame"),
        ("example", "model"),
        ("example", "illustration"),
        ("fence", "fencing"),
        ("organisation", "organization"),
        ("room", "chamber"),
        ("doctor", "physician", "MD"),
        ("year", "twelvemonth"),
        ("answer", "reply"),
        ("dance", "dancing", "ballet"),
        ("act", "deed", "other"),
        ("war", "warfare"),
        ("plain", "level"),
        ("plain", "field"),
        ("field", "arena"),
        ("field", "ground"),
        ("ground", "land"),
        ("ground", "soil"),
        ("plain", "ground"),
        ("field", "land"),
    ],
    "a": [("better", "best"), ("better", "finer"), ("modest", "humble")],
    "v": [("answer", "reply"), ("dance", "step")],
}


def wordnet() -> WordNet:
    senses: dict[str, dict[str, list[tuple[str, ...]]]] = {pos: {} for pos in "nvar"}
    for pos, synsets in SYNSETS.items():
        for synset in synsets:
            for word in synset:
                senses[pos].setdefault(word.lower(), []).append(synset)
    return WordNet(senses, {pos: {} for pos in "nvar"}, source="small", phrases={"living room", "act-of-god"})


class Nouns:
    """A tagger: nouns, but for words after "to" and "very"."""

    source = "small"

    def tags(self, words: Sequence[str]) -> list[str]:
        tags = {"to": "VERB", "very": "ADJ"}
        return [tags.get(words[i - 1] if i else "", "NOUN") for i in range(len(words))]


def fault(text: str, old: str, new: str) -> str | None:
    words = Words.of(text)
    return SubstitutionForm(wordnet(), Nouns()).fault(Substitution(words, words.words.index(old), new))


@pytest.mark.parametrize(
    ("text", "old", "new", "reason"),
    [
        ("We sat on the sofa.", "sofa", "couch", None),
        ("We sat on the sofas.", "sofas", "couches", None),
        ("We sat on the sofa.", "sofa", "sofa", "word"),
        ("It is an act.", "act", "other", "word"),
        ("He waited an hour.", "hour", "minute", "article"),
        ("It has a use.", "use", "employment", "article"),
        ("He slept on the Sofa.", "Sofa", "Couch", "name"),
        ("Sofa and chair.", "Sofa", "Couch", None),
        ("It rains. Sofa and chair.", "Sofa", "Couch", None),
        ("SOFA OF THE YEAR", "SOFA", "COUCH", None),
        ("I saw a doctor.", "doctor", "MD", "name"),
        ("SOFA in the room", "SOFA", "COUCH", "name"),
        ("Two wars ended.", "wars", "warfare", "number"),
        ("It is very better.", "better", "best", "degree"),
        ("It is very better.", "better", "finer", None),
        ("It is very modest.", "modest", "humble", None),
        ("The plain is wet.", "plain", "level", None),
        ("The plain is wet.", "plain", "field", None),
        ("The plain is wet.", "plain", "ground", "rare sense"),
        ("It is a sofa-bed.", "sofa", "couch", "compound"),
        ("See the-sofa.", "sofa", "couch", "compound"),
        ("The sofa's legs broke.", "sofa", "couch", None),
        ("This is an example.", "example", "model", "article"),
        ("This is an example.", "example", "illustration", None),
        ("This is the example.", "example", "model", None),
        ("The dance was long.", "dance", "dancing", "ending"),
        ("The dance was long.", "dance", "ballet", None),
        ("It has a fence.", "fence", "fenceless", "stem"),
        ("The organisation closed.", "organisation", "organization", None),
        ("The living room is cold.", "room", "chamber", "phrase"),
        ("The living rooms are cold.", "rooms", "chambers", "phrase"),
        ("The act of god.", "act", "deed", "phrase"),
        ("Living, room by room.", "room", "chamber", None),
        ("The room is cold.", "room", "chamber", None),
        ("The room is cold.", "room", "couch", "sense"),
        ("We have to answer.", "answer", "reply", None),
        ("We have to sofa.", "sofa", "couch", "sense"),
    ],
)
def test_each_rule_refuses_by_its_name(text: str, old: str, new: str, reason: str | None) -> None:
    assert fault(text, old, new) == reason


def test_another_part_of_speech_in_the_changed_text_is_refused() -> None:
    class ByWord:
        def tags(self, words: Sequence[str]) -> list[str]:
            return ["VERB" if word == "couch" else "NOUN" for word in words]

    words = Words.of("We sat on the sofa.")
    form = SubstitutionForm(wordnet(), ByWord())
    assert form.fault(Substitution(words, 4, "couch")) == "part of speech"


def test_the_shares_of_senses_are_counted_per_part_of_speech() -> None:
    small = wordnet()
    assert small.shared_senses("sofa", "couch", "NOUN") == (1.0, 0.5)
    assert small.shared_senses("couches", "Sofa", "NOUN") == (0.5, 1.0)
    assert small.shared_senses("sofa", "couch", "VERB") == (0.0, 0.0)
    assert small.shared_senses("sofa", "room", "NOUN") == (0.0, 0.0)
    assert small.shared_senses("sofa", "couch", "DET") == (0.0, 0.0)
    assert small.shared_ranks("plains", "ground", "NOUN") == (2, 3)
    assert small.shared_ranks("sofa", "room", "NOUN")[0] > 99 < small.shared_ranks("sofa", "room", "DET")[1]
    assert small.is_phrase(["Living", "rooms"])
    assert small.is_phrase(["act", "of", "god"]), "a hyphen is as good as a space"
    assert not small.is_phrase(["room", "living"])
