"""The download of the counter-fitted vectors."""

from __future__ import annotations

import hashlib
import io
import urllib.error
import zipfile
from pathlib import Path

import pytest

from holdfast.attacks import counterfitted as download
from holdfast.attacks.counterfitted import COUNTERFITTED_SHA256, counterfitted
from holdfast.errors import UserError


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
