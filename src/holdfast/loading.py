"""Loading of models with the libraries: without output, with size limits, and with checks of their warnings.

Every loader of a model uses the context manager `loading`. It compares the model with the headers of its weights, so
that a configuration of ten million layers is refused before the model is built; it turns the errors of four libraries
into one line; and it reports the libraries' warnings that affect the model's numbers as a `Notice`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import logging
import math
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.adapter_folder import base_folder
from holdfast.errors import UserError, emit_notice, first_line
from holdfast.model_folder import (
    ADAPTER_CONFIG,
    STATIC,
    TRANSFORMERS,
    WEIGHTS,
    Module,
    config_file,
    json_entries,
    model_modules,
    read_json,
    read_json_object,
    weights_files,
)

if TYPE_CHECKING:
    import torch

_LIBRARIES = ("transformers", "sentence_transformers", "huggingface_hub")
_REPORT_ROW = re.compile(r"(\S.*?)\s*\|\s*(UNEXPECTED|MISSING|MISMATCH)\s*\|(.*)")
_SHAPES = re.compile(r"ckpt: torch\.Size\(\[(.*?)\]\) vs model:\s*torch\.Size\(\[(.*?)\]\)")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PASSING = re.compile(
    r"deprecat|will be removed|is_decoder|LOAD REPORT|seem corrupted|[be]os_token_id must be", re.IGNORECASE
)
"""Warnings that affect no number, or that are reported in another way."""
_USUAL_HEADS = re.compile(
    r"(cls|lm_head|predictions|lm_predictions|mask_predictions|mlm_head|vocab_(transform|layer_norm|projector)"
    r"|generator_(predictions|lm_head)|discriminator_predictions|head\.(dense|norm)|decoder\.(weight|bias))(\.|$)"
    r"|decoder\.(weight|bias)$|(^|.*\.)(pooler\..*|position_ids|inv_freq|masked_bias|attn\.bias)$"
)
"""Tensors of pre-training heads, and computed tables, which an encoder is expected to leave out."""
_LAYERS = re.compile(r"(layers?|blocks|depth)$")
_HEADS = re.compile("(?:attention|num|n)_heads?$")
_MOST_LAYERS_UNSEEN, _MOST_LABELS_UNSEEN = 1000, 10_000
_LONGEST_UNSEEN = 4096
_SPARE_TENSORS, _SPARE_NUMBERS, _COPIES = 64, 1 << 24, 4
"""Allowance for tensors that are not in the weights: a new head, copies of tied tensors before they are tied."""
_LARGEST_TABLES = 1 << 28


@dataclass
class LoadFindings:
    """Findings while a model was loaded.

    Attributes:
        left_out: tensors of the weights that the model does not use, except those of pre-training heads.
        missing: tensors of the model that are not in its weights.
        notices: lines on how the model is read, without its name.
    """

    left_out: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def notify(self, line: str, spec: str) -> None:
        """Emit a notice on the model that ``spec`` names."""
        self.notices.append(line)
        emit_notice(f"{spec} {line}")


@contextlib.contextmanager
def quiet() -> Iterator[list[str]]:
    """Suppress load reports, warnings and progress bars; yield the list that collects the warnings."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
    from transformers.utils import logging as hf_logging

    hf_bar, hub_bar = hf_logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    caught = _WarningCollector()
    loggers = [logging.getLogger(name) for name in _LIBRARIES]
    before = [(logger.level, logger.handlers, logger.propagate) for logger in loggers]
    hf_logging.disable_progress_bar()
    disable_progress_bars()
    for logger in loggers:
        logger.handlers, logger.propagate = [caught], False
        logger.setLevel(logging.WARNING)
    try:
        yield caught.lines
    finally:
        for logger, (level, handlers, propagate) in zip(loggers, before, strict=True):
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
        if hf_bar:
            hf_logging.enable_progress_bar()
        if hub_bar:
            enable_progress_bars()


@contextlib.contextmanager
def loading(folder: Path, spec: str) -> Iterator[LoadFindings]:
    """Load without output and with size limits from the weights; report notices, and any error in one line.

    The folder is a model's, as returned by :func:`holdfast.model_lookup.resolve_model`, or that of its transformer. The
    yielded findings are complete when the block has ended.

    Raises:
        UserError: the model cannot be loaded; the message names the cause.
    """
    reading = LoadFindings()
    with quiet() as caught, _one_line_errors(folder, spec, caught), _size_limited(folder, spec):
        yield reading
    for name, kind, _ in sorted(_report(caught)):
        if kind == "MISSING":
            reading.missing.append(name)
        elif kind == "UNEXPECTED" and not _USUAL_HEADS.match(name):
            reading.left_out.append(name)
    for line in dict.fromkeys(message.strip().partition("\n")[0] for message in caught):
        if not _PASSING.search(line):
            reading.notify(f"is loaded with this warning: {line}", spec)


