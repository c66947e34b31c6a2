"""Mistakes in names of files and values, each with a line that names the right option."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli import main


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("audit bundled --texts q.tsv", "no column is called sentence or text: rename the one of the sentences"),
        (
            "audit bundled --texts s.txt --retrieval s.txt",
            "s.txt is not a folder: retrieval needs one in BEIR's layout",
        ),
        ("audit bundled --texts s.txt --language English", "--language takes a code of two letters"),
        (
            "evaluate bundled --tasks retrieval --data s.txt",
            "s.txt (--data) is not a folder: give the folder of the data",
        ),
        (
            "harden bundled --corpus s.txt --synonyms counterfitted --output o",
            "give a file, or one of neighbours, wordnet",
        ),
    ],
)
def test_the_line_names_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.txt").write_text("the dog runs\nthe cat sleeps\n")
    (tmp_path / "q.tsv").write_text("a\tb\none\ttwo\n")
    assert main(words.split()) == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


def test_a_card_without_items_does_not_say_that_all_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.txt").write_text("the dog runs\nthe cat sleeps\n")
    assert main("audit bundled --texts s.txt --language de --items negation".split()) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "no item could be measured" in out
    assert "holds;" not in out
