"""The inputs of the parity tests: weights of a tiny BERT, a batch, and the random numbers that a loss draws.

All numbers come from the raw 64-bit stream of NumPy's PCG64, which NumPy keeps forever; no random number of torch is
used. The scripts of `make_fixtures` import this module beside an old transformers, the tests beside the present one:
it imports nothing of either and nothing of holdfast.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
STOP_WORDS = ("the", "a", "on", "under", "in")
CONTENT_WORDS = (
    *("man", "woman", "child", "dog", "cat", "runs", "sleeps", "eats"),
    *("plays", "sings", "park", "house", "bed", "red", "big", "old"),
)
VOCABULARY = (*MARKS, *STOP_WORDS, *CONTENT_WORDS)

WIDTH, ROWS, LENGTH = 32, 6, 10
CONFIG: Mapping[str, Any] = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": WIDTH,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 16,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "pad_token_id": 0,
}

SENTENCES = (
    "the old man sleeps on the bed",
    "a dog runs",
    "woman sings under the house",
    "the cat eats in a park",
    "child plays",
    "the big dog sleeps in the red house",
)
"""The batch; no two sentences are equal, and their lengths differ."""

POSITIVES = (
    "an old woman sleeps in bed",
    "the dog plays",
    "a woman sings in a house",
    "the cat eats under the old bed",
    "the child runs",
    "a big cat sleeps on a red bed",
)
"""A second column for the data sets with one; "an" is unknown to the vocabulary."""


def numbers(name: str, *shape: int) -> np.ndarray:
    """Return uniform numbers in [0, 1), float64, that depend on the name alone."""
    raw = np.random.PCG64(zlib.crc32(name.encode())).random_raw(int(np.prod(shape)))
    drawn: np.ndarray = (raw >> np.uint64(11)).astype(np.float64).reshape(shape) * 2.0**-53
    return drawn


def centred(name: str, *shape: int, scale: float = 1.0) -> Tensor:
    """Return uniform numbers in [-scale, scale), float64."""
    return torch.from_numpy((2 * numbers(name, *shape) - 1) * scale)


@torch.no_grad()
def fill(module: nn.Module, prefix: str = "", scale: float = 0.3) -> None:
    """Set all parameters of a module by their names: scales of normalisations near 1, all others in [-scale, scale)."""
    for name, parameter in module.named_parameters():
        drawn = centred(prefix + name, *parameter.shape, scale=scale)
        if name.endswith(("LayerNorm.weight", "norm.weight")):
            drawn = 1 + drawn / 3
        parameter.copy_(drawn)


def batch(sentences: Sequence[str] = SENTENCES) -> dict[str, Tensor]:
    """Return the features of sentences, each (rows, `LENGTH`): ids with [CLS] and [SEP], padded on the right."""
    ids = torch.zeros(len(sentences), LENGTH, dtype=torch.long)
    for row, sentence in enumerate(sentences):
        words = [word if word in VOCABULARY else "[UNK]" for word in sentence.split()]
        found = [VOCABULARY.index(token) for token in ("[CLS]", *words, "[SEP]")]
        ids[row, : len(found)] = torch.tensor(found)
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "token_type_ids": torch.zeros_like(ids),
    }


def interleaved(first: Tensor, second: Tensor) -> Tensor:
    """Return rows (2B, …) in which both views of a sentence follow each other, as most releases order them."""
    return torch.stack([first, second], dim=1).flatten(0, 1)


def dropout_masks(views: int = 2, share: float = 0.2) -> list[Tensor]:
    """Return the masks of embedding dropout, (B, L, d) per view, with the kept values scaled up."""
    drawn = numbers("embedding dropout", views, ROWS, LENGTH, WIDTH)
    return list(torch.from_numpy((drawn >= share) / (1 - share)))


class FixedDropout(nn.Module):
    """Dropout with given masks, one per call in turn; none in evaluation mode."""

    def __init__(self, *masks: Tensor) -> None:
        super().__init__()
        self.masks, self.calls = masks, 0

    def forward(self, hidden: Tensor) -> Tensor:
        if not self.training:
            return hidden
        mask = self.masks[self.calls % len(self.masks)]
        self.calls += 1
        return hidden * mask


def summary(gradients: Mapping[str, Tensor]) -> dict[str, list[float]]:
    """Return, per group of parameters, the norm of the gradient and its product with a fixed direction.

    The groups are "embeddings", each layer of the encoder, and the rest by the first part of its name. The second
    number knows signs and places, which a norm does not.
    """
    grouped: dict[str, list[float]] = {}
    for name, gradient in sorted(gradients.items()):
        parts = name.split(".")
        group = ".".join(parts[:3]) if parts[0] == "encoder" else parts[0]
        direction = centred("direction of " + name, *gradient.shape)
        total = grouped.setdefault(group, [0.0, 0.0])
        total[0] += float(gradient.double().square().sum())
        total[1] += float((gradient.double() * direction).sum())
    return {group: [total[0] ** 0.5, total[1]] for group, total in grouped.items()}


def gradients(loss: Tensor, named: Iterable[tuple[str, nn.Parameter]]) -> dict[str, Tensor]:
    """Return the gradients of a loss by name; of parameters without one there is none."""
    used = [(name, parameter) for name, parameter in named if parameter.requires_grad]
    found = torch.autograd.grad(loss, [parameter for _, parameter in used], allow_unused=True, retain_graph=True)
    return {name: grad for (name, _), grad in zip(used, found, strict=True) if grad is not None}


def probe(name: str, tensor: Tensor) -> list[float]:
    """Return the norm of a tensor and its product with a fixed direction."""
    flat = tensor.detach().double()
    return [float(flat.norm()), float((flat * centred("direction of " + name, *flat.shape)).sum())]


def masking_draws(number: int) -> Tensor:
    """Return the draws of DiffCSE's masks for both views, (2 * rows, L): which tokens, how, and by which."""
    return torch.from_numpy(numbers(f"masks {number}", 2 * ROWS, LENGTH))


def masked_views(ratio: float = 0.3) -> Tensor:
    """Return the ids of both views with some tokens hidden, (2 * rows, L), view after view."""
    ids = batch()["input_ids"].repeat(2, 1)
    which, how, other = (masking_draws(number) for number in range(3))
    mask, special = VOCABULARY.index("[MASK]"), len(MARKS)
    hidden = ids.clone()
    for row, column in torch.nonzero((which < ratio) & (ids >= special)).tolist():
        if how[row, column] < 0.9:
            random = int(other[row, column] * len(VOCABULARY))
            hidden[row, column] = mask if how[row, column] < 0.8 else random
    return hidden


def candidates(word: str) -> list[str]:
    """Return the words that an attack may put in the place of a content word: the next four of the vocabulary."""
    at = CONTENT_WORDS.index(word)
    return [CONTENT_WORDS[(at + step) % len(CONTENT_WORDS)] for step in range(1, 5)]
