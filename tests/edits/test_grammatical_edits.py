"""What holds for every grammatical edit on any text."""

from __future__ import annotations

import importlib.util
import random

import pytest
from grammar_cases import ODD_TEXTS, SENTENCES, edit, once, tagger
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("textblob")
pytest.importorskip("lemminflect")

import itertools

from holdfast.edits.edit import SIDES
from holdfast.edits.grammatical_edits import grammatical_edits
from holdfast.edits.sentences import SentenceReader, phrase_text
from holdfast.edits.tagging import Tag, Tagger
from holdfast.errors import UserError

NAMES = {
    "negation": "move",
    "roles": "move",
    "tense": "move",
    "modality": "move",
    "contraction": "hold",
    "voice": "hold",
    "punctuation": "hold",
    "word-order": "hold",
}
WORDS = """the a dog dogs he him she they is was not n't never no and , . " ' ’ ( ) by in 1990 who which walked walks
 walk will may had has done seen John In The to of some any quickly also "x" don't can't it's ? ! nothing without May"""


def test_names_and_sides() -> None:
    assert {one.NAME: one.SIDE for one in grammatical_edits(tagger())} == NAMES
    assert set(NAMES.values()) == set(SIDES)
    assert all(
        one.LANGUAGE == "en" and one.ABOUT and not one.ABOUT.endswith(".") for one in grammatical_edits(tagger())
    )


@pytest.mark.parametrize("name", NAMES)
def test_some_of_the_sentences_are_changed(name: str) -> None:
    made = [found for text in SENTENCES if (found := once(name, text))]
    assert made, name
    for found in made:
        assert found.text != found.original
        assert found.original in SENTENCES
        assert "  " not in found.text
        assert not found.text.startswith(" ")
        assert found.text[0].isupper() == found.original[0].isupper()
        ends = [0, *(change.end for change in found.changes)]
        assert all(end <= change.begin for end, change in zip(ends, found.changes, strict=False))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_makes_the_same_text(name: str) -> None:
    for text in SENTENCES:
        assert once(name, text, seed=3) == once(name, text, seed=3)


@pytest.mark.parametrize("name", [name for name in NAMES if not edit(name).REPEATS])
def test_only_one_sentence_changes(name: str) -> None:
    """The other sentences of a text stay, character by character."""
    for one, two in itertools.pairwise(SENTENCES):
        found = once(name, f"{one} {two}")
        if found:
            assert found.text.startswith(one) or found.text.endswith(two)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts(name: str, text: str) -> None:
    found = once(name, text)
    assert found is None or found.text != text


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WORDS.split()), max_size=14).map(" ".join) | st.text(max_size=40), st.integers(0, 9))
def test_no_text_makes_an_error(text: str, seed: int) -> None:
    for name in NAMES:
        found = edit(name)(text, random.Random(seed), seed / 9)
        assert found is None or (found.original == text and found.text != text)


@given(st.text(max_size=60))
def test_tokens_are_those_of_the_text(text: str) -> None:
    for sentence in SentenceReader(tagger()).sentences(text):
        assert all(text[token.begin : token.end] == token.text for token in sentence)
        assert phrase_text(sentence).split() == text[sentence[0].begin : sentence[-1].end].split()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Dr. Lee met J. Smith. They ate.", 2),
        ("It is in the U.S. capital. Yes!", 2),
        ("He left... and came back.", 1),
        ("no end here", 1),
        ("It is Res. 12 of the House.", 1),
        ("One? Two! Three.", 3),
    ],
)
def test_sentences(text: str, count: int) -> None:
    assert len(SentenceReader(tagger()).sentences(text)) == count


def test_a_tagger_without_penn_tags_is_refused() -> None:
    plain = Tagger(lambda words: [Tag("NOUN", "") for _ in words], "plain", penn=False)
    with pytest.raises(UserError, match=r"plain gives no Penn Treebank tags: take --tagger textblob"):
        grammatical_edits(plain)


def test_a_missing_lemminflect_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "lemminflect" else find(name))
    with pytest.raises(
        UserError, match=r"edits of the kind negation need lemminflect.*pip install 'holdfast\[attacks\]'"
    ):
        grammatical_edits(tagger())
