"""Edits inside a word: what each changes, what it never changes, and that chance comes only from its argument."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.edits.typing_errors import (
    HOMOGLYPHS,
    KEYBOARD,
    TYPING_ERRORS,
    change_case,
    delete_letter,
    double_letter,
    draw_typing_error,
    first_typing_error,
    homoglyph,
    insert_space,
    keyboard_typo,
    swap_letters,
    typing_errors,
)
from holdfast.edits.words import Words

Edit = Callable[[str, random.Random], "str | None"]
EDITS = tuple(TYPING_ERRORS.values())
words = st.text(alphabet="abcxyzABCéßж7", max_size=8)
seeds = st.integers(0, 2**32)


def outcomes(edit: Edit, word: str) -> set[str | None]:
    return {edit(word, random.Random(seed)) for seed in range(200)}


@pytest.mark.parametrize(
    ("edit", "word", "expected"),
    [
        (insert_space, "film", {"f ilm", "fi lm", "fil m"}),
        (insert_space, "at", {"a t"}),
        (insert_space, "a", {None}),
        (delete_letter, "film", {"flm", "fim"}),
        (delete_letter, "cat", {"ct"}),
        (delete_letter, "at", {None}),
        (double_letter, "film", {"fiilm", "fillm", "filmm"}),
        (double_letter, "a", {None}),
        (swap_letters, "brave", {"barve", "brvae"}),
        (swap_letters, "book", {None}),
        (swap_letters, "cat", {None}),
        (homoglyph, "fa7", {"f\u04307"}),
        (homoglyph, "Bee", {"\u0412ee", "B\u0435e", "Be\u0435"}),
        (homoglyph, "f7", {None}),
        (keyboard_typo, "aQ", {"aW", "aA"}),
        (keyboard_typo, "a7", {None}),
        (change_case, "film", {"Film", "FILM"}),
        (change_case, "Film", {"film", "FILM"}),
        (change_case, "fILM", {"film", "Film", "FILM"}),
        (change_case, "a", {"A"}),
        (change_case, "77", {None}),
        *((edit, "", {None}) for edit in EDITS),
    ],
)
def test_every_result_that_is_possible_and_no_other(edit: Edit, word: str, expected: set[str | None]) -> None:
    assert outcomes(edit, word) == expected


def test_the_last_letter_can_be_lost_where_that_is_allowed() -> None:
    assert {delete_letter("film", random.Random(s), keep_last=False) for s in range(99)} == {"flm", "fim", "fil"}
    assert delete_letter("at", random.Random(0), keep_last=False) == "a"
    assert delete_letter("a", random.Random(0), keep_last=False) is None


@pytest.mark.parametrize("edit", EDITS)
@given(word=words, seed=seeds)
def test_the_same_chance_gives_another_word_and_the_same_one(edit: Edit, word: str, seed: int) -> None:
    before = random.getstate()
    result = edit(word, random.Random(seed))
    assert result == edit(word, random.Random(seed))
    assert result != word
    assert random.getstate() == before


@given(word=words, seed=seeds)
def test_swapping_keeps_the_letters_and_both_ends(word: str, seed: int) -> None:
    swapped = swap_letters(word, random.Random(seed))
    if swapped is not None:
        assert Counter(swapped) == Counter(word)
        assert (swapped[0], swapped[-1]) == (word[0], word[-1])


def test_the_keyboard_is_symmetric_and_known() -> None:
    assert set(KEYBOARD["g"]) == set("ftyhbv")
    assert all(a in KEYBOARD[b] for a, near in KEYBOARD.items() for b in near)
    assert len(KEYBOARD) == 26


def test_homoglyphs_are_letters_of_another_kind_in_the_same_case() -> None:
    assert set("aeiou") <= HOMOGLYPHS.keys()
    assert len(set(HOMOGLYPHS.values())) == len(HOMOGLYPHS)
    for letter, other in HOMOGLYPHS.items():
        assert letter.isascii()
        assert not other.isascii()
        assert other.isupper() == letter.isupper() or letter in "b"  # the soft sign looks like b in capitals
        assert unicodedata.normalize("NFKC", other) == other  # no tokeniser's normalisation undoes it
        assert Words.of(f"x{other}x").words == (f"x{other}x",)


def test_one_of_the_kinds_is_drawn_and_others_stand_in() -> None:
    drawn = {draw_typing_error("cat", random.Random(seed), ("drop", "swap", "case")) for seed in range(99)}
    assert drawn == {"ct", "Cat", "CAT"}, "swap does not apply, so that another kind is used"
    assert draw_typing_error("cat", random.Random(0), ("swap",)) is None


def test_the_first_kind_that_applies_is_used_and_later_ones_draw_nothing() -> None:
    rng, other = random.Random(1), random.Random(1)
    assert first_typing_error("cat", rng, ("swap", "drop", "case")) == TYPING_ERRORS["drop"]("cat", other) == "ct"
    assert rng.random() == other.random()


def test_all_distinct_errors_of_some_kinds() -> None:
    found = typing_errors("at", random.Random(0), ("drop", "space", "case"), tries=20)
    assert (found[0], sorted(found)) == ("a t", ["AT", "At", "a t"])
    assert typing_errors("a", random.Random(0), ("drop", "swap")) == []
