"""Exchanges of single tokens of a passage by the gradient of its mean similarity to queries (HotFlip).

Ebrahimi et al. 2018; Zhong et al. 2023, "Poisoning Retrieval Corpora by Injecting Adversarial Passages", section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.adversary.token_batches import in_batches
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.prompt_tokens import prompt_features
from holdfast.text_prompts import Role


class TokenFlips:
    """The mean similarity of token sequences to queries, and its gradient at their word embeddings.

    Parameters get no gradient; the model's mode and the random generator are restored after each call.

    Args:
        encoder: the encoder of passages.
        centre: mean of the query vectors, (d,): of normalised ones for the cosine. The mean similarity of a passage to
            all queries is its product with this vector.
        normalise: the similarity is the cosine; else the dot product.
        role: side of the passages.

    Raises:
        UserError: a prompt model, whose template is around the text, or a model without word embeddings.
    """

    def __init__(self, encoder: Encoder, centre: Tensor, *, normalise: bool, role: Role | None = None) -> None:
        if encoder.prompt is not None:
            raise UserError("hotflip exchanges tokens of plain texts, and this is a prompt model: use masked-lm")
        self._encoder = encoder
        model = encoder.model
        self._device = model.device
        self._centre = centre.to(self._device)
        self._normalise = normalise
        self._more = prompt_features(model, role)
        self._embedding: Any = model.transformers_model.get_input_embeddings()  # type: ignore[union-attr]

    @property
    def table(self) -> Tensor:
        """The word embeddings, (V, e)."""
        table: Tensor = self._embedding.weight.detach()
        return table

    def gradient(self, ids: Sequence[int]) -> Tensor:
        """Return the gradient of the mean similarity at the word embedding of each of L tokens, (L, e)."""
        found: list[Tensor] = []

        def as_leaf(_module: Any, _args: Any, output: Tensor) -> Tensor:
            found.append(output.detach().requires_grad_())
            return found[-1]

        handle = self._embedding.register_forward_hook(as_leaf)
        try:
            with self._encoder.attack_mode(), torch.enable_grad():
                ((_, features),) = self._batches([ids])
                similarity = self._similarity(self._encoder.encode(features | self._more))
                (gradient,) = torch.autograd.grad(similarity.sum(), found)
        finally:
            handle.remove()
        return gradient[0]

    @torch.no_grad()
    def similarities(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return the mean similarity of each of n token sequences, (n,), fp64, on the CPU."""
        numbers: list[int] = []
        parts: list[Tensor] = []
        with self._encoder.attack_mode():
            for own, features in self._batches(rows):
                numbers += own
                parts.append(self._similarity(self._encoder.encode(features | self._more)))
        return torch.cat(parts)[torch.tensor(numbers).argsort()].double().cpu()

    def _similarity(self, vectors: Tensor) -> Tensor:
        vectors = F.normalize(vectors, dim=-1) if self._normalise else vectors
        return vectors @ self._centre.to(vectors.dtype)

    def _batches(self, rows: Sequence[Sequence[int]]) -> list[tuple[list[int], dict[str, Any]]]:
        tokenizer = self._encoder.model.tokenizer
        encoded: dict[str, Any] = {"input_ids": [list(row) for row in rows]}
        encoded["attention_mask"] = [[1] * len(row) for row in rows]
        if "token_type_ids" in tokenizer.model_input_names:
            encoded["token_type_ids"] = [[0] * len(row) for row in rows]
        return list(in_batches(tokenizer, encoded, self._device))


def best_tokens(gradient: Tensor, table: Tensor, count: int, allowed: Tensor | None = None) -> list[int]:
    """Return the tokens with the largest first-order increase of the similarity, best first: e_v · ∇.

    The token that is there has a constant part in the increase, (e_v - e_old) · ∇, which changes no order.

    Args:
        gradient: at the word embedding of a place, (e,).
        table: word embeddings, (V, e).
        count: number of tokens.
        allowed: True for each token that may be placed, (V,); None: all.
    """
    gains = table @ gradient
    if allowed is not None:
        gains = gains.masked_fill(~allowed.to(gains.device), float("-inf"))
    values, tokens = gains.topk(min(count, len(gains)))
    return [int(token) for value, token in zip(values, tokens, strict=True) if value > float("-inf")]


@dataclass(frozen=True)
class Flip:
    """The candidates of a place, and what became of them.

    Attributes:
        tokens: the candidates.
        scores: the mean similarity with each.
        ids: the token sequence after the step.
        similarity: its mean similarity.
        accepted: whether a candidate was placed.
    """

    tokens: list[int]
    scores: list[float]
    ids: list[int]
    similarity: float
    accepted: bool


def flip(
    flips: TokenFlips, ids: Sequence[int], place: int, tokens: Sequence[int], similarity: float, noise: float = 0.0
) -> Flip:
    """Place the candidate with the highest mean similarity if that is above the present one by more than ``noise``."""
    rows = [[*ids[:place], token, *ids[place + 1 :]] for token in tokens]
    scores = flips.similarities(rows).tolist() if rows else []
    if not scores or max(scores) <= similarity + noise:
        return Flip(list(tokens), scores, list(ids), similarity, accepted=False)
    best = max(range(len(scores)), key=scores.__getitem__)
    return Flip(list(tokens), scores, rows[best], scores[best], accepted=True)
