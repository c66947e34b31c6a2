"""What a person wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.values import paths_in


def test_paths_are_apart_at_commas() -> None:
    assert paths_in("a.json, b.json,") == ["a.json", "b.json"]
    assert paths_in("") == paths_in(" , ") == []


def test_a_path_with_a_comma_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a, b.json").touch()
    assert paths_in("a, b.json") == ["a, b.json"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths_in("~/a, b.json") == ["~/a, b.json"]
