"""DiffCSE against voidism/DiffCSE on equal weights, texts, dropout masks and hidden tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import recipe
import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizer

from holdfast.objectives.diffcse import DiffCSE


@pytest.fixture
def make(
    tiny_model: Callable[..., Any], embedding_dropout: Callable[..., None], tmp_path: Path
) -> Callable[..., DiffCSE]:
    def made(head: str, **changes: Any) -> DiffCSE:
        model = tiny_model()
        folder = tmp_path / "generator"
        vocabulary = {token: number for number, token in enumerate(recipe.VOCABULARY)}
        BertTokenizer(vocab=vocabulary, model_max_length=recipe.LENGTH).save_pretrained(folder)
        BertForMaskedLM(BertConfig(num_hidden_layers=1, **recipe.CONFIG)).save_pretrained(folder)
        options = {**DiffCSE.PRESETS["as_released"], "generator": str(folder), "head": head, **changes}
        objective = DiffCSE(model, **options).double()
        assert objective.generator is not None
        assert objective.discriminator is not None
        assert objective.detector is not None
        recipe.fill(objective.generator.model.double(), "generator.")
        recipe.fill(objective.discriminator.transformers_model, "discriminator.")  # type: ignore[arg-type]
        recipe.fill(objective.detector, "detector.")
        if head == "bn":
            for name in ("wide", "wide_norm", "narrow"):
                recipe.fill(objective.head.get_submodule(name), f"head.{name}.")
        else:
            recipe.fill(objective.head, "head.")
        embedding_dropout(model, torch.cat(recipe.dropout_masks()))
        objective.draw = lambda number, shape, device: recipe.masking_draws(number)  # type: ignore[method-assign]
        return objective

    return made


def summary_of(objective: DiffCSE, loss: torch.Tensor) -> dict[str, list[float]]:
    """The gradients by the releases' names, without those of the head, whose names differ."""
    assert objective.discriminator is not None
    assert objective.detector is not None
    parts: dict[str, Any] = {
        "": objective.model.transformers_model,
        "discriminator.": objective.discriminator.transformers_model,
        "detector.": objective.detector,
    }
    named = [(prefix + name, p) for prefix, part in parts.items() for name, p in part.named_parameters()]
    return recipe.summary(recipe.gradients(loss, named))


@pytest.mark.parametrize(("case", "head"), [("linear head", "tanh"), ("batch normalisation", "bn")])
def test_the_terms_and_gradients(case: str, head: str, make: Callable[..., DiffCSE], released: Any) -> None:
    expected = released[case]
    objective = make(head)
    terms = objective([recipe.batch()])
    assert terms["contrastive"].item() == pytest.approx(expected["contrastive"], rel=1e-10)
    loss = terms["contrastive"] + terms["difference"]
    assert loss.item() == pytest.approx(expected["loss"], rel=1e-10)
    found = summary_of(objective, loss)
    assert found.keys() == expected["gradients"].keys()
    for group, values in expected["gradients"].items():
        assert found[group] == pytest.approx(values, rel=1e-7), group


def test_the_release_replaces_every_token_and_counts_padding(make: Callable[..., DiffCSE], released: Any) -> None:
    """An untrained generator changes nearly every token there; here only those that were hidden."""
    ours = make("tanh", as_released=False)
    ours([recipe.batch()])
    theirs = make("tanh")
    theirs([recipe.batch()])
    assert ours.diagnostics["replaced_tokens"] < 0.4 < 0.7 < theirs.diagnostics["replaced_tokens"]
