"""The settings of a pretraining run, with their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from holdfast.errors import UserError, did_you_mean, one_of
from holdfast.launch import require_single_process
from holdfast.number_ranges import check_numbers, in_range
from holdfast.option_parsing import expanded, fitted
from holdfast.precision import Precision
from holdfast.training.config_file import config_entries

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
        corpus: source of the sentences (see :func:`holdfast.data.corpus.read_corpus`).
        output: the run's folder; the finished model is this folder.
        model: a masked LM to continue, as a folder or hub name; None: a new model of the shape below.
        layers: number of layers of a new model; None: 4.
        hidden: hidden size of a new model; None: 256.
        heads: attention heads of a new model; None: 4.
        intermediate: size of the feed-forward layers of a new model; None: four times ``hidden``.
        vocabulary: size of a WordPiece vocabulary trained on the corpus, for a new model; None: 12,000.
        tokenizer: an existing tokeniser, as a folder or hub name, in place of a new vocabulary.
        max_steps: number of optimiser steps.
        epochs: passes over the corpus, in place of max_steps; 1 if none of max_steps, epochs and hours is given.
        hours: duration of the training, in place of steps; the learning rate follows the elapsed share of it.
        batch_tokens: tokens per optimiser step, [CLS] and [SEP] included.
        learning_rate: peak learning rate, after a linear warm-up; it then falls linearly to 0.
        warmup_share: share of the run for the warm-up.
        weight_decay: weight decay of all weights except biases and layer norms.
        dropout: dropout probability in training; None: 0.1 for a new model, else the model's own. It does not change
            the finished model's configuration, which has 0.1 or the model's own.
        mask_share: probability that a token is predicted.
        whole_words: mask all pieces of a word or none.
        max_length: maximum tokens per sentence, and number of positions of a new model.
        held_out: sentences to measure perplexity on, excluded from training.
        column: corpus column with the sentences.
        data: folder of local data sets.
        max_chars: maximum length of a corpus line, in characters.
        seed: random seed (weights, order, masks, dropout).
        precision: "auto" (bf16 if the machine is faster with it), "fp32" or "bf16".
        eval_steps: steps between evaluations on the held-out sentences.
        save_steps: steps between checkpoints; None: 500, and the checkpoints are removed when the run succeeds.
        keep_checkpoints: number of checkpoints to keep.
        export: precision of the stored weights, "fp32" or "fp16".
        attribution: origin and licence of the corpus, for the model card; None: those of a known corpus.
        prompts: sentences with a mask token; card and result show their five most probable words.
    """

    corpus: str
    output: Path
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
    data: Path | None = None
    max_chars: int = 10_000
    seed: int = 42
    precision: Precision = "auto"
    eval_steps: int = 500
    save_steps: int | None = None
    keep_checkpoints: int = 2
    export: Export = "fp32"
    attribution: str | None = None
    prompts: tuple[str, ...] = ()

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


def pretrain_settings(config: str | None, given: Mapping[str, Any]) -> PretrainSettings:
    """Return the settings of a run; the command line takes precedence over the configuration file.

    Args:
        config: a YAML file with the names of settings as keys, or the name of a recipe that comes with the package.
        given: settings from the command line, by name.

    Raises:
        UserError: the file cannot be read, a key is unknown, a value has a wrong type (with ``file:line``), or a
            required setting is missing.
    """
    hints = get_type_hints(PretrainSettings)
    values: dict[str, Any] = {}
    if config is not None:
        for key, value, where in config_entries(recipe_path(config), hints):
            values[key] = fitted(f"{where}: {key}", value, hints[key], key)
    for group in (_LENGTHS, ("vocabulary", "tokenizer")):
        if any(name in given for name in group):  # overrides the alternatives in the file
            values = {key: value for key, value in values.items() if key not in group}
    for key, value in given.items():
        values[key] = fitted(f"--{key.replace('_', '-')}", value, hints[key], key)
    for name in ("corpus", "output"):
        if name not in values:
            raise UserError(f"missing: --{name} (on the command line or in --config)")
    return PretrainSettings(**values)


def recipe_path(config: str) -> Path:
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


def _exclude(*names: str) -> None:
    if len(names) > 1:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in names[:2])
        raise UserError(f"{options} exclude each other: give one of them")
