"""How a run stands, by what lies in its folder: for ``holdfast watch``. Reads only; the run notices nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from holdfast.errors import UserError
from holdfast.files import read_object
from holdfast.training.log import (
    BEGUN,
    FAILED,
    METRICS_FILE,
    RESULT_FILE,
    RISES,
    RUN_FILE,
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
from holdfast.training.process import is_alive
from holdfast.training.record import damage_in, digest_of, refuse_log_of_another
from holdfast.training.soundness import Flag, flags, options_of, radius_of

State = Literal["absent", "preparing", "running", "measuring", "finished", "stopped", "failed", "gone", "unseen"]
ENDED: tuple[State, ...] = ("finished", "stopped", "failed", "gone")
"""States that nothing follows, unless somebody resumes the run."""

_UNBOUNDED = 10**8  # steps of a run that ends by the clock: more than any run has
_RECENT = 10  # records that the rate is told by


@dataclass(frozen=True)
class Standing:
    """How a run stands.

    Attributes:
        folder: the run's.
        state: "absent" (no run there yet), "preparing" (nothing logged yet), "running", "measuring" (trained, result
            to come), "finished", "stopped" (by a person), "failed" (by an error), "gone" (the process ended without a
            word: killed, or out of memory), "unseen" (its process cannot be seen from here).
        told: the state in words.
        what: what is trained: the method or the defence with its task.
        step: the last step in the log.
        steps: how many there will be; None where it is not known.
        rate: steps per second lately; None where the log does not say.
        speed: the same as people count it: sentences or tokens per second.
        left: seconds that are left, if it runs and that is known.
        values: the latest of each quantity, by the names of the log: the loss, its terms, the learning rate, ...
        terms: which of them are terms of the loss.
        score: name of the score on the way, its latest value, its best value and the step of that; None: no score.
        radius: of the ball that δ lies in.
        curves: (step, value) of each quantity in ``values``.
        flags: whether it is sound so far.
        damaged: a line for its record and one for its log, where they are damaged.
    """

    folder: Path
    state: State
    told: str
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
    """How the run in ``folder`` stands.

    Args:
        folder: the run's; it need not be there yet.
        now: the time in seconds since 1970; None: this moment.

    Raises:
        UserError: something else than a folder, or one that cannot be read; a log of another run than the record's.
    """
    now = time.time() if now is None else now
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: watch takes the folder of a run (its --output)")
    log, record, result = read_log(folder / METRICS_FILE), read_object(folder / RUN_FILE), _result(folder)
    begun = bool(record) or (folder / RUN_FILE).exists()
    state, told = _state(log, begun, result, now)
    damaged = tuple(damage_in(folder))
    if record:
        refuse_log_of_another(folder / METRICS_FILE, digest_of(record))
    if not log:
        return Standing(folder, state, told, what=_what(record), damaged=damaged)
    own = record or result.get("protocol", {})
    step, steps = int(log[-1]["step"]), _steps(log)
    rate = _rate(log)
    options = options_of(own)
    names = [*_named(log)]
    return Standing(
        folder=folder,
        state=state,
        told=told,
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
    """The run's result: in its folder, or for ``finetune --output NAME.json`` beside it."""
    result = read_object(folder / RESULT_FILE)
    if result.get("kind") in TRAININGS:
        return result
    folder = folder.resolve()  # "." has no name
    beside = read_object(folder.parent / f"{folder.name}.json")
    return beside if beside.get("kind") == "finetune" else {}  # and not what was measured of the model


# --- the state ---------------------------------------------------------------------------------------------------


def _state(log: Sequence[Record], begun_here: bool, result: Mapping[str, Any], now: float) -> tuple[State, str]:
    if result:
        return "finished", "finished"
    if not begun_here and not log:
        return "absent", "no run here yet"
    if not log:
        return "preparing", "begun; nothing is logged yet"
    told = [one for one in log if "state" in one]
    last, begun = told[-1] if told else {}, next((one for one in reversed(told) if one["state"] == BEGUN), {})
    if last.get("state") == STOPPED:
        return "stopped", f"stopped at step {last['step']}; continue it with --resume"
    if last.get("state") == FAILED:
        return "failed", f"failed at step {last['step']}: {last.get('why', 'no reason is told')}"
    process = begun.get("process")
    alive = is_alive(process) if isinstance(process, dict) else None
    if alive is None:
        return "unseen", f"last heard of {_ago(log, now)}; its process cannot be seen from here"
    trained = last.get("state") == TRAINED
    if alive:
        return ("measuring", "trained; saving and measuring") if trained else ("running", "running")
    after = "after its last step, before its result was written" if trained else f"after step {log[-1]['step']}"
    return "gone", f"its process ended without a word {after}; continue it with --resume"


def _ago(log: Sequence[Record], now: float) -> str:
    at = number_of(log[-1].get("time"))
    return "at a time that its log does not tell" if at is None else f"{duration(max(0.0, now - at))} ago"


def duration(seconds: float) -> str:
    """A time as people say it: seconds, minutes, or hours and minutes."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


# --- what the log says -------------------------------------------------------------------------------------------


def _what(record: Mapping[str, Any]) -> str:
    if "method" in record:
        return str(record["method"])
    if "task" in record:
        defence = record.get("defence", "none")
        return f"classifier of {record['task']}" + (f", {defence}" if defence != "none" else "")
    return "masked language model" if "mask_token" in record else ""


def _named(log: Sequence[Record]) -> list[str]:
    """The quantities that are watched, those of them that were logged."""
    score = score_name(log)
    wanted = ("loss", *terms_of(log), "learning_rate", "grad_norm", *RISES, "delta_norm", "gradient_share")
    return [name for name in (*wanted, *([score] if score else []), "eval_perplexity") if curve(log, name)]


def _steps(log: Sequence[Record]) -> int | None:
    told = [one["max_steps"] for one in log if type(one.get("max_steps")) is int]
    return told[-1] if told and 0 < told[-1] < _UNBOUNDED else None


def _this_part(log: Sequence[Record]) -> list[tuple[int, float]]:
    """(step, time) of the records since the run was begun or resumed for the last time."""
    begun = max((place for place, one in enumerate(log) if one.get("state") == BEGUN), default=0)
    times = [(one["step"], number_of(one.get("time"))) for one in log[begun:]]
    return [(step, at) for step, at in times if at is not None]


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
    """Seconds: by the steps, or of a run that ends by the clock by the clock."""
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
