"""The state of a run, from the files in its folder, for ``holdfast watch``. Only reads; the run is not affected."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from holdfast.errors import UserError
from holdfast.files import read_object
from holdfast.progress import duration
from holdfast.runs.run_folder import LOCK_FILE
from holdfast.runs.run_log import (
    BEGUN,
    DISTILL_FILE,
    FAILED,
    HARDEN_FILE,
    METRICS_FILE,
    RESULT_FILE,
    RISE_SHARE,
    RISES,
    RUN_FILE,
    SHARES,
    STOPPED,
    TRAINED,
    TRAININGS,
    Curve,
    Record,
    curve,
    number_of,
    read_log,
    score_name,
    terms_of,
)
from holdfast.runs.run_process import is_alive
from holdfast.runs.run_record import damage_in, digest_of, refuse_log_of_another
from holdfast.runs.soundness import Flag, flags, options_of, radius_of

State = Literal["absent", "preparing", "running", "measuring", "finished", "stopped", "failed", "gone", "unseen"]
ENDED: tuple[State, ...] = ("finished", "stopped", "failed", "gone")
"""Final states, unless the run is resumed."""

_UNBOUNDED = 10**8  # a larger number of steps means that the run ends by time
_RECENT = 10  # number of records for the rate


@dataclass(frozen=True)
class Standing:
    """The state of a run.

    Attributes:
        folder: folder of the run.
        state: "absent" (no run yet), "preparing" (nothing logged yet since it was begun or resumed), "running",
            "measuring" (trained, result not written yet), "finished", "stopped" (by a person), "failed" (by an error),
            "gone" (the process ended without a log record: killed, or out of memory), "unseen" (its process cannot be
            seen from this machine).
        message: the state as text.
        what: method, or task and defence, that is trained.
        step: last step in the log.
        steps: total number of steps; None: unknown.
        rate: recent steps per second; None: unknown.
        speed: recent sentences or tokens per second, as text.
        left: remaining seconds, if the run is running and they are known.
        values: latest value of each logged quantity, by name: the loss, its terms, the learning rate, ...
        terms: names of the terms of the loss.
        score: name of the score, its latest value, its best value and the step of the best; None: no score.
        radius: radius of δ's ball.
        curves: (step, value) of each quantity in ``values``.
        flags: outcomes of the checks so far.
        damaged: a message each for a damaged record and a damaged log.
    """

    folder: Path
    state: State
    message: str
    what: str = ""
    step: int = 0
    steps: int | None = None
    rate: float | None = None
    speed: str = ""
    left: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    terms: tuple[str, ...] = ()
    score: tuple[str, float, float, int] | None = None
    radius: float | None = None
    curves: Mapping[str, Curve] = field(default_factory=dict)
    flags: tuple[Flag, ...] = ()
    damaged: tuple[str, ...] = ()


def standing_of(folder: Path, now: float | None = None) -> Standing:
    """Return the state of the run in ``folder``, which may not exist yet, at the time ``now`` (seconds since 1970).

    Raises:
        UserError: ``folder`` is a file or cannot be read, or its log belongs to another run than its record.
    """
    now = time.time() if now is None else now
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: watch takes the folder of a run (its --output)")
    log, record, result = read_log(folder / METRICS_FILE), read_object(folder / RUN_FILE), _result(folder)
    begun = bool(record) or (folder / RUN_FILE).exists()
    complete = not _of_hardening(record or result.get("protocol", {})) or (folder / HARDEN_FILE).exists()
    state, message = _state(log, begun, result if complete else {}, now)
    if state in ENDED[1:] and _resumes(folder, log):
        state, message = "preparing", "resumed; nothing is logged yet"
    damaged = tuple(damage_in(folder))
    if record:
        refuse_log_of_another(folder / METRICS_FILE, digest_of(record))
    if not log:
        return Standing(folder, state, message, what=_what(record), damaged=damaged)
    own = record or result.get("protocol", {})
    step, steps = int(log[-1]["step"]), _steps(log)
    rate = _rate(log)
    options = options_of(own)
    names = [*_named(log)]
    return Standing(
        folder=folder,
        state=state,
        message=message,
        what=_what(own),
        step=step,
        steps=steps,
        rate=rate,
        speed=_speed(log, own, rate),
        left=_left(log, own, rate, now) if state == "running" else None,
        values={name: curve(log, name)[-1][1] for name in names},
        terms=tuple(terms_of(log)),
        score=_score(log),
        radius=radius_of(options),
        curves={name: curve(log, name) for name in names},
        flags=tuple(flags(log, options, result.get("selected"))),
        damaged=damaged,
    )


def _result(folder: Path) -> dict[str, Any]:
    """Return the run's result, from its folder or, for ``finetune --output NAME.json``, from beside it."""
    result = read_object(folder / RESULT_FILE)
    if result.get("kind") in TRAININGS:
        return result
    distilled = read_object(folder / DISTILL_FILE)
    if distilled.get("kind") == "distill":
        return distilled
    folder = folder.resolve()  # "." has no name
    beside = read_object(folder.parent / f"{folder.name}.json")
    return beside if beside.get("kind") == "finetune" else {}  # not the result of an evaluation of the model


