"""Real encoders, with and without a prompt: vectors of plain sentence-transformers, and of graphs run by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from carried_encoders import BUNDLED, MINILM, MPNET, SRE, missing, spec_of
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from holdfast.backends.backend_options import Backend
from holdfast.cli import main
from holdfast.encoding import encode_sentences, normalised, tokenise
from holdfast.model_lookup import resolve_model
from holdfast.models import load_sentence_transformer
from holdfast.text_prompts import PromptOptions

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

TEXTS = [
    "How do I reset my password?",
    "Late books cost ten cents a day for adults and nothing for children.",
    "a",
    "The train to the coast leaves at seven from the second platform, except on Sundays and in the weeks of the fair.",
]


PROMPTS = [None, "query: "]


@pytest.fixture(scope="module", params=[MINILM, BUNDLED, MPNET, SRE])
def name(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name or the folder of an encoder."""
    if reason := missing(request.param):
        pytest.skip(reason)
    return spec_of(request.param, lambda: tmp_path_factory.mktemp("unpacked"))


@pytest.mark.parametrize("prompt", PROMPTS)
def test_vectors_are_those_of_sentence_transformers(name: str, prompt: str | None) -> None:
    plain = SentenceTransformer(str(resolve_model(name)), device="cpu")
    expected = plain.encode(TEXTS, prompt=prompt)
    chosen = PromptOptions(prompt=prompt, no_prompt=prompt is None)
    found = encode_sentences(load_sentence_transformer(name, device="cpu", prompts=chosen), TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    if prompt is not None:
        assert np.abs(expected - plain.encode(TEXTS)).max() > 0.01  # the prompt has an effect


@pytest.mark.parametrize("prompt", PROMPTS)
def test_evaluate_gives_the_score_of_these_vectors(
    name: str, prompt: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [(one, other) for one in range(len(TEXTS)) for other in range(one)]
    lines = [f"{TEXTS[one]}\t{TEXTS[other]}\t{(7 * one + 3 * other) % 6}" for one, other in pairs]
    (tmp_path / "stsb").mkdir()
    (tmp_path / "stsb" / "test.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n")
    command = ["evaluate", name, "--tasks", "stsb", "--data", str(tmp_path), "--json"]
    assert main([*command, *(["--no-prompt"] if prompt is None else ["--prompt", prompt])]) == 0
    (row,) = [row for row in json.loads(capsys.readouterr().out)["results"] if row["task"] == "stsb"]
    vectors = SentenceTransformer(str(resolve_model(name)), device="cpu").encode(
        TEXTS, prompt=prompt, normalize_embeddings=True
    )
    cosines = [float(vectors[one] @ vectors[other]) for one, other in pairs]
    gold = [(7 * one + 3 * other) % 6 for one, other in pairs]
    assert row["metrics"]["spearman"] == pytest.approx(100 * spearmanr(cosines, gold).statistic, abs=1e-6)


@pytest.mark.parametrize("backend", ["onnx", "onnx-int8"])
def test_a_form_equals_its_graph_run_by_hand(
    name: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    given = {"device": "cpu", "prompts": PromptOptions(no_prompt=True)}
    model = load_sentence_transformer(name, backend=Backend(backend), **given)
    found = encode_sentences(model, TEXTS)
    file = "model_int8" if backend == "onnx-int8" else "model"
    (path,) = tmp_path.glob(f"graphs/*/onnx/{file}.onnx")
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for batch in tokenise(model, TEXTS):
        by_hand = pooled(session, batch.features)
        for module in list(model)[2:-1]:  # a projection between pooling and normalisation
            by_hand = module({"sentence_embedding": as_tensor(by_hand)})["sentence_embedding"].detach().numpy()
        np.testing.assert_allclose(found[batch.rows], normalised(by_hand), atol=1e-6)


def pooled(session: Any, features: dict[str, Any]) -> np.ndarray:
    """Return the mean over the tokens, (rows, d)."""
    names = [each.name for each in session.get_inputs()]
    given = {name: features[name].numpy() for name in names}
    tokens, mask = session.run(None, given)[0], given["attention_mask"][..., None]
    mean: np.ndarray = (tokens * mask).sum(axis=1) / mask.sum(axis=1)
    return mean


def as_tensor(values: np.ndarray) -> Any:
    import torch

    return torch.from_numpy(values.astype(np.float32))
