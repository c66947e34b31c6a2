"""The indefinite article of words, numbers and abbreviations."""

from __future__ import annotations

import pytest

from holdfast.edits.articles import article_of


@pytest.mark.parametrize(
    ("article", "words"),
    [
        (
            "a",
            "dog university unique union unit unicorn European euro one once useful user usual utility ewe uranium U "
            "Ukrainian Uganda Uruguay Utah utopia unanimous",
        ),
        (
            "an",
            "apple hour honest honour heir unimportant uninhabited unidentified umbrella ugly onion elephant X S Uzbek",
        ),
        ("a", "7 1 10 12 19 70 100 1,000 7.5 1,900 1200"),
        ("an", "8 11 18 80 800 8,000 11,000 18,500 8.5 1800 1850 11.5"),
        (None, "NASA UN . !"),
    ],
)
def test_the_article_of_a_word(article, words):
    assert {word: article_of(word) for word in words.split()} == dict.fromkeys(words.split(), article)


def test_the_first_word_counts():
    assert article_of("old dog") == "an"
    assert article_of("two-year plan") == "a"
    assert article_of("eight-year plan") == "an"
    assert article_of("") is None
