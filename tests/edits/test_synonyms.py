"""Synonyms and similar words: against a plain computation, and from files."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.edits.synonyms import ListedNeighbours, VectorNeighbours, read_similarity, read_synonyms
from holdfast.errors import UserError

WORDS = ["good", "Fine", "bad", "fair", "good", "nice"]
VECTORS = np.array([[2.0, 0.0], [3.0, 1.0], [-1.0, 0.0], [1.0, 1.001], [0.0, 1.0], [9.0, 3.3]])


def neighbours(**changes: Any) -> VectorNeighbours:
    return VectorNeighbours(WORDS, VECTORS, **{"source": "mine", **changes})


class TestVectors:
    def test_nearest_first_above_the_minimum(self) -> None:
        # Cosines with good: fine 0.949, nice 0.939, fair 0.7067, bad -1; the second vector of good is not used.
        assert neighbours().nearest("good", 9) == ["fine", "nice", "fair"]
        assert neighbours().nearest("good", 9, 0.71) == ["fine", "nice"]
        assert neighbours().nearest("good", 9, -1.0) == ["fine", "nice", "fair", "bad"]
        assert neighbours().nearest("good", 1) == ["fine"]
        assert neighbours().nearest("unknown", 9) == []
        assert neighbours().source == "mine"

    def test_the_case_of_the_word(self) -> None:
        assert neighbours().nearest("Good", 2) == ["Fine", "Nice"]
        assert neighbours().nearest("GOOD", 2) == ["FINE", "NICE"]
        assert neighbours().nearest("fine", 2) == ["nice", "good"]

    def test_against_a_plain_sort(self) -> None:
        rng = np.random.default_rng(0)
        words = [f"w{i}" for i in range(300)]
        vectors = rng.standard_normal((300, 8)).astype(np.float32)
        found = VectorNeighbours(words, vectors, source="")
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        for row in (0, 17, 299):
            cosines = unit @ unit[row]
            expected = [words[i] for i in np.argsort(-cosines) if cosines[i] >= 0.3 and i != row]
            assert len(expected) > 20
            assert found.nearest(words[row], 20, 0.3) == expected[:20]

    def test_a_changed_answer_does_not_change_the_next(self) -> None:
        found = neighbours()
        found.nearest("good", 2).clear()
        assert found.nearest("good", 2) == ["fine", "nice"]

    def test_a_zero_vector_is_near_nothing(self) -> None:
        found = VectorNeighbours(["a", "b"], [[0.0, 0.0], [1.0, 0.0]], source="")
        assert found.nearest("a", 5) == found.nearest("a", 5, -1.0) == []
        assert found.nearest("b", 5) == []

    @pytest.mark.parametrize("name", ["v.txt", "v.npz"])
    def test_files(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        if name == "v.npz":
            np.savez(path, words=np.array(WORDS), vectors=VECTORS)
        else:
            path.write_text("".join(f"{w} {a} {b}\n" for w, (a, b) in zip(WORDS, VECTORS, strict=True)))
        found = read_synonyms(path)
        assert isinstance(found, VectorNeighbours)
        assert found.nearest("good", 9) == ["fine", "nice", "fair"]
        assert found.source == f"word vectors {name}"


class TestLists:
    def test_in_the_order_of_the_list(self, tmp_path: Path) -> None:
        path = tmp_path / "n.tsv"
        path.write_text("word\tneighbors\nFilm\tmovie Movie film kino\nbad\t\n")
        found = read_synonyms(path)
        assert isinstance(found, ListedNeighbours)
        assert found.nearest("Film", 9) == ["Movie", "Kino"]
        assert found.nearest("film", 1) == ["movie"]
        assert found.nearest("bad", 9) == found.nearest("unknown", 9) == []
        assert "n.tsv" in found.source
        assert "at most 4 a word, without cosines" in found.source

    @pytest.mark.skipif(not os.environ.get("HOLDFAST_DATA"), reason="HOLDFAST_DATA does not name the data folder")
    def test_the_real_lists(self) -> None:
        path = Path(os.environ["HOLDFAST_DATA"]) / "synonyms" / "counterfitted_neighbors.tsv.gz"
        found = ListedNeighbours.read(path)
        assert found.nearest("Film", 3) == ["Movie", "Filmmaking", "Movies"]
        assert "at most 8" in found.source


class TestSimilarity:
    VECTORS = np.array([[2.0, 0.0], [3.0, 1.0], [0.0, 1.0], [1.0, 1.001]])
    WORDS = ("good", "Fine", "bad", "fair")

    def check(self, vectors: VectorNeighbours | ListedNeighbours) -> None:
        assert vectors.similar("good", ["bad", "fair", "fine", "unknown", "Fair"]) == ["fair", "fine", "Fair"]
        assert vectors.similar("GOOD", ["fine"]) == ["fine"]
        assert vectors.similar("unknown", ["good"]) == []

    def test_the_cosine_decides_and_order_is_kept(self) -> None:
        self.check(VectorNeighbours(self.WORDS, self.VECTORS, source="mine", threshold=0.7))
        stricter = VectorNeighbours(self.WORDS, self.VECTORS, source="mine", threshold=0.71)
        assert stricter.similar("good", ["fine", "fair"]) == ["fine"]  # 0.949 and 0.7067

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
        [
            ("a 1 2\nb 1\n", ":2: 1 numbers where 2 are expected"),
            ("a 1 x\n", ":1: 'x' is not a number"),
            ("", "no word vectors"),
        ],
    )
    def test_broken_files_are_named(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "broken.txt"
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            read_similarity(path, threshold=0.5)

    def test_lists(self, tmp_path: Path) -> None:
        path = tmp_path / "near.tsv"
        path.write_text("word\tneighbors\ngood\tfine fair Great\nbad\t\n")
        neighbours = read_similarity(path, threshold=0.5)
        self.check(neighbours)
        assert neighbours.similar("bad", ["good"]) == []
        assert neighbours.source == "neighbour lists of near.tsv"
