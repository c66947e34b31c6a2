"""Every verb that encodes takes a prompt, and says in one line that one must be chosen."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from holdfast.cli import main
from holdfast.encoding import encode_sentences
from holdfast.evaluation.space import uniformity
from holdfast.models import load_sentence_transformer
from holdfast.text_prompts import PromptOptions

WORDS = "man woman child runs sleeps eats plays sings park house bed red big old".split()
LINE = "prompted has prompts and no default: query 'the old ', passage 'under '; choose one with --prompt-name NAME"

VERBS = {
    "evaluate": ["evaluate", "prompted", "--tasks", "stsb"],
    "space": ["space", "prompted", "--output", "out.json"],
    "masks": [
        "masks",
        "prompted",
        "--text",
        "the man runs",
        "--text",
        "a dog",
        "--draws",
        "2",
        "--batch-size",
        "4",
        "--set",
        "layers=2",
    ],
    "train": ["train", "simcse", "--model", "prompted", "--corpus", "mine.txt", "--output", "out", "--max-steps", "1"],
    "harden": ["harden", "prompted", "--corpus", "mine.txt", "--output", "out", "--max-steps", "1", "--no-audit"],
    "finetune": ["finetune", "prompted", "--task", "sst2", "--frozen", "--output", "out"],
    "whitening": ["baseline", "whitening", "--model", "prompted", "--corpus", "mine.txt", "--output", "out"],
    "attack": ["attack", "prompted", "--texts", "mine.txt", "--recipes", "typos", "--examples", "2"],
    "audit": ["audit", "prompted", "--texts", "mine.txt", "--examples", "2"],
}


def sentence(draw: random.Random, *more: str) -> str:
    return " ".join([*draw.choices(WORDS, k=draw.randint(3, 7)), *more])


@pytest.fixture
def here(tmp_path: Path, prompted: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the model `prompted`, texts, and a data folder."""
    data = tmp_path / "data"
    monkeypatch.setenv("HOLDFAST_DATA", str(data))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompted").symlink_to(prompted())
    draw = random.Random(0)
    (tmp_path / "mine.txt").write_text("\n".join(sentence(draw) for _ in range(80)) + "\n")
    (data / "stsb").mkdir(parents=True)
    for split in ("dev", "test"):
        rows = [f"{sentence(draw)}\t{sentence(draw)}\t{i % 6}" for i in range(30)]
        (data / "stsb" / f"{split}.tsv").write_text("sentence1\tsentence2\tscore\n" + "\n".join(rows) + "\n")
    (data / "sst2").mkdir()
    for split, count in {"train": 120, "dev": 30, "test": 30}.items():
        rows = [f"{sentence(draw, ('cat', 'dog')[i % 2])}\t{i % 2}" for i in range(count)]
        (data / "sst2" / f"{split}.tsv").write_text("sentence\tlabel\n" + "\n".join(rows) + "\n")
    return tmp_path


def result_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main([*words, "--json"]) == 0, capsys.readouterr().err
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.parametrize("name", VERBS)
def test_a_choice_not_made_is_one_line(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(VERBS[name]) == 2
    captured = capsys.readouterr()
    assert LINE in " ".join(captured.err.split())
    assert "Traceback" not in captured.err
    assert not (here / "out").exists() or not any(path.suffix == ".json" for path in (here / "out").iterdir())


@pytest.mark.parametrize("name", VERBS)
def test_the_prompt_is_in_the_protocol(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = result_of([*VERBS[name], "--prompt-name", "passage"], capsys)
    assert result["protocol"]["prompt"] == "under "


def test_space_is_that_of_the_vectors_with_the_prompt(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = result_of([*VERBS["space"], "--prompt", "a big "], capsys)["results"][0]
    rows = (here / "data" / "stsb" / "dev.tsv").read_text().splitlines()[1:]
    texts = list(dict.fromkeys([line.split("\t")[side] for side in (0, 1) for line in rows]))
    vectors = SentenceTransformer(str(here / "prompted"), device="cpu").encode(texts, prompt="a big ")
    assert row["metrics"]["uniformity"] == pytest.approx(uniformity(vectors), abs=1e-5)


def test_masks_are_of_the_texts_tokens(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*VERBS["masks"], "--set", "threshold=0.6", "--prompt", "big red "]
    first = result_of(words, capsys)["texts"][0]
    assert first["tokens"] == ["the", "man", "runs", "[SEP]"]


def test_a_frozen_classifier_keeps_the_prompt_it_was_fitted_with(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = result_of([*VERBS["finetune"], "--prompt", "a big "], capsys)
    plain = SentenceTransformer(str(here / "out"), device="cpu")
    assert plain.prompts[plain.default_prompt_name] == "a big "
    assert plain.prompts["query"] == "the old "
    rows = [line.split("\t") for line in (here / "data" / "sst2" / "test.tsv").read_text().splitlines()[1:]]
    right = plain.encode([text for text, _ in rows]).argmax(axis=1) == [int(label) for _, label in rows]
    assert result["results"][-1]["metrics"]["accuracy"] == pytest.approx(100 * right.mean())
    none = result_of([*VERBS["finetune"][:-1], "none", "--no-prompt"], capsys)
    assert none["protocol"]["prompt"] is None
    again = load_sentence_transformer("none", device="cpu", prompts=PromptOptions(), scores=True)
    without = SentenceTransformer(str(here / "none"), device="cpu").encode(["a dog"], prompt="")
    np.testing.assert_allclose(encode_sentences(again, ["a dog"]), without, atol=1e-5)


def test_whitening_is_fitted_to_vectors_with_the_prompt(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result_of([*VERBS["whitening"], "--prompt-name", "query"], capsys)
    made = SentenceTransformer(str(here / "out"), device="cpu")
    assert (made.prompts["query"], made.default_prompt_name) == ("the old ", None)
    texts = list((here / "mine.txt").read_text().splitlines())
    vectors = made.encode(texts, prompt_name="query")
    assert np.abs(vectors.mean(axis=0)).max() < 1e-2
    assert np.abs(made.encode(texts, prompt_name="passage").mean(axis=0)).max() > 1e-1
    assert main(["baseline", "cls", "--model", "prompted", "--output", "cls", "--prompt", "a "]) == 2
    assert "the baseline cls does not take --prompt" in capsys.readouterr().err
