"""Numbers replaced by others of their kind and form, and numbers that stay."""

from __future__ import annotations

import re

import pytest
from lexical import results

from holdfast.edits.numbers import number_edits

(EDIT,) = number_edits()


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("He was born in 1950.", r"He was born in 19\d\d\."),
        ("It was (1999) new.", r"It was \((19|20)\d\d\) new\."),
        ("It began in the 1980s.", r"It began in the (19|20)\d0s\."),
        ("It has 8 rooms.", r"It has ([2-7]|9|1\d|20) rooms\."),
        ("an 8 year old boy", r"an? \d\d? year old boy"),
        ("It has 12,000 people.", r"It has \d{1,2},000 people\."),
        ("It costs $4.50 today.", r"It costs \$\d+\.\d\d today\."),
        ("about 50% of them", r"about \d{2,3}% of them"),
        ("97 percent of it", r"\d\d percent of it"),
        ("the 19th century", r"the (14|15|16|17|18|20)th century"),
        ("the 3rd house", r"the (1st|2nd|[4-8]th) house"),
        ("Two dogs run.", r"(Three|Four|Five|Six|Seven|Eight|Nine|Ten|Eleven|Twelve) dogs run\."),
        ("a two-year plan", r"(a|an) [a-z]+-year plan"),
        ("over three million people", r"over [a-z]+ million people"),
        ("the first stage of it", r"the (second|third|fourth|fifth|sixth) stage of it"),
        ("It was the 5 of March.", r"It was the (1?\d|2[0-8]) of March\."),
        ("He came on 5 March.", r"He came on (1?\d|2[0-8]) March\."),
        ("It starts at 5 pm today.", r"It starts at (\d|1[0-2]) pm today\."),
        ("season 5 of it", r"season \d\d? of it"),
        ("It starts at 11 a.m. today.", r"It starts at (\d|1[0-2]) a\.m\. today\."),
        ("They won the 1977 elections.", r"They won the (19|20)\d\d elections\."),
        ("It grew since 1980 numerous times.", r"It grew since (19|20)\d\d numerous times\."),
        ("It has 1500 seats.", r"It has \d{3,4} seats\."),
    ],
)
def test_a_number_becomes_another_of_its_form(text, pattern):
    made = results(EDIT, text)
    assert made
    assert [one for one in made if not re.fullmatch(pattern, one)] == []


@pytest.mark.parametrize(
    "text",
    [
        "Windows 7 is old.",
        "They won 3-1.",
        "They won 3–1.",
        "from 5 to 10 dogs",
        "two or three dogs",
        "1. Introduction",
        "one dog",
        "It has 1 room.",
        "It is 5 km (3 mi) long.",
        "It is 454 ft (138m) tall.",
        "It lies five miles (8 km) south.",
        "It is 31 km/19 mi away.",
        "twenty-two dogs",
        "first of all",
        "the first half",
        "At 10:30 he left.",
        "on 24/7",
        "version 1.2.3",
        "call 555-1234",
        "COVID19 and 3D",
        "a note [5] and a note (5)",
        "21 Jump Street",
        "two-thirds of it",
        "007",
        f"pi is 3.{'14159' * 80}",  # no float
        f"a sum of {'1' * 400} and {'1' * 5000} coins",  # no int, either
        f"a sum of 1{',000' * 2000} coins",
        "",
        "5",
    ],
)
def test_parts_of_names_ranges_scores_and_times_stay(text):
    assert results(EDIT, text) == set()


@pytest.mark.parametrize("text", ["He met thirty five men.", "sixty one men came", "They met ninety nine men."])
def test_a_number_of_two_words_stays(text):
    assert results(EDIT, text) == set()


def test_years_keep_their_order():
    for made in results(EDIT, "It began in 1950 and ended in 1953."):
        first, last = map(int, re.findall(r"\d{4}", made))
        assert first < last


def test_a_year_named_twice_stays():
    assert results(EDIT, "In 1950, and only in 1950, it rained.") == set()


def test_the_article_is_that_of_the_new_number():
    made = results(EDIT, "an $8 billion deal was made")
    assert "a $12 billion deal was made" in made
    assert not any(re.search(r"\ban \$(?!8|11|18)", text) for text in made)
    made = results(EDIT, "a 7 year old boy", seeds=200)
    assert any(one.startswith(("an 8 ", "an 11 ")) for one in made)
    assert [one for one in made if one.startswith("an ") != bool(re.match(r"an? (8|11|18)\b", one))] == []


def test_a_quantity_is_never_one():
    one = re.compile(r"(?<![\d.])(1|one|1\.0|0\.0)(?![\d.])")
    for text in ("It has 2 rooms.", "It has two rooms.", "It is 1.2 m long."):
        assert [made for made in results(EDIT, text, seeds=200) if one.search(made)] == []


def test_a_number_without_another_of_its_kind_stays():
    assert results(EDIT, "They paid a hundred million for it.") == set()
