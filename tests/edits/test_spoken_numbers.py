"""Numbers as they are spoken, in text as a recogniser writes it."""

from __future__ import annotations

import pytest

from holdfast.edits.speech_edit import Speech


@pytest.fixture(scope="module")
def speech() -> Speech:
    return Speech()


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("The 2.4GHz band", "the two point four ghz band"),
        ("a 3.5mm jack, 1,000m away", "a three point five mm jack one thousand m away"),
        ("about .5 of 1,00,000", "about zero point five of one hundred thousand"),
        (
            "It was -40 degrees, -3.5°C (−2)",
            "it was minus forty degrees minus three point five degrees celsius minus two",
        ),
        ("It grew 5% in 2010, 10 % of it", "it grew five percent in twenty ten ten percent of it"),
        ("He paid $20.50, or (£3.01)!", "he paid twenty dollars and fifty cents or three pounds and one penny"),
        (
            "$1.5 billion, US$1, 20 € and $ 5m",
            "one point five billion dollars us one dollar twenty euros and five million dollars",
        ),
        ("for $13.5 Billion or 2 Million", "for thirteen point five billion dollars or two million"),
        ("call 020 now", "call 020 now"),
        ("at 3:30pm, 3:05 or 4:00", "at three thirty pm three oh five or four o'clock"),
        ("5,10,15: 3-2, 1990-2000", "five ten fifteen three two nineteen ninety two thousand"),
        ("a 10-year-old in 4K", "a ten year old in four k"),
        ("mp3 and 2x4 in the 1980s", "mp3 and 2x4 in the 1980s"),
        ("v2.4.1 at 192.168.0.1", "v2 4 1 at 192 168 0 1"),
    ],
)
def test_a_number_keeps_its_quantity(speech: Speech, text: str, spoken: str) -> None:
    assert speech.plain(text) == spoken


@pytest.mark.parametrize("text", ["?", "...", "😀"])
def test_a_text_of_which_nothing_can_be_heard_stays(speech: Speech, text: str) -> None:
    assert speech.plain(text) == text


def test_an_accent_of_its_own_does_not_part_a_word(speech: Speech) -> None:
    assert speech.plain("Nai\u0308ve, cafe\u0301!") == "nai\u0308ve cafe\u0301"
