"""Cutting texts into words."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from holdfast.edits.words import STOP_WORDS, Words, in_case_of, is_content_word, others

TEXT = "  Don't  touch the co-operative's 3rd «œuvre», please… snake_case\tEnd"


def test_words_are_runs_of_letters_and_digits() -> None:
    assert Words.of(TEXT).words == tuple("Don t touch the co operative s 3rd œuvre please snake case End".split())
    assert Words.of("").words == ()
    assert Words.of("... !").words == ()


def test_accents_and_vowel_signs_belong_to_their_word() -> None:
    assert Words.of("हिन्दी भाषा में").words == ("हिन्दी", "भाषा", "में")
    assert Words.of("தமிழ் மொழி").words == ("தமிழ்", "மொழி")
    for form in ("NFC", "NFD"):
        assert len(Words.of(unicodedata.normalize(form, "Việt Nam là café")).words) == 4
    assert Words.of("I ❤️ it, 1️⃣ x").words == ("I", "it", "1", "x"), "what selects a glyph is no part of a word"
    assert is_content_word("भाषा")
    assert not is_content_word("भा2")


@given(st.text())
def test_every_text_is_put_together_again(text: str) -> None:
    words = Words.of(text)
    assert words.text == text
    assert [text[begin:end] for begin, end in words.spans] == list(words.words)


def test_an_exchange_leaves_the_rest_to_the_letter() -> None:
    words = Words.of(TEXT)
    changed = words.exchanged(2, "see").exchanged(8, "work")
    assert changed.text == TEXT.replace("touch", "see").replace("œuvre", "work")
    assert [changed.text[begin:end] for begin, end in changed.spans] == list(changed.words)
    assert words.text == TEXT


def test_content_words() -> None:
    assert [word for word in Words.of(TEXT).words if is_content_word(word)] == [
        *("touch", "co", "operative", "œuvre", "please", "snake", "case", "End")
    ]
    assert not any(is_content_word(word) for word in ("The", "THE", "3", "1990s", "x", "don", "it's", "", "##s"))
    assert all(word == word.lower() and word.isalpha() for word in STOP_WORDS)


def test_other_words_in_the_same_case() -> None:
    assert others("dog", ["Dog", "cat", "DOG", "cow", "Cat", "CAT", "ox"]) == ["cat", "cow", "ox"]
    assert others("Dog", ["cat", "dog"]) == ["Cat"]
    assert in_case_of("NATO", "league") == "LEAGUE"
    assert in_case_of("Paris", "rome") == "Rome"
    assert in_case_of("city", "Rome") == "Rome"
    assert in_case_of("A", "one") == "One"


def test_a_window_has_its_word_in_the_middle_and_is_shifted_at_the_ends() -> None:
    words = Words.of("(a b, c d e f g)")
    windows = ["a b, c", "a b, c", "b, c d", "c d e", "d e f", "e f g", "e f g"]
    assert [words.around(index, 3) for index in range(7)] == windows
    assert words.around(5, 9) == "a b, c d e f g"


def test_words_that_turn_a_meaning_round_are_never_changed() -> None:
    for word in "no not none nor neither never nothing nobody nowhere noone without cannot".split():
        assert not is_content_word(word), word