def warn_unused_weights(reading: LoadFindings, spec: str) -> None:
    """Report the tensors of a model's weights that are not used."""
    if names := reading.left_out:
        shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        reading.notify(f"is read without {shown} of its weights: what it is read as has no place for them", spec)


# --- bounds ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Headers:
    """The tensors in the headers of weights files: shapes by file and name."""

    shapes: dict[Path, dict[str, tuple[int, ...]]]

    @property
    def tensors(self) -> int:
        return sum(map(len, self.shapes.values()))

    @property
    def longest(self) -> int:
        return max(
            (length for shapes in self.shapes.values() for shape in shapes.values() for length in shape), default=0
        )

    @property
    def numbers(self) -> int:
        return sum(math.prod(shape) for shapes in self.shapes.values() for shape in shapes.values())


@contextlib.contextmanager
def _size_limited(folder: Path, spec: str) -> Iterator[None]:
    """Refuse a model that is much larger than its weights: by its configuration, and while it is built."""
    from torch.nn.modules.module import (
        register_module_buffer_registration_hook,
        register_module_parameter_registration_hook,
    )

    files = ("modules.json", "config.json", ADAPTER_CONFIG)
    is_model = any((folder / name).is_file() for name in files)  # else only a tokeniser
    modules = model_modules(folder, spec) if is_model else []
    headers = _headers(_all_weights(folder, spec) if modules else [])
    for module in modules:
        _check_settings(module, headers, spec)
    tensors, numbers = _COPIES * headers.tensors + _SPARE_TENSORS, _COPIES * headers.numbers + _SPARE_NUMBERS
    count = {"tensors": 0, "numbers": 0, "tables": 0}

    def parameter(_module: Any, name: str, value: torch.Tensor | None) -> None:
        count["tensors"] += 1
        count["numbers"] += 0 if value is None else value.numel()
        if count["tensors"] > tensors or count["numbers"] > numbers:
            requested = f"{count['tensors']:,} tensors or more, of {count['numbers']:,} numbers or more"
            raise UserError(
                f"{spec}: the weights do not match config.json: it asks for {requested} (at {name}), and the weights "
                f"hold {headers.tensors:,} tensors of {headers.numbers:,} numbers"
            )

    def table(_module: Any, name: str, value: torch.Tensor | None) -> None:
        count["tables"] += 0 if value is None else value.numel()
        if count["tables"] > _LARGEST_TABLES:
            raise UserError(f"{spec}: config.json asks for tables of more than {_LARGEST_TABLES:,} numbers (at {name})")

    hooks = [register_module_parameter_registration_hook(parameter), register_module_buffer_registration_hook(table)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _all_weights(folder: Path, spec: str) -> list[Path]:
    """Return the weights files of a model, and of the base model of an adapter."""
    from holdfast.model_lookup import resolve_model  # which needs this module

    base = base_folder(folder, spec, resolve_model)
    return weights_files(folder, spec) + ([] if base is None else weights_files(base))


def _headers(files: list[Path]) -> _Headers:
    from safetensors import safe_open

    shapes: dict[Path, dict[str, tuple[int, ...]]] = {}
    for path in files:
        with safe_open(str(path), framework="pt") as file:
            shapes[path] = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    return _Headers(shapes)


def _check_settings(module: Module, headers: _Headers, spec: str) -> None:
    """Refuse settings that ask for more than the weights contain, before the model is built."""
    path = config_file(module)
    if not path.is_file() or module.kind == STATIC:  # whose size is that of its weights; it reads no settings
        return
    settings = read_json_object(path)
    own = headers.shapes.get(module.folder / WEIGHTS, {})
    if module.kind in TRANSFORMERS:
        for key, value in _numbers(settings):
            if _LAYERS.search(key) and value > max(_MOST_LAYERS_UNSEEN, headers.tensors):
                raise UserError(
                    f"{spec}: the weights do not match config.json: it asks for {value:,} layers ({key}), and the "
                    f"weights hold {headers.tensors:,} tensors"
                )
            if _HEADS.search(key) and value < 1:
                raise UserError(f"{spec}: config.json asks for {value:,} attention heads ({key}): at least 1 is needed")
            if key == "num_labels" and value > max(_MOST_LABELS_UNSEEN, headers.longest):
                raise UserError(
                    f"{spec}: the weights do not match config.json: it asks for {value:,} labels (num_labels), and no "
                    f"tensor is longer than {headers.longest:,}"
                )
    elif own:
        _check_module(module.kind, settings, own, f"{spec}: the weights do not match {path.parent.name}/{path.name}")


def _check_module(kind: str, settings: dict[str, Any], own: dict[str, tuple[int, ...]], where: str) -> None:
    if kind == "Dense" and "linear.weight" in own:
        requested, found = (settings.get("out_features"), settings.get("in_features")), own["linear.weight"]
        if requested != found:
            raise UserError(f"{where}: linear.weight is {_shape(found)}, and it asks for {_shape(requested)}")
    largest = max(_LONGEST_UNSEEN, _Headers({Path(): own}).longest)
    for key, value in _numbers(settings):
        if key != "max_seq_length" and value > largest:
            raise UserError(f"{where}: it asks for {value:,} ({key}), and no tensor is longer than {largest:,}")


def _numbers(values: Any) -> Iterator[tuple[str, int]]:
    """Yield each key and whole number of nested JSON."""
    for key, value in json_entries(values, ("vocab", "stop_words")):
        if isinstance(value, int) and not isinstance(value, bool):
            yield key.rstrip("[]"), value


def _shape(lengths: Any) -> str:
    return " x ".join(map(str, lengths)) or "one number"


# --- errors ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _one_line_errors(folder: Path, spec: str, caught: list[str]) -> Iterator[None]:
    """Turn any error of the loaders into one line that names the cause."""
    import torch
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        raise UserError(f"{spec}: the weights file is damaged or cut short ({first_line(error)})") from error
    except torch.OutOfMemoryError as error:
        raise UserError(f"{spec} does not fit in this device's memory") from error
    except UserError:
        raise
    # Four libraries read these files and raise a dozen unrelated classes of errors; the cause stays attached.
    except Exception as error:
        for name, kind, details in _report(caught):
            if kind == "MISMATCH" and (shapes := _SHAPES.search(details)):
                found, requested = (_shape(part.split(", ")) for part in shapes.groups())
                raise UserError(
                    f"{spec}: the weights do not match config.json: {name} is {found}, and config.json asks "
                    f"for {requested}"
                ) from error
        # The loaders' messages on a damaged JSON file are misleading; its name and line are more useful.
        for file in sorted(folder.glob("*.json")):
            read_json(file)
        if model := _unread_sentencepiece(folder):
            raise UserError(
                f"the tokeniser of {spec} ({model}) needs SentencePiece: pip install sentencepiece"
            ) from error
        raise UserError(f"{spec} cannot be loaded: {_cause(folder, error)}") from error


def _unread_sentencepiece(folder: Path) -> str | None:
    """Return the name of a tokeniser's only file if it needs SentencePiece, which is not installed; else None."""
    if (folder / "tokenizer.json").is_file() or importlib.util.find_spec("sentencepiece") is not None:
        return None
    return next((file.name for ending in ("model", "spm") for file in sorted(folder.glob(f"*.{ending}"))), None)


def _cause(folder: Path, error: Exception) -> str:
    """Return the cause: the tokeniser's own error if transformers only reports that it found no kind of processor."""
    from transformers import AutoProcessor, AutoTokenizer

    frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    if frames and frames[-1] is inspect.unwrap(AutoProcessor.from_pretrained).__code__:
        try:
            AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as own:
            return f"its tokeniser: {first_line(own)}"
    return f"there is no {error}" if isinstance(error, KeyError) else first_line(error)


# --- warnings of the libraries ---------------------------------------------------------------------------------------


class _WarningCollector(logging.Handler):
    """A logging handler that keeps the warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):  # the arguments do not fit the message
            self.lines.append(COLOUR.sub("", record.getMessage()))


def _report(caught: list[str]) -> list[tuple[str, str, str]]:
    """Return the rows of transformers' load reports: name of the tensor, status, and details."""
    rows = [
        _REPORT_ROW.fullmatch(line.strip()) for text in caught if "LOAD REPORT" in text for line in text.splitlines()
    ]
    return [(row[1], row[2], row[3]) for row in rows if row]
