"""The synonym edit: it takes valid synonyms only, as many as it is asked for, and depends on its arguments alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

from test_substitution_form import Nouns, wordnet

from holdfast.edits.substitution_form import Substitution
from holdfast.edits.synonym_edit import SynonymEdit, synonym_edits, valid_words
from holdfast.edits.words import Words


class Judge:
    """A judge that knows the valid words."""

    source = "known"

    def __init__(self, *words: str) -> None:
        self.words = words

    def valid(self, asked: Sequence[Substitution]) -> list[bool]:
        return [each.word in self.words for each in asked]


def edit(*valid: str) -> SynonymEdit:
    (made,) = synonym_edits(wordnet(), Nouns(), Judge(*valid))  # type: ignore[arg-type]
    assert isinstance(made, SynonymEdit)
    return made


def test_only_valid_synonyms_are_taken() -> None:
    text = "The sofa stood in the room."
    for seed in range(5):
        made = edit("chamber")(text, random.Random(seed))
        assert made is not None
        assert made.text == "The sofa stood in the chamber."
        assert made.share == 1 / 6
    assert edit("nothing")(text, random.Random(0)) is None
    assert edit("chamber")("", random.Random(0)) is None


def test_the_strength_is_the_share_of_words() -> None:
    text = "The sofa and the couch and the room."
    changed = {}
    for strength in (0.0, 0.25, 1.0):
        made = edit("chamber", "couch", "sofa")(text, random.Random(1), strength)
        assert made is not None
        changed[strength] = len(made.changes)
    assert changed == {0.0: 1, 0.25: 2, 1.0: 3}
    again = edit("chamber", "couch", "sofa")(text, random.Random(1), 0.25)
    assert again == edit("chamber", "couch", "sofa")(text, random.Random(1), 0.25)


def test_without_a_judge_all_candidates_are_valid() -> None:
    words = Words.of("a room")
    assert valid_words(None, words, 1, ["chamber", "couch"]) == ["chamber", "couch"]
    assert valid_words(Judge("couch"), words, 1, ["chamber", "couch"]) == ["couch"]
