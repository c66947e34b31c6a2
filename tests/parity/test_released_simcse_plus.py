"""SimCSE++ against Jiahao004/SimCSE-plus-plus on equal weights, texts and dropout masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import recipe
import torch

from holdfast.objectives.simcse_plus import SimCSEPlus

CASES: dict[str, dict[str, Any]] = {
    "negatives without dropout": {"dimension_weight": 0.0},
    "contrast of dimensions": {"negatives_dropout": True, "positive_scale": 1.0},
}
"""The release computes each part in a file of its own, and only the first with the scale of the positive."""


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients(
    case: str,
    tiny_model: Callable[..., Any],
    embedding_dropout: Callable[..., None],
    released: Any,
    gradients_of: Callable[..., Any],
) -> None:
    model = tiny_model()
    embedding_dropout(model, torch.cat(recipe.dropout_masks()))
    objective = SimCSEPlus(model, **{**SimCSEPlus.PRESETS["as_released"], **CASES[case]}).double()
    recipe.fill(objective.head, "head.")
    loss = sum(objective([recipe.batch()]).values(), torch.zeros(()))
    assert loss.item() == pytest.approx(released[case]["loss"], rel=1e-10)
    found = gradients_of(loss, objective)
    assert found.keys() == released[case]["gradients"].keys()
    for group, values in released[case]["gradients"].items():
        assert found[group] == pytest.approx(values, rel=1e-8), group
