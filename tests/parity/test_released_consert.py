"""ConSERT against yym6472/ConSERT: its views and its loss, and what differs on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import recipe
import torch

from holdfast.objectives.consert import ConSERT

SCALE = 0.15 * 2
"""The release adds the two directions of the loss, which we average, and weights the sum with 0.15."""


class Drawn(ConSERT):
    """ConSERT with the recipe's random numbers."""

    def draw(self, view: int, shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
        name = self.views[view].replace("-", "_")
        return torch.from_numpy(recipe.numbers(f"draws of {name}", *shape))


@pytest.fixture
def make(tiny_model: Callable[..., Any]) -> Callable[..., ConSERT]:
    def built(first: str, second: str) -> ConSERT:
        options: dict[str, Any] = {"first_view": first, "second_view": second, "token_cutoff": 0.2}
        return Drawn(tiny_model(pooling="mean"), **ConSERT.PRESETS["paper"], **options)

    return built


@pytest.mark.parametrize(
    ("case", "first", "second"),
    [
        ("feature cutoff and shuffle", "feature-cutoff", "shuffle"),
        ("token cutoff and none", "token-cutoff", "none"),
        ("none and shuffle", "none", "shuffle"),
        ("two equal views", "none", "none"),
    ],
)
def test_views_and_loss(
    case: str, first: str, second: str, make: Callable[..., ConSERT], released: Any, gradients_of: Any
) -> None:
    objective = make(first, second)
    loss = SCALE * objective([recipe.batch()])["contrastive"]
    assert loss.item() == pytest.approx(released[case]["loss"], rel=1e-10)
    found = gradients_of(loss, objective)
    assert found.keys() == released[case]["gradients"].keys()
    for group, values in released[case]["gradients"].items():
        assert found[group] == pytest.approx(values, rel=1e-8), group


def test_the_release_moves_the_first_and_the_last_token_too(make: Callable[..., ConSERT], released: Any) -> None:
    ours = SCALE * make("none", "shuffle")([recipe.batch()])["contrastive"].item()
    assert ours != pytest.approx(released["none and shuffle, with [CLS] and [SEP]"]["loss"], rel=1e-3)
