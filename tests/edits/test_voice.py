"""Active and passive."""

from __future__ import annotations

import pytest
from grammar_cases import made

pytest.importorskip("textblob")
pytest.importorskip("lemminflect")

BOTH_WAYS = [
    ("The mayor opened a bridge.", "A bridge was opened by the mayor."),
    ("A man is playing a guitar.", "A guitar is being played by a man."),
    ("The dogs are chasing a cat.", "A cat is being chased by the dogs."),
    ("The nurse wrote the letters.", "The letters were written by the nurse."),
    ("A woman peels a potato.", "A potato is peeled by a woman."),
    ("The court will reject the plan.", "The plan will be rejected by the court."),
    ("The court has rejected the plans.", "The plans have been rejected by the court."),
    ("In 1950, the court rejected the plan.", "In 1950, the plan was rejected by the court."),
    ("The council praised the chorus.", "The chorus was praised by the council."),
    ("The council formed a committee.", "A committee was formed by the council."),
    ("The baker built boats.", "Boats were built by the baker."),
    ("A boy is washing a dog in the garden.", "A dog is being washed by a boy in the garden."),
    ("The army burned the town in 1910.", "The town was burned by the army in 1910."),
]
ONLY_TO_PASSIVE = [  # back, the pronoun would stand before the word that it refers to
    ("His brother painted the door.", "The door was painted by his brother."),
    ("He painted the door.", "The door was painted by him."),
]


@pytest.mark.parametrize(("active", "passive"), BOTH_WAYS)
def test_both_ways(active: str, passive: str) -> None:
    assert made("voice", active) == {passive}
    assert made("voice", passive) == {active}


@pytest.mark.parametrize(("active", "passive"), ONLY_TO_PASSIVE)
def test_an_agent_with_a_pronoun_stays(active: str, passive: str) -> None:
    assert made("voice", active) == {passive}
    assert made("voice", passive) == set()


def test_adverbs_move_behind_be() -> None:
    assert made("voice", "The court formally rejected the plan.") == {"The plan was formally rejected by the court."}


@pytest.mark.parametrize(
    "text",
    [
        "The boy has a dog.",
        "The boy became a doctor.",
        "The queen put the crown on the table.",
        "The boy opened the box with a knife.",
        "While playing, the boy broke the lamp.",
        "The book was published by 1950.",
        "The mill was built in 1950.",
        "The man lost his hat.",
        "He and his brother painted the door.",
        "The band recorded the song after hearing it.",
        "The clinic nurses injured birds.",
        "It was opened by the mayor.",
        "The cook bought bread, butter and jam.",
        "The boy didn't open the box.",
        "Did the boy open the box?",
        "As a clerk, Meyer opened the letters.",
        "The old plan comprised a tower.",
        "A house is lacked by the village.",
        "The council praised the rabbis.",  # a plural that the tagger takes for a singular
        "The baker builds boats.",
        "The army burned the mill in the valley.",
        "The queen praised the growth of trade in the north.",
        "A girl is drawing the growth of a tree in a garden.",
        "The boy played a role.",
        "A boy is washing the big old dog in the garden.",
        "Two boys are playing games of chess in the garden.",
    ],
)
def test_what_is_refused(text: str) -> None:
    assert made("voice", text) == set()
