"""The objectives of RankCSE and SimCSE++ on held-out texts, as `own_objectives` has those of the other methods."""

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
    values_of_texts,
    with_head_of,
)
from holdfast.models import load_sentence_transformer
from holdfast.objectives.contrastive import cosine_matrix
from holdfast.objectives.rankcse import RankCSE
from holdfast.objectives.ranking import list_mle
from holdfast.objectives.simcse_plus import SimCSEPlus

Options = Mapping[str, Any]


def rankings_of_the_start(run: FrozenRun, texts: HeldOut, space: Space, options: Options) -> dict[str, Array]:
    """Return ListMLE of the text's similarities and the order that the model gave before training.

    This model is the teacher of `RankCSE` that names none.
    """
    start = load_sentence_transformer(run.start)
    start.max_seq_length = run.model.max_seq_length
    objective = RankCSE(start, **options)
    teacher, objective.model = objective.teachers, run.model
    objective.teachers = teacher
    objective = with_head_of(run, objective, space)

    def values(loss: Mapping[str, Any]) -> Tensor:
        z, keys = loss["z"], loss["z_positive"]
        unlisted = torch.eye(len(z), dtype=torch.bool, device=z.device)
        if loss["equal"] is not None:
            unlisted = unlisted | loss["equal"]
        return list_mle(cosine_matrix(z, keys) / objective.rank_temperature, loss["scores"], unlisted)

    return {"−log P of the teacher's order": values_of_texts(run, objective, texts.measured, values)}


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
