"""Reading the log of a run (``metrics.jsonl``), for the report and for ``watch``.

A record is one JSON object per line, with its ``step`` and the ``time`` it was written (seconds since 1970). Records
with a ``loss`` hold the loss, its terms by name and diagnostics; records with ``eval_...`` hold an evaluation during
the run. Records with a ``state`` mark the beginning and the end of each part of the run.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import UserError
from holdfast.result_layout import is_number

RUN_FILE = "run.json"
"""The record of a run, in the same folder as its log."""
METRICS_FILE = "metrics.jsonl"
RESULT_FILE = "results.json"
DISTILL_FILE = "distill.json"
HARDEN_FILE = "harden.json"
"""The result of a hardening, which measures after the training has written its own."""
TRAININGS = ("train", "finetune", "pretrain")
"""Kinds of results whose runs write a log."""
BEGUN, TRAINED, STOPPED, FAILED = "begun", "trained", "stopped", "failed"
"""States: a part of the run began; it made its last step; a person stopped it; an error stopped it."""

RISE = "attack_loss_rise"
"""Increase of the attacked loss by the attack, in the last step."""
RISE_SHARE = "attack_loss_share"
"""The rise as a share of the attacked loss after the attack, in the last step."""
RISES = (RISE, "weakening_loss_rise")
SHARES = ("gradient_share", "idea_gradient_share")
"""The shares of the gradient: of a regulariser at the vectors, and of the method's idea at the encoder's weights."""
DUPLICATES, IN_QUEUE = "duplicates", "duplicates_in_queue"
"""The shares of a batch's sentences that have a duplicate in the batch, and in the queue of old keys."""
_FORMER_NAMES: Mapping[Any, str] = {"attack_rise": RISE}  # the name in earlier logs of V-advCSE

DIAGNOSTICS = frozenset(
    (
        *RISES,
        RISE_SHARE,
        *SHARES,
        *("delta_norm", "views_found", "regularisation", "positive_similarity"),
        *("negatives_gradient_norm", "negatives_similarity", "negatives_turned"),
        *("positive_product", "negative_product", "queue_filled", "weakened_tokens", "weakened_features"),
        *("unattacked", "unchanged", "attacked", "replaced_words", "attack_seconds"),
        *("attack_success", "adversarial_loss", "vector_cosine"),
        *("teacher_correlation", "replaced_tokens", "replaced_found", "kept_found"),
        *(DUPLICATES, IN_QUEUE),
        "projected",
        *("tokens", "tokens_per_second", "elapsed"),
    )
)
"""The vocabulary of the log: quantities, besides scores, that are not terms of a loss. A quantity of another name is
taken for a term, so that a method may log further quantities without an entry here."""
_OF_TRAINER = frozenset(("step", "time", "epoch", "loss", "grad_norm", "learning_rate", "total_flos"))

Record = Mapping[str, Any]
Curve = list[tuple[float, float]]


def read_log(path: Path) -> tuple[dict[str, Any], ...]:
    """Return the valid records of a log; none if there is no file.

    Incomplete lines (of a killed process, or being written) are left out. Where a resumed run repeats steps, the later
    records replace the earlier ones.

    Raises:
        UserError: the file exists and cannot be read.
    """
    return parse_log(_text_of(path))


def damaged_lines(path: Path) -> list[int]:
    """Return the numbers, from 1, of the lines of a log that hold no record; none if there is no file.

    A last line without a line break is not counted: it is being written, or the process was killed.

    Raises:
        UserError: the file exists and cannot be read.
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
    """Parse the text of a log; see `read_log`."""
    records: list[dict[str, Any]] = []
    trained = 0  # the last step whose loss was logged
    for line in text.split("\n"):
        record = _record(line)
        if record is None:
            continue
        step = record["step"]
        if record.get("state") == BEGUN:  # at a checkpoint, whose own step is not logged again
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


def seconds_of_parts(records: Iterable[Record]) -> float:
    """Return the seconds of the parts of a run in its log, each from its beginning to its last record."""
    spans: list[list[float]] = []
    for record in records:
        time = number_of(record.get("time"))
        if record.get("state") == BEGUN:
            spans.append([])
        if spans and time is not None:
            spans[-1].append(time)
    return sum(max(times) - times[0] for times in spans if times)


def number_of(value: Any) -> float | None:
    """Return ``value`` as a float if it is a finite number, else None."""
    return float(value) if is_number(value) else None


def curve(records: Iterable[Record], name: str) -> Curve:
    """Return (step, value) of one quantity: finite values only; the later one if a step is logged twice."""
    found = {}
    for record in records:
        value = number_of(record.get(name))
        if value is not None:
            found[float(record["step"])] = value
    return sorted(found.items())


def median_of(records: Iterable[Record], name: str) -> float | None:
    """Return the median of a logged quantity; None if it was not logged."""
    values = [y for _, y in curve(records, name)]
    return statistics.median(values) if values else None


def terms_of(records: Sequence[Record]) -> list[str]:
    """Return the names of the loss's terms: all logged quantities that are neither scores nor diagnostics."""
    names = dict.fromkeys(name for record in records if "loss" in record for name in record)
    return [
        name
        for name in names
        if name not in DIAGNOSTICS | _OF_TRAINER
        and not name.startswith(("eval_", "train_"))
        and len(curve(records, name)) > 0
    ]


def score_name(records: Iterable[Record]) -> str | None:
    """Return the name of the score logged during the run; None if there is none.

    It is a share of noise recovered, which chooses the weights where it is measured, a correlation or an accuracy.
    """
    names = dict.fromkeys(name for record in records for name in record if name.startswith("eval_"))
    wanted = [name for end in ("_recovered", "_spearman", "_accuracy") for name in names if name.endswith(end)]
    return wanted[0] if wanted else None
