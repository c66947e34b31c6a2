"""The settings of a training run, with their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from holdfast.data.registry import is_local
from holdfast.errors import UserError, one_of
from holdfast.launch import processes
from holdfast.number_ranges import check_numbers
from holdfast.objectives import Objective
from holdfast.precision import Precision

Selection = Literal["auto", "stsb-dev", "last"]


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a training run.

    Attributes:
        method: name of a method, such as "robustembed", or your own class, "FILE.py:Class" or "module:Class".
        model: the encoder to start from: a folder or hub name of a masked LM or a SentenceTransformer.
        corpus: source of the sentences (see :func:`holdfast.data.corpus.read_corpus`).
        output: the run's folder; the finished model is this folder.
        options: options of the method, by name; text values are parsed.
        preset: a preset of the method, such as "as_released".
        column: corpus column with the sentences.
        positive_column: corpus column with a positive of each sentence; None: the method makes its own positives.
        data: folder of labelled data (STS-B dev for selection, the STS test sets for the report).
        pooling: pooling of a raw masked LM: "cls", "mean", "max" or "prompt".
        epochs: passes over the corpus; None: the method's default.
        max_steps: number of optimiser steps; replaces epochs.
        batch_size: sentences per contrastive batch, over all processes; None: the method's default.
        accumulate: batches per optimiser step (gradient accumulation).
        learning_rate: peak learning rate; falls linearly to 0, without warm-up; None: the method's default.
        max_length: tokens per sentence in training. Evaluation and the exported model use the model's own limit.
        seed: random seed (head, order of the corpus, dropout, attacks).
        precision: "auto" (bf16 if the machine is faster with it), "fp32" or "bf16".
        selection: which weights are kept. "stsb-dev": those of the best step on STS-B dev; "last": those of the last
            step; "auto": "stsb-dev" if the data is in ``data``, else "last" (the run reports which).
        eval_steps: steps between evaluations on STS-B dev.
        save_steps: steps between checkpoints; None: 500, and the checkpoints are removed when the run succeeds.
        keep_checkpoints: number of checkpoints to keep.
        max_grad_norm: the gradients of model and objective together are clipped to this norm; 0: no clipping.
        report_to: loggers of the trainer, such as "tensorboard" or "wandb".
        report_sts: evaluate the finished model on the seven STS test sets if they are in ``data``.
        max_chars: maximum length of a corpus line, in characters.
    """

    method: str
    model: str
    corpus: str
    output: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None
    column: str | None = None
    positive_column: str | None = None
    data: Path | None = None
    pooling: str | None = None
    epochs: float | None = None
    max_steps: int | None = None
    batch_size: int | None = None
    accumulate: int = 1
    learning_rate: float | None = None
    max_length: int = 32
    seed: int = 42
    precision: Precision = "auto"
    selection: Selection = "auto"
    eval_steps: int = 125
    save_steps: int | None = None
    keep_checkpoints: int = 2
    max_grad_norm: float = 1.0
    report_to: tuple[str, ...] = ()
    report_sts: bool = True
    max_chars: int = 10_000

    def completed(self, objective: type[Objective]) -> TrainConfig:
        """Return the configuration, with the method's defaults for settings that were not given.

        Raises:
            UserError: a value is out of range.
        """
        defaults = {**Objective.TRAINING, **objective.TRAINING}
        chosen = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        config = replace(self, output=Path(self.output), **chosen)
        _check(config)
        return config


def resolved_selection(selection: Selection, data: Path | None) -> Literal["stsb-dev", "last"]:
    """Resolve "auto": "stsb-dev" if the data folder has STS-B dev, else "last"."""
    if selection != "auto":
        return selection
    return "stsb-dev" if is_local("stsb", "dev", data) else "last"


def _check(config: TrainConfig) -> None:
    one_of("--precision", config.precision, get_args(Precision))
    one_of("--selection", config.selection, get_args(Selection))
    check_numbers(config)
    assert config.batch_size is not None
    if config.batch_size < 2:
        raise UserError(f"--batch-size {config.batch_size}: a contrastive batch needs at least 2 sentences")
    if config.batch_size % processes():
        raise UserError(f"--batch-size {config.batch_size} cannot be divided over {processes()} processes")
    if config.max_length < 3:
        raise UserError(f"--max-length {config.max_length}: at least 3 tokens are needed to hold one word")
