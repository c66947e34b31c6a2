"""``holdfast pretrain`` as a person or a script meets it."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.results import read_result

SMALL = "--vocabulary 60 --layers 1 --hidden 16 --heads 2 --max-length 16 --max-steps 2 --precision fp32".split()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    lines = ["the dog runs in the park", "a cat sleeps on the old bed", "the man sings under a big red house"] * 10
    (tmp_path / "c.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "d.txt").write_text("the cat runs in the house\nthe dog runs in the park\n")
    return tmp_path


def test_a_model_is_made_and_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["pretrain", "--corpus", "c.txt", "--held-out", "d.txt", *SMALL, "--output", "out"]
    assert main([*words, "--prompt", "the [MASK] runs."]) == 0
    message = capsys.readouterr()
    assert 'AutoModelForMaskedLM.from_pretrained("out")' in message.out
    assert "the [MASK] runs." in message.out, "brackets stay text"
    assert "10 of the corpus are among them: removed" in message.err
    result = read_result(here / "out" / "results.json")
    assert result["kind"] == "pretrain"
    assert result["command"].startswith("holdfast pretrain --corpus c.txt --held-out d.txt")
    assert result["protocol"]["corpus"]["removed_held_out"] == 10
    assert [row["task"] for row in result["results"]] == ["masked-lm"]


def test_with_json_there_is_one_document_and_nothing_else(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretrain", "--corpus", "c.txt", *SMALL, "--output", "out", "--json"]) == 0
    message = capsys.readouterr()
    assert message.err == ""
    assert json.loads(message.out) == read_result(here / "out" / "results.json")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--output", "out"], "missing: --corpus"),
        (["--corpus", "c.txt"], "missing: --output"),
        (["--corpus", "c.txt", "--output", "out", "--config", "smal"], "did you mean 'small'"),
        (["--corpus", "c.txt", "--output", "out", "--epochs", "1", "--hours", "1"], "exclude each other"),
        (["--corpus", "c.txt", "--output", "out", "--precision", "bf61"], "did you mean 'bf16'"),
        (["--corpus", "nothing.txt", "--output", "out"], "nothing.txt does not exist"),
        (["--corpus", "c.txt", "--output", "out", "--vocabluary", "3"], "did you mean '--vocabulary'"),
    ],
)
def test_mistakes_are_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretrain", *words]) == 2
    message = capsys.readouterr()
    assert message.out == ""
    assert said in message.err.splitlines()[-1]
    assert "Traceback" not in message.err


def test_the_help_has_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    from holdfast.pretraining.pretrain_settings import PretrainSettings

    assert main(["pretrain", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    defaults = {f"--{f.name.replace('_', '-')}": f.default for f in fields(PretrainSettings)}
    numbers = {name: value for name, value in defaults.items() if type(value) in (int, float)}
    assert len(numbers) > 8
    for option, default in numbers.items():
        if option != "--keep-checkpoints":
            assert re.search(rf"{option} [^\[]*\[default: {re.escape(str(default))}\]", text), option
