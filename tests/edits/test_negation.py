"""A negation put in or taken out: what each rule makes, what it refuses, and the way back."""

from __future__ import annotations

import pytest
from grammar_cases import made, once

pytest.importorskip("textblob")
pytest.importorskip("lemminflect")

PUT_IN = [
    ("The kettle is hot.", "The kettle is not hot."),
    ("The lamps are on the table.", "The lamps are not on the table."),
    ("I am a nurse.", "I am not a nurse."),
    ("She was born in Leeds.", "She was not born in Leeds."),
    ("The team has won the cup.", "The team has not won the cup."),
    ("The team had a coach.", "The team did not have a coach."),
    ("The boats can cross the lake.", "The boats cannot cross the lake."),
    ("The boats must cross the lake.", "The boats must not cross the lake."),
    ("A man walks to the mill.", "A man does not walk to the mill."),
    ("You walk to the mill.", "You do not walk to the mill."),
    ("Two men walk to the mill.", "Two men do not walk to the mill."),
    ("The girl sang a song.", "The girl did not sing a song."),
    ("He found the key.", "He did not find the key."),
    ("She often visits her aunt.", "She does not often visit her aunt."),
    ("She also visited her aunt.", "She also did not visit her aunt."),
    ("The shop is also a museum.", "The shop is also not a museum."),
    ("The cook puts some salt in the soup.", "The cook does not put any salt in the soup."),
    ("It's a good book.", "It's not a good book."),
    ("They'll sell the farm.", "They will not sell the farm."),
    ("In 1950, the mill was sold.", "In 1950, the mill was not sold."),
    ("who wrote the letters to the queen", "who did not write the letters to the queen"),
    ("who is the mayor of leeds", "who is not the mayor of leeds"),
    ("why did the king leave", "why didn't the king leave"),
    ("THE DOOR IS OPEN.", "THE DOOR IS NOT OPEN."),
]
TAKEN_OUT = [
    ("The kettle is not hot.", "The kettle is hot."),
    ("The kettle isn't hot.", "The kettle is hot."),
    ("The boats cannot cross the lake.", "The boats can cross the lake."),
    ("The boats can't cross the lake.", "The boats can cross the lake."),
    ("The mayor won't come.", "The mayor will come."),
    ("The mayor didn't go.", "The mayor went."),
    ("A man does not walk to the mill.", "A man walks to the mill."),
    ("We don’t sell bread.", "We sell bread."),
    ("Don't open the door.", "Open the door."),
    ("He never went to Paris.", "He went to Paris."),
    ("She has never seen the sea.", "She has seen the sea."),
    ("There are no dogs in the yard.", "There are dogs in the yard."),
    ("No dogs live here.", "Dogs live here."),
    ("The shop is no longer open.", "The shop is still open."),
    ("Nobody came to the feast.", "Somebody came to the feast."),
    ("A man without a hat is singing.", "A man with a hat is singing."),
    ("They did not see any foxes.", "They saw some foxes."),
    ("why didn't the king leave", "why did the king leave"),
]
REFUSED = [
    "The prize is only a book.",  # "not only" would lead to "but also"
    "He is not only a baker but also a poet.",
    "She did not come until noon.",
    "He has not slept yet.",
    "It does not matter at all.",
    "Isn't he happy?",  # a negative question asks the same
    "Is he happy?",
    "A red door in a wall",
    "There are some birds.",
    "There are a number of birds.",
    "in leeds how many birds are there",
    "In which yard are there birds",
    "Why are n't there birds in the yard",
    "who was mayor of leeds in may",
    "who was my aunt in the film",
    "who is the letter written to",
    "He ain't here.",
    "Not a word was said and nobody left.",
    "He can run without stopping.",
    "He is not here and she never came.",
    "the top of a roof is called",
    "A man called the Fox robbed a bank.",
]


@pytest.mark.parametrize(("text", "new"), PUT_IN + TAKEN_OUT)
def test_what_is_made(text: str, new: str) -> None:
    assert made("negation", text) == {new}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    assert made("negation", text) == set()
    assert once("negation", text) is None


@pytest.mark.parametrize(("text", "new"), PUT_IN)
def test_the_result_leads_back(text: str, new: str) -> None:
    """The negation of the result is the original, but for contractions written out and "some" after "any"."""
    back = {"It's": "It's", "They'll": "They will"}
    expected = {text.replace(short, full) for short, full in back.items() if short in text} or {text}
    assert made("negation", new) == expected


def test_one_sentence_of_several_is_changed() -> None:
    text = "The door is red. The roof was blue. The wall is white."
    found = {once("negation", text, seed).text for seed in range(20)}  # type: ignore[union-attr]
    assert found == {
        "The door is not red. The roof was blue. The wall is white.",
        "The door is red. The roof was not blue. The wall is white.",
        "The door is red. The roof was blue. The wall is not white.",
    }
