"""The settings of a pretraining run, with their checks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from holdfast.errors import UserError, did_you_mean, one_of
from holdfast.files import expanded
from holdfast.launch import require_single_process
from holdfast.number_ranges import check_numbers, in_range
from holdfast.precision import Precision
from holdfast.settings import Folder, Spelling

Export = Literal["fp32", "fp16"]

# Defaults of a new model.
_SHAPE = {"layers": 4, "hidden": 256, "heads": 4, "dropout": 0.1}
_VOCABULARY = 12_000
_LENGTHS = ("max_steps", "epochs", "hours")
_SIZES = ("layers", "hidden", "heads", "intermediate", "vocabulary")
_OF_A_NEW_MODEL = (*_SIZES, "tokenizer")


@dataclass(frozen=True)
class PretrainSettings:
    """Settings of a pretraining run.

    Attributes:
        corpus: Sentences: a text file (a sentence per line), .tsv, .jsonl, .parquet, hf:NAME, or - (stdin).
        output: Folder of the run and of the finished model.
        model: A masked LM to continue: a folder or a hub name; None: a new one.
        layers: Layers of a new model; None: 4.
        hidden: Width of a new model; None: 256.
        heads: Attention heads of a new model; None: 4.
        intermediate: Width of the feed-forward layers of a new model; None: 4 x hidden.
        vocabulary: Size of a new model's WordPiece vocabulary, trained on the corpus; None: 12000.
        tokenizer: Folder or hub model whose tokeniser is used instead of a new vocabulary.
        max_steps: Optimiser steps, in place of --epochs.
        epochs: Passes over the corpus; None: 1.
        hours: Duration, in place of --epochs; the learning rate follows the elapsed share of it.
        batch_tokens: Tokens per optimiser step, special tokens included.
        learning_rate: Peak learning rate; it rises and falls linearly.
        warmup_share: Share of the run in which the learning rate rises.
        weight_decay: Weight decay of AdamW, except of biases and layer norms.
        dropout: Dropout in training; the configuration of the finished model does not change; None: 0.1, or that of
            --model.
        mask_share: Share of the tokens to predict.
        whole_words: Mask whole words, not pieces.
        max_length: Tokens per sentence, and positions of a new model.
        held_out: Sentences to measure perplexity on, which are kept out of training; as --corpus.
        column: Column of the corpus that holds the sentences.
        data: Folder of local data sets; None: $HOLDFAST_DATA, else the hub.
        max_chars: Longest line of the corpus, in characters.
        seed: Random seed.
        precision: auto (bf16 where the machine computes it fast), fp32 or bf16.
        eval_steps: Steps between measurements on the held-out sentences.
        save_steps: Steps between checkpoints; None: 500, removed when the run ends well.
        keep_checkpoints: Checkpoints to keep.
        export: Precision of the stored weights: fp32 or fp16.
        attribution: Source and licence of the corpus, for the model card; None: those of a known corpus.
        prompts: A sentence with [MASK] to show filled in; repeatable.
    """

    EXCLUSIVE: ClassVar = (_LENGTHS, ("vocabulary", "tokenizer"))

    corpus: str
    output: Folder
    model: str | None = None
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    intermediate: int | None = None
    vocabulary: int | None = None
    tokenizer: str | None = None
    max_steps: int | None = None
    epochs: float | None = None
    hours: float | None = None
    batch_tokens: int = 8192
    learning_rate: float = 1e-3
    warmup_share: float = 0.06
    weight_decay: float = 0.01
    dropout: float | None = None
    mask_share: float = 0.15
    whole_words: bool = False
    max_length: int = 128
    held_out: str | None = None
    column: str | None = None
    data: Folder | None = None
    max_chars: int = 10_000
    seed: int = 42
    precision: Precision = "auto"
    eval_steps: int = 500
    save_steps: int | None = None
    keep_checkpoints: int = 2
    export: Export = "fp32"
    attribution: str | None = None
    prompts: Annotated[tuple[str, ...], Spelling(flag="--prompt", repeated=True)] = ()

    def completed(self) -> PretrainSettings:
        """Return the settings, completed by the defaults that depend on other settings.

        Raises:
            UserError: a value is out of range, or two settings exclude each other.
        """
        self._check_choices()
        chosen: dict[str, Any] = {"output": Path(self.output)}
        if self.model is None:
            chosen |= {name: value for name, value in _SHAPE.items() if getattr(self, name) is None}
            chosen["intermediate"] = self.intermediate or 4 * (self.hidden or int(_SHAPE["hidden"]))
            if self.tokenizer is None:
                chosen["vocabulary"] = self.vocabulary or _VOCABULARY
        if self.max_steps is None and self.hours is None and self.epochs is None:
            chosen["epochs"] = 1.0
        settings = replace(self, **chosen)
        settings._check_numbers()
        return settings

    @staticmethod
    def find_config(config: str) -> Path:
        """Return the path of a configuration file, or of the packaged recipe of that name.

        Raises:
            UserError: neither exists.
        """
        path = expanded(config)
        if path.exists():
            return path
        folder = Path(str(resources.files("holdfast.pretraining"))) / "recipes"
        known = sorted(file.stem for file in folder.glob("*.yaml"))
        if config in known:
            return folder / f"{config}.yaml"
        hint = did_you_mean(config, known)
        raise UserError(f"no configuration file and no recipe is called {config!r}{hint}; recipes: {', '.join(known)}")

    def _check_choices(self) -> None:
        one_of("--precision", self.precision, get_args(Precision))
        one_of("--export", self.export, get_args(Export))
        require_single_process("pretrain")
        _exclude(*(name for name in _LENGTHS if getattr(self, name) is not None))
        _exclude(*(name for name in ("vocabulary", "tokenizer") if getattr(self, name) is not None))
        for name in _OF_A_NEW_MODEL if self.model is not None else ():
            if getattr(self, name) is not None:
                raise UserError(f"--{name} is for a new model, and --model continues one: leave out one of them")

    def _check_numbers(self) -> None:
        check_numbers(self)
        for name in ("warmup_share", "weight_decay", "dropout"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise UserError(f"--{name.replace('_', '-')} must be from 0 to below 1, got {value}")
        if not 0 < self.mask_share < 1:
            raise UserError(f"--mask-share must lie between 0 and 1, got {self.mask_share}")
        in_range("max_length", self.max_length, least=3)
        if self.hidden is not None and self.heads is not None and self.hidden % self.heads:
            raise UserError(f"--hidden {self.hidden} cannot be divided over --heads {self.heads}")


def _exclude(*names: str) -> None:
    if len(names) > 1:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in names[:2])
        raise UserError(f"{options} exclude each other: give one of them")
