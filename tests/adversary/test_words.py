"""Cutting texts into words, and which words are near each other."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.edits.word_similarity import Neighbours, WordVectors, read_similarity
from holdfast.edits.words import STOP_WORDS, Words, in_case_of, is_content_word, others
from holdfast.errors import UserError

TEXT = "  Don't  touch the co-operative's 3rd «œuvre», please… snake_case\tEnd"


def test_words_are_runs_of_letters_and_digits() -> None:
    assert Words.of(TEXT).words == tuple("Don t touch the co operative s 3rd œuvre please snake case End".split())
    assert Words.of("").words == ()
    assert Words.of("... !").words == ()


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


class TestWordVectors:
    VECTORS = np.array([[2.0, 0.0], [3.0, 1.0], [0.0, 1.0], [1.0, 1.001]])
    WORDS = ("good", "Fine", "bad", "fair")

    def check(self, vectors: WordVectors | Neighbours) -> None:
        assert vectors.similar("good", ["bad", "fair", "fine", "unknown", "Fair"]) == ["fair", "fine", "Fair"]
        assert vectors.similar("GOOD", ["fine"]) == ["fine"]
        assert vectors.similar("unknown", ["good"]) == []

    def vectors(self, **changes: float) -> WordVectors:
        index = {word.lower(): row for row, word in enumerate(self.WORDS)}
        return WordVectors(self.VECTORS, index, **{"threshold": 0.7, **changes}, source="mine")

    def test_the_cosine_decides_and_order_is_kept(self) -> None:
        self.check(self.vectors())
        assert self.vectors(threshold=0.71).similar("good", ["fine", "fair"]) == ["fine"]  # 0.949 and 0.7067
        assert self.vectors().source == "mine, cosine ≥ 0.7"

    @pytest.mark.parametrize("name", ["v.txt", "v.txt.gz", "header.vec", "v.npz"])
    def test_files(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        text = "".join(f"{w} {a} {b}\n" for w, (a, b) in zip(self.WORDS, self.VECTORS, strict=True))
        text += "good 0 1\n"  # a second vector of the same word is not used
        if name.endswith(".npz"):
            np.savez(path, words=np.array(self.WORDS), vectors=self.VECTORS)
        elif name.endswith(".gz"):
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(("5 2\n" if name == "header.vec" else "") + text)
        vectors = read_similarity(path, threshold=0.7)
        self.check(vectors)
        assert vectors.source == f"word vectors of {name}, cosine ≥ 0.7"

    @pytest.mark.parametrize(
        ("text", "message"),
        [("a 1 2\nb 1\n", ":2: 1 numbers, 2 are expected"), ("a 1 x\n", ":1: not a word"), ("", "no word vectors")],
    )
    def test_broken_files_are_named(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "broken.txt"
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            WordVectors.read(path, threshold=0.5)

    def test_broken_arrays_are_named(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "one.npz", words=np.array(["a"]))
        np.savez(tmp_path / "two.npz", words=np.array(["a"]), vectors=np.zeros((2, 3)))
        for name, message in (("one", "'words' and 'vectors'"), ("two", "1 words do not fit"), ("none", "cannot read")):
            with pytest.raises(UserError, match=message):
                WordVectors.read(tmp_path / f"{name}.npz", threshold=0.5)

    def test_neighbours(self, tmp_path: Path) -> None:
        path = tmp_path / "near.tsv"
        path.write_text("word\tneighbors\ngood\tfine fair Great\nbad\t\n")
        neighbours = read_similarity(path, threshold=0.5)
        self.check(neighbours)
        assert neighbours.similar("bad", ["good"]) == []
        assert neighbours.source == "neighbour lists of near.tsv"


def test_a_window_has_its_word_in_the_middle_and_is_shifted_at_the_ends() -> None:
    words = Words.of("(a b, c d e f g)")
    windows = ["a b, c", "a b, c", "b, c d", "c d e", "d e f", "e f g", "e f g"]
    assert [words.around(index, 3) for index in range(7)] == windows
    assert words.around(5, 9) == "a b, c d e f g"


def test_words_that_turn_a_meaning_round_are_never_changed() -> None:
    for word in "no not none nor neither never nothing nobody nowhere noone without cannot".split():
        assert not is_content_word(word), word
