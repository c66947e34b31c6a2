"""Training of decoders: every method makes its steps, a killed run goes on in the same bits, and the model is plain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from methods import OPTIONS
from sentence_transformers import SentenceTransformer

from architectures import save_transformer
from holdfast.backbone_dropout import dropout_of
from holdfast.cli import main
from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.files import sha256
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS
from holdfast.results import read_result
from warm import WarmPython

DIE = Path(__file__).with_name("die.py")
WITHOUT_MASKS: dict[str, dict[str, Any]] = {"adcl": {"positives": "dropout"}, "diffcse": {"weight": 0.0}}
"""ADCL's own positives and DiffCSE's generator need a masked language model."""


@pytest.fixture
def causal(tmp_path: Path) -> Path:
    """A raw decoder without dropout."""
    return save_transformer(tmp_path / "causal", "qwen3", layers=2)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_loss_and_a_gradient(
    method: str, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    model = make_encoder_model("qwen3").train()
    with dropout_of(model, 0.1):
        objective = METHODS[method](model, **OPTIONS.get(method, {}) | WITHOUT_MASKS.get(method, {}))
        objective.train()
        for _ in range(2):  # the first fills the queues
            model.zero_grad()
            terms = objective([dict(model.preprocess(sentences))])
            torch.stack(list(terms.values())).sum().backward()
            objective.follow()
    assert all(torch.isfinite(value) for value in terms.values())
    table = model.transformers_model.get_input_embeddings().weight.grad
    layers = [parameter.grad for parameter in model.transformers_model.layers.parameters()]
    assert torch.isfinite(table).all()
    assert all(grad is not None and torch.isfinite(grad).all() for grad in layers)
    assert table.abs().max() > 0
    assert table[0].abs().max() == 0, "padding has a gradient"


def test_which_methods_have_dropout_views(make_encoder_model: Callable[..., Any]) -> None:
    model = make_encoder_model("qwen3")
    made = {name: METHODS[name](model, **OPTIONS.get(name, {}) | WITHOUT_MASKS.get(name, {})) for name in METHODS}
    one, two = ({name for name in METHODS if made[name].needs_dropout(columns)} for columns in (1, 2))
    assert one == {"simcse", "v-advcse", "robustembed", "l2p-csr", "adcl", "rankcse", "simcse-plus", "diffcse"}
    assert two == {"robustembed", "l2p-csr", "adcl", "simcse-plus", "diffcse"}
    assert METHODS["combined"](model).needs_dropout(1)
    assert METHODS["adcse"](model, untied=False).needs_dropout(1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["anchored", "v-advcse"])
def test_killed_runs_end_in_the_same_bits(
    method: str, corpus: Path, labelled: Path, tmp_path: Path, warm: WarmPython
) -> None:
    decoder = save_transformer(tmp_path / "decoder", "gemma3", layers=2, dropout=0.1)
    given = [str(decoder), str(corpus), str(labelled)]
    outputs = [tmp_path / "unbroken", tmp_path / "killed"]
    assert warm.run(DIE, *given, str(outputs[0]), method, "never").returncode == 0
    assert warm.run(DIE, *given, str(outputs[1]), method, "step-11").returncode == -9
    resumed = warm.run(DIE, *given, str(outputs[1]), method, "never")
    assert resumed.returncode == 0, resumed.stderr
    assert sha256(outputs[0] / "model.safetensors") == sha256(outputs[1] / "model.safetensors")
    trained = load_sentence_transformer(str(outputs[1]), device="cpu")
    start = load_sentence_transformer(str(decoder), device="cpu")
    assert (encode_sentences(trained, ["the dog"]) != encode_sentences(start, ["the dog"])).any()


SMALL = ["--max-steps", "2", "--batch-size", "8", "--precision", "fp32"]


def test_a_model_without_dropout_has_no_dropout_views(
    causal: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    given = ["--model", str(causal), "--corpus", str(corpus), "--output", str(tmp_path / "out"), *SMALL]
    assert main(["train", "simcse", *given]) == 2
    assert f"simcse: the two views of a sentence differ by dropout, and {causal} has none" in capsys.readouterr().err
    assert main(["train", "simcse", *given, "--dropout", "1.5"]) == 2
    assert "--dropout 1.5: a probability from 0 to less than 1" in capsys.readouterr().err
    assert main(["train", "simcse", *given, "--dropout", "0.1"]) == 0
    texts = ["the dog runs", "a man"]
    plain = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert plain[1].pooling_mode == "lasttoken"
    assert plain.tokenizer.padding_side == "left"
    assert plain.transformers_model.config.attention_dropout == 0, "the finished model has its own configuration"
    own = encode_sentences(load_sentence_transformer(str(tmp_path / "out"), device="cpu"), texts)
    np.testing.assert_allclose(plain.encode(texts), own, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(("method", "option"), [("anchored", "dropout"), ("consert", "encoder_dropout")])
def test_a_given_dropout_is_used_by_methods_that_train_without(
    method: str, option: str, tiny: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["train", method, "--model", str(tiny), "--corpus", str(corpus), *SMALL, "--selection", "last"]
    for name, words in (("own", []), ("given", ["--dropout", "0.5"])):
        assert main([*given, "--output", str(tmp_path / name), *words]) == 0
    own, dropped = (read_result(tmp_path / name / "results.json")["protocol"]["options"] for name in ("own", "given"))
    assert (own[option], dropped[option]) == (False, True)
    assert sha256(tmp_path / "own" / "model.safetensors") != sha256(tmp_path / "given" / "model.safetensors")
    capsys.readouterr()
    assert main([*given, "--output", str(tmp_path / "no"), "--dropout", "0.5", "--set", f"{option}=false"]) == 2
    assert f"{method}: {option}=false turns off the dropout that is given" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("adcl", {"source": "masked-lm"}, "fills no masks: name a masked language model"),
        ("adcse", {"mask_as_token_types": True}, "needs a backbone with two token types"),
        ("l2p-csr", {"layers": 9}, "takes 1 to 2"),
    ],
)
def test_what_a_decoder_lacks_is_said(method: str, options: dict[str, Any], message: str, causal: Path) -> None:
    model = load_sentence_transformer(str(causal), device="cpu")
    with pytest.raises((UserError, ValueError), match=message):
        METHODS[method](model, **options)
