"""Word vectors are read exactly or refused by file and line."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from holdfast.edits.word_vectors import read_word_vectors, read_words_and_vectors
from holdfast.errors import UserError

PLAIN = "the 1 0 0\ncat 0 2 0\ndog 0 0 4\nIt -1.5 2e-1 +3\n"
MATRIX = np.array([[1, 0, 0], [0, 2, 0], [0, 0, 4], [-1.5, 0.2, 3]], dtype=np.float32)


def write(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def refusal(path: Path, text: str) -> str:
    with pytest.raises(UserError) as caught:
        read_word_vectors(write(path, text))
    return str(caught.value)


@pytest.mark.parametrize("name", ["v.txt", "v.txt.gz", "v.vec"])
@pytest.mark.parametrize("header", ["", "4 3\n"])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])  # word2vec ends a line with a space
def test_every_way_of_writing_gives_the_same_vectors(tmp_path: Path, name: str, header: str, end: str) -> None:
    vectors = read_word_vectors(write(tmp_path / name, header + PLAIN.replace("\n", end)))
    assert vectors.words == ["the", "cat", "dog", "It"]
    assert vectors.matrix.dtype == np.float32
    np.testing.assert_array_equal(vectors.matrix, MATRIX)
    assert (vectors.duplicates, vectors.spaced) == (0, 0)


def test_tabs_separate_too(tmp_path: Path) -> None:
    np.testing.assert_array_equal(read_word_vectors(write(tmp_path / "v.txt", PLAIN.replace(" ", "\t"))).matrix, MATRIX)


def test_duplicates_keep_the_first_and_words_with_spaces_are_counted(tmp_path: Path) -> None:
    text = "the 1 0 0\n. . . 7 7 7\ncat 0 2 0\nthe 9 9 9\nat x@example.org 5 5 5\ndog 0 0 4\nIt -1.5 0.2 3\n"
    vectors = read_word_vectors(write(tmp_path / "v.txt", text))
    assert vectors.words == ["the", "cat", "dog", "It"]
    np.testing.assert_array_equal(vectors.matrix, MATRIX)
    assert (vectors.duplicates, vectors.spaced) == (1, 2)


def test_words_of_digits_and_odd_spaces_are_words(tmp_path: Path) -> None:
    vectors = read_word_vectors(write(tmp_path / "v.txt", "the 1 0 0\n2 0 2 0\na\u00a0b 0 0 4\n"))
    assert vectors.words == ["the", "2", "a\u00a0b"]
    np.testing.assert_array_equal(vectors.matrix, MATRIX[:3])


def test_the_first_words_are_taken_and_the_rest_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "v.txt", "4 3\n" + PLAIN.replace("dog", "dog broken and"))
    vectors = read_word_vectors(path, words=2)
    assert vectors.words == ["the", "cat"]
    np.testing.assert_array_equal(vectors.matrix, MATRIX[:2])


def test_more_rows_than_a_block_keep_their_order(tmp_path: Path) -> None:
    message: list[int] = []
    path = write(tmp_path / "v.txt", "".join(f"w{i} {i} {-i}\n" for i in range(40_000)))
    vectors = read_word_vectors(path, progress=message.append)
    np.testing.assert_array_equal(vectors.matrix[:, 0], np.arange(40_000))
    assert vectors.words[39_999] == "w39999"
    assert message == [16_384, 32_768]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("the 1 0 0\ncat 0 2\n", 2, "2 numbers where 3"),
        ("the 1 0 0\ncat 0 2 0 5\n", 2, "4 numbers where 3"),
        ("9 3\nthe 1 0 0\ncat 0 2\n", 3, "2 numbers where 3"),
        ("the 1 0 0\n\ncat 0 2 0\n", 2, "0 numbers"),
        ("the\ncat\n", 1, "0 numbers"),
        ("the 1 0 0\ncat 0 x 0\n", 2, "'x' is not a number"),
        ("the 1 0 0\ncat 0 nan 0\n", 2, "NaN"),
        ("the 1 0 0\ncat 0 inf 0\n", 2, "infinity"),
        ("the 1 0 0\ncat 0 1e39 0\n", 2, "infinity"),  # fits a double, not the fp32 that is kept
        ("5 3\n" + PLAIN, 1, "announces 5 words and the file has 4"),
    ],
)
def test_what_is_wrong_is_told_by_file_and_line(tmp_path: Path, text: str, line: int, reason: str) -> None:
    message = refusal(tmp_path / "v.txt", text)
    assert message.startswith(f"{tmp_path / 'v.txt'}:{line}: ")
    assert reason in message


def test_files_without_words_are_refused(tmp_path: Path) -> None:
    assert "holds no word vectors" in refusal(tmp_path / "v.txt", "")
    assert "holds no word vectors" in refusal(tmp_path / "v.txt", "0 3\n")
    assert "binary" in refusal(tmp_path / "v.bin", PLAIN)
    with pytest.raises(UserError, match="cannot read"):
        read_word_vectors(tmp_path / "none.txt")


def test_broken_arrays_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", words=np.array(["a"]))
    np.savez(tmp_path / "two.npz", words=np.array(["a"]), vectors=np.zeros((2, 3)))
    for name, message in (("one", "'words' and 'vectors'"), ("two", "1 words do not fit"), ("none", "cannot read")):
        with pytest.raises(UserError, match=message):
            read_words_and_vectors(tmp_path / f"{name}.npz")
