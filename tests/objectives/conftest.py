"""What the objective tests share: a deterministic model in fp64 and a batch for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch


@pytest.fixture
def exact_model(make_encoder_model: Callable[..., Any]) -> Any:
    """A BERT in fp64, in training mode with its dropout set to 0, so that every pass is the same."""
    model = make_encoder_model("bert").double().train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


@pytest.fixture
def batch(exact_model: Any, sentences: list[str]) -> dict[str, Any]:
    """Eight sentences, tokenised."""
    return dict(exact_model.preprocess(sentences))
