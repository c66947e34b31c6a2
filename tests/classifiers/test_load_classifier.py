"""Logits do not depend on how texts are batched, and what is not a classifier is refused in one line."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from classifier_rows import OTHERS
from safetensors.torch import load_file, save_file

from architectures import save_transformer
from holdfast.attacks.classifier import Classifier, load_classifier
from holdfast.errors import Notice, UserError
from holdfast.models import load_sentence_transformer


@pytest.fixture
def folder(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> Path:
    """A random classifier of three classes."""
    from transformers import AutoModelForSequenceClassification

    path = make_masked_lm(tmp_path / "classifier")
    torch.manual_seed(1)
    names = {0: "bad", 1: "fair", 2: "good"}
    model = AutoModelForSequenceClassification.from_pretrained(path, id2label=names)
    model.save_pretrained(path)
    return path


def texts(count: int, *, pairs: bool = False) -> list[tuple[str, ...]]:
    draw = random.Random(0)
    return [
        tuple(" ".join(draw.choices(OTHERS, k=draw.randint(1, 20))) for _ in range(1 + pairs)) for _ in range(count)
    ]


def plain(folder: Path, given: list[tuple[str, ...]]) -> np.ndarray[Any, Any]:
    """The forward pass of transformers, one text at a time."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        rows = [model(**tokenizer(*text, return_tensors="pt", truncation=True)).logits[0].numpy() for text in given]
    return np.stack(rows)


@pytest.mark.parametrize("pairs", [False, True])
def test_logits_are_those_of_transformers_whatever_the_batch(
    pairs: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier = load_classifier(str(folder), device="cpu")
    given = texts(40, pairs=pairs)
    given += given[:5]
    logits = classifier.logits(given)
    assert logits.shape == (45, 3)
    assert logits.dtype == np.float32
    near = {"rtol": 0, "atol": 1e-5 * np.abs(logits).max()}
    np.testing.assert_allclose(logits, plain(folder, given), **near)
    assert np.array_equal(logits[40:], logits[:5])
    alone = np.concatenate([classifier.logits([text]) for text in given])
    np.testing.assert_allclose(logits, alone, **near)
    monkeypatch.setattr("holdfast.adversary.token_batches.CPU_TOKENS_PER_BATCH", 64)
    np.testing.assert_allclose(logits, classifier.logits(given), **near)
    assert np.ptp(logits, axis=0).min() > 0.1, "a model that says the same of every text proves nothing"


@pytest.mark.parametrize(
    ("own", "configured"),
    [(None, 0), ("<eos>", None), (None, None)],
    ids=["only in config.json", "the end of each text", "nowhere"],
)
def test_a_decoder_classifies_the_last_token_of_each_text(
    own: str | None, configured: int | None, tmp_path: Path
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = save_transformer(tmp_path / "decoder", "llama", padding="right")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = own
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3)
    model.config.pad_token_id = configured
    model.save_pretrained(folder)
    given = texts(20)
    expected = plain(folder, given)  # without batches there is no padding
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        found = load_classifier(str(folder), device="cpu").logits(given)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_each_distinct_text_is_computed_once(folder: Path) -> None:
    classifier = load_classifier(str(folder), device="cpu")
    seen = []
    handle = classifier.model.register_forward_pre_hook(
        lambda _, __, features: seen.append(len(features["input_ids"])), with_kwargs=True
    )
    message: list[tuple[int, int]] = []
    classifier.logits(texts(7) * 3, progress=lambda done, total: message.append((done, total)))
    handle.remove()
    assert sum(seen) == 7
    assert message[-1] == (7, 7)


def test_what_a_classifier_tells_of_itself(folder: Path) -> None:
    classifier = load_classifier(str(folder), device="cpu")
    assert isinstance(classifier, Classifier)
    assert classifier.classes == ["bad", "fair", "good"]
    assert classifier.takes_pairs is None  # nobody has said
    assert classifier.source == str(folder)
    assert classifier.device == torch.device("cpu")
    assert classifier.max_tokens == 64
    assert not classifier.model.training
    assert not any(parameter.requires_grad for parameter in classifier.model.parameters())
    assert classifier.logits([]).shape == (0, 3)
    with pytest.raises(UserError, match="either single texts or pairs"):
        classifier.logits([("a dog",), ("a dog", "a cat")])
    with pytest.raises(UserError, match="fp32"):
        classifier.logits([("a dog",)], precision="fp16")  # type: ignore[arg-type]


def test_bf16_is_near_and_is_not_fp32(folder: Path) -> None:
    classifier = load_classifier(str(folder), device="cpu")
    exact, rough = classifier.logits(texts(20)), classifier.logits(texts(20), precision="bf16")
    assert rough.dtype == np.float32
    assert 0 < np.abs(exact - rough).max() < 0.3
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert np.array_equal(classifier.logits(texts(20)), exact), "fp32 must be fp32 inside a mixed-precision run"


def test_a_long_text_is_cut(folder: Path) -> None:
    classifier = load_classifier(str(folder), device="cpu")
    long = " ".join(["the big dog"] * 200)
    assert np.array_equal(classifier.logits([(long,)]), classifier.logits([(f"{long} sleeps",)]))


def test_what_is_not_a_classifier_is_refused(folder: Path, tmp_path: Path, make_masked_lm: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match=r"no classification head \(classifier.bias is missing\)"):
        load_classifier(str(make_masked_lm(tmp_path / "lm")))
    encoder = load_sentence_transformer(str(tmp_path / "lm"), device="cpu")
    encoder.save_pretrained(str(tmp_path / "encoder"), create_model_card=False)
    with pytest.raises(UserError, match="a sentence encoder, not a classifier"):
        load_classifier(str(tmp_path / "encoder"))
    with pytest.raises(UserError, match="no such model folder"):
        load_classifier(str(tmp_path / "nowhere"))
    weights = load_file(folder / "model.safetensors")
    lost = {name: value for name, value in weights.items() if "layer.1.output.dense.weight" not in name}
    save_file(lost, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"do not match config.json.*layer.1.output.dense.weight"):
        load_classifier(str(folder))
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(UserError, match="a pickle can run code"):
        load_classifier(str(folder))


def test_a_regression_is_refused(folder: Path) -> None:
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1, ignore_mismatched_sizes=True)
    model.save_pretrained(folder)
    assert len(json.loads((folder / "config.json").read_text())["id2label"]) == 1
    with pytest.raises(UserError, match="one number"):
        load_classifier(str(folder))
