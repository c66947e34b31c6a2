"""The settings of a fine-tuning run, with their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from holdfast.classifiers.defences import DEFENCES, make_defence
from holdfast.data.tasks import task_named
from holdfast.errors import UserError, one_of
from holdfast.launch import require_single_process
from holdfast.number_ranges import check_numbers
from holdfast.precision import Precision
from holdfast.runs.run_log import RESULT_FILE


@dataclass(frozen=True)
class FinetuneSettings:
    """The settings of a fine-tuning run.

    Attributes:
        model: the encoder to start from: a folder or hub name of a masked LM or a SentenceTransformer.
        task: a labelled task, such as "sst2".
        output: the run's folder, which will hold the finished model; or the file of the result, with a name that ends
            in ``.json``: the model's folder is then that name without ``.json``.
        defence: "none", "adv", "pgd", "freelb", "smart" or "robustembed".
        options: the defence's own options, by name; text values are parsed.
        frozen: fit a logistic regression to the vectors of the frozen encoder.
        train_split: the split to train on; None: ``train``, or ``all`` for a task that has no splits.
        epochs: passes over the training part; None: the defence's default, 4 for adv and 3 for the others.
        max_steps: optimiser steps, in place of epochs.
        batch_size: texts per optimiser step.
        learning_rate: initial learning rate; it falls linearly to 0, without warm-up.
        max_length: tokens per text or pair, in training and in the finished model.
        examples: maximum number of training texts, drawn with the seed; None: all.
        test_examples: maximum number of texts measured in each test split, drawn with the seed; None: all. The
            selection part is not reduced.
        adversarial_texts: results of ``holdfast attack`` on the training split, joined by commas; their adversarial
            texts are added to the training with the labels of the originals.
        seed: random seed of the head, the held-out part, the order and the dropout.
        precision: "auto" (bf16 if the machine supports it and the defence allows it), "fp32" or "bf16"; the result is
            measured in fp32.
        data: the folder of labelled data; None: the folder in HOLDFAST_DATA, or the hub if that is not set.
        save_steps: steps between checkpoints; None: 500, and checkpoints are removed when the run succeeds.
    """

    model: str
    task: str
    output: Path
    defence: str = "none"
    options: Mapping[str, Any] = field(default_factory=dict)
    frozen: bool = False
    train_split: str | None = None
    epochs: float | None = None
    max_steps: int | None = None
    batch_size: int = 32
    learning_rate: float = 2e-5
    max_length: int = 128
    examples: int | None = None
    test_examples: int | None = None
    adversarial_texts: str | None = None
    seed: int = 42
    precision: Precision = "auto"
    data: Path | None = None
    save_steps: int | None = None

    @property
    def folder(self) -> Path:
        """The folder of the model."""
        return self.output.with_suffix("") if self.output.suffix == ".json" else self.output

    @property
    def result_file(self) -> Path:
        """The file of the result."""
        return self.output if self.output.suffix == ".json" else self.output / RESULT_FILE

    def completed(self) -> FinetuneSettings:
        """Return the settings with the defence's defaults for those that were not given.

        Raises:
            UserError: a setting is not valid.
        """
        self.check()
        kind = DEFENCES[self.defence]
        epochs = kind.EPOCHS if self.epochs is None else self.epochs
        return replace(self, epochs=epochs, precision="fp32" if kind.NEEDS_FP32 else self.precision)

    def check(self) -> None:
        """Refuse settings that are not valid.

        Raises:
            UserError: a setting is not valid.
        """
        task = task_named(self.task)
        if task.kind == "attack":
            raise UserError(f"{self.task} is there to be attacked and never trained on: name the task it is from")
        if task.kind not in ("transfer", "classification", "pairs", "nli", "sts", "regression"):
            raise UserError(f"{self.task} has no classes to learn (it is of kind {task.kind}): name a labelled task")
        make_defence(self.defence, self.options)
        if self.frozen and self.defence != "none":
            raise UserError(f"--frozen does not train step by step: leave out --defence {self.defence}")
        one_of("--precision", self.precision, get_args(Precision))
        if self.precision == "bf16" and DEFENCES[self.defence].NEEDS_FP32:
            raise UserError(f"what {self.defence} measures is lost in bf16: leave out --precision, or give fp32")
        if self.frozen and len(task.columns) == 2:
            raise UserError(f"--frozen takes tasks on single texts, and {self.task} has pairs: leave out --frozen")
        require_single_process("finetune")
        check_numbers(self)
        least = 3 + 2 * (len(task.columns) - 1)
        if self.max_length < least:
            raise UserError(
                f"--max-length {self.max_length}: at least {least} tokens are needed to hold a word of each"
            )
        if self.output.suffix == ".json" and self.output.is_dir():
            raise UserError(f"{self.output} is a folder; --output takes a new folder or a FILE.json")
