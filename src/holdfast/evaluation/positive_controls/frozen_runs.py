"""Finished training runs, and what an objective computes from their frozen encoders, text by text."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from holdfast.backbone import Features
from holdfast.encoder import Encoder, attacking
from holdfast.models import load_sentence_transformer
from holdfast.objectives.heads import Head
from holdfast.objectives.objective import Objective

BATCH = 64
"""Texts that are contrasted with one another."""

Space = Literal["head", "vector"]
"""The place of a loss: after the run's own train-only head, or on the sentence vectors, which are what is kept."""

Array = npt.NDArray[np.float64]
AnyObjective = TypeVar("AnyObjective", bound=Objective)


@dataclass(frozen=True)
class FrozenRun:
    """A training run after its last step.

    Attributes:
        model: the encoder.
        objective: the run's own objective with its state, such as the train-only head; None: nothing was trained.
        start: the folder or name of the language model from which the run started.
    """

    model: SentenceTransformer
    objective: Objective | None
    start: str

    @property
    def head(self) -> nn.Module | None:
        """The train-only head with which the run ended; None: it has none."""
        head = getattr(self.objective, "head", None)
        return head if isinstance(head, nn.Module) else None


@dataclass(frozen=True)
class HeldOut:
    """Sentences that no run was trained on.

    Attributes:
        measured: the texts whose values are compared.
        fitting: other texts, on which whatever a measure needs is fitted to each encoder: negatives, a scale.
    """

    measured: Sequence[str]
    fitting: Sequence[str]


@contextlib.contextmanager
def measuring(run: FrozenRun, seed: int) -> Iterator[None]:
    """Freeze the encoder, seed the random numbers, and restore modes and random state afterwards.

    Two runs with the same seed meet the same dropout masks, noise and augmentations.
    """
    with attacking(run.model):  # the block may set other modes
        torch.manual_seed(seed)
        yield


def with_head_of(run: FrozenRun, objective: AnyObjective, space: Space) -> AnyObjective:
    """Return the objective in training mode on the run's device, with the run's own head, or none for vectors."""
    dimension = Encoder(run.model).dimension
    if space == "vector":
        objective.head = Head(dimension, "none")
    else:
        if run.head is None:
            raise ValueError("this run has no head")
        objective.head = copy.deepcopy(run.head).requires_grad_(False)
    objective.train().to(run.model.device)
    return objective


def start_of(run: FrozenRun, device: str | None = None) -> SentenceTransformer:
    """Return the model from which a run started, with the run's limit of length."""
    start = load_sentence_transformer(run.start, device=device)
    start.max_seq_length = run.model.max_seq_length
    return start


def batches(model: SentenceTransformer, texts: Sequence[str]) -> Iterator[tuple[list[str], Features]]:
    """Yield batches of texts, and their features."""
    encoder = Encoder(model)
    for begin in range(0, len(texts), BATCH):
        batch = list(texts[begin : begin + BATCH])
        yield batch, encoder.tokenise(batch)


def arguments_of(objective: Objective, sentences: Features, function: str = "compute_loss") -> Mapping[str, Any]:
    """Run the objective's forward pass, attack included, and return the arguments of its function, by name.

    If the function is called more than once, as by an attack, they are those of the last call: the loss that is
    trained.
    """
    called: list[Mapping[str, Any]] = []
    original: Callable[..., Any] = getattr(objective, function)
    signature = inspect.signature(original)

    def recorded(*given: Any, **named: Any) -> Any:
        bound = signature.bind(*given, **named)
        bound.apply_defaults()
        called.append(bound.arguments)
        return original(*given, **named)

    setattr(objective, function, recorded)
    try:
        with torch.no_grad():
            objective([sentences])
    finally:
        delattr(objective, function)
    return called[-1]


def values_of_texts(
    run: FrozenRun,
    objective: Objective,
    texts: Sequence[str],
    values: Callable[[Mapping[str, Any]], Tensor],
    function: str = "compute_loss",
) -> Array:
    """Return one value of each text, (len(texts),), or several, (len(texts), k).

    ``values`` computes those of a batch, (B,) or (B, k), from the arguments of the objective's function.
    """
    with torch.no_grad():
        found = [values(arguments_of(objective, features, function)) for _, features in batches(run.model, texts)]
    return torch.cat(found).double().cpu().numpy()