def _of_hardening(record: Mapping[str, Any]) -> bool:
    """Return True for the training of ``harden``, which measures before and after it."""
    return "typo_vocabulary" in record


def _resumes(folder: Path, log: Sequence[Record]) -> bool:
    """Return True if a process that began after the last record of the log works in the folder."""
    holder = read_object(folder / LOCK_FILE)
    try:
        since = datetime.fromisoformat(str(holder.get("since"))).timestamp()
    except ValueError:
        return False
    written = number_of(log[-1].get("time")) if log else None
    return bool(is_alive(holder)) and (written is None or since >= int(written))


# --- the state ---------------------------------------------------------------------------------------------------


def _state(log: Sequence[Record], begun_here: bool, result: Mapping[str, Any], now: float) -> tuple[State, str]:
    if result:
        return "finished", "finished"
    if not begun_here and not log:
        return "absent", "no run here yet"
    if not log:
        return "preparing", "begun; nothing is logged yet"
    states = [record for record in log if "state" in record]
    last = states[-1] if states else {}
    begun = next((record for record in reversed(states) if record["state"] == BEGUN), {})
    if last.get("state") == STOPPED:
        return "stopped", f"stopped at step {last['step']}; continue it with --resume"
    if last.get("state") == FAILED:
        return "failed", f"failed at step {last['step']}: {last.get('why', 'no reason was logged')}"
    process = begun.get("process")
    alive = is_alive(process) if isinstance(process, dict) else None
    if alive is None:
        written = number_of(log[-1].get("time"))
        ago = "at an unknown time" if written is None else f"{duration(max(0.0, now - written))} ago"
        return "unseen", f"last log record {ago}; its process cannot be seen from this machine"
    trained = last.get("state") == TRAINED
    if alive:
        return ("measuring", "trained; saving and measuring") if trained else ("running", "running")
    after = "after its last step, before its result was written" if trained else f"after step {log[-1]['step']}"
    return "gone", f"its process ended without a log record {after}; continue it with --resume"


# --- contents of the log -----------------------------------------------------------------------------------------


def _what(record: Mapping[str, Any]) -> str:
    if "teacher" in record:
        return f"student of {record['teacher']}"
    if "method" in record:
        return str(record["method"])
    if "task" in record:
        defence = record.get("defence", "none")
        return f"classifier of {record['task']}" + (f", {defence}" if defence != "none" else "")
    return "masked language model" if "mask_token" in record else ""


def _named(log: Sequence[Record]) -> list[str]:
    """Return the names of the watched quantities that were logged."""
    score = score_name(log)
    diagnostics = (*RISES, RISE_SHARE, "delta_norm", *SHARES, "views_found", "negatives_turned")
    wanted = ("loss", *terms_of(log), "learning_rate", "grad_norm", *diagnostics)
    return [name for name in (*wanted, *([score] if score else []), "eval_perplexity") if curve(log, name)]


def _steps(log: Sequence[Record]) -> int | None:
    totals = [record["max_steps"] for record in log if type(record.get("max_steps")) is int]
    return totals[-1] if totals and 0 < totals[-1] < _UNBOUNDED else None


def _this_part(log: Sequence[Record]) -> list[tuple[int, float]]:
    """Return (step, time) of the records since the run was last begun or resumed."""
    begun = max((place for place, record in enumerate(log) if record.get("state") == BEGUN), default=0)
    times = [(record["step"], number_of(record.get("time"))) for record in log[begun:]]
    return [(step, time_written) for step, time_written in times if time_written is not None]


def _rate(log: Sequence[Record]) -> float | None:
    recent = _this_part(log)[-_RECENT - 1 :]
    if len(recent) < 2 or recent[-1][1] <= recent[0][1] or recent[-1][0] <= recent[0][0]:
        return None
    return (recent[-1][0] - recent[0][0]) / (recent[-1][1] - recent[0][1])


def _speed(log: Sequence[Record], record: Mapping[str, Any], rate: float | None) -> str:
    tokens = curve(log, "tokens_per_second")
    if tokens:
        return f"{tokens[-1][1]:,.0f} tokens/s"
    training = record.get("training")
    sizes = training if isinstance(training, dict) else {}
    batch = number_of(sizes.get("batch_size"))
    if rate is None or batch is None:
        return ""
    return f"{rate * batch * (number_of(sizes.get('accumulate')) or 1.0):,.0f} sentences/s"


def _left(log: Sequence[Record], record: Mapping[str, Any], rate: float | None, now: float) -> float | None:
    """Return the remaining seconds, by the steps, or by the time if the run ends by time; None if unknown."""
    steps, part = _steps(log), _this_part(log)
    since = now - part[-1][1] if part else 0.0
    if steps is not None:
        return None if rate is None else max(0.0, (steps - log[-1]["step"]) / rate - since)
    training = record.get("training")
    hours = number_of(training.get("hours")) if isinstance(training, dict) else None
    elapsed = curve(log, "elapsed")
    return None if hours is None or not elapsed else max(0.0, 3600 * hours - elapsed[-1][1] - since)


def _score(log: Sequence[Record]) -> tuple[str, float, float, int] | None:
    name = score_name(log)
    points = curve(log, name) if name else []
    if name is None or not points:
        return None
    step, best = max(points, key=lambda point: (point[1], -point[0]))
    return name, points[-1][1], best, int(step)
