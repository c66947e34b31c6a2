"""A model whose vectors are cut to its first dimensions (``truncate_dim``) is trained on what is left of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from methods import OPTIONS
from sentence_transformers import SentenceTransformer

from holdfast.cli import main
from holdfast.encoder import Encoder
from holdfast.encoding import encode_sentences
from holdfast.evaluation.evaluation_run import evaluate_sts_dev
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS
from holdfast.objectives.adcl_projection import Projection
from holdfast.objectives.heads import Head
from holdfast.results import read_result
from holdfast.training.train_config import TrainConfig
from holdfast.training.training_run import train

WIDTH = 6


@pytest.fixture
def cut(tiny: Path, tmp_path: Path) -> Path:
    """An encoder of 16 dimensions of which 6 are in use."""
    return saved(tiny, tmp_path / "cut", "mean")


def saved(tiny: Path, folder: Path, pooling: str) -> Path:
    model = load_sentence_transformer(str(tiny), pooling=pooling, device="cpu")
    model.truncate_dim = WIDTH
    model.save(str(folder))
    return folder


@pytest.mark.parametrize("pooling", ["mean", "cls", "prompt"])
def test_the_vectors_of_training_are_those_in_use(
    tiny: Path, tmp_path: Path, pooling: str, sentences: list[str]
) -> None:
    model = load_sentence_transformer(str(saved(tiny, tmp_path / "cut", pooling)), device="cpu").eval()
    encoder = Encoder(model, template_bias=False)
    assert encoder.dimension == WIDTH
    with torch.no_grad():
        vectors = encoder.encode(encoder.tokenise(sentences))
    np.testing.assert_allclose(vectors, encode_sentences(model, sentences), atol=1e-5)
    np.testing.assert_allclose(vectors, model.encode(sentences), atol=1e-5)
    biased = Encoder(model)
    assert biased.encode(biased.tokenise(sentences), views=2).shape == (2 * len(sentences), WIDTH)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_what_is_used(
    method: str, tiny: Path, cut: Path, corpus: Path, tmp_path: Path, sentences: list[str]
) -> None:
    model = load_sentence_transformer(str(cut), device="cpu")
    options = OPTIONS.get(method, {}) | {"adcl": {"masked_lm": str(tiny)}, "diffcse": {"generator": str(tiny)}}.get(
        method, {}
    )
    heads = [part for part in METHODS[method](model, **options).modules() if isinstance(part, (Head, Projection))]
    assert all(_takes(head) == {WIDTH} for head in heads)
    given = TrainConfig(
        method,
        str(cut),
        str(corpus),
        tmp_path / "out",
        options=options,
        max_steps=2,
        batch_size=8,
        learning_rate=1e-3,
        selection="last",
        precision="fp32",
        report_sts=False,
    )
    result = train(given)
    assert result["protocol"]["dimensions"] == WIDTH
    made = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert made.truncate_dim == WIDTH
    assert made.get_embedding_dimension() == WIDTH
    vectors = made.encode(sentences)
    assert vectors.shape == (len(sentences), WIDTH)
    assert np.abs(vectors - model.encode(sentences)).max() > 1e-4, "it was trained"


def _takes(head: torch.nn.Module) -> set[int]:
    """The width that a head's first layer takes; that of the model where it has no layer."""
    layers = [part.in_features for part in head.modules() if isinstance(part, torch.nn.Linear)]
    return set(layers[:1]) or {WIDTH}


