"""Everything that decides a training run, with its checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from holdfast.bounds import check_numbers
from holdfast.data.registry import is_local
from holdfast.errors import UserError, one_of
from holdfast.launch import processes
from holdfast.objectives import Objective
from holdfast.precision import Precision

Selection = Literal["auto", "stsb-dev", "last"]


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides a training run.

    Attributes:
        method: a method's name, such as "robustembed", or a class of your own, "FILE.py:Class" or "module:Class".
        model: the encoder to start from: a folder or hub name of a masked LM or a SentenceTransformer.
        corpus: where the sentences come from (see :func:`holdfast.data.corpus.read_corpus`).
        output: the run's folder; the finished model is this folder.
        options: the method's own options, by name; text is parsed.
        preset: a preset of the method, such as "as_released".
        column: the corpus column that holds the sentences.
        positive_column: the corpus column that holds a positive of each sentence; None: the method makes its own.
        data: folder of labelled data (STS-B dev for selection, the STS test sets for the report).
        pooling: pooling of a raw masked LM: "cls", "mean", "max" or "prompt".
        epochs: passes over the corpus; None: the method's own.
        max_steps: optimiser steps, in place of epochs.
        batch_size: sentences that are contrasted with one another, over all processes; None: the method's own.
        accumulate: batches per optimiser step.
        learning_rate: peak, falling linearly to 0 without warm-up; None: the method's own.
        max_length: tokens per sentence in training. At evaluation and in the exported model the limit is the model's.
        seed: of the head, the order, the dropout and the attacks.
        precision: "auto" (bf16 where the machine has it), "fp32" or "bf16".
        selection: "stsb-dev": the best step on STS-B dev is kept; "last": the last step; "auto": stsb-dev where the
            data is in ``data``, else last, and the run says which.
        eval_steps: steps between evaluations on STS-B dev.
        save_steps: steps between checkpoints; None: every 500, removed when the run ends well.
        keep_checkpoints: how many checkpoints are kept.
        max_grad_norm: gradients of model and objective together are clipped to this norm; 0: they are not clipped.
        report_to: loggers of the trainer, such as "tensorboard" or "wandb".
        report_sts: measure the finished model on the seven STS test sets where they are in ``data``.
        max_chars: the longest line that a corpus may have.
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
        """The configuration with the method's own defaults where nothing was chosen.

        Raises:
            UserError: a number that makes no sense.
        """
        defaults = {**Objective.TRAINING, **objective.TRAINING}
        chosen = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        config = replace(self, output=Path(self.output), **chosen)
        _check(config)
        return config


def resolved_selection(selection: Selection, data: Path | None) -> Literal["stsb-dev", "last"]:
    """What "auto" stands for: STS-B dev where the data folder has it, else the last step."""
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
