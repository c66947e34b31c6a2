"""Loading stays within what the weights hold, names the cause of an error, and says what changes numbers."""

from __future__ import annotations

import json
import logging
import shutil
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers.base.modules import Dense

from holdfast.adversary.masked_lm import MaskedLM
from holdfast.adversary.translation import Translator
from holdfast.attacks.classifier import load_classifier
from holdfast.cli.console import work_quietly
from holdfast.errors import Notice, UserError, emit_notice
from holdfast.evaluation.evaluation_result import evaluation
from holdfast.loading import quiet
from holdfast.models import load_sentence_transformer


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, {"format": "pt"})


# --- bounds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "num_hidden_layers",
            10**7,
            r"it asks for 10,000,000 layers \(num_hidden_layers\), and the weights hold 42 tens",
        ),
        ("num_hidden_layers", 10**30, "layers"),
        (
            "num_hidden_layers",
            900,
            r"tensors or more, of .* numbers or more \(at .*\), and the weights hold 42 tensors",
        ),
        ("vocab_size", 10**9, "it asks for 1 tensors or more, of 16,000,000,000 numbers"),
        ("hidden_size", 10**7, "numbers or more"),
        ("intermediate_size", 10**8, "numbers or more"),
        ("max_position_embeddings", 10**9, "numbers or more"),
        ("type_vocab_size", 10**9, "numbers or more"),
        ("num_labels", 10**7, r"it asks for 10,000,000 labels \(num_labels\)"),
    ],
)
@pytest.mark.parametrize("load", [load_sentence_transformer, MaskedLM, load_classifier])
def test_a_configuration_that_asks_for_more_than_the_weights_hold(
    masked_lm: Path, key: str, value: int, message: str, load: Callable[[str], Any]
) -> None:
    edit(masked_lm / "config.json", **{key: value})
    began = time.process_time()
    with pytest.raises(UserError, match=rf"masked-lm: the weights do not match config\.json: .*{message}"):
        load(str(masked_lm))
    assert time.process_time() - began < 5


@pytest.mark.parametrize("heads", [0, -1])
@pytest.mark.parametrize("load", [load_sentence_transformer, MaskedLM, load_classifier])
def test_a_configuration_without_attention_heads(masked_lm: Path, heads: int, load: Callable[[str], Any]) -> None:
    edit(masked_lm / "config.json", num_attention_heads=heads)
    with pytest.raises(UserError, match=rf"config\.json asks for {heads} attention heads \(num_attention_heads\)"):
        load(str(masked_lm))


