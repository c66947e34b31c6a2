"""A small classifier in fp64 without dropout, a padded batch, and the way through the model written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from holdfast.classifiers.defences import TaskBatch

IDS = [[2, 5, 6, 7, 8, 3], [2, 9, 10, 3, 0, 0], [2, 11, 12, 13, 3, 0], [2, 14, 15, 16, 17, 3]]


@pytest.fixture
def make_classifier() -> Callable[..., Any]:
    """``make_classifier(dropout=0.0, classes=3, dtype=torch.float64)``: a random BERT in training mode."""
    from transformers import BertConfig, BertForSequenceClassification

    def make(*, dropout: float = 0.0, classes: int = 3, dtype: torch.dtype = torch.float64) -> Any:
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=26, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
            max_position_embeddings=32, initializer_range=0.5, num_labels=classes, attn_implementation="eager",
            hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout,
        )  # fmt: skip
        return BertForSequenceClassification(config).to(dtype).train()

    return make


@pytest.fixture
def classifier(make_classifier: Callable[..., Any]) -> Any:
    return make_classifier()


@pytest.fixture
def batch() -> TaskBatch:
    """Four texts of three lengths."""
    ids = torch.tensor(IDS)
    features = {"input_ids": ids, "attention_mask": (ids != 0).long(), "token_type_ids": torch.zeros_like(ids)}
    return TaskBatch(features, torch.tensor([0, 2, 1, 2]), [0, 1, 2, 3])


@pytest.fixture
def written_out() -> Callable[..., Tensor]:
    """``written_out(model, batch, delta)``: the logits, with δ put in between embeddings and layers by hand."""

    def logits(model: Any, batch: TaskBatch, delta: Tensor) -> Tensor:
        mask = batch.features["attention_mask"]
        embedded = model.bert.embeddings(input_ids=batch.features["input_ids"])
        hidden = embedded + delta * mask[:, :, None]
        blocked = (1.0 - mask[:, None, None, :].to(hidden.dtype)) * torch.finfo(hidden.dtype).min
        for layer in model.bert.encoder.layer:
            hidden = layer(hidden, blocked)
        result: Tensor = model.classifier(model.bert.pooler(hidden))
        return result

    return logits
