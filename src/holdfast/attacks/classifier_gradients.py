"""Vectors and loss gradients of texts in a classifier, for the geometry recipe."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.adversary.geometry import word_importance
from holdfast.adversary.token_batches import in_batches
from holdfast.attacks.examples import Example
from holdfast.attacks.requests import Slope
from holdfast.edits.words import Words
from holdfast.errors import UserError

if TYPE_CHECKING:
    from holdfast.attacks.classifier import Classifier


@dataclass(eq=False)
class _Entering:
    """The input of the classification layer, (n, d)."""

    z: Tensor | None = None


@contextlib.contextmanager
def _watching(layer: nn.Module, source: str) -> Iterator[_Entering]:
    """Record the input of a layer.

    Raises:
        UserError: the layer is applied to each token, as in decoders, so that no single vector represents the text.
    """
    entering = _Entering()

    def keep(_module: nn.Module, args: tuple[Any, ...]) -> None:
        if args[0].dim() != 2:
            raise UserError(f"{source} classifies each token before it takes one: leave the geometry recipe out")
        entering.z = args[0]

    handle = layer.register_forward_pre_hook(keep)
    try:
        yield entering
    finally:
        handle.remove()


def classification_layer(model: nn.Module, classes: int, source: str) -> nn.Linear:
    """Return the last linear layer with one output per class.

    Raises:
        UserError: there is no such layer, so the geometry recipe cannot be used.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear) and layer.out_features == classes]
    if not layers:
        raise UserError(f"{source} does not end in a linear layer: leave the geometry recipe out")
    return layers[-1]


def classifier_slopes(
    classifier: Classifier,
    questions: Sequence[tuple[Example, Words]],
    groups: Sequence[Sequence[int]] | None = None,
) -> list[Slope]:
    """Return the gradients of the cross-entropy of each example's class, in fp32, at z and at its word embeddings.

    With ``groups``, labels are indices of groups of classes, whose probabilities are summed.
    """
    texts = [example.with_text(words.text) for example, words in questions]
    encoded = _tokenised(classifier, texts, offsets=True)
    layer = classification_layer(classifier.model, len(classifier.classes), classifier.source)
    slopes: list[Slope | None] = [None] * len(questions)
    for rows, features in in_batches(classifier.tokenizer, encoded, classifier.device):
        labels = torch.tensor([int(questions[row][0].label or 0) for row in rows], device=classifier.device)
        leaf = classifier.model.get_input_embeddings()(features["input_ids"]).detach().requires_grad_()
        with torch.enable_grad(), _watching(layer, classifier.source) as entering:
            logits = classifier.model(**_embedded(features, leaf)).logits.float()
            if groups is not None:
                logits = torch.stack([logits[:, list(group)].logsumexp(dim=1) for group in groups], dim=1)
            loss = F.cross_entropy(logits, labels, reduction="sum")
            assert entering.z is not None
            direction, tokens = torch.autograd.grad(loss, [entering.z, leaf])
        z, direction, tokens = entering.z.detach().cpu(), direction.cpu(), tokens.cpu()
        for i, row in enumerate(rows):
            example, words = questions[row]
            offsets = _offsets(encoded, row, example.attacked)
            importance = word_importance(tokens[i], offsets, words.spans, "mean-l2")
            slopes[row] = Slope(z[i], direction[i], tuple(importance))
    return [slope for slope in slopes if slope is not None]


def classifier_locations(
    classifier: Classifier, texts: Sequence[tuple[str, ...]]
) -> list[tuple[Tensor, npt.NDArray[np.float32]]]:
    """Return z (the input of the classification layer) and the logits of texts, in fp32."""
    if not texts:
        return []
    encoded = _tokenised(classifier, texts, offsets=False)
    layer = classification_layer(classifier.model, len(classifier.classes), classifier.source)
    found: list[tuple[Tensor, npt.NDArray[np.float32]] | None] = [None] * len(texts)
    with torch.no_grad(), _watching(layer, classifier.source) as entering:
        for rows, features in in_batches(classifier.tokenizer, encoded, classifier.device):
            logits = classifier.model(**features).logits.float().cpu().numpy()
            assert entering.z is not None
            z = entering.z.cpu()
            for i, row in enumerate(rows):
                found[row] = (z[i], logits[i])
    return [location for location in found if location is not None]


def _tokenised(classifier: Classifier, texts: Sequence[tuple[str, ...]], *, offsets: bool) -> Any:
    columns = [list(column) for column in zip(*texts, strict=True)]
    return classifier.tokenizer(
        *columns, truncation=True, max_length=classifier.max_tokens, return_offsets_mapping=offsets, verbose=False
    )


def _embedded(features: Mapping[str, Tensor], embeddings: Tensor) -> dict[str, Tensor]:
    rest = {name: value for name, value in features.items() if name != "input_ids"}
    return {**rest, "inputs_embeds": embeddings}


def _offsets(encoded: Any, row: int, attacked: int) -> list[tuple[int, int]]:
    """Return each token's character span in the attacked text; (0, 0) for tokens of the other text."""
    sequences = encoded.sequence_ids(row)
    offsets = encoded["offset_mapping"][row]
    return [span if of == attacked else (0, 0) for of, span in zip(sequences, offsets, strict=True)]
