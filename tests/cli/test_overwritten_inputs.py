"""A file that a call reads is not what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli import main


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("audit bundled --texts texts.txt --items typing --output texts.txt", "--texts"),
        ("attack bundled --texts texts.txt --recipes typos --output ./texts.txt", "--texts"),
        ("masks bundled --file texts.txt --output link.txt", "--file"),
        ("compare a.json,b.json c.json --output b.json", "A.json"),
        ("transfer a.json --models m --output a.json", "RESULT.json"),
        ("check a.json --fail-if typing.stability<0.5 --junit a.json", "result"),
        ("report a.json --output a.json", "RESULT.json"),
        ("data texts own.tsv --output own.tsv", "TASKS"),
        ("attack bundled --texts mine.examples.jsonl --recipes typos --output mine.json", "--texts"),
        (
            "attack bundled --texts texts.txt --search mine.examples.jsonl --recipes typos --output mine.json",
            "--search",
        ),
    ],
)
def test_an_input_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("the dog runs\nthe cat sleeps\n")
    (tmp_path / "link.txt").symlink_to("texts.txt")
    (tmp_path / "own.tsv").write_text("sentence\tlabel\nthe dog runs\t1\nthe cat sleeps\t0\n")
    (tmp_path / "mine.examples.jsonl").write_text('{"text": "the dog runs"}\n')
    for result in ("a.json", "b.json", "c.json"):
        (tmp_path / result).write_text(json.dumps({"not": "read"}))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(words.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"is the file of {name}" in line
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("other", ["--plot", "--coordinates"])
def test_two_outputs_are_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], other: str) -> None:
    out = str(tmp_path / "out.svg")
    assert main(["space", "bundled", "--output", out, other, out]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "out.svg is the file of --" in line
    assert not any(tmp_path.iterdir())
