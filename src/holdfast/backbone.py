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

from holdfast.backbone_parts import BackboneParts, find_parts
from holdfast.errors import UserError
from holdfast.input_limits import first_position, position_table
from holdfast.static_encoder import TrainableStatic

Features = Mapping[str, Any]

TESTED_BACKBONES = (
    *("bert", "roberta", "xlm-roberta", "distilbert", "mpnet", "electra", "albert", "deberta-v2", "modernbert"),
    *("nomic_bert", "clip_text_model", "qwen3", "llama", "mistral", "gemma3_text"),
)
"""Model types covered by tests. Others work if their structure is the same."""


@dataclass(frozen=True)
class Backbone:
    """The parts of a transformer that perturbations act on.

    Attributes:
        model: the Hugging Face model.
        embedding: the module whose output enters the first layer.
        layers: the transformer layers, first to last; none in a static encoder.
        depth: number of layers that a pass goes through; with shared layers (ALBERT) more than their number.
        run: runs the model on features.
    """

    model: nn.Module
    embedding: nn.Module
    layers: nn.ModuleList
    depth: int
    run: Callable[[dict[str, Any]], Any]

    @classmethod
    def of(cls, sentence_transformer: SentenceTransformer) -> Backbone:
        """Find the parts by their structure, with a pass of the model; of a model with routes, those of its default.

        Raises:
            UserError: the model has no transformer, or no module whose output enters the first of a list of layers.
        """
        first: Any = next(iter(sentence_transformer.children()), None)
        if isinstance(first, TrainableStatic):
            return cls(first, embedding=first.lookup, layers=nn.ModuleList(), depth=0, run=first)
        model: Any = sentence_transformer.transformers_model
        # One in another form, such as ONNX, is no module.
        around: Any = next((child for child in sentence_transformer.children() if model in [*child.modules()]), None)
        if model is None or around is None:
            raise UserError(
                "this model has no transformer whose embeddings could be perturbed: name one that has; "
                f"supported backbones: {', '.join(TESTED_BACKBONES)}"
            )
        return cls._found(around, around)

    @classmethod
    def of_transformer(cls, model: Any) -> Backbone:
        """Find the parts of a bare Hugging Face transformer, such as the ``base_model`` of a sequence classifier.

        Raises:
            UserError: no module's output enters the first of a list of layers.
        """
        accepted = inspect.signature(model.forward).parameters
        return cls._found(model, lambda features: model(**{key: features[key] for key in features if key in accepted}))

    @classmethod
    def _found(cls, root: nn.Module, run: Callable[[dict[str, Any]], Any]) -> Backbone:
        parts = find_parts(root, run)
        if not isinstance(parts, BackboneParts):
            raise UserError(
                f"backbone {_kind(root)!r} is not supported: {parts}; "
                f"supported backbones: {', '.join(TESTED_BACKBONES)}"
            )
        layers: Any = root.get_submodule(parts.layers)
        return cls(root.get_submodule(parts.model), root.get_submodule(parts.embedding), layers, parts.depth, run)

    def embed(self, features: Features) -> Tensor:
        """Return the input of the first layer, (rows, L, d), after dropout; bypasses hooks, so it is unperturbed.

        The pass ends where the embeddings are computed.
        """
        module: Any = self.embedding
        before, forward = vars(module).get("forward"), module.forward
        embedded: list[Tensor] = []

        def stop(*args: Any, **kwargs: Any) -> Tensor:
            embedded.append(forward(*args, **kwargs))
            raise _EmbeddedError

        module.forward = stop
        try:
            with contextlib.suppress(_EmbeddedError):
                self.run(dict(features))
        finally:
            if before is None:
                del module.forward
            else:
                module.forward = before
        return embedded[0]

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
        return _first_position(self.model)

    def takes_positions(self) -> bool:
        """Return True if the model accepts position ids."""
        return _takes_positions(self.model)


def token_positions(model: nn.Module, mask: Tensor) -> dict[str, Tensor]:
    """Return ``position_ids`` that count the tokens of each row without its padding, (rows, L).

    A Hugging Face model counts a row's columns, so rows that begin with padding need them. The result is empty for a
    model that takes none. ``mask`` (rows, L) is 1 at real tokens.
    """
    if not _takes_positions(model):
        return {}
    counted = mask.long().cumsum(dim=1) - 1
    return {"position_ids": counted.clamp(min=0) + _first_position(model)}


def _takes_positions(model: nn.Module) -> bool:
    return "position_ids" in inspect.signature(model.forward).parameters


def _first_position(model: nn.Module) -> int:
    table = position_table(model)
    return 0 if table is None else first_position(table)


class _EmbeddedError(Exception):
    """The end of a pass that was made for its embeddings."""


def _kind(root: nn.Module) -> str:
    config = next((module.config for module in root.modules() if hasattr(module, "config")), None)
    return str(getattr(config, "model_type", type(root).__name__))


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
