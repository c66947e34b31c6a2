"""The record of a training, with which a resumed one must agree, and the trainer's arguments that follow from it."""

from __future__ import annotations

import math
from typing import Any

from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments

from holdfast import precision as arithmetic
from holdfast.data.corpus import SpooledCorpus
from holdfast.input_limits import lowered
from holdfast.launch import processes
from holdfast.model_lookup import model_identity, option_contents, resolve_model
from holdfast.objectives.dimensions import parse_dimensions
from holdfast.prompt import template_length
from holdfast.prompt_tokens import added_tokens
from holdfast.runs.run import Run
from holdfast.text_prompts import prompt_protocol
from holdfast.training.method_options import objective_class
from holdfast.training.train_config import TrainConfig
from holdfast.user_classes import is_user_class, source_sha256

GOAL, MATRYOSHKA = "goal", "matryoshka"
PROTOCOL = (
    *("method", "method_sha256", "preset", "options", "pooling", "lora", MATRYOSHKA, "training", "corpus"),
    *("selection", GOAL, "queries", "query_share", "held_out", "typo_vocabulary", "typo_entries"),
    *("base_model", "base_model_sha256", "max_seq_length", "dimensions", "prompt"),
)
"""The entries of the record that the result's protocol has."""

SELECTION_PROTOCOLS = {
    "stsb-dev": "the step with the best Spearman ×100 on STS-B dev was kept",
    "last": "the last step was kept (no STS-B dev data was used)",
}


def full_record(
    config: TrainConfig, identity: dict[str, Any], corpus: SpooledCorpus, selection: str, model: SentenceTransformer
) -> dict[str, Any]:
    """Return the content of ``run.json``, with which a resumed run must agree."""
    precision = arithmetic.resolve(config.precision, model.device)
    return {
        **identity,
        "training": {**identity["training"], "precision": precision, "processes": processes()},
        "corpus": {
            "source": corpus.source,
            "sentences": corpus.sentences,
            "sha256": corpus.sha256,
            **({} if config.positive_column is None else {"positives": config.positive_column}),
        },
        "selection": selection,
        # A prompt does not shorten the sentence. Vectors are trained at the size in use, after truncate_dim.
        "max_seq_length": lowered(config.max_length, model, template_length(model) + added_tokens(model)),
        "dimensions": model.get_embedding_dimension(),
        **prompt_protocol(model, sides=False),
    }


def settings_record(config: TrainConfig, options: dict[str, Any]) -> dict[str, Any]:
    """Return the part of the record that follows from the settings, without reading data."""
    keys = ("batch_size", "accumulate", "learning_rate", "epochs", "max_steps", "max_length", "seed", "max_grad_norm")
    kind = objective_class(config.method)
    own = {"method_sha256": source_sha256(kind)} if is_user_class(config.method) else {}
    return {
        "method": config.method,
        **own,
        "preset": config.preset,
        "options": options,
        **option_contents(options, kind.FILE_OPTIONS),
        "base_model": config.model,
        "base_model_sha256": model_identity(resolve_model(config.model))["model_sha256"],
        "pooling": config.pooling,
        **({} if config.vectors is None else {"vectors": True}),  # their folder may move
        **({} if config.adapters is None else {"lora": config.adapters.record()}),
        **({} if config.matryoshka is None else {"matryoshka_weights": parse_dimensions(config.matryoshka)}),
        **({"prompt_options": config.prompt_settings} if config.prompt_settings else {}),
        "training": {key: getattr(config, key) for key in keys}
        | _only_given(config, "dropout", "mini_batch_size", "warmup_share"),
        "eval_steps": config.eval_steps,
    }


def _only_given(config: TrainConfig, *names: str) -> dict[str, Any]:
    """Return the settings of these names that are not None: a run without them is recorded as before they existed."""
    return {name: getattr(config, name) for name in names if getattr(config, name) is not None}


def trainer_arguments(
    config: TrainConfig, run: Run, *, evaluations: int | None, on_cpu: bool
) -> SentenceTransformerTrainingArguments:
    """Return the trainer's arguments; ``evaluations`` is their number, None: by ``eval_steps``, 0: there are none."""
    training = run.record["training"]
    steps = config.max_steps or _steps(config, run.record)
    eval_steps = math.ceil(steps / evaluations) if evaluations else config.eval_steps
    return SentenceTransformerTrainingArguments(
        **run.arguments(on_cpu=on_cpu, evaluate=evaluations != 0, eval_steps=max(1, eval_steps), steps=steps),
        per_device_train_batch_size=training["batch_size"] // training["processes"],
        gradient_accumulation_steps=config.accumulate,
        num_train_epochs=config.epochs or 1.0,
        max_steps=config.max_steps or -1,
        lr_scheduler_type="linear",
        warmup_steps=math.ceil((config.warmup_share or 0.0) * steps),
        max_grad_norm=config.max_grad_norm,
        dataloader_drop_last=True,  # a smaller last batch would have fewer negatives
        ddp_find_unused_parameters=False,
        ddp_broadcast_buffers=False,  # rows are grouped by length: ranks must not wait for each other inside a step
        report_to=list(config.report_to) or "none",
    )


def _steps(config: TrainConfig, record: dict[str, Any]) -> float:
    """Return the optimiser steps of a run given by epochs, counted as the trainer counts them."""
    batches: int = record["corpus"]["sentences"] // record["training"]["batch_size"]  # a partial batch is dropped
    return math.ceil(batches / config.accumulate) * (config.epochs or 1.0)
