"""Words replaced by their opposites: pairs of each part of speech, inflections, contexts, and refusals."""

from __future__ import annotations

import builtins
import importlib.util
import os
from pathlib import Path

import pytest
from lexical import results, tagger

from holdfast.edits.antonyms import antonym_edits
from holdfast.edits.wordnet import WordNet


@pytest.fixture(scope="module")
def edit():
    (made,) = antonym_edits(None, tagger())
    return made


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("A large dog sleeps.", "A small dog sleeps."),
        ("It was an easy task.", "It was a difficult task."),
        ("It was a difficult task.", "It was an easy task."),
        ("An unsuccessful attempt was made.", "A successful attempt was made."),
        ("The old house is empty.", "The new house is empty."),
        ("The young dog ran to the lake.", "The old dog ran to the lake."),
        ("The river is narrow.", "The river is wide."),
        ("Several men sat near the lake.", "Several women sat near the lake."),
        ("His brother came.", "His sister came."),
        ("The shop opened in May.", "The shop closed in May."),
        ("The price rises.", "The price falls."),
        ("The price has risen.", "The price has fallen."),
        ("The price rose.", "The price fell."),
        ("They allowed him to go.", "They forbade him to go."),
        ("He was allowed to go.", "He was forbidden to go."),
        ("He agreed to pay.", "He refused to pay."),
        ("He failed to stop the car.", "He managed to stop the car."),
        ("They won the match.", "They lost the match."),
        ("They lost the match.", "They won the match."),
        ("The house was built in 1900.", "The house was demolished in 1900."),
        ("He is selling a house.", "He is buying a house."),
        ("It lies north of here.", "It lies south of here."),
        ("The northern part is flat.", "The southern part is flat."),
        ("She often sings.", "She rarely sings."),
        ("Two years later he left.", "Two years earlier he left."),
        ("He was born in the early 1990s.", "He was born in the late 1990s."),
        ("The door is open to all.", "The door is closed to all."),
        ("A man is sitting on a chair.", "A man is standing on a chair."),
        ("The left bank is steep.", "The right bank is steep."),
        ("Many boys play.", "Many girls play."),
        ("Boys play.", "Girls play."),
        ("The narrow street is wet.", "The wide street is wet."),
        ("He sold the barn in May.", "He bought the barn in May."),
        ("The show begins at nine.", "The show ends at nine."),
        ("They ascended the slope.", "They descended the slope."),
        ("They descended the slope.", "They ascended the slope."),
        ("He attached it.", "He detached it."),
        ("She is guilty.", "She is innocent."),
        ("It was a short walk.", "It was a long walk."),
        ("It was a long song.", "It was a short song."),
        ("The tower is accessible.", "The tower is inaccessible."),
    ],
)
def test_a_word_becomes_its_opposite(edit, text, made):
    assert made in results(edit, text)


@pytest.mark.parametrize(
    "text",
    [
        "He is 5 years old.",
        "It is close to the sea.",
        "She won an award.",
        "He lost his hat.",
        "It is found in fields.",
        "New Order is a band.",
        "the high school",
        "a hot dog",
        "in New York",
        "the new york times",
        "a well-lit room",
        "OLD CARS",
        "He began to sing.",
        "She is no longer here.",
        "He fell asleep.",
        "It is a right.",
        "It was the biggest win in years.",
        "The light is on.",
        "as soon as possible",
        "It is 3 metres high and 20 feet tall.",
        "a man and a woman",
        "We will narrow it.",
        "They narrow lists.",
        "He wants to narrow lists.",
        "It is attached to the wall.",
        "She is not guilty.",
        "a big hitter",
        "a safe haven",
        "He sold the barn behind the stone mill to a farmer.",
        "The trail begins from the mill.",
        "They descended down the slope.",
        "They ascended up the slope.",
        "the short answer",
        "the long answer",
        "It is readily accessible.",
        "It is easily accessible.",
        "the rough equivalent of it",
        "It is 20 m (66 feet) high.",
        "(date of death unknown)",
        "He fails to see any importance.",
        "the wee hours of the morning",
        "It was purpose built here.",
        "",
        "!",
    ],
)
def test_idioms_names_and_other_senses_stay(edit, text):
    assert results(edit, text) == set()


def test_a_pronoun_keeps_the_sex_of_its_noun(edit):
    assert results(edit, "A man took his hat.") == set()
    assert results(edit, "A man took the hat.") == {"A woman took the hat."}


def test_wordnet_takes_negative_prefixes_away():
    pairs = [("unmanned", "manned"), ("manned", "unmanned"), ("hollow", "solid"), ("uncertain", "certain")]
    wordnet = WordNet({pos: {} for pos in "nvar"}, {pos: {} for pos in "nvar"}, source="test", antonyms={"a": pairs})
    (edit,) = antonym_edits(wordnet, tagger())
    assert results(edit, "an unmanned ship") == {"a manned ship"}
    assert results(edit, "a manned ship") == results(edit, "a hollow tree") == set()
    assert results(edit, "an uncertain future") == set()  # its opposite has another frequent sense


def test_base_forms_without_lemminflect(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    original = builtins.__import__

    def imported(name, *arguments, **more):
        assert name != "lemminflect"
        return original(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", imported)
    (edit,) = antonym_edits(None, tagger())
    assert results(edit, "A large dog sleeps.") == {"A small dog sleeps."}
    assert results(edit, "The price rises.") == set()


DATA = Path(os.environ.get("HOLDFAST_DATA", "nowhere"))


@pytest.mark.skipif(not (DATA / "wordnet").is_dir(), reason="needs HOLDFAST_DATA with wordnet")
def test_the_real_wordnet_has_further_pairs():
    (edit,) = antonym_edits(WordNet.read(DATA / "wordnet"), tagger())
    assert results(edit, "an unmanned ship") == {"a manned ship"}
    assert results(edit, "an uneasy feeling") == set()
    assert results(edit, "an incredible story") == set()
    assert results(edit, "an incredibly slim boat") == set()
