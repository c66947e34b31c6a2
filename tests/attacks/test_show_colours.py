"""`holdfast show` on a terminal: what was taken out is red, what stands there now is green, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.result_layout import SCHEMA
from holdfast.results import write_result

CODE = re.compile(r"\x1b\[([0-9;]*)m")
RED, GREEN, BOLD, DIM = "31", "32", "1", "2"


@pytest.fixture
def written(tmp_path: Path) -> str:
    """A result with one text in which two words were changed."""
    example: dict[str, Any] = {
        "number": 3,
        "recipe": "pwws",
        "outcome": "succeeded",
        "reason": None,
        "original": "a man is cutting fish",
        "adversarial": "a piece is cutting Pisces",
        "other": None,
        "label": 1,
        "before": {"label": 1, "value": 0.9, "correct": True},
        "after": {"label": 0, "value": 0.2, "correct": False},
        "words": 5,
        "changed": [[4, "fish", "Pisces"], [1, "man", "piece"]],
        "queries": 30,
        "passes": 20,
        "similarity": None,
    }
    result: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": "attack",
        "created": "2026-01-02T03:04:05+00:00",
        "model": "runs/a",
        "model_sha256": "",
        "protocol": {},
        "environment": {},
        "command": "holdfast attack",
        "seed": 1,
        "results": [],
        "examples": [example],
    }
    write_result(tmp_path / "r.json", result)
    return str(tmp_path / "r.json")


def spans(printed: str) -> list[tuple[frozenset[str], str]]:
    """The pieces of what was printed, each with the codes that hold for it."""
    found: list[tuple[frozenset[str], str]] = []
    now: set[str] = set()
    for number, piece in enumerate(CODE.split(printed)):
        if number % 2:
            codes = [code for code in piece.split(";") if code not in ("", "0")]
            now = {*now, *codes} if codes else set()
        elif piece:
            found.append((frozenset(now), piece))
    return found


def test_a_terminal_shows_old_words_red_and_new_ones_green(
    written: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("NO_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    assert main(["show", written]) == 0
    found = spans(capsys.readouterr().out)
    assert [piece for codes, piece in found if RED in codes] == ["[-man-]", "[-fish-]"]
    assert [piece for codes, piece in found if GREEN in codes] == ["{+piece+}", "{+Pisces+}"]
    assert not any({RED, GREEN} <= codes for codes, _ in found)
    line = next(piece for codes, piece in found if "pwws #3" in piece)
    assert [BOLD in codes for codes, piece in found if piece == line] == [True]
    plain = [(codes, piece) for codes, piece in found if " is cutting " in piece]
    assert [codes & {RED, GREEN, BOLD, DIM} for codes, _ in plain] == [set()], "what stayed is plain"
    (verdict,) = [codes for codes, piece in found if "class 1 (right one 0.900) -> class 0 (right one 0.200)" in piece]
    assert DIM in verdict


@pytest.mark.parametrize("variables", [{}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}])
def test_a_file_gets_the_same_words_without_colours(
    variables: dict[str, str], written: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR", "COLORTERM", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["show", written]) == 0
    printed = capsys.readouterr().out
    assert not {RED, GREEN} & {code for codes, _ in spans(printed) for code in codes}
    assert "a [-man-]{+piece+} is cutting [-fish-]{+Pisces+}" in CODE.sub("", printed)
    assert variables or "\x1b" not in printed
