"""What the parity tests share: the tiny model of the recipe, and the numbers of the releases."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import recipe
import torch

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def released(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The cases of the fixture that is named like the test's file: test_released_simcse.py has fixtures/simcse.json."""
    name = Path(str(request.path)).stem.removeprefix("test_released_").replace("_", "-")
    cases: dict[str, Any] = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))["cases"]
    return cases


@pytest.fixture
def tiny_model(tmp_path: Path) -> Callable[..., Any]:
    """``tiny_model(layers=2, pooling="cls", pooler=False)``: a SentenceTransformer in fp64 with the recipe's weights.

    It is in training mode; ``pooler`` adds BERT's pooler, a linear map and tanh, after the pooling.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizer

    def make(*, layers: int = 2, pooling: str = "cls", pooler: bool = False) -> SentenceTransformer:
        vocabulary = {token: number for number, token in enumerate(recipe.VOCABULARY)}
        BertTokenizer(vocab=vocabulary, model_max_length=recipe.LENGTH).save_pretrained(tmp_path)
        BertModel(BertConfig(num_hidden_layers=layers, **recipe.CONFIG)).save_pretrained(tmp_path)
        modules: list[Any] = [Transformer(str(tmp_path)), Pooling(recipe.WIDTH, pooling)]
        modules[0].model.set_attn_implementation("eager")
        if pooler:
            modules.append(Dense(recipe.WIDTH, recipe.WIDTH, activation_function=torch.nn.Tanh()))
        model = SentenceTransformer(modules=modules, device="cpu").double().train()
        recipe.fill(modules[0].model)
        if pooler:
            recipe.fill(modules[-1].linear, "pooler.dense.")
        return model

    return make


@pytest.fixture
def gradients_of() -> Callable[..., dict[str, list[float]]]:
    """``gradients_of(loss, objective)``: the summary of a loss's gradients, by the releases' names of parameters."""

    def measure(loss: torch.Tensor, objective: Any) -> dict[str, list[float]]:
        named = [*objective.model.transformers_model.named_parameters()]
        named += [(f"head.{name}", parameter) for name, parameter in objective.head.named_parameters()]
        return recipe.summary(recipe.gradients(loss, named))

    return measure


@pytest.fixture
def embedding_dropout() -> Callable[..., None]:
    """``embedding_dropout(model, *masks)``: give the model the masks of the recipe for its embeddings' dropout."""

    def give(model: Any, *masks: torch.Tensor) -> None:
        model.transformers_model.embeddings.dropout = recipe.FixedDropout(*masks).train()

    return give
