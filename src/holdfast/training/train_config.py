"""The settings of a training run, with their checks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

from holdfast.adapters import Lora
from holdfast.errors import UserError, one_of
from holdfast.launch import processes
from holdfast.number_ranges import check_numbers
from holdfast.precision import Precision
from holdfast.settings import ARGUMENT, Assignments, Folder, Spelling
from holdfast.text_prompts import PromptOptions

if TYPE_CHECKING:
    from holdfast.objectives import Objective

Selection = Literal["auto", "stsb-dev", "last"]


@dataclass(frozen=True)
class TrainConfig(PromptOptions):
    """Settings of a training run.

    Attributes:
        method: simcse, consert, ct, v-advcse, robustembed, adcl, adcse, l2p-csr, combined, anchored, rankcse,
            simcse-plus or diffcse (see `holdfast methods`), or a class of your own: FILE.py:Class or module:Class.
        model: Encoder to start from, a masked LM or a SentenceTransformer: a folder, a hub name, bundled or
            bundled-mlm.
        corpus: Sentences: a text file (a sentence per line), .tsv, .jsonl, .parquet, hf:NAME, or - (stdin).
        output: Folder of the run and of the finished model.
        options: Option of the method; repeatable.
        preset: Preset of the method, such as as_released.
        column: Column of the corpus that holds the sentences.
        positive_column: Column of the corpus that holds a positive of each sentence, for methods that take positives.
        data: Folder of labelled data sets: STS-B dev for the selection, the STS test sets for the report; None:
            $HOLDFAST_DATA, else the hub.
        pooling: cls, mean, max, lasttoken, last-two (layers) or prompt, for a raw language model; None: cls, of
            decoders lasttoken.
        lora: Train adapters alone (LoRA): r=16, alpha=32 (2·r), dropout=0, targets=query+value (all linear maps in the
            layers), save=merged (into the finished model) or adapter (alone, for the same base model); needs peft.
        matryoshka: Numbers of dimensions to which vectors will be shortened, as 256,64: the loss is the mean over them
            and the whole vector, or weighted as 256:0.5,64:0.25.
        epochs: Passes over the corpus; None: the method's.
        max_steps: Optimiser steps, in place of --epochs.
        batch_size: Sentences contrasted with one another, over all processes; None: the method's.
        mini_batch_size: Rows per pass of the encoder at most, for batches beyond the memory: loss and gradient are
            those of the whole batch, for about a third more time; None: all in one pass.
        accumulate: Batches per optimiser step.
        learning_rate: Peak learning rate; it falls linearly to 0; None: the method's.
        warmup_share: Share of the steps in which the learning rate rises linearly from 0; None: none.
        max_length: Tokens per sentence in training; evaluation and the finished model use the model's own limit.
        seed: Random seed.
        precision: auto (bf16 where the machine computes it fast), fp32 or bf16.
        selection: stsb-dev (keep the best step on STS-B dev), last, or auto (stsb-dev if its data is at hand).
        eval_steps: Steps between evaluations on STS-B dev.
        save_steps: Steps between checkpoints; None: 500, removed when the run ends well.
        keep_checkpoints: Checkpoints to keep.
        dropout: Dropout probability in training, for a model that has another one or none, as most decoders; the
            finished model's configuration does not change; None: the model's own.
        max_grad_norm: Largest norm of the gradient, to which it is clipped; 0: no clipping.
        report_to: Loggers, joined by commas: tensorboard, wandb, ...
        report_sts: Measure the finished model on STS where its data is at hand.
        max_chars: Longest line of the corpus, in characters.
        plan: Say what a step costs in memory and operations, and which mini-batch fits, and stop.
        plan_memory: Memory of the GPU for the plan; None: 24GB.
        vectors: Folder for the vectors of the model to start from, computed once for all training texts and kept, for
            anchored, and rankcse without a named teacher, which then make no pass of the original in a step; worth it
            for several epochs or runs.
    """

    EXCLUSIVE: ClassVar = (("max_steps", "epochs"),)

    method: Annotated[str, ARGUMENT]
    model: str
    corpus: str
    output: Folder
    options: Assignments = field(default_factory=dict)
    preset: str | None = None
    column: str | None = None
    positive_column: str | None = None
    data: Folder | None = None
    pooling: str | None = None
    lora: Annotated[str | None, Spelling(metavar="r=N,...")] = None
    matryoshka: Annotated[str | None, Spelling(metavar="N,...")] = None
    epochs: float | None = None
    max_steps: int | None = None
    batch_size: int | None = None
    mini_batch_size: int | None = None
    accumulate: int = 1
    learning_rate: float | None = None
    warmup_share: float | None = None
    max_length: int = 32
    seed: int = 42
    precision: Precision = "auto"
    selection: Selection = "auto"
    eval_steps: int = 125
    save_steps: int | None = None
    keep_checkpoints: int = 2
    dropout: float | None = None
    max_grad_norm: float = 1.0
    report_to: tuple[str, ...] = ()
    report_sts: bool = True
    max_chars: int = 10_000
    vectors: Folder | None = None
    plan: bool = False
    plan_memory: Annotated[str | None, Spelling(metavar="GB")] = None

    @property
    def adapters(self) -> Lora | None:
        """The settings of ``lora``.

        Raises:
            UserError: they have an unknown name or a wrong value.
        """
        return None if self.lora is None else Lora.parse(self.lora)

    def completed(self, objective: type[Objective]) -> TrainConfig:
        """Return the configuration, with the method's defaults for settings that were not given.

        Raises:
            UserError: a value is out of range.
        """
        from holdfast.objectives import Objective

        defaults = {**Objective.TRAINING, **objective.TRAINING}
        chosen = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        config = replace(self, output=Path(self.output), **chosen)
        _check(config)
        return config


def resolved_selection(selection: Selection, data: Path | None) -> Literal["stsb-dev", "last"]:
    """Resolve "auto": "stsb-dev" if the data folder has STS-B dev, else "last"."""
    from holdfast.data.registry import is_local

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
    if config.warmup_share is not None and not 0 <= config.warmup_share < 1:
        raise UserError(f"--warmup-share must be from 0 to below 1, got {config.warmup_share}")
    if config.dropout is not None and not 0 <= config.dropout < 1:
        raise UserError(f"--dropout {config.dropout:g}: a probability from 0 to less than 1 is needed")
    for name in config.report_to:
        _check_logger(name)


def _check_logger(name: str) -> None:
    """Refuse a logger that the trainer does not know or that is not installed, before the model is loaded."""
    from transformers.integrations.integration_utils import (
        INTEGRATION_TO_CALLBACK,
        get_available_reporting_integrations,
    )

    one_of("--report-to", name, tuple(INTEGRATION_TO_CALLBACK))
    if name not in get_available_reporting_integrations():
        raise UserError(f"--report-to {name}: {name} is not installed: pip install {name.replace('_', '-')}")
