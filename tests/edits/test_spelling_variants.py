"""British and American spellings, and forms of numbers, which keep the meaning."""

from __future__ import annotations

import random

import pytest
from lexical import results

from holdfast.edits.spelling_variants import spelling_edits

SPELLING, FORM = spelling_edits()


@pytest.mark.parametrize(
    ("british", "american"),
    [
        ("The colour fades.", "The color fades."),
        ("Colour fades.", "Color fades."),
        ("neighbourhoods", "neighborhoods"),
        ("They organised it.", "They organized it."),
        ("an organisation's aim", "an organization's aim"),
        ("They analysed it.", "They analyzed it."),
        ("the centre", "the center"),
        ("He travelled.", "He traveled."),
        ("a grey cat", "a gray cat"),
        ("its defence", "its defense"),
        ("an e-mail", "an email"),
        ("towards it", "toward it"),
        ("the semi-final", "the semifinal"),
        ("the aeroplane", "the airplane"),
        ("an artefact", "an artifact"),
        ("amongst us", "among us"),
    ],
)
def test_both_ways(british, american):
    assert results(SPELLING, british) == {american}
    assert results(SPELLING, american) == {british}


@pytest.mark.parametrize(
    ("british", "american"),
    [
        ("two tyres", "two tires"),
        ("10 per cent of it", "10 percent of it"),
        ("whilst here", "while here"),
        ("ten metres", "ten meters"),
        ("a programme", "a program"),
        ("a world-wide plan", "a worldwide plan"),
    ],
)
def test_one_way(british, american):
    assert results(SPELLING, british) == {american}
    assert results(SPELLING, american) == set()


@pytest.mark.parametrize(
    "text",
    [
        "The Labour Party won.",
        "in the Center",
        "COLOUR",
        "he's",
        "a story",
        "a check",
        "color.com",
        "@color",
        "sub-colour",
        "colour-blind",
        "",
        "Defence Secretary",
        'They say "colour" there.',
        "They say \u2018colour\u2019 there.",
        "We watched grey's island.",
        "Four shades of Grey",
        "We read shades of grey.",
        "who is dorian gray",
        "when did spear art online start",
        "who lived in uncle tim's neighborhood",
    ],
)
def test_names_and_parts_of_words_stay(text):
    assert results(SPELLING, text) == set()


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ('They say "the colour red" there.', 'They say "the color red" there.'),
        ("We saw a grey hut.", "We saw a gray hut."),
        ("who sells games online", "who sells games on-line"),
        ("who lives in this neighborhood", "who lives in this neighbourhood"),
    ],
)
def test_words_beside_quotation_marks_and_titles(text, made):
    assert results(SPELLING, text) == {made}


def test_the_strength_is_the_share_of_words():
    text = "The colour of the centre is grey."
    assert len(results(SPELLING, text)) == 3
    made = SPELLING(text, random.Random(0), strength=1.0)
    assert made is not None
    assert made.text == "The color of the center is gray."
    assert len(SPELLING(text, random.Random(0), strength=0.3).changes) == 2


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("He has 5 dogs.", "He has five dogs."),
        ("He has twelve dogs.", "He has 12 dogs."),
        ("It grew 5%.", "It grew 5 percent."),
        ("It grew 5 percent.", "It grew 5%."),
        ("It grew 5 per cent.", "It grew 5%."),
        ("On 5 March 1990 he left.", "On March 5, 1990 he left."),
        ("On March 5, 1990, he left.", "On 5 March 1990, he left."),
        ("the 19th century", "the nineteenth century"),
        ("in the 2nd season", "in the second season"),
        ("in the second season", "in the 2nd season"),
        ("It has 3,000 men.", "It has 3000 men."),
    ],
)
def test_the_form_of_a_number(text, made):
    assert results(FORM, text) == {made}


def test_the_two_before_a_noun():
    assert results(FORM, "Then the two dogs performed.") == {"Then the 2 dogs performed."}


@pytest.mark.parametrize(
    "text",
    [
        "season 2 of it",
        "Windows 7 is old.",
        "5 dogs",
        "He has 13 dogs.",
        "one dog",
        "from 5 to 9 dogs",
        "3-2 goals",
        "12,000 men",
        "on 29 and 30 March 2008",
        "1990",
        "the 22nd of it",
        "the 2th season",
        "at 10:30",
        "Five dogs run.",
        "the second",
        "x5 dogs",
        "a five-year plan",
        "Then the two performed in Rome.",
        "Then the two were friends.",
        "five hundred dogs",
        "two dozen dogs",
        "his five thousandth dog",
        "",
    ],
)
def test_other_numbers_stay(text):
    assert results(FORM, text) == set()


def test_all_forms_of_a_text():
    made = FORM("He ate 5 apples on 5 March 1990, 10% of all.", random.Random(0), strength=1.0)
    assert made is not None
    assert made.text == "He ate five apples on March 5, 1990, 10 percent of all."