def test_the_other_verbs_use_as_many_dimensions_and_say_so(
    cut: Path, corpus: Path, labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    shutil.copy(labelled / "stsb" / "dev.tsv", labelled / "stsb" / "test.tsv")
    lines = corpus.read_text().splitlines()
    Path("task.tsv").write_text("sentence\tlabel\n" + "".join(f"{line}\t{i % 2}\n" for i, line in enumerate(lines)))
    steps = ["--max-steps", "1", "--batch-size", "8", "--no-audit"]
    for words in (
        ["evaluate", "cut", "--tasks", "stsb", "--data", str(labelled), "--output", "evaluate.json"],
        ["space", "cut", "--data", str(labelled), "--output", "space.json"],
        ["harden", "cut", "--corpus", str(corpus), "--output", "hard", "--synonyms", "none", *steps],
        ["finetune", "cut", "--frozen", "--task", "task.tsv", "--output", "frozen"],
    ):
        assert main(words) == 0
    frozen = next(path for path in Path("frozen").glob("*.json") if "kind" in json.loads(path.read_text()))
    for path in (Path("evaluate.json"), Path("space.json"), Path("hard/harden.json"), frozen):
        assert read_result(path)["protocol"]["dimensions"] == WIDTH, path
    assert SentenceTransformer("hard", device="cpu").truncate_dim == WIDTH


@pytest.mark.parametrize("pooling", ["mean", "cls", "first-last"])
def test_a_baseline_of_all_dimensions_says_so(
    cut: Path, pooling: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(cut.parent)
    assert main(["baseline", pooling, "--model", "cut", "--output", "base"]) == 0
    assert "cut to 6 of 16 dimensions (truncate_dim); the baseline uses all" in capsys.readouterr().err
    assert SentenceTransformer("base", device="cpu").get_embedding_dimension() == 16


def test_a_resumed_run_counts_cut_texts_as_an_unbroken_one(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    """The batch after a checkpoint's has been read when it is written, and is read again."""

    def config(output: Path) -> TrainConfig:
        given: dict[str, Any] = {"max_steps": 6, "save_steps": 2, "keep_checkpoints": 9, "batch_size": 8}
        given |= {"selection": "last", "precision": "fp32", "report_sts": False, "max_length": 8}
        return TrainConfig("simcse", str(tiny), str(corpus), output, **given)

    whole = train(config(tmp_path / "whole"))
    again = tmp_path / "again"
    again.mkdir()
    shutil.copy(tmp_path / "whole" / "run.json", again)
    shutil.copytree(tmp_path / "whole" / "checkpoint-4", again / "checkpoint-4")
    resumed = train(config(again), resume=True)
    assert whole["truncated"] == resumed["truncated"]
    assert whole["truncated"]["of"] == 48
    assert 10 < whole["truncated"]["texts"] < 48
    assert whole["truncated"]["tokens"] == whole["protocol"]["max_seq_length"] == 8


def test_a_model_without_a_length_limit_keeps_none(
    make_encoder_model: Callable[..., SentenceTransformer], corpus: Path, labelled: Path, tmp_path: Path
) -> None:
    """Relative positions, and a tokeniser that says nothing: training cuts, selection and the exported model do not."""
    make_encoder_model("modernbert", pooling="mean").save(str(tmp_path / "m"))
    for name, changed in (
        ("config.json", {"max_position_embeddings": -1}),
        ("tokenizer_config.json", {"model_max_length": 10**30}),
        ("sentence_bert_config.json", {"max_seq_length": 10**30}),
    ):
        path = tmp_path / "m" / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    given: dict[str, Any] = {"max_steps": 1, "batch_size": 8, "max_length": 8, "precision": "fp32", "report_sts": False}
    given |= {"selection": "stsb-dev", "data": labelled, "eval_steps": 1}
    result = train(TrainConfig("simcse", str(tmp_path / "m"), str(corpus), tmp_path / "out", **given))
    assert result["protocol"]["max_seq_length"] == 8
    made = load_sentence_transformer(str(tmp_path / "out"), device="cpu")
    assert made.max_seq_length == 10**30
    row = evaluate_sts_dev(made, data=labelled)[0]
    assert row["metrics"]["spearman"] == pytest.approx(result["selected"]["score"], abs=1e-3)
    assert row["truncated"]["tokens"] is None
