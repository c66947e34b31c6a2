"""Quantifiers and comparatives replaced by their opposites, and phrases that stay."""

from __future__ import annotations

import pytest
from lexical import results, tagger

from holdfast.edits.quantifiers import quantifier_edits


@pytest.fixture(scope="module")
def edit():
    (made,) = quantifier_edits(tagger())
    return made


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("All dogs bark.", "Some dogs bark."),
        ("Some dogs bark.", "All dogs bark."),
        ("All of the dogs bark.", "None of the dogs bark."),
        ("He ate most of the cake.", "He ate none of the cake."),
        ("More than 20 dogs bark.", "Fewer than 20 dogs bark."),
        ("It is more than a year old.", "It is less than a year old."),
        ("It took less than two hours.", "It took more than two hours."),
        ("At least 12 people died.", "At most 12 people died."),
        ("It costs up to 20 dollars.", "It costs at least 20 dollars."),
        ("He came after the war.", "He came before the war."),
        ("He slept before eating.", "He slept after eating."),
        ("It is the largest city in Spain.", "It is the smallest city in Spain."),
        ("They met after the parade.", "They met before the parade."),
        ("They met before the parade.", "They met after the parade."),
        ("There is no milk here.", "There is some milk here."),
        ("He sold a lot of milk.", "He sold hardly any milk."),
        ("The older boats sank.", "The newer boats sank."),
        ("No one knows it.", "Everyone knows it."),
        ("There is no evidence of life.", "There is some evidence of life."),
        ("Most people like it.", "Few people like it."),
        ("Many people like it.", "Few people like it."),
        ("A few dogs bark.", "Many dogs bark."),
        ("Several people died.", "No people died."),
        ("the most famous actor", "the least famous actor"),
        ("He is more careful today.", "He is less careful today."),
        ("He always sings.", "He never sings."),
        ("He has never been here.", "He has always been here."),
        ("Nobody knows it.", "Everybody knows it."),
        ("It is a better book.", "It is a worse book."),
        ("It is an easier task.", "It is a harder task."),
        ("It is the best album of the year.", "It is the worst album of the year."),
        ("It is a cheaper car.", "It is a more expensive car."),
    ],
)
def test_a_quantifier_becomes_its_opposite(edit, text, made):
    assert made in results(edit, text)


@pytest.mark.parametrize(
    "text",
    [
        "He was named after his uncle.",
        "He is no longer here.",
        "one after another",
        "You had better go.",
        "more or less",
        "no more than that",
        "After all, he left.",
        "each other",
        "How many dogs bark?",
        "It is above all new.",
        "at long last",
        "They met after two rounds.",
        "They met after 12 rounds.",
        "They met after several rounds.",
        "There is no milk except in May.",
        "There is no milk at all.",
        "He sold a lot of his milk.",
        "The older students sang.",
        "It changed to no effect.",
        "There is no black in it.",
        "No one person knows it.",
        "He looked after the dog.",
        "a great many",
        "It has higher education.",
        "the Best Western",
        "No. 5 is alive.",
        "both more and less",
        "We are all vessels.",
        "Such experience better enables it.",
        "It needs a win in the worst way.",
        "More dead in the town",
        "",
    ],
)
def test_phrases_stay(edit, text):
    assert results(edit, text) == set()
