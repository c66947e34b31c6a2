"""The settings of a fine-tuning run, with their checks."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, ClassVar, get_args

from holdfast.data.label_map import LabelMap
from holdfast.errors import UserError, one_of
from holdfast.launch import require_single_process
from holdfast.number_ranges import check_numbers
from holdfast.precision import Precision
from holdfast.settings import ARGUMENT, Assignments, Folder, Spelling
from holdfast.text_prompts import PromptOptions

_OF_TRAINING = ("epochs", "max_steps", "batch_size", "learning_rate", "save_steps")


@dataclass(frozen=True)
class FinetuneSettings(PromptOptions):
    """The settings of a fine-tuning run.

    Attributes:
        model: Encoder to start from, a masked LM or a SentenceTransformer: a folder, a hub name or pypi:….
        task: One of `holdfast data list`, or a FILE.tsv or folder of your own.
        output: Folder of the run and of the model; for FILE.json the result goes there and the model to FILE.
        defence: none, adv, pgd, freelb, smart or robustembed (see docs/finetune.md).
        options: Option of the defence; repeatable.
        frozen: Fit a logistic regression to the vectors and leave the encoder unchanged.
        label_map: The task's class for each class of a classifier whose head is kept: NEGATIVE=neg,POSITIVE=pos; None:
            matched by name.
        train_split: Split to train on; None: train, or all where there is one.
        epochs: Passes over the training part; None: 4 for adv, 3 for the others.
        max_steps: Optimiser steps, in place of --epochs.
        batch_size: Texts per optimiser step.
        learning_rate: Peak learning rate; it falls linearly to 0, without warm-up.
        max_length: Tokens per text or pair, in training and in the finished model.
        examples: Train on this many texts, drawn with --seed; None: all.
        test_examples: Measure on this many texts of each test split, drawn with --seed; None: all.
        adversarial_texts: Train on the texts of this attack on the training split, too; several are joined by commas.
        seed: Random seed.
        precision: auto (bf16 where the machine computes it fast and the defence allows it), fp32 or bf16; the result is
            measured in fp32.
        data: Folder of labelled data sets; None: $HOLDFAST_DATA, else the hub.
        save_steps: Steps between checkpoints; None: 500, removed when the run ends well.
    """

    EXCLUSIVE: ClassVar = (("max_steps", "epochs"),)

    model: Annotated[str, ARGUMENT]
    task: str
    output: Annotated[Path, Spelling(metavar="DIR|FILE.json")]
    defence: str = "none"
    options: Assignments = field(default_factory=dict)
    frozen: bool = False
    label_map: LabelMap | None = None
    train_split: str | None = None
    epochs: float | None = None
    max_steps: int | None = None
    batch_size: int = 32
    learning_rate: float = 2e-5
    max_length: int = 128
    examples: int | None = None
    test_examples: int | None = None
    adversarial_texts: Annotated[str | None, Spelling(metavar="RESULT.json")] = None
    seed: int = 42
    precision: Precision = "auto"
    data: Folder | None = None
    save_steps: int | None = None

    @property
    def folder(self) -> Path:
        """The folder of the model."""
        return self.output.with_suffix("") if self.output.suffix == ".json" else self.output

    @property
    def result_file(self) -> Path:
        """The file of the result."""
        from holdfast.runs.run_log import RESULT_FILE

        return self.output if self.output.suffix == ".json" else self.output / RESULT_FILE

    def completed(self) -> FinetuneSettings:
        """Return the settings with the defence's defaults for those that were not given.

        Raises:
            UserError: a setting is not valid.
        """
        from holdfast.classifiers.defences import DEFENCES
        from holdfast.training.method_options import given_options

        self.check()
        kind = DEFENCES[self.defence]
        epochs = kind.EPOCHS if self.epochs is None else self.epochs
        options = kind.completed_options(given_options(self.defence, kind, self.options), self.data)
        precision = "fp32" if kind.NEEDS_FP32 else self.precision
        return replace(self, epochs=epochs, precision=precision, options=options)

    def check(self) -> None:
        """Refuse settings that are not valid.

        Raises:
            UserError: a setting is not valid.
        """
        from holdfast.classifiers.defences import DEFENCES, make_defence
        from holdfast.data.tasks import task_named

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
        if self.frozen and self.label_map is not None:
            raise UserError("--frozen fits a head of its own: leave out --label-map")
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

    def check_given(self) -> None:
        """Refuse settings of a command that have no effect: a frozen encoder has no training steps.

        Raises:
            UserError: there is such a setting.
        """
        for setting in fields(self) if self.frozen else ():
            if setting.name in _OF_TRAINING and getattr(self, setting.name) != setting.default:
                raise UserError(f"--frozen does not train step by step: leave out --{setting.name.replace('_', '-')}")
