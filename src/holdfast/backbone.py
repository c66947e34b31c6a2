"""Access to the parts of a backbone: its embeddings, its layers, and a shortened last layer."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from holdfast.errors import UserError
from holdfast.input_limits import first_position, position_table
from holdfast.static_encoder import TrainableStatic

Features = Mapping[str, Any]

TESTED_BACKBONES = ("bert", "roberta", "distilbert", "mpnet", "electra", "deberta-v2", "modernbert")
"""Model types covered by tests. Others work if their structure is the same."""


@dataclass(frozen=True)
class Backbone:
    """The parts of a transformer that perturbations act on.

    Attributes:
        model: the Hugging Face model.
        lookup: the module that embeds tokens.
        embedding: the module whose output enters the first layer, usually the same.
        layers: the transformer layers, first to last; none in a static encoder.
    """

    model: nn.Module
    lookup: nn.Module
    embedding: nn.Module
    layers: nn.ModuleList

    @classmethod
    def of(cls, sentence_transformer: SentenceTransformer) -> Backbone:
        """Find the parts by their structure.

        Raises:
            UserError: the model has no transformer, or does not consist of an embedding module and a list of layers.
        """
        model = sentence_transformer.transformers_model
        first = next(iter(sentence_transformer.children()), None)
        if model is None and isinstance(first, TrainableStatic):
            return cls(model=first, lookup=first.lookup, embedding=first.lookup, layers=nn.ModuleList())
        if model is None:
            raise UserError(
                "this model has no transformer whose embeddings could be perturbed; "
                f"supported backbones: {', '.join(TESTED_BACKBONES)}"
            )
        return cls.of_transformer(model)

    @classmethod
    def of_transformer(cls, model: Any) -> Backbone:
        """Find the parts of a bare Hugging Face transformer, such as the ``base_model`` of a sequence classifier.

        Raises:
            UserError: it does not consist of an embedding module and a list of layers.
        """
        lookup = getattr(model, "embeddings", None)
        # ELECTRA's generator projects its embeddings to the hidden size before the first layer.
        embedding = getattr(model, "embeddings_project", None) or lookup
        stack = getattr(model, "encoder", None) or getattr(model, "transformer", None) or model
        layers = getattr(stack, "layer", None) or getattr(stack, "layers", None)
        if (
            not isinstance(lookup, nn.Module)
            or not isinstance(embedding, nn.Module)
            or not isinstance(layers, nn.ModuleList)
        ):
            kind = getattr(model.config, "model_type", type(model).__name__)
            raise UserError(f"backbone {kind!r} is not supported; supported backbones: {', '.join(TESTED_BACKBONES)}")
        return cls(model=model, lookup=lookup, embedding=embedding, layers=layers)

    def embed(self, features: Features) -> Tensor:
        """Return the input of the first layer, (rows, L, d), after dropout; bypasses hooks, so it is unperturbed."""
        accepted = inspect.signature(self.lookup.forward).parameters
        names = ("input_ids", "token_type_ids", "position_ids", "inputs_embeds")
        given = {name: features.get(name) for name in names if name in accepted}
        if "mask" in accepted:  # DeBERTa
            given["mask"] = features["attention_mask"]
        embedded: Tensor = self.lookup.forward(**given)
        return embedded if self.embedding is self.lookup else self.embedding.forward(embedded)

    @contextlib.contextmanager
    def perturbed(self, delta: Tensor, mask: Tensor) -> Iterator[None]:
        """Add δ to the input of the first layer, for every pass of the model inside the context.

        Args:
            delta: (rows, L, d).
            mask: (rows, L), 1 at real tokens. Padding is not perturbed: a convolution, as in DeBERTa, would spread δ.
        """

        def add(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
            return added(output, delta * mask.unsqueeze(-1))

        handle = self.embedding.register_forward_hook(add)
        try:
            yield
        finally:
            handle.remove()

    def first_position(self) -> int:
        """Return the position id of a row's first token: 0, or the one after padding if padding has a position."""
        table = position_table(self.lookup)
        return 0 if table is None else first_position(table)

    def takes_positions(self) -> bool:
        """Return True if the model accepts position ids."""
        return "position_ids" in inspect.signature(self.model.forward).parameters


def added(output: Tensor, delta: Tensor) -> Tensor:
    """Return the sum, at least in the precision of δ: its steps can be smaller than the spacing of bf16 numbers."""
    return output.to(torch.promote_types(output.dtype, delta.dtype)) + delta


def is_bert_shaped(layer: nn.Module) -> bool:
    """Return True if :func:`one_token_alone` can shorten a transformer layer: it has exactly BERT's parts."""
    attention: Any = getattr(layer, "attention", None)
    inner = getattr(attention, "self", None)
    # An additional part, such as another norm, a bottleneck or an adapter, would be skipped silently.
    if _parts(layer) != {"attention", "intermediate", "output"} or _parts(attention) != {"self", "output"}:
        return False
    if any(_parts(part) != {"dense", "LayerNorm", "dropout"} for part in (layer.output, attention.output)):
        return False
    linear = all(isinstance(getattr(inner, name, None), nn.Linear) for name in ("query", "key", "value"))
    return linear and hasattr(inner, "scaling") and not getattr(layer, "is_decoder", False)


def _parts(module: Any) -> set[str]:
    return {name for name, _ in module.named_children()} if isinstance(module, nn.Module) else set()


@contextlib.contextmanager
def one_token_alone(layer: Any, position: Callable[[], Tensor | None] = lambda: None) -> Iterator[None]:
    """Let a BERT-shaped layer compute only one token per row: the first, or the one at ``position()``, (rows,).

    Keys and values are computed for all tokens; the query, both feed-forward maps and the norms only for the one token.
    The output is (rows, 1, d); with a position it is (rows, L, d), with zeros at all other tokens, since the pooling
    reads it at that position.
    """
    layer.forward = _one_token_forward(layer, position)
    try:
        yield
    finally:
        del layer.forward


def _one_token_forward(layer: Any, position: Callable[[], Tensor | None]) -> Callable[..., Tensor]:
    """Return the forward of a layer for `one_token_alone`."""
    attention, inner = layer.attention, layer.attention.self
    heads, size = inner.num_attention_heads, inner.attention_head_size

    def split(projected: Tensor) -> Tensor:
        return projected.view(*projected.shape[:-1], heads, size).transpose(1, 2)

    def forward(hidden: Tensor, attention_mask: Tensor | None = None, *_: Any, **__: Any) -> Tensor:
        positions = position()
        index = None if positions is None else positions[:, None, None].expand(-1, 1, hidden.shape[2])
        token = hidden[:, :1] if index is None else hidden.gather(1, index)
        scores = split(inner.query(token)) @ split(inner.key(hidden)).transpose(2, 3) * inner.scaling
        if attention_mask is not None:
            shown = attention_mask[:, :, :1]  # the same for every token: all attend to all tokens except padding
            scores = scores.masked_fill(~shown, float("-inf")) if shown.dtype == torch.bool else scores + shown
        weights = inner.dropout(scores.softmax(dim=-1))
        context = (weights @ split(inner.value(hidden))).transpose(1, 2).flatten(2)
        attended = attention.output(context, token)
        result: Tensor = layer.output(layer.intermediate(attended), attended)
        return result if index is None else result.new_zeros(hidden.shape).scatter(1, index, result)

    return forward
