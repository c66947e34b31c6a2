"""RankCSE against perceptiveshawty/RankCSE on equal weights, texts, dropout masks and teachers' cosines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import recipe
import torch
from torch.nn import functional as F

from holdfast.objectives.rankcse import RankCSE

ALPHA = 0.33


def cosines_of_teachers() -> torch.Tensor:
    units = [F.normalize(recipe.centred(f"teacher {number}", recipe.ROWS, 24), dim=1) for number in (1, 2)]
    return ALPHA * units[0] @ units[0].T + (1 - ALPHA) * units[1] @ units[1].T


@pytest.fixture
def make(tiny_model: Callable[..., Any], embedding_dropout: Callable[..., None]) -> Callable[..., RankCSE]:
    def made(distillation: str, **changes: Any) -> RankCSE:
        model = tiny_model()
        embedding_dropout(model, torch.cat(recipe.dropout_masks()))
        options = {**RankCSE.PRESETS["as_released"], "rank_positives": distillation == "listmle", **changes}
        objective = RankCSE(model, distillation=distillation, **options).double()  # type: ignore[arg-type]
        recipe.fill(objective.head, "head.")
        objective.teacher_scores = lambda *_: cosines_of_teachers()  # type: ignore[method-assign]
        return objective

    return made


@pytest.mark.parametrize("distillation", ["listmle", "listnet"])
def test_the_terms_and_gradients(
    distillation: str, make: Callable[..., RankCSE], released: Any, gradients_of: Callable[..., Any]
) -> None:
    expected = released[distillation]
    objective = make(distillation)
    terms = objective([recipe.batch()])
    loss = sum(terms.values(), torch.zeros(()))
    assert loss.item() == pytest.approx(expected["loss"], rel=1e-10)
    for name in ("consistency", "ranking"):
        assert terms[name].item() == pytest.approx(expected[name], rel=1e-10), name
    found = gradients_of(loss, objective)
    assert found.keys() == expected["gradients"].keys()
    for group, values in expected["gradients"].items():
        assert found[group] == pytest.approx(values, rel=1e-8), group


def test_the_releases_consistency_is_no_divergence(make: Callable[..., RankCSE], released: Any) -> None:
    """Its limit makes the logarithm of the mean constant: what is left is minus the entropy."""
    terms = make("listmle", as_released=False)([recipe.batch()])
    expected = released["listmle"]["Jensen-Shannon divergence of the same shares"]
    assert terms["consistency"].item() == pytest.approx(expected, rel=1e-9)
    assert released["listmle"]["consistency"] < -1.0
