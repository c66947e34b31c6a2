"""Full stops, commas, quotation marks and phrases of time."""

from __future__ import annotations

import pytest
from grammar_cases import made, once

pytest.importorskip("textblob")
pytest.importorskip("lemminflect")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The door is open.", "The door is open"),
        ("the hats of the mayor are red.", "the hats of the mayor are red"),
        ("In 1990, she moved to Kent.", "In 1990 she moved to Kent."),
        ("They sell apples, pears and plums.", "They sell apples, pears, and plums."),
        ('The song "Blue Door" was sold.', "The song “Blue Door” was sold."),
        ("The nurse's hat is red.", "The nurse’s hat is red."),
    ],
)
def test_both_ways(one: str, other: str) -> None:
    assert other in made("punctuation", one)
    assert one in made("punctuation", other)


def test_a_dash() -> None:
    assert "The door — a red one — is open." in made("punctuation", "The door -- a red one — is open.")


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("who is the mayor of leeds", "who is the mayor of leeds."),
        ("whos the mayor of leeds", "whos the mayor of leeds."),
        ("do you like it", "do you like it."),
        ("Did you see that movie", "Did you see that movie."),
        ("the whole roof of the", "the whole roof of the."),
        ("the tower was meant to be", "the tower was meant to be."),
        ("the tower and the roof and", "the tower and the roof and."),
        ("It works for the U.S.", "It works for the U.S"),
        ("In London, John wrote a letter.", "In London John wrote a letter."),
        ("He said so, she left, and we slept.", "He said so, she left and we slept."),
        ("She met Ann, a nurse, and Bob.", "She met Ann, a nurse and Bob."),
    ],
)
def test_what_is_refused(text: str, never: str) -> None:
    assert never not in made("punctuation", text)


def test_the_full_stop_of_a_text_alone_changes() -> None:
    text = "The harbour was built by the Romans. It was later destroyed. People visit the harbour."
    assert {found.text for seed in range(30) if (found := once("punctuation", text, seed))} == {text[:-1]}


@pytest.mark.parametrize(
    ("end", "front"),
    [
        ("He moved to Rome in 1990.", "In 1990, he moved to Rome."),
        ("The station was closed in May 1951.", "In May 1951, the station was closed."),
        ("Meyer left the company on 3 May 2004.", "On 3 May 2004, Meyer left the company."),
        ("The hall was painted in the 1920s.", "In the 1920s, the hall was painted."),
    ],
)
def test_a_phrase_of_time_moves(end: str, front: str) -> None:
    assert made("word-order", end) == {front}
    assert made("word-order", front) == {end}


def test_a_phrase_of_time_moves_away_from_of() -> None:
    assert made("word-order", "He became mayor of the town in 1990.") == {"In 1990, he became mayor of the town."}
    assert made("word-order", "In 1990, he became mayor of the town.") == set()


@pytest.mark.parametrize(
    "text",
    [
        "He moved to Rome, and she stayed in 1990.",
        "The court stopped a plan to build roads in 1990.",
        "The court made a promise to freeze rents in 1990.",
        "He was born in 1950 and died in 1990.",
        "The shop that opened in 1990 was sold in 1991.",
        "Police arrested the driver in 1990.",
        "In the house, he slept.",
        "He only moved to Rome in 1990.",
        "In 1990, he also moved to Rome.",
        "The town was becoming a city in 1990.",
        'The band sold the song "Blue Door" in 1990.',
        "He moved to Rome – the capital in 1990.",
        "He was praised for his whole work in 1990.",
        "In 1990, he was praised for his whole work.",
        "He was a nurse from May until June in 1990.",
    ],
)
def test_phrases_that_stay(text: str) -> None:
    assert made("word-order", text) == set()
