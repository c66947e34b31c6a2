"""What a run writes while it goes on (``metrics.jsonl``), read again: for the report and for ``watch``.

A record is one JSON object a line with its ``step`` and the ``time`` it was written (seconds since 1970). Records with
a ``loss`` hold the loss, its terms by name and diagnostics; records with ``eval_...`` hold a measurement on the way.
Records with a ``state`` say when a part of the run began, and how it ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import UserError
from holdfast.results import is_number

RUN_FILE = "run.json"
"""What decides a run, beside its log."""
METRICS_FILE = "metrics.jsonl"
RESULT_FILE = "results.json"
TRAININGS = ("train", "finetune", "pretrain")
"""Kinds of results beside which a run leaves its log."""
BEGUN, TRAINED, STOPPED, FAILED = "begun", "trained", "stopped", "failed"
"""States: a part of the run began; it made its last step; a person stopped it; an error did."""

RISE = "attack_loss_rise"
"""How much the attack raised the loss that it ascends, in the last step."""
RISES = (RISE, "weakening_loss_rise")
DUPLICATES, IN_QUEUE = "duplicates", "duplicates_in_queue"
"""The share of the sentences in a batch that have an equal one in it, and in the queue of old keys."""
_FORMER_NAMES: Mapping[Any, str] = {"attack_rise": RISE}  # what V-advCSE called it

DIAGNOSTICS = frozenset(
    (
        *RISES,
        *("delta_norm", "gradient_share", "negatives_gradient_norm", "positive_similarity", "negatives_similarity"),
        *("positive_product", "negative_product", "queue_filled", "weakened_tokens", "weakened_features"),
        *("unattacked", "unchanged", "attacked", "replaced_words", "attack_seconds"),
        *(DUPLICATES, IN_QUEUE),
        *("tokens", "tokens_per_second", "elapsed"),
    )
)
"""What methods and defences log beside the terms of their loss, and what pre-training counts."""
_OF_TRAINER = frozenset(("step", "time", "epoch", "loss", "grad_norm", "learning_rate", "total_flos"))

Record = Mapping[str, Any]
Curve = list[tuple[float, float]]


def read_log(path: Path) -> tuple[dict[str, Any], ...]:
    """The records of a log that stand; none where there is no file.

    A line that a kill cut short, or that is being written, is left out. Where a resumed run goes back, what is told
    again takes the place of what was told before.

    Raises:
        UserError: the file is there and cannot be read.
    """
    return parse_log(_text_of(path))


def damaged_lines(path: Path) -> list[int]:
    """Return the numbers, from 1, of the lines of a log that hold no record; none where there is no file.

    A last line without a line break is not counted: it is being written, or a kill has cut it short.

    Raises:
        UserError: the file is there and cannot be read.
    """
    whole = _text_of(path).split("\n")[:-1]
    return [number for number, line in enumerate(whole, start=1) if line.strip() and _record(line) is None]


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from error


def parse_log(text: str) -> tuple[dict[str, Any], ...]:
    """As `read_log`, of the file's text."""
    records: list[dict[str, Any]] = []
    trained = 0  # the last step whose loss was told
    for line in text.split("\n"):
        record = _record(line)
        if record is None:
            continue
        step = record["step"]
        if record.get("state") == BEGUN:  # at a checkpoint, whose own step is not told again
            records = [kept for kept in records if kept["step"] <= step]
            trained = min(trained, step)
        elif "loss" in record:
            if step < trained:
                records = [kept for kept in records if kept["step"] < step]
            trained = step
        records.append(record)
    return tuple(records)


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or type(record.get("step")) is not int:
        return None
    return {_FORMER_NAMES.get(name, name): value for name, value in record.items()}


def number_of(value: Any) -> float | None:
    """A finite number, or None for anything else."""
    return float(value) if is_number(value) else None


def curve(records: Iterable[Record], name: str) -> Curve:
    """(step, value) of one quantity: finite ones, of a step told twice the later."""
    found = {}
    for record in records:
        value = number_of(record.get(name))
        if value is not None:
            found[float(record["step"])] = value
    return sorted(found.items())


def terms_of(records: Sequence[Record]) -> list[str]:
    """The names of the loss's terms: what is logged beside the loss and is neither a score nor a diagnostic."""
    names = dict.fromkeys(name for record in records if "loss" in record for name in record)
    return [
        name
        for name in names
        if name not in DIAGNOSTICS | _OF_TRAINER
        and not name.startswith(("eval_", "train_"))
        and len(curve(records, name)) > 0
    ]


def score_name(records: Iterable[Record]) -> str | None:
    """The score that the run was measured by on the way, if it was: a correlation or an accuracy."""
    names = dict.fromkeys(name for record in records for name in record if name.startswith("eval_"))
    wanted = [name for name in names if name.endswith(("_spearman", "_accuracy"))]
    return wanted[0] if wanted else None
