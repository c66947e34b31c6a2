"""The objectives of RankCSE, SimCSE++ and DiffCSE on held-out texts, as `own_objectives` has the other methods'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from holdfast.evaluation.positive_controls.frozen_runs import (
    Array,
    FrozenRun,
    HeldOut,
    Space,
    arguments_of,
    batches,
    start_of,
    values_of_texts,
    with_head_of,
)
from holdfast.objectives.diffcse import DiffCSE
from holdfast.objectives.rankcse import RankCSE
from holdfast.objectives.ranking import list_mle
from holdfast.objectives.simcse_plus import SimCSEPlus

FIT_STEPS, FIT_RATE = 60, 1e-3
"""Steps and learning rate with which DiffCSE's discriminator is fitted to a frozen encoder."""

Options = Mapping[str, Any]


def rankings_of_the_start(run: FrozenRun, texts: HeldOut, space: Space, options: Options) -> dict[str, Array]:
    """Return ListMLE of the text's similarities and the order that the model gave before training.

    This model is the teacher of `RankCSE` that names none.
    """
    objective = RankCSE(start_of(run), **options)
    objective.model = run.model
    objective = with_head_of(run, objective, space)

    def values(loss: Mapping[str, Any]) -> Tensor:
        return list_mle(loss["cosines"] / objective.rank_temperature, loss["scores"], loss["unlisted"])

    return {"−log P of the teacher's order": values_of_texts(run, objective, texts.measured, values, "rank_losses")}


def still_negatives_and_dimensions(run: FrozenRun, texts: HeldOut, space: Space, options: Options) -> dict[str, Array]:
    """Return SimCSE++'s loss of each text and, weighted, of the dimensions of its batch, and the two alone."""
    objective = with_head_of(run, SimCSEPlus(run.model, **options), space)

    def values(loss: Mapping[str, Any]) -> Tensor:
        z, positive, still = loss["z"], loss["z_positive"], loss["negatives"]
        contrasted = objective.losses_of_texts(z, positive, still, still, loss["equal"])
        dimensions = objective.dimension_loss(z, positive).expand_as(contrasted)
        return torch.stack([contrasted + objective.dimension_weight * dimensions, contrasted, dimensions], dim=1)

    found = values_of_texts(run, objective, texts.measured, values)
    names = "loss with still negatives and dimensions", "loss with still negatives", "contrast of dimensions"
    return dict(zip(names, found.T, strict=True))


def replaced_tokens(run: FrozenRun, texts: HeldOut, space: Space, options: Options) -> dict[str, Array]:
    """Return DiffCSE's loss of the tokens of each text, of a discriminator that is fitted to this encoder.

    The discriminator of training has met one encoder only: a new one starts from the model before training, and is
    fitted to this encoder's vectors on the fitting texts.
    """
    objective = with_head_of(run, DiffCSE(run.model, **{"generator": run.start, **options}), space)
    objective.discriminator = discriminator = start_of(run, str(run.model.device)).train()
    assert objective.detector is not None
    given = [arguments_of(objective, features, "detection_loss") for _, features in batches(run.model, texts.fitting)]
    parameters = [*discriminator.parameters(), *objective.detector.parameters()]
    optimiser = torch.optim.AdamW(parameters, FIT_RATE, weight_decay=0.0)
    for step in range(FIT_STEPS):
        with torch.enable_grad():
            optimiser.zero_grad()
            torch.autograd.backward(objective.detection_loss(**given[step % len(given)]))
        optimiser.step()

    def values(loss: Mapping[str, Any]) -> Tensor:
        counted = loss["counted"]
        losses = objective.token_losses(loss["z"], loss["sentences"], loss["edited"], counted)
        sums, counts = (losses * counted).sum(dim=1), counted.sum(dim=1)
        totals: Tensor = sums.view(2, -1).sum(dim=0) / counts.view(2, -1).sum(dim=0)
        return totals

    return {"loss of replaced tokens": values_of_texts(run, objective, texts.measured, values, "detection_loss")}
