"""The objective of each method, measured on held-out texts with an encoder that is not trained any more.

Each function takes a :class:`FrozenRun`, held-out texts and a seed, and returns named values per text, lower is better;
the first is the one that the method's control compares. The views, attacks and negatives are those of the method's own
objective with its default options, made anew against each frozen encoder. The encoder's dropout is on where it is on in
training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.adversary.divergence import divergence_between
from holdfast.adversary.key_queue import KeyQueue
from holdfast.adversary.momentum import MomentumEncoder
from holdfast.encoder import Encoder
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
from holdfast.evaluation.positive_controls.losses_of_texts import info_nce_of_texts, nt_xent_of_texts
from holdfast.models import evaluating
from holdfast.objectives.adcl import ADCL
from holdfast.objectives.adcse import AdCSE
from holdfast.objectives.anchored import Anchored, distances
from holdfast.objectives.consert import ConSERT
from holdfast.objectives.ct import ContrastiveTension
from holdfast.objectives.l2p_csr import L2PCSR
from holdfast.objectives.robustembed import RobustEmbed
from holdfast.objectives.simcse import SimCSE
from holdfast.objectives.v_advcse import VAdvCSE

ASCENT_STEPS = 200
"""Steps in which AdCSE's negatives are learned against a frozen encoder."""

_SCALES = np.geomspace(1e-4, 1e2, 121)

Options = Mapping[str, Any]
Arguments = Mapping[str, Any]
Values = Callable[[Arguments], Tensor]


def dropout_views(run: FrozenRun, texts: HeldOut, space: Space, options: Options) -> dict[str, Array]:
    """Return SimCSE's loss of two dropout passes (eq. 4)."""
    objective = with_head_of(run, SimCSE(run.model, **options), space)
    return {"loss of two dropout passes": values_of_texts(run, objective, texts.measured, _of_views(objective))}


def masked_views(run: FrozenRun, texts: HeldOut, space: Space, options: Options) -> dict[str, Array]:
    """Return L2P-CSR's loss of two views under masks that were learned against this encoder (eq. 9)."""
    objective = with_head_of(run, L2PCSR(run.model, **options), space)
    return {"loss of its masked views": values_of_texts(run, objective, texts.measured, _of_views(objective))}


def _of_views(objective: SimCSE | L2PCSR) -> Values:
    def values(loss: Arguments) -> Tensor:
        return info_nce_of_texts(
            loss["z"], [loss["z_positive"]], temperature=objective.temperature, equal=loss["equal"]
        )

    return values


def perturbed_embeddings(run: FrozenRun, texts: HeldOut, space: Space, options: Options) -> dict[str, Array]:
    """Return RobustEmbed's loss with the δ that it finds against this encoder (eq. 8), and each of its parts.

    The first part is the loss of x with x + δ as the key, the second that of x + δ with the key of x⁺ (eq. 7).
    """
    objective = with_head_of(run, RobustEmbed(run.model, **options), space)

    def values(loss: Arguments) -> Tensor:
        def contrasted(queries: str, *positives: str) -> Tensor:
            keys = [loss[name] for name in positives]
            return info_nce_of_texts(loss[queries], keys, equal=loss["equal"], temperature=objective.temperature)

        towards, away = contrasted("z", "z_adversarial"), contrasted("z_adversarial", "z_positive")
        whole = contrasted("z", "z_positive", "z_adversarial") + objective.gamma * away
        return torch.stack([whole, towards, away], dim=1)

    found = values_of_texts(run, objective, texts.measured, values)
    return {
        "loss with its δ": found[:, 0],
        "loss of x with x + δ": found[:, 1],
        "loss of x + δ with x⁺": found[:, 2],
    }


def virtual_perturbation(run: FrozenRun, texts: HeldOut, space: Space, options: Options) -> dict[str, Array]:
    """Return V-advCSE's divergence under the r that it finds against this encoder and head (eq. 11-14)."""
    objective = with_head_of(run, VAdvCSE(run.model, **options), space)

    def values(loss: Arguments) -> Tensor:
        return divergence_between(loss["z"], loss["z_perturbed"], objective.divergence)

    return {"divergence under its r": values_of_texts(run, objective, texts.measured, values, "distance")}


def learned_negatives(run: FrozenRun, texts: HeldOut, space: Space, options: Options) -> dict[str, Array]:
    """Return AdCSE's loss against learned negatives alone (eq. 5).

    The negatives of training have met one encoder only: new ones are learned against this encoder, by AdCSE's own
    ascent on the fitting texts. The keys are those of the encoder itself, of which p would be a copy.
    """
    objective = with_head_of(run, AdCSE(run.model, **{**options, "in_batch_negatives": False}), space)
    objective.follower = MomentumEncoder(run.model, objective.head, momentum=0.0)
    with torch.no_grad():
        losses = [arguments_of(objective, features) for _, features in batches(run.model, texts.fitting)]
    z, keys = (torch.cat([loss[name] for loss in losses]) for name in ("z", "z_positive"))
    for _ in range(ASCENT_STEPS):
        with torch.enable_grad():
            torch.autograd.backward(objective.compute_loss(z, keys, objective.negatives()))
        objective.negatives.ascend()

    def values(loss: Arguments) -> Tensor:
        return info_nce_of_texts(
            loss["z"],
            [loss["z_positive"]],
            temperature=objective.temperature,
            extra_negatives=loss["negatives"],
            in_batch_negatives=False,
        )

    return {"loss against learned negatives": values_of_texts(run, objective, texts.measured, values)}


