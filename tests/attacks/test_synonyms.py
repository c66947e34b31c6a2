"""Neighbours of words: against a plain computation, from files, and the download of the counter-fitted vectors."""

from __future__ import annotations

import hashlib
import io
import os
import urllib.error
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.attacks import counterfitted as download
from holdfast.attacks.counterfitted import COUNTERFITTED_SHA256, counterfitted
from holdfast.edits.synonyms import ListedNeighbours, VectorNeighbours, read_synonyms
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


class TestDownload:
    """The known archive is one of two words here; its real size and hash are constants."""

    @pytest.fixture
    def archive(self, monkeypatch: pytest.MonkeyPatch) -> bytes:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as file:
            file.writestr("counter-fitted-vectors.txt", "good 1 0 0\nfine 0.9 0.1 0\n")
        content = packed.getvalue()
        monkeypatch.setattr(download, "COUNTERFITTED_SHA256", hashlib.sha256(content).hexdigest())
        monkeypatch.setattr(download, "COUNTERFITTED_SHAPE", (2, 3))
        self.serve(monkeypatch, content)
        return content

    def serve(self, monkeypatch: pytest.MonkeyPatch, answer: bytes | Exception) -> None:
        def urlopen(url: str, timeout: float) -> io.BytesIO:
            assert url.startswith("https://")
            assert timeout
            if isinstance(answer, Exception):
                raise answer
            return io.BytesIO(answer)

        monkeypatch.setattr(download.urllib.request, "urlopen", urlopen)

    def test_once_and_then_from_the_cache(
        self, tmp_path: Path, archive: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cache = tmp_path / "deep" / "cache"
        first = counterfitted(cache)
        assert first.nearest("Good", 5) == ["Fine"]
        assert [path.name for path in cache.iterdir()] == ["counter-fitted-vectors.npz"]
        self.serve(monkeypatch, AssertionError("asked again"))
        assert counterfitted(cache).nearest("fine", 5) == ["good"]
        digest = hashlib.sha256(archive).hexdigest()
        assert first.source == f"counter-fitted vectors counter-fitted-vectors.txt (archive {digest[:12]})"

    def refused(self, cache: Path) -> str:
        with pytest.raises(UserError) as caught:
            counterfitted(cache)
        assert not cache.exists() or not list(cache.iterdir())
        return str(caught.value)

    def test_another_file_is_refused(self, tmp_path: Path, archive: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        self.serve(monkeypatch, archive + b"x")
        line = self.refused(tmp_path / "cache")
        assert hashlib.sha256(archive + b"x").hexdigest() in line
        assert "--synonyms" in line

    def test_vectors_of_another_shape_are_refused(
        self, tmp_path: Path, archive: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(download, "COUNTERFITTED_SHAPE", (65713, 300))
        assert "(2, 3), not (65713, 300)" in self.refused(tmp_path / "cache")

    def test_an_endless_answer_is_cut(self, tmp_path: Path, archive: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(download, "_MAX_DOWNLOAD", 10)
        assert "more than" in self.refused(tmp_path / "cache")

    @pytest.mark.parametrize("error", [urllib.error.URLError("no route"), TimeoutError("timed out")])
    def test_no_network(self, tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
        self.serve(monkeypatch, error)
        line = self.refused(tmp_path / "cache")
        assert "--synonyms FILE" in line
        assert "--synonyms neighbours" in line
        assert str(getattr(error, "reason", error)) in line

    def test_the_cache_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "cache").touch()
        with pytest.raises(UserError, match="HOLDFAST_CACHE"):
            counterfitted(tmp_path / "cache")

    def test_the_known_hash_is_one(self) -> None:
        assert len(bytes.fromhex(COUNTERFITTED_SHA256)) == 32
