"""The poolings of the tables, made of sentence-transformers' own modules.

"First-last" is (embedding output + last layer) / 2 in the tables of BERT-whitening, SimCSE and those after them
(``hidden_states[0]``), and (layer 1 + last layer) / 2 in newer code; both are here, by two names. Means are over all
tokens, [CLS] and [SEP] included, as in the sources.
"""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer, WeightedLayerPooling

from holdfast.baselines.registry import POOLED
from holdfast.errors import UserError, one_of
from holdfast.finding import resolve_model
from holdfast.models import keep_reading, load_sentence_transformer, read_as
from holdfast.prompt import Prompt

# The hidden state averaged with the last one: 0 is what enters the first layer.
_FIRST = {"first-last": 0, "first-last-layer1": 1}


def load_pooled(spec: str, pooling: str | None) -> tuple[SentenceTransformer, str]:
    """The encoder that ``spec`` names, with a pooling, and what that pooling is called.

    Args:
        spec: as for :func:`holdfast.models.load_sentence_transformer`.
        pooling: one of `POOLED`; None leaves a SentenceTransformer as it is (``"its own"``) and pools a raw masked
            language model by ``"first-last"``, as BERT-whitening and BERT-flow do.

    Raises:
        UserError: what the loader or `with_pooling` refuses.
    """
    own = (resolve_model(spec) / "modules.json").is_file()
    model = load_sentence_transformer(spec)
    if pooling is None and own:
        return model, "its own"
    pooling = pooling or "first-last"
    return with_pooling(model, pooling, name=spec), pooling


def with_pooling(model: SentenceTransformer, pooling: str, *, name: str = "the model") -> SentenceTransformer:
    """The transformer of ``model`` with another pooling; what followed the transformer before is left out.

    The transformer is shared, not copied, and its configuration is told to give its hidden states where they are
    needed: that is how a saved model knows.

    Args:
        model: a SentenceTransformer around a transformer.
        pooling: one of `POOLED`.
        name: what the model is called in an error.

    Raises:
        UserError: an unknown pooling; no transformer; a prompt model, whose tokeniser fits its own pooling only; too
            few layers.
    """
    one_of("--pooling", pooling, POOLED)
    transformer: Any = next(iter(model.children()), None)
    if not isinstance(transformer, Transformer):
        raise UserError(f"{name} is not built around a transformer, so it has no layers to pool: give a masked LM")
    if Prompt.of(model) is not None:
        raise UserError(f"{name} is a prompt model, whose texts are put into a template: give the masked LM itself")
    width = transformer.get_embedding_dimension()
    modules: list[torch.nn.Module] = [transformer]
    transformer.model.config.output_hidden_states = pooling in _FIRST
    if pooling in _FIRST:
        modules.append(_average_of_two(transformer.model.config.num_hidden_layers, _FIRST[pooling], width, name))
    modules.append(Pooling(width, "cls" if pooling == "cls" else "mean"))
    pooled = SentenceTransformer(
        modules=modules,
        device=str(model.device),
        prompts={key: prompt for key, prompt in model.prompts.items() if prompt is not None},
        default_prompt_name=model.default_prompt_name,
        truncate_dim=model.truncate_dim,
    )
    keep_reading(pooled, read_as(model).get("read_as", []))
    return pooled


def _average_of_two(layers: int, first: int, width: int, name: str) -> WeightedLayerPooling:
    """(hidden state ``first`` + the last one) / 2 at every token."""
    if first >= layers:
        raise UserError(f"{name} has {layers} layer: first-last-layer1 averages two different ones")
    weights = torch.zeros(layers + 1 - first)
    weights[0] = weights[-1] = 1.0
    parameter = torch.nn.Parameter(weights, requires_grad=False)  # an average, not something to train
    return WeightedLayerPooling(width, num_hidden_layers=layers, layer_start=first, layer_weights=parameter)
