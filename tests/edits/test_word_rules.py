"""The notation of rules, their conditions, and the places at which an edit applies them."""

from __future__ import annotations

import random

import pytest

from holdfast.edits.tagged_text import TaggedText
from holdfast.edits.tagging import Tag, Tagger
from holdfast.edits.word_rules import RuleEdit, is_plural, read_rules

TAGS = {"dog": "NOUN", "dogs": "NOUN", "runs": "VERB", "big": "ADJ", "glass": "NOUN"}


def tagger() -> Tagger:
    return Tagger(lambda words: [Tag(TAGS.get(word.lower(), "X"), "") for word in words], "by hand", penn=False)


class Edit(RuleEdit):
    NAME = "test"
    SIDE = "move"
    ABOUT = "a test"


def results(rules: str, text: str, *, tag: str | None = None, refused: str = "") -> set[str]:
    edit = Edit(read_rules(rules, tag), tagger(), refused.split(", ") if refused else ())
    made = [edit(text, random.Random(seed)) for seed in range(20)]
    return {one.text for one in made if one is not None}


def applies(condition: str, text: str) -> bool:
    return bool(results(f"big > small ; {condition}", text))


def test_one_direction_and_both():
    assert results("big > small", "a big small") == {"a small small"}
    assert results("big = small", "a big small") == {"a small small", "a big big"}


@pytest.mark.parametrize(
    ("condition", "applied", "refused"),
    [
        ("before cat dog", "big dog", "big cow"),
        ("before .", "it is big, dog", "big dog"),
        ("not before cat", "big dog", "big cat"),
        ("not before .", "big dog", "it is big."),
        ("after so", "so big", "too big"),
        ("after .", "so, big", "so big"),
        ("near dog", "big a b c dog", "big a b c d dog"),
        ("behind dog", "dog a b c big", "dog a b c d big"),
        ("not behind dog", "dog a b c d big", "dog a b c big"),
        ("ahead dog", "big a b c d e, f dog", "big a b. A dog"),
        ("not ahead dog", "a dog big a b c. A dog", "big a b c d e dog"),
        ("with dog", "dog a b c d e big", "cat a b c d e big"),
        ("not with big", "big", "big a b big"),
        ("before NOUN", "big dog", "big runs"),
        ("before PLURAL", "big dogs", "big glass"),
        ("before DIGIT", "big 5", "big dog"),
        ("before CAPITAL", "so big Ann", "so big ann"),
        ("before dog ; after a", "a big dog", "the big dog"),
        ("before dog ; after a", "a big dog", "a big cat"),
    ],
)
def test_conditions(condition, applied, refused):
    assert applies(condition, applied)
    assert not applies(condition, refused)


def test_the_part_of_speech():
    assert results("big > small", "big", tag="ADJ") == {"small"}
    assert results("big > small", "big", tag="NOUN") == set()


def test_phrases_come_before_words():
    assert results("at > in\nat_least > at_most", "at least at") == {"at most at", "at least in"}
    assert results("at_least > at_most", "at, least") == set()


def test_lines_and_comments():
    assert results("# big > red\n\nbig > small ;\n    not before cat", "big cat") == set()


@pytest.mark.parametrize(
    "line", ["big small", "big > ", "big ? small", "big > small ; beside dog", "big > small ; not after"]
)
def test_a_line_that_is_no_rule(line):
    with pytest.raises(ValueError, match="not a"):
        list(read_rules(line))


def test_a_sign_that_is_none():
    with pytest.raises(ValueError, match="NOUNS"):
        list(read_rules("big > small ; before NOUNS"))


@pytest.mark.parametrize(
    "text",
    ["the Big dog", "BIG", "Big Ben", "big-hearted", "so-big", "big's", "a/big", "big/a", "it's o'big", "big.com"],
)
def test_names_and_parts_of_words_stay(text):
    assert results("big > small", text) == set()


def test_the_begin_of_a_sentence_is_no_name():
    assert results("big > small", "So. Big dogs run") == {"So. Small dogs run"}
    assert results("big > small", "Big dogs") == {"Small dogs"}


def test_idioms_stay():
    assert results("big > small", "a big deal", refused="a big deal, by the way") == set()
    assert results("big > small", "a big dog", refused="a big deal, by the way") == {"a small dog"}


@pytest.mark.parametrize(
    ("rule", "text", "made"),
    [
        ("big > enormous", "a big dog", "an enormous dog"),
        ("big > enormous", "A big dog", "An enormous dog"),
        ("old > new", "an old dog", "a new dog"),
        ("old > new", "AN old dog", "A new dog"),
        ("old > new", "a, old dog", "a, new dog"),
        ("a_few > many", "A few dogs", "Many dogs"),
    ],
)
def test_the_article_before_is_right(rule, text, made):
    assert results(rule, text) == {made}


def test_an_article_that_is_not_known():
    assert results("old > UN", "an old dog") == set()
    assert results("old > UN", "the old dog") == {"the UN dog"}


def test_plurals():
    plurals = {
        "dogs": True,
        "men": True,
        "glass": False,
        "bus": False,
        "analysis": False,
        "dog": False,
        "series": False,
    }
    assert {word: is_plural(word) for word in plurals} == plurals


def test_a_text_is_tagged_only_where_a_rule_needs_it():
    def tag(words: list[str]) -> list[Tag]:
        raise AssertionError("tagged")

    edit = Edit(read_rules("big > small", "ADJ"), Tagger(tag, "never", penn=False))
    assert edit("a dog", random.Random(0)) is None
    with pytest.raises(AssertionError):
        edit("a big dog", random.Random(0))


def test_the_words_of_a_text():
    tagged = TaggedText("Big dogs. So", tagger())
    assert (tagged.after(0), tagged.after(1), tagged.before(0), tagged.before(1)) == (1, None, None, 0)
    assert [tagged.opens_sentence(at) for at in range(3)] == [True, False, True]
    assert list(tagged.tags) == ["ADJ", "NOUN", "X"]
