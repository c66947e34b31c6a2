"""The average of two layers' token vectors as a module, to be followed by a pooling over the tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import UserError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling


def average_of_two(transformer: Any, first: int, *, name: str) -> WeightedLayerPooling:
    """Return a module for (hidden state ``first`` + the last one) / 2 at every token.

    Hidden state 0 is the input of the first layer; negative numbers count from the last one, -1. The configuration of
    the transformer is set to return them, so that a saved model has this setting.

    Raises:
        UserError: ``first`` is the last one, or beyond.
    """
    import torch
    from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling

    layers = transformer.model.config.num_hidden_layers
    first = first if first >= 0 else layers + 1 + first
    if first >= layers:
        raise UserError(f"{name} has {layers} layer: first-last-layer1 averages two different ones")
    transformer.model.config.output_hidden_states = True
    weights = torch.zeros(layers + 1 - first)
    weights[0] = weights[-1] = 1.0
    parameter = torch.nn.Parameter(weights, requires_grad=False)  # constant weights, not trained
    width = transformer.get_embedding_dimension()
    return WeightedLayerPooling(width, num_hidden_layers=layers, layer_start=first, layer_weights=parameter)


def averages_last_two(model: SentenceTransformer) -> bool:
    """Return True if the first module after the transformer is the average of its last two layers."""
    from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling

    _, *after = model.children()
    if not after or not isinstance(after[0], WeightedLayerPooling):
        return False
    weights = after[0].layer_weights.tolist()
    return len(weights) == 2 and weights[0] == weights[1]
