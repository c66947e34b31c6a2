"""Tenses and modal verbs of the main clause."""

from __future__ import annotations

import pytest
from grammar_cases import made

pytest.importorskip("textblob")
pytest.importorskip("lemminflect")


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("The girl visited the museum.", {"The girl will visit the museum."}),
        ("The bridge was built by hand.", {"The bridge will be built by hand."}),
        ("He also wrote a letter.", {"He will also write a letter."}),
        ("She did not open the box.", {"She will not open the box."}),
        ("A man walks to the mill.", {"A man walked to the mill.", "A man will walk to the mill."}),
        ("The lamp is not on the table.", {"The lamp was not on the table.", "The lamp will not be on the table."}),
        ("Two cats are sleeping.", {"Two cats were sleeping.", "Two cats will be sleeping."}),
        (
            "He and his aunt are in the garden.",
            {"He and his aunt were in the garden.", "He and his aunt will be in the garden."},
        ),
        ("The boys have a boat.", {"The boys had a boat.", "The boys will have a boat."}),
        ("The mayor will open the bridge.", {"The mayor opened the bridge."}),
        ("He and his aunt will be late.", {"He and his aunt were late."}),
        ("The shops will be closed.", {"The shops were closed."}),
        ("He was also a baker.", {"He will also be a baker."}),
        ("The letters were often read.", {"The letters will often be read."}),
        ("The walls were all green.", {"The walls will all be green."}),
        ("The road was almost empty.", {"The road will be almost empty."}),
        ("Actor leaves show", {"Actor will leave show"}),
        ("Storm kills two in Leeds", {"Storm will kill two in Leeds"}),
        ("A man opens a box", {"A man opened a box", "A man will open a box"}),
        ("The girl saw the boy for some time.", {"The girl will see the boy for some time."}),
    ],
)
def test_tenses(text: str, new: set[str]) -> None:
    assert made("tense", text) == new


@pytest.mark.parametrize(
    "text",
    [
        "The girl visited the museum in 1990.",
        "The girl visited the museum yesterday.",
        "The girl opened the door and left.",
        "The girl smiled when the door opened.",
        "The girl has visited the museum.",
        "A red door in a wall",
        "It was the third time in the match.",
        "The girl opened the only time capsule.",
        "She visited the town, where her uncle served as mayor.",
        "The latest change was a new roof.",
        "The guard saw two men before the nurse disarmed him.",
        "Leeds Mayor charged over fire",
        "The girl wasn't worried.",
    ],
)
def test_tenses_refused(text: str) -> None:
    assert made("tense", text) == set()


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("You may enter the house.", "You must enter the house."),
        ("You must enter the house.", "You may enter the house."),
        ("The mayor will open the bridge.", "The mayor might open the bridge."),
        ("The child can read the letter.", "The child must read the letter."),
        ("The lamp is on the table.", "The lamp may be on the table."),
        ("The lamp was on the table.", "The lamp may have been on the table."),
        ("A man walks to the mill.", "A man may walk to the mill."),
        ("The girl sang a song.", "The girl may have sung a song."),
        ("She has seen the sea.", "She may have seen the sea."),
        ("She later wrote a book.", "She may later have written a book."),
        ("He was also a baker.", "He may also have been a baker."),
        ("The letters are often read.", "The letters may often be read."),
        ("The walls are all green.", "The walls may all be green."),
        ("The road was almost empty.", "The road may have been almost empty."),
        ("The girl would buy bread.", "The girl might buy bread."),
    ],
)
def test_modals(text: str, new: str) -> None:
    assert made("modality", text) == {new}


@pytest.mark.parametrize(
    "text",
    [
        "The man sat on a bench and ate an apple.",
        "She had seen the sea.",
        "The lamp is not on the table.",
        "You may enter, but you must knock.",
        "You should not enter.",
        "I'd go home.",
        "I would suggest a walk.",
        "He was probably a baker.",
        "The guard followed two men and shot a third man.",
        "He later was also a baker.",
    ],
)
def test_modals_refused(text: str) -> None:
    assert made("modality", text) == set()


def test_a_month_is_no_modal() -> None:
    assert made("modality", "It opened in May.") == {"It may have opened in May."}
