"""The contract of edits: the changed text and the share of changed words follow from the changes."""

from __future__ import annotations

import random

import pytest

from holdfast.edits.edit import Change, Edited, edited
from holdfast.edits.noise import noise_edits


@pytest.mark.parametrize(
    ("changes", "text", "share"),
    [
        ([(4, 7, "cat")], "the cat is old", 0.25),  # a word replaced
        ([(11, 14, "young"), (4, 7, "cat")], "the cat is young", 0.5),  # in any order
        ([(10, 10, " not")], "the dog is not old", 0.25),  # a word inserted
        ([(7, 10, "")], "the dog old", 0.25),  # a word removed
        ([(14, 14, ".")], "the dog is old.", 0.25),  # no word: counts as one
        ([(8, 14, "was very old")], "the dog was very old", 0.5),
    ],
)
def test_the_text_and_the_share_of_changed_words_follow_from_the_changes(changes, text, share):
    made = edited("the dog is old", *changes)
    assert made is not None
    assert made.text == text
    assert made.share == share


def test_characters_are_counted_where_no_blanks_part_words():
    assert Edited("今天我们去北京看长城。", (Change(3, 4, "門"),)).share == 0.1
    assert Edited("Windows 很好用", (Change(0, 7, "Winodws"),)).share == 0.25
    assert Edited("Windows 很好用。", (Change(12, 12, "。好吗"),)).share == 0.5
    text = "他在大学里学习计算机科学。"
    swapped = Change(0, 12, "他在大学里习学计算机科学")  # the whole clause, as edits change it
    assert Edited(text, (swapped,)).share == pytest.approx(2 / 12)
    made = noise_edits(["typos"])[0](text, random.Random(1), 0.1)
    assert made is not None
    assert made.share < 0.3


def test_a_change_without_effect_is_none():
    assert edited("the dog", (4, 7, "dog")) is None


def test_a_text_without_words_has_a_share():
    assert Edited("...", (Change(0, 1, "!"),)).share == 1.0