def test_a_module_that_asks_for_more_than_its_weights_hold(masked_lm: Path, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    model = load_sentence_transformer(str(masked_lm), device="cpu")
    model.append(Dense(16, 8))
    model.save(str(folder))
    for changes, message in {
        (("in_features", 10**9),): "linear.weight is 8 x 16, and it asks for 8 x 1000000000",
        (("in_features", 16), ("other", 10**9)): r"it asks for 1,000,000,000 \(other\), and no tensor is longer than",
    }.items():
        edit(folder / "2_Dense" / "config.json", **dict(changes))
        with pytest.raises(UserError, match=rf"do not match 2_Dense/config\.json: {message}"):
            load_sentence_transformer(str(folder), device="cpu")


# --- causes ----------------------------------------------------------------------------------------------------------


def test_a_mismatch_names_the_tensor_and_both_shapes(masked_lm: Path) -> None:
    edit(masked_lm / "config.json", vocab_size=30)
    message = r"embeddings\.word_embeddings\.weight is 26 x 16, and config\.json asks for 30 x 16"
    with pytest.raises(UserError, match=message):
        load_sentence_transformer(str(masked_lm), device="cpu")


def test_weights_of_another_architecture_are_not_left_random(masked_lm: Path) -> None:
    edit(masked_lm / "config.json", model_type="distilbert")
    with pytest.raises(UserError, match=r"\d+ of the model's \d+ tensors are missing"):
        load_sentence_transformer(str(masked_lm), device="cpu")


def test_an_error_that_speaks_of_a_cause_is_not_taken_for_it(masked_lm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of sizes nor of SentencePiece, where the folder shows no such thing."""
    from transformers import AutoModel

    for error in (RuntimeError("see ignore_mismatched_sizes"), ImportError("sentencepiece is not installed")):

        def fail(*_: Any, error: Exception = error, **__: Any) -> None:
            raise error

        monkeypatch.setattr(AutoModel, "from_pretrained", fail)
        with pytest.raises(UserError, match=rf"masked-lm cannot be loaded: {error}"):
            load_sentence_transformer(str(masked_lm), device="cpu")


@pytest.mark.skipif(find_spec("sentencepiece") is not None, reason="SentencePiece is installed")
@pytest.mark.parametrize("load", [load_sentence_transformer, Translator])
def test_a_tokeniser_that_needs_sentencepiece(tmp_path: Path, load: Callable[[str], Any]) -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    size = {"vocab_size": 30, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    T5ForConditionalGeneration(T5Config(**size)).save_pretrained(tmp_path)
    (tmp_path / "spiece.model").write_bytes(b"not one")
    with pytest.raises(UserError, match=r"the tokeniser of .* \(spiece\.model\) needs SentencePiece: pip install"):
        load(str(tmp_path))


def test_a_broken_tokeniser_is_named_and_not_the_processor_that_was_looked_for(masked_lm: Path) -> None:
    edit(masked_lm / "tokenizer.json", model={"type": "Nonsense"})
    with pytest.raises(UserError, match=r"masked-lm cannot be loaded: its tokeniser: ") as caught:
        load_sentence_transformer(str(masked_lm), device="cpu")
    assert "processing class" not in str(caught.value)


# --- notices ---------------------------------------------------------------------------------------------------------


def message(load: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        load()
    return [str(warning.message) for warning in heard if issubclass(warning.category, Notice)]


def test_the_head_of_a_masked_lm_is_expected_to_be_left_out(masked_lm: Path) -> None:
    assert message(lambda: load_sentence_transformer(str(masked_lm), device="cpu")) == []


def test_tensors_that_are_left_out_are_told(masked_lm: Path) -> None:
    change_weights(masked_lm, lambda held: held | {f"adapter.{n}": torch.zeros(2) for n in "abcd"})
    (line,) = message(lambda: load_sentence_transformer(str(masked_lm), device="cpu"))
    assert "is read without adapter.a, adapter.b, adapter.c, … of its weights: what it is read as has no place" in line


def test_what_a_library_warns_of_is_told(masked_lm: Path, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    model = load_sentence_transformer(str(masked_lm), device="cpu")
    model.append(Dense(16, 8))
    model.save(str(folder))
    edit(folder / "2_Dense" / "config.json", activation_function="mine.Activation")
    (line,) = message(lambda: load_sentence_transformer(str(folder), device="cpu"))
    assert "Activation function path 'mine.Activation' is not trusted, falling back" in line


def test_notices_reach_standard_error_once(capfd: pytest.CaptureFixture[str]) -> None:
    with work_quietly():
        for line in ("a model is read as another", "a model is read as another", "a second line\nof two"):
            emit_notice(line)
        warnings.warn("of a library", UserWarning, stacklevel=1)
    told_lines = capfd.readouterr().err.splitlines()
    assert told_lines == ["holdfast: a model is read as another", "holdfast: a second line of two"]


def test_quiet_keeps_warnings_and_leaves_the_loggers_as_they_were(capfd: pytest.CaptureFixture[str]) -> None:
    loggers = [logging.getLogger(name) for name in ("transformers", "sentence_transformers", "huggingface_hub")]
    before = [(logger.level, list(logger.handlers), logger.propagate) for logger in loggers]
    with quiet() as heard:
        for logger in loggers:
            logging.getLogger(f"{logger.name}.some.module").warning("of %s", logger.name)
            logger.info("nothing")
    assert heard == [f"of {logger.name}" for logger in loggers]
    assert [(logger.level, list(logger.handlers), logger.propagate) for logger in loggers] == before
    assert capfd.readouterr().err == ""


# --- kinds of models -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("CrossEncoder", "it scores pairs of texts and has no sentence vectors"),
        ("SparseEncoder", "its vectors are sparse ones over a vocabulary"),
        ("MultiVectorEncoder", "it has a vector for each token"),
        ("Other", "holdfast measures sentence encoders"),
    ],
)
def test_another_kind_of_model_is_read_by_a_pooling_alone(
    masked_lm: Path, tmp_path: Path, kind: str, message: str
) -> None:
    plain = load_sentence_transformer(str(masked_lm), pooling="mean", device="cpu")
    plain.save(str(tmp_path / "saved"))
    shutil.copytree(tmp_path / "saved", tmp_path / "other")
    edit(tmp_path / "other" / "config_sentence_transformers.json", model_type=kind)
    edit(tmp_path / "other" / "sentence_bert_config.json", transformer_task="sequence-classification")
    with pytest.raises(UserError, match=rf"other is a {kind}: {message}.*; name a pooling \(cls, mean or max\)"):
        load_sentence_transformer(str(tmp_path / "other"), device="cpu")
    model = load_sentence_transformer(str(tmp_path / "other"), pooling="mean", device="cpu")
    assert model.encode("the dog").tolist() == pytest.approx(plain.encode("the dog").tolist(), abs=1e-6)


def test_a_classifier_is_read_as_an_encoder_and_that_is_told(masked_lm: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    AutoModelForSequenceClassification.from_pretrained(masked_lm, num_labels=3).save_pretrained(tmp_path / "classifier")
    shutil.copy(masked_lm / "tokenizer.json", tmp_path / "classifier")
    (line,) = message(lambda: load_sentence_transformer(str(tmp_path / "classifier"), device="cpu"))
    assert "is read without classifier.bias, classifier.weight of its weights" in line


def test_a_warning_that_concerns_generation_alone_is_not_told(masked_lm: Path) -> None:
    edit(masked_lm / "config.json", bos_token_id=50256, eos_token_id=50256)
    assert message(lambda: load_sentence_transformer(str(masked_lm), device="cpu")) == []


def test_a_checkpoint_of_simcse_whose_head_would_be_dropped(masked_lm: Path) -> None:
    head = {"mlp.dense.weight": torch.zeros(16, 16), "mlp.dense.bias": torch.zeros(16)}
    change_weights(masked_lm, lambda held: held | head)
    with pytest.raises(UserError, match=r"holds a layer that its vectors pass through \(mlp\.dense\..*name a pooling"):
        load_sentence_transformer(str(masked_lm), device="cpu")
    model = load_sentence_transformer(str(masked_lm), pooling="cls", device="cpu")
    (line,) = evaluation("it", model, [], options={}, identity={})["protocol"]["read_as"]
    assert "is read without mlp.dense.bias, mlp.dense.weight of its weights" in line
