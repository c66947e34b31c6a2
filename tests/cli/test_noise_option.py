"""``evaluate --noise``: a table and rows for each noise, its record, and mistakes in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli import main


@pytest.fixture
def here(tmp_path: Path, masked_lm: Path, sentences: list[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the model `lm` and STS-B test in `data`."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lm").symlink_to(masked_lm)
    (tmp_path / "data" / "stsb").mkdir(parents=True)
    lines = [f"{a}\t{b}\t{(len(a) * len(b)) % 51 / 10}" for a in sentences for b in sentences if a != b]
    (tmp_path / "data" / "stsb" / "test.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n")
    return tmp_path


def test_each_noise_has_a_table_and_a_row(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", "lm", "--tasks", "stsb", "--data", "data", "--noise", "typing=0.3,ocr", "--output", "r.json"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "in noise, typing=0.3:" in shown
    assert "in noise, ocr=0.1:" in shown
    assert shown.count("stsb") == 3
    result = json.loads((here / "r.json").read_text())
    assert [row.get("noise") for row in result["results"]] == [None, "typing=0.3", "ocr=0.1"]
    assert result["protocol"]["noise"] == ["typing=0.3", "ocr=0.1"]
    assert result["protocol"]["noise_seed"] == 0


def test_an_unknown_noise_is_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "lm", "--tasks", "stsb", "--data", "data", "--noise", "typnig"]) == 2
    error = capsys.readouterr().err
    assert "--noise does not take 'typnig' (did you mean 'typing'?)" in error
    assert error.strip().count("\n") == 0


def test_misspellings_of_a_list_are_drawn_and_recorded(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", "lm", "--tasks", "stsb", "--data", "data", "--noise", "typing=1", "--output"]
    known = sorted({word.lower().strip(".") for word in (here / "data/stsb/test.tsv").read_text().split()})
    # The model knows this "misspelling", and errors by the rates are unknown words to it.
    (here / "list.tsv").write_text("".join(f"{word}\tdog\n" for word in known if word.isalpha()))
    assert main([*words, "plain.json"]) == 0
    assert main([*words, "listed.json", "--misspellings", "list.tsv"]) == 0
    plain, listed = (json.loads((here / name).read_text()) for name in ("plain.json", "listed.json"))
    assert "misspellings" not in plain["protocol"]
    assert listed["protocol"]["misspellings"]["words"] > 3
    assert plain["results"][0]["metrics"] == listed["results"][0]["metrics"]
    assert plain["results"][1]["metrics"] != listed["results"][1]["metrics"]


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ((), "--misspellings is for the noise typing: add --noise typing"),
        (("--noise", "ocr"), "--misspellings is for the noise typing: add it to --noise ocr"),
        (("--noise", "typing"), "list.tsv:1: this is not a word with its misspellings"),
    ],
)
def test_misspellings_without_typing_or_damaged_are_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], noise: tuple[str, ...], message: str
) -> None:
    (here / "list.tsv").write_text("bridge\tbrige\n" if noise != ("--noise", "typing") else "bridge brige\n")
    words = ["evaluate", "lm", "--tasks", "stsb", "--data", "data", "--misspellings", "list.tsv"]
    assert main([*words, *noise]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.strip().count("\n") == 0
