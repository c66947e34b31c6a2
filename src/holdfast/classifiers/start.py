"""The classifier, or regression, that a fine-tuning run starts from: an encoder with a new head."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from holdfast.classifiers.material import Material
from holdfast.errors import UserError
from holdfast.finding import resolve_model
from holdfast.limits import require_padding, token_limit
from holdfast.loading import loading
from holdfast.models import load_sentence_transformer
from holdfast.prompt import Prompt


def new_classifier(spec: str, material: Material, max_length: int) -> tuple[Any, Any, list[str]]:
    """A sequence classifier, its tokeniser, and the names of the parameters that are new.

    The new ones are drawn from torch's random numbers: seed them first. The tokeniser's limit is lowered to
    ``max_length``, so that the finished model reads as much of a text wherever it is used. A regression has one output.

    Args:
        spec: an encoder, as for :func:`holdfast.finding.resolve_model`.
        material: the task, for the classes and for what the model remembers of it.
        max_length: tokens per text or pair.

    Raises:
        UserError: the encoder cannot be loaded, has no transformer, puts texts into a template, or is of an
            architecture that has no sequence classifier.
    """
    from sentence_transformers.util import get_device_name
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = _transformer_folder(spec)
    names = dict(enumerate(material.classes))
    with loading(folder, spec):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model, report = AutoModelForSequenceClassification.from_pretrained(
            folder,
            dtype=torch.float32,
            local_files_only=True,
            use_safetensors=True,
            output_hidden_states=False,  # which an encoder pooled over several layers has saved as on
            output_loading_info=True,
            id2label=names,
            label2id={name: label for label, name in names.items()},
            problem_type="regression" if material.regression else "single_label_classification",
        )
    require_padding(tokenizer, model, spec)
    new = sorted({*report["missing_keys"], *_draw_zeroed_pooler(model)})
    model.config.holdfast = {"task": material.task, "takes_pairs": material.takes_pairs}
    tokenizer.model_max_length = min(max_length, token_limit(tokenizer, model))
    return model.to(get_device_name()), tokenizer, new


def _transformer_folder(spec: str) -> Path:
    """The folder of an encoder's transformer, once the encoder has been loaded as a whole, with all its checks."""
    folder = resolve_model(spec)
    encoder = load_sentence_transformer(spec, device="cpu")
    if encoder.transformers_model is None:
        raise UserError(f"{spec} has no transformer that could be fine-tuned: use --frozen")
    if Prompt.of(encoder) is not None:
        raise UserError(
            f"{spec} is a prompt model, whose tokeniser puts every text into a template: use --frozen, or fine-tune a "
            "model with another pooling"
        )
    if not (folder / "modules.json").is_file():
        return folder
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    return folder / str(modules[0]["path"])


def _draw_zeroed_pooler(model: Any) -> list[str]:
    """Draw a pooler anew whose weights are all zero, and tell the names of its parameters.

    A pooler on top of [CLS] that no weights file had is stored as zeros in a SentenceTransformer (see
    :func:`holdfast.models.load_sentence_transformer`). Left so, it would give every text the same vector, and hardly
    any gradient would reach the encoder.
    """
    new: list[str] = []
    for name, module in model.base_model.named_modules(prefix=model.base_model_prefix):
        parameters = dict(module.named_parameters(prefix=name))
        if name.rpartition(".")[2] != "pooler" or any(bool(value.any()) for value in parameters.values()):
            continue
        for parameter in (part.weight for part in module.modules() if isinstance(part, nn.Linear)):
            nn.init.normal_(parameter, std=getattr(model.config, "initializer_range", 0.02))
        new += parameters
    return new
