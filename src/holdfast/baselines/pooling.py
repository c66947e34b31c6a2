"""The poolings of the papers' tables, built from sentence-transformers' own modules.

"First-last" is (embedding output + last layer) / 2 in the tables of BERT-whitening, SimCSE and later papers
(``hidden_states[0]``), and (layer 1 + last layer) / 2 in newer code; both exist here under two names. Means are over
all tokens, including [CLS] and [SEP], as in the sources.
"""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from holdfast.baselines.registry import POOLED
from holdfast.errors import UserError, one_of
from holdfast.layer_average import average_of_two
from holdfast.model_lookup import resolve_model
from holdfast.models import load_sentence_transformer, read_as, store_notices
from holdfast.prompt import Prompt
from holdfast.text_prompts import PromptOptions, choose_prompts

# Index of the hidden state that is averaged with the last one: 0 is the input of the first layer, -1 the last one.
_FIRST = {"first-last": 0, "first-last-layer1": 1, "last-two": -2}


def load_pooled(
    spec: str, pooling: str | None, prompts: PromptOptions | None = None
) -> tuple[SentenceTransformer, str]:
    """Load the encoder ``spec`` with a pooling, and return it and the name of the pooling.

    Args:
        spec: as for :func:`holdfast.models.load_sentence_transformer`.
        pooling: one of `POOLED`; None keeps the pooling of a SentenceTransformer (``"its own"``) and pools a raw masked
            language model by ``"first-last"``, as BERT-whitening and BERT-flow do.
        prompts: the choice of a prompt, if the encoder is to encode texts.

    Raises:
        UserError: the model cannot be loaded, or as for `with_pooling` and `choose_prompts`.
    """
    own = (resolve_model(spec) / "modules.json").is_file()
    model, named = load_sentence_transformer(spec), "its own"
    if pooling is not None or not own:
        named = pooling or "first-last"
        model = with_pooling(model, named, name=spec)
    if prompts is not None:
        choose_prompts(model, prompts, spec=spec)
    return model, named


def with_pooling(model: SentenceTransformer, pooling: str, *, name: str = "the model") -> SentenceTransformer:
    """Return the transformer of ``model`` with a pooling of `POOLED`, without the modules that followed it.

    The transformer is shared, not copied. If its hidden states are needed, its configuration is set to return them, so
    that a saved model has this setting.

    Raises:
        UserError: the pooling is unknown, or the model has no transformer, has too few layers, or is a prompt model,
            whose tokeniser works only with its own pooling.
    """
    one_of("--pooling", pooling, POOLED)
    transformer: Any = next(iter(model.children()), None)
    if not isinstance(transformer, Transformer):
        raise UserError(f"{name} is not built around a transformer, so it has no layers to pool: give a masked LM")
    if Prompt.of(model) is not None:
        raise UserError(f"{name} is a prompt model, whose texts are put into a template: give the masked LM itself")
    width = transformer.get_embedding_dimension()
    modules: list[torch.nn.Module] = [transformer]
    transformer.model.config.output_hidden_states = False
    if pooling in _FIRST:
        modules.append(average_of_two(transformer, _FIRST[pooling], name=name))
    modules.append(Pooling(width, "cls" if pooling == "cls" else "mean"))
    pooled = SentenceTransformer(
        modules=modules,
        device=str(model.device),
        prompts={key: prompt for key, prompt in model.prompts.items() if prompt is not None},
        default_prompt_name=model.default_prompt_name,
        truncate_dim=model.truncate_dim,
    )
    store_notices(pooled, read_as(model).get("read_as", []))
    return pooled
