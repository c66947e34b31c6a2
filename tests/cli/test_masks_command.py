"""``holdfast masks``: what it prints and writes, whose settings it takes, and mistakes in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.results import read_result

TEXTS = ["--text", "the old man sleeps", "--text", "a dog runs in the park"]


@pytest.fixture
def here(tmp_path: Path, make_masked_lm: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the three-layer model `lm`."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    make_masked_lm(tmp_path / "lm", layers=3)
    return tmp_path


def test_masks_are_printed_and_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["masks", "lm", *TEXTS, "--draws", "3", "--set", "threshold=0.4", "--output", "masks.json"]
    assert main(words) == 0
    message = capsys.readouterr().out
    result = read_result(here / "masks.json")
    assert result["kind"] == "masks"
    assert (result["seed"], result["protocol"]["draws"], result["protocol"]["batch_size"]) == (42, 3, 32)
    assert result["protocol"]["options"]["threshold"] == 0.4
    assert result["protocol"]["options_from"] is None
    assert [row["split"] for row in result["results"]] == ["layer 0", "layer 1", "layer 2"]
    first, second = result["texts"]
    assert second["tokens"] == ["[CLS]", "a", "dog", "runs", "in", "the", "park", "[SEP]"]
    assert set(first) == {"text", "tokens", "first", "weakened"}
    # The first line of the first sentence: ‹› around what its first mask weakens.
    marked = [
        f"‹{token}›" if kept == 0 else token for token, kept in zip(first["tokens"], first["first"][0][0], strict=True)
    ]
    assert "embeddings, view 1  " + " ".join(marked) in message
    assert "‹" in message
    for share in first["weakened"][2]:
        assert f"{100 * share:.1f}" in message
    assert "weaken 40 % of all" in message


def test_a_seed_gives_the_same_json_and_features_on_request(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def texts(*more: str) -> Any:
        assert main(["masks", "lm", *TEXTS, "--draws", "2", "--set", "threshold=0.4", "--json", *more]) == 0
        message = capsys.readouterr()
        assert message.err == ""
        return json.loads(message.out)["texts"]

    assert texts() == texts()
    assert texts() != texts("--seed", "1")
    with_features = texts("--features")
    assert len(with_features[0]["features"]) == 3
    assert len(with_features[0]["features"][0]) == 16
    assert texts("--features", "--set", "feature_mask=false")[0]["features"] is None


def test_the_model_brings_the_settings_it_was_trained_with(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options_of_run = {"layers": 2, "threshold": 0.3, "steps": 1, "step_size": 0.2, "head": "tanh"}
    record = {"method": "l2p-csr", "options": options_of_run, "training": {"max_length": 20}}
    (here / "lm" / "run.json").write_text(json.dumps(record))

    def options(*more: str) -> Any:
        assert main(["masks", "lm", *TEXTS, "--draws", "1", "--json", *more]) == 0
        protocol = json.loads(capsys.readouterr().out)["protocol"]
        assert protocol["options_from"] == "lm/run.json"
        assert protocol["max_length"] == 20
        return protocol["options"]

    trained = options()
    assert (trained["layers"], trained["threshold"], trained["steps"], trained["step_size"]) == (2, 0.3, 1, 0.2)
    assert options("--set", "layers=1")["layers"] == 1, "the command line goes before the record"
    assert "head" not in trained
    assert main(["masks", "lm", *TEXTS, "--draws", "1"]) == 0
    assert "from lm/run.json" in capsys.readouterr().out


def test_the_model_brings_the_prompt_it_was_trained_with(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def first(record: dict[str, Any], *more: str) -> tuple[Any, list[str]]:
        (here / "lm" / "run.json").write_text(json.dumps({"method": "l2p-csr", "options": {}, **record}))
        assert main(["masks", "lm", *TEXTS, "--draws", "1", "--json", *more]) == 0
        result = json.loads(capsys.readouterr().out)
        return result["protocol"].get("prompt"), result["texts"][0]["tokens"]

    without = ["[CLS]", "the", "old", "man", "sleeps", "[SEP]"]
    prompt, tokens = first({"prompt": "a big "})
    assert prompt == "a big "
    assert tokens == first({}, "--prompt", "a big ")[1] != without
    assert first({"prompt": "a big "}, "--no-prompt")[1] == without
    assert first({"prompt": None}) == first({}) == (None, without)


def test_sentences_from_files(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine.txt").write_text("the woman sings\nthe old man sleeps\n\n")
    (here / "others.txt").write_text("a cat eats\nthe woman sings\na dog runs\nchild plays\n")
    words = ["masks", "lm", *TEXTS, "--file", "mine.txt", "--others", "others.txt", "--draws", "1", "--json"]
    assert main([*words, "--batch-size", "6"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [row["text"] for row in result["texts"]] == [
        "the old man sleeps",
        "a dog runs in the park",
        "the woman sings",
    ]
    assert result["protocol"]["others"] == "others.txt"
    assert main([*words, "--batch-size", "7"]) == 2  # only three others are none of the three
    assert "needs 4 other sentences, and others.txt has 3" in capsys.readouterr().err


def test_feature_masks_alone_are_told_by_layer(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["masks", "lm", *TEXTS, "--draws", "1", "--set", "token_mask=false"]) == 0
    message = capsys.readouterr().out
    assert "embeddings: weakened features" in message
    assert "view 1" not in message


MISTAKES = [
    (["lm"], "--text or --file"),
    (["lm", "--text", " "], "blank"),
    (["lm", "--file", "nowhere.txt"], "nowhere.txt"),
    (["lm", "--file", "many.txt"], "more than 64"),
    (["lm", *TEXTS, "--draws", "0"], "--draws"),
    (["lm", *TEXTS, "--seed", "-1"], "--seed must be from 0 to 4294967295"),
    (["lm", *TEXTS, "--max-length", "2"], "--max-length"),
    (["lm", *TEXTS, "--batch-size", "1"], "--batch-size"),
    (["lm", *TEXTS, "--batch-size", "99"], "--others"),
    (["lm", *TEXTS, "--set", "treshold=0.1"], "'threshold'"),
    (["lm", *TEXTS, "--set", "head=none"], "head"),
    (["lm", *TEXTS, "--set", "layers=9"], "1 to 3"),
    (["lm", *TEXTS, "--set", "threshold=2"], "from -1 to 1"),
    (["lm", *TEXTS, "--set", "noise=embedding"], "noise=mask"),
    (["lm", *TEXTS, "--output", "lm"], "folder"),
    (["ml", *TEXTS], "'lm'"),
]


@pytest.mark.parametrize(("words", "named"), MISTAKES, ids=lambda value: " ".join(value) if type(value) is list else "")
def test_a_mistake_is_one_line(words: list[str], named: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "many.txt").write_text("".join(f"sentence {i}\n" for i in range(65)))
    assert main(["masks", *words]) == 2
    message = capsys.readouterr()
    assert message.out == ""
    (line,) = [line for line in message.err.splitlines() if line.startswith("holdfast: ")]
    assert named in line
