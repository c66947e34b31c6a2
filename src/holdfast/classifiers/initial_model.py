"""The initial classifier, or regression, of a fine-tuning run: an encoder with a new head, or another classifier.

The head of another classifier is kept if its classes are the task's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.attacks.classifier import (
    class_names_of,
    is_sequence_classifier,
    refuse_missing_vocabulary,
    settle_padding,
    trained_on,
)
from holdfast.classifiers.defences.defence import PROMPT_TOKENS
from holdfast.classifiers.heads import ClassifierHead, decide_head, draw_zeroed_pooler
from holdfast.classifiers.prompted_tokenizer import with_prompt_before
from holdfast.classifiers.training_data import TrainingData
from holdfast.data.class_names import ClassNames
from holdfast.errors import UserError
from holdfast.input_limits import checked_limit
from holdfast.loading import loading
from holdfast.model_folder import CLASSES_FILE
from holdfast.model_lookup import resolve_model
from holdfast.model_with_head import folder_of_config, load_with_head
from holdfast.models import load_sentence_transformer
from holdfast.prompt import Prompt
from holdfast.text_prompts import PromptOptions, prompt_of


@dataclass(frozen=True)
class InitialModel:
    """A sequence classifier before its training.

    Attributes:
        model: the network.
        tokenizer: its tokeniser.
        new_weights: names of the parameters that are newly initialised.
        head: the decision about the head of the original classifier; None if the original is an encoder without a head.
        prompt: the prompt that the tokeniser puts before each text; None: none.
    """

    model: Any
    tokenizer: Any
    new_weights: list[str]
    head: ClassifierHead | None = None
    prompt: str | None = None


def new_classifier(
    spec: str,
    material: TrainingData,
    max_length: int,
    prompts: PromptOptions | None = None,
    label_map: Mapping[str, str] | None = None,
) -> InitialModel:
    """Build the classifier, or the regression with one output, for a training.

    New weights are drawn from torch's random numbers: set their seed first. The tokeniser's limit is lowered to
    ``max_length``, so that the finished model always cuts texts at the same length; a prompt does not count. The label
    map has the task's class for each class of a classifier whose head is kept.

    Raises:
        UserError: a prompt is not chosen (`choose_prompts`), or cannot be put into the tokeniser; the model cannot be
            loaded, has no transformer, puts texts into a template, has a body that does not match its configuration, or
            its architecture has no sequence classifier.
    """
    from sentence_transformers.util import get_device_name
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    folder, prompt = _transformer_folder(spec, prompts or PromptOptions())
    names = dict(enumerate(material.classes))
    with loading(folder, spec):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        before = AutoConfig.from_pretrained(folder_of_config(folder, spec), local_files_only=True)
        model, report = load_with_head(
            AutoModelForSequenceClassification,
            folder,
            spec,
            output_hidden_states=False,  # the configuration of an encoder pooled over several layers has True
            ignore_mismatched_sizes=True,  # only of the head: see decide_head
            id2label=names,
            label2id={name: label for label, name in names.items()},
            problem_type="regression" if material.regression else "single_label_classification",
        )
    refuse_missing_vocabulary(tokenizer, spec)
    own = getattr(before, "holdfast", None) or {}  # of a classifier, whose tokeniser may put a prompt before its texts
    prompted = {name: own[name] for name in ("prompt", PROMPT_TOKENS) if name in own}
    if prompt is not None:
        tokenizer = with_prompt_before(tokenizer, prompt, spec)
        prompted = {"prompt": prompt, PROMPT_TOKENS: tokenizer("a").sequence_ids().index(0)}
    limit = checked_limit(tokenizer, model, spec)
    settle_padding(model, tokenizer)
    existing = ClassNames.of(spec, class_names_of(before, spec), trained_on(before))
    needed = ClassNames.of(material.task, material.classes, material.task)
    head = decide_head(model, report, existing, needed, material.regression, label_map)
    if head is None and (resolve_model(spec) / CLASSES_FILE).is_file():
        head = ClassifierHead(False, f"{spec} is a classifier on a frozen encoder, and only its encoder is used")
    unfilled = {*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])}
    new = sorted({*unfilled, *(head.drawn if head is not None else ()), *draw_zeroed_pooler(model)})
    model.config.holdfast = {"task": material.task, "takes_pairs": material.takes_pairs, **prompted}
    more = max(0, prompted.get(PROMPT_TOKENS, 0) - 1)  # the first of these tokens is there without a prompt, too
    tokenizer.model_max_length = min(max_length + more, limit)
    return InitialModel(model.to(get_device_name()), tokenizer, new, head, prompted.get("prompt"))


def _transformer_folder(spec: str, prompts: PromptOptions) -> tuple[Path, str | None]:
    """Return the folder of a classifier, or of an encoder's transformer after its checks, and the chosen prompt."""
    folder = resolve_model(spec)
    if is_sequence_classifier(folder):
        for option in prompts.prompt_settings:
            raise UserError(f"--{option.replace('_', '-')} is for an encoder, and {spec} is a sequence classifier")
        return folder, None
    encoder = load_sentence_transformer(spec, device="cpu", prompts=prompts, scores=True)
    if encoder.transformers_model is None:
        raise UserError(f"{spec} has no transformer that could be fine-tuned: use --frozen")
    if Prompt.of(encoder) is not None:
        raise UserError(
            f"{spec} is a prompt model, whose tokeniser puts every text into a template: use --frozen, or fine-tune a "
            "model with another pooling"
        )
    prompt = prompt_of(encoder)
    if not (folder / "modules.json").is_file():
        return folder, prompt
    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    return folder / str(modules[0]["path"]), prompt
