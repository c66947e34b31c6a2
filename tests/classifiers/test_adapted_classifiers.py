"""A classifier that is fine-tuned from an adapter starts from the adapter merged into its base model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from holdfast.adapters import Lora, add_lora, save_with_base
from holdfast.attacks.classifier import load_classifier
from holdfast.classifiers import FinetuneSettings, finetune
from holdfast.models import load_sentence_transformer

pytest.importorskip("peft")


@pytest.mark.parametrize("frozen", [False, True])
def test_the_body_is_the_merged_one(
    frozen: bool, tiny: Path, settings: Callable[..., FinetuneSettings], tmp_path: Path
) -> None:
    encoder = load_sentence_transformer(str(tiny), pooling="mean", device="cpu")
    torch.manual_seed(1)
    add_lora(encoder, Lora(r=4), str(tiny))
    for name, parameter in encoder.named_parameters():
        if ".lora_B." in name:
            torch.nn.init.normal_(parameter, std=0.2)
    save_with_base(encoder, tmp_path / "adapter")
    # So small a learning rate that the weights stay what they were at the start.
    given = {"frozen": True} if frozen else {"max_steps": 1, "epochs": None, "learning_rate": 1e-9}
    finetune(settings(model=str(tmp_path / "adapter"), **given))
    classifier = load_classifier(str(tmp_path / "out"), device="cpu")
    body = classifier.model[0].model if frozen else classifier.model.base_model
    features = dict(encoder.tokenizer(["the dog runs", "a cat"], padding=True, return_tensors="pt"))
    with torch.no_grad():
        found = body(**features).last_hidden_state
        expected = encoder[0](dict(features))["token_embeddings"]
        plain = load_sentence_transformer(str(tiny), device="cpu")[0](features)["token_embeddings"]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert (found - plain).abs().max() > 0.05
