"""Subject and object swapped: agreement, case, capitals, and the clauses that are left alone."""

from __future__ import annotations

import pytest
from grammar_cases import made, once

pytest.importorskip("textblob")
pytest.importorskip("lemminflect")

SAME_WORDS = [
    ("The cat chased a dog.", "A dog chased the cat."),
    ("The cat is chasing a dog.", "A dog is chasing the cat."),
    ("The baker in the red hat is watching the nurse.", "The nurse is watching the baker in the red hat."),
    ("Meyer defeated Kowalski in 1950.", "Kowalski defeated Meyer in 1950."),
    ("In 1950, the king attacked the duke.", "In 1950, the duke attacked the king."),
    ("The bill was praised by the mayor.", "The mayor was praised by the bill."),
    ("The king of Spain attacked the queen of France.", "The queen of France attacked the king of Spain."),
    ("Her uncle chased the cat.", "The cat chased her uncle."),
    ("A woman is carrying her baby.", "Her baby is carrying a woman."),
    ("Several dogs chased the cat.", "The cat chased several dogs."),
    ("The dogs chased three cats.", "Three cats chased the dogs."),
    ("Meyer followed Kowalski to the mill.", "Kowalski followed Meyer to the mill."),
    ("The boys watched the girls on the beach.", "The girls watched the boys on the beach."),
    ("A man plays the guitar and sings.", "The guitar plays a man and sings."),
]
WITH_FORMS = [
    ("The dogs are chasing a cat.", "A cat is chasing the dogs."),
    ("A woman peels potatoes.", "Potatoes peel a woman."),
    ("He saw the nurse.", "The nurse saw him."),
    ("The nurse saw him.", "He saw the nurse."),
    ("They have attacked the king.", "The king has attacked them."),
    ("The teacher is watching me.", "I am watching the teacher."),
    ("The bridges were designed by an engineer.", "An engineer was designed by the bridges."),
]
REFUSED = [
    "The queen met the duke.",  # the same both ways
    "The boy became a doctor.",
    "The show lasted three days.",
    "The man hurt himself.",
    "The cook wants a knife that cuts.",
    "The cook bought bread, butter and jam.",
    "The king gave the boy a horse.",
    "The meeting took place in Rome.",
    "The artist illustrated the books by hand.",
    "She attended thanks to a friend.",
    "The plan is a secret.",
    "A dog sleeps in the yard.",
    "Did the cat chase the dog?",
    "The research and policy group.",
    "The boys have seen a bear and have told the hunter.",  # the second verb would not agree
    "The king rejected the claim to the throne.",
    "The queen found an answer for the duke.",
    "The war caused a rift between the towns.",
    "The leader warned US.",
    "The teacher told them to enjoy themselves.",
    "A paper ran an editorial about reports.",
    "Five sons left the king: a singer and four cooks.",
    "Police arrested the driver.",  # is the capital that of a name?
]


@pytest.mark.parametrize(("text", "new"), SAME_WORDS + WITH_FORMS)
def test_what_is_made(text: str, new: str) -> None:
    assert made("roles", text) == {new}


@pytest.mark.parametrize(("text", "new"), SAME_WORDS)
def test_the_words_stay_the_same(text: str, new: str) -> None:
    assert sorted(text.lower().strip(".").split()) == sorted(new.lower().strip(".").split())


@pytest.mark.parametrize(
    ("text", "new"), [pair for pair in SAME_WORDS + WITH_FORMS if "otatoes" not in pair[0] and "red hat" not in pair[0]]
)
def test_a_second_swap_is_the_first_text(text: str, new: str) -> None:
    """But for a phrase that may belong to the object, which stays where it is."""
    assert made("roles", new) == {text}


def test_a_quantifier_loses_its_capital() -> None:
    assert made("roles", "Most girls watched the boys.") == {"The boys watched most girls."}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    assert made("roles", text) == set()
    assert once("roles", text) is None


@pytest.mark.parametrize(
    ("name", "text", "new"),
    [
        ("roles", "The U.S. attacked Iraq.", "Iraq attacked the U.S."),
        ("roles", "Iraq attacked the U.S.", "The U.S. attacked Iraq."),
        ("roles", "The plan was supported by the U.S.", "The U.S. was supported by the plan."),
        ("roles", "The U.S. army attacked the town in 1990.", "The town attacked the U.S. army in 1990."),
        ("voice", "The U.S. attacked Iraq.", "Iraq was attacked by the U.S."),
        ("word-order", "He bought a house in the U.S. in 1990.", "In 1990, he bought a house in the U.S."),
    ],
)
def test_an_abbreviation_at_the_end_takes_the_full_stop(name: str, text: str, new: str) -> None:
    found = once(name, text)
    assert found is not None
    assert found.text == new
