"""Contractions made and written out."""

from __future__ import annotations

import pytest
from grammar_cases import made, once

pytest.importorskip("textblob")

BOTH_WAYS = [
    ("The door is not open.", "The door isn't open."),
    ("They are not here now.", "They aren't here now."),
    ("The boats cannot cross.", "The boats can't cross."),
    ("The mayor will not come.", "The mayor won't come."),
    ("She did not see it.", "She didn't see it."),
    ("We are happy here.", "We're happy here."),
    ("It is a good book.", "It's a good book."),
    ("They will sell the farm.", "They'll sell the farm."),
    ("I am a nurse.", "I'm a nurse."),
    ("They have sold the farm.", "They've sold the farm."),
    ("She has been ill.", "She's been ill."),
    ("There is a fox in the yard.", "There's a fox in the yard."),
    ("what is the name of the river", "what's the name of the river"),
]
REFUSED = [
    "That is what they are.",
    "She knows what it is now.",
    "He is and was a friend.",
    "isn't he happy",
    "why didn't he come",
    "She's gone.",  # is or has
    "He's won the race.",
    "It's become clear that he left.",
    "She's just come home.",
    "He's had enough of it.",
    "Where's he gone?",
    "I'd go.",  # had or would
    "The dog's bone is old.",
    "He may not come.",
    "She has a dog.",
    "It is not only cheap.",
    "WE ARE HAPPY.",
    "The dog wags it's tail.",
    "it's colour is red",
    "The town and it's own are old.",
    "it's large roof is new",
    "They spoke of it's very red roof.",
    "The dog lost it's very old bone.",
    "The value of it's big house fell.",
    "who wrote the song you are here",
    "in the film the nurse said i can't sleep",
    "who sings we are here",
]


@pytest.mark.parametrize(("full", "short"), BOTH_WAYS)
def test_both_ways(full: str, short: str) -> None:
    assert short in made("contraction", full)
    assert full in made("contraction", short)


def test_no_second_contraction_of_one_verb() -> None:
    assert made("contraction", "They know it isn't red.") == {"They know it is not red."}


def test_has_behind_an_adverb() -> None:
    assert made("contraction", "She's always been ill.") == {"She has always been ill."}
    assert made("contraction", "Where's he going?") == {"Where is he going?"}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    assert made("contraction", text) == set()


def test_after_a_film_in_a_sentence_with_capitals() -> None:
    assert made("contraction", "The film shows that they are here.") == {"The film shows that they're here."}


def test_written_out_with_a_curly_apostrophe() -> None:
    assert made("contraction", "The door isn’t open.") == {"The door is not open."}


def test_strength_is_the_share_of_words() -> None:
    text = "It is cold, they are here, we are late and I am ill."
    assert len(once("contraction", text).changes) == 1  # type: ignore[union-attr]
    assert len(once("contraction", text, strength=0.2).changes) == 3  # type: ignore[union-attr]
    assert once("contraction", text, strength=1.0).text == "It's cold, they're here, we're late and I'm ill."  # type: ignore[union-attr]