def augmented_views(run: FrozenRun, texts: HeldOut, space: Space, options: Options) -> dict[str, Array]:
    """Return ConSERT's loss of two augmented views (eq. 1)."""
    objective = with_head_of(run, ConSERT(run.model, **options), space)

    def values(loss: Arguments) -> Tensor:
        first, second = loss["z"], loss["z_positive"]
        return nt_xent_of_texts(first, second, temperature=objective.temperature, equal=loss["equal"])

    return {"loss of its augmented views": values_of_texts(run, objective, texts.measured, values)}


def pair_products(run: FrozenRun, texts: HeldOut, _: Space, options: Options) -> dict[str, Array]:
    """Return CT's cross-entropy of pairs, with the run's own f₂, or the encoder itself where a run has no second one.

    It depends on the length of the vectors, which a method with cosines leaves as it is. The first value is therefore
    computed at the length that suits the run best, on the fitting texts; the second from vectors as they are.
    """
    objective = ContrastiveTension(run.model, **options)
    if isinstance(run.objective, ContrastiveTension):
        objective.second_encoder = run.objective.second_encoder
    objective.train()

    def at(scale: float) -> Values:
        def values(loss: Arguments) -> Tensor:
            rows = ({**loss, "first": scale * loss["first"][i : i + 1], "offset": i} for i in range(len(loss["first"])))
            return torch.stack([objective.compute_loss(**_of_row(row, row["offset"])) for row in rows])

        return values

    with torch.no_grad():
        fitting = [arguments_of(objective, features) for _, features in batches(run.model, texts.fitting)]
        means = [
            np.mean([float(objective.compute_loss(**{**loss, "first": scale * loss["first"]})) for loss in fitting])
            for scale in _SCALES
        ]
    best = float(_SCALES[int(np.argmin(means))])
    return {
        "loss of pairs, at the best length": values_of_texts(run, objective, texts.measured, at(best)),
        "loss of pairs": values_of_texts(run, objective, texts.measured, at(1.0)),
    }


def _of_row(loss: Arguments, row: int) -> Arguments:
    """Return the arguments of a loss with the mask of equal texts, (B, N), cut to one row."""
    return loss if loss["equal"] is None else {**loss, "equal": loss["equal"][row : row + 1]}


def exchanged_words(run: FrozenRun, texts: HeldOut, _: Space, options: Options) -> dict[str, Array]:
    """Return ADCL's loss of x with the key of x', the sentence after its Geometry Attack on this encoder (eq. 1).

    Neither its projection nor its queue exists after another training: the vectors themselves are compared, by their
    cosines, and the queue holds the vectors of all measured texts. The second value is 1 where, among all of these, the
    vector of x is not the nearest to that of x': the attack succeeds.
    """
    objective = ADCL(run.model, **{"masked_lm": run.start, **options, "normalize": True})
    objective.head = nn.Identity()  # type: ignore[assignment]
    objective.follower = MomentumEncoder(run.model, nn.Identity(), momentum=0.0)
    objective.queue = KeyQueue(len(texts.measured), objective.encoder.dimension)
    objective.train().to(run.model.device)
    with torch.no_grad(), evaluating(objective):
        for _batch, features in batches(run.model, texts.measured):
            hashes = objective.equal_in_queue(objective.queue, features)[1]
            objective.queue.push(objective.follower.keys(features), hashes)
    clean, number = F.normalize(objective.queue.vectors(), dim=1), 0
    moved: list[Tensor] = []

    def values(loss: Arguments) -> Tensor:
        nonlocal number
        nearest = (F.normalize(loss["keys"], dim=1) @ clean.T).argmax(dim=1)
        moved.append(nearest != torch.arange(number, number + len(nearest), device=nearest.device))
        number += len(nearest)
        return info_nce_of_texts(
            loss["z"],
            [loss["keys"]],
            temperature=objective.temperature,
            extra_negatives=objective.queue.vectors(),
            extra_mask=loss["counts"],
            in_batch_negatives=False,
        )

    with evaluating(objective):
        losses = values_of_texts(run, objective, texts.measured, values)
    return {"loss under its Geometry Attack": losses, "success of the attack": torch.cat(moved).double().cpu().numpy()}


def mistyped_texts(run: FrozenRun, texts: HeldOut, _: Space, options: Options) -> dict[str, Array]:
    """Return how far a mistyped text is from the anchor of its own text: anchored's term of changed texts.

    The anchor is the vector of the encoder before training. The second value is the distance 1 − cosine from the text's
    vector by the same encoder, the third that distance as a share of the mean distance from the other texts.
    """
    start = start_of(run)
    objective = Anchored(start, **{**options, "forms": "both"})
    seed = int(torch.randint(2**31, ()))
    encoder, anchor = Encoder(run.model), Encoder(start)
    found: list[Tensor] = []
    with torch.no_grad(), evaluating(start):
        for batch, features in batches(run.model, texts.measured):
            objective.draws.copy_(torch.tensor([seed, len(found)]))
            anchors, clean = anchor.encode(features), encoder.encode(features)
            mistyped = objective.changed(anchor, features, anchors)[0]
            vectors = encoder.encode(mistyped)
            own = distances(vectors, clean)
            every = 1 - F.normalize(vectors, dim=1) @ F.normalize(clean, dim=1).T
            others = (every.sum(dim=1) - own) / (len(batch) - 1)
            found.append(torch.stack([distances(vectors, anchors), own, own / others]))
    names = "distance of mistyped texts from their anchors", "from their own texts", "from their own texts, of the mean"
    return dict(zip(names, torch.cat(found, dim=1).double().cpu().numpy(), strict=True))
