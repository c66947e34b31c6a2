"""Everything that decides a fine-tuning run, with its checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from holdfast.bounds import check_numbers
from holdfast.classifiers.defences import DEFENCES, make_defence
from holdfast.data.tasks import task_named
from holdfast.errors import UserError, one_of
from holdfast.launch import refuse_company
from holdfast.precision import Precision
from holdfast.training.log import RESULT_FILE


@dataclass(frozen=True)
class FinetuneSettings:
    """Everything that decides a fine-tuning run.

    Attributes:
        model: the encoder to start from: a folder or hub name of a masked LM or a SentenceTransformer.
        task: a labelled task, such as "sst2".
        output: the run's folder, which the finished model ends up in; or a name that ends in ``.json`` for the result,
            and then the model's folder is that name without ``.json``.
        defence: "none", "adv", "pgd", "freelb", "smart" or "robustembed".
        options: the defence's own options, by name; text is parsed.
        frozen: fit a logistic regression to the encoder's vectors, which stays as it is.
        train_split: the split to train on; None: ``train``, or ``all`` for a task that has no splits.
        epochs: passes over the training part; None: the defence's own, 4 for adv and 3 for the others.
        max_steps: optimiser steps, in place of epochs.
        batch_size: texts per optimiser step.
        learning_rate: peak, falling linearly to 0 without warm-up.
        max_length: tokens per text or pair, in training and in the finished model.
        examples: train on at most so many texts, drawn by the seed; None: on all.
        test_examples: measure on at most so many texts of each test split, drawn by the seed; None: on all. What
            selects stays whole.
        adversarial_texts: results of ``holdfast attack`` on the training split, whose texts are trained on besides,
            with their originals' labels; several joined by commas.
        seed: of the head, the held-out part, the order and the dropout.
        precision: "auto" (bf16 where the machine has it and the defence can do with it), "fp32" or "bf16"; the result
            is measured in fp32.
        data: the folder of labelled data; None: the one HOLDFAST_DATA names, and without that the hub.
        save_steps: steps between checkpoints; None: every 500, removed when the run ends well.
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
        """Where the model goes."""
        return self.output.with_suffix("") if self.output.suffix == ".json" else self.output

    @property
    def result_file(self) -> Path:
        """Where the result goes."""
        return self.output if self.output.suffix == ".json" else self.output / RESULT_FILE

    def completed(self) -> FinetuneSettings:
        """The settings with the defence's own where nothing was chosen.

        Raises:
            UserError: one of them makes no sense.
        """
        self.check()
        kind = DEFENCES[self.defence]
        epochs = kind.EPOCHS if self.epochs is None else self.epochs
        return replace(self, epochs=epochs, precision="fp32" if kind.NEEDS_FP32 else self.precision)

    def check(self) -> None:
        """Refuse settings that make no sense.

        Raises:
            UserError: one of them does not.
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
        refuse_company("finetune")
        check_numbers(self)
        least = 3 + 2 * (len(task.columns) - 1)
        if self.max_length < least:
            raise UserError(
                f"--max-length {self.max_length}: at least {least} tokens are needed to hold a word of each"
            )
        if self.output.suffix == ".json" and self.output.is_dir():
            raise UserError(f"{self.output} is a folder; --output takes a new folder or a FILE.json")
