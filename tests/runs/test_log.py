"""The log of a run, written by the trainer's callback and read again."""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import holdfast
from holdfast.adversary.loss_rise import loss_rise
from holdfast.runs.run_log import (
    BEGUN,
    DIAGNOSTICS,
    FAILED,
    STOPPED,
    TRAINED,
    curve,
    parse_log,
    read_log,
    score_name,
    seconds_of_parts,
    terms_of,
)
from holdfast.runs.run_process import is_alive, this_process
from holdfast.runs.training_progress import MetricsFile, logging_steps


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_what_is_cut_short_or_no_record_is_left_out() -> None:
    text = (
        lines({"step": 1, "loss": 1.0}, {"loss": 2.0}, {"step": True})
        + '[1]\n\n{"step": 2, "loss": 0.5}\n{"step": 3, "l'
    )
    assert [record["step"] for record in parse_log(text)] == [1, 2]


def test_what_a_resumed_run_tells_again_takes_the_place_of_what_was_told() -> None:
    text = lines(
        {"step": 0, "state": BEGUN},
        {"step": 10, "loss": 1.0},
        {"step": 20, "loss": 0.9},
        {"step": 30, "loss": 0.8},
        {"step": 40, "loss": 0.75},  # the resumed run has not come so far yet
        {"step": 20, "state": BEGUN},
        {"step": 30, "loss": 0.7},
    )
    assert curve(parse_log(text), "loss") == [(10, 1.0), (20, 0.9), (30, 0.7)]
    message = [{"step": 10, "loss": 1.0}, {"step": 20, "loss": 0.9}, {"step": 20, "eval_loss": 0.1}]
    without_states = lines(*message, {"step": 10, "loss": 0.5})
    assert curve(parse_log(without_states), "loss") == [(10, 0.5)]


def test_the_former_name_of_the_attacks_rise_is_still_read() -> None:
    assert curve(parse_log('{"step": 5, "loss": 1, "attack_rise": 0.25}'), "attack_loss_rise") == [(5.0, 0.25)]


def test_terms_are_neither_scores_nor_diagnostics_nor_the_trainers() -> None:
    record = {"step": 25, "loss": 0.5, "robust": 0.4, "adversarial": 0.1, "grad_norm": 1.0, "learning_rate": 1e-5}
    record |= {"epoch": 0.1, "time": 1.7e9, **dict.fromkeys(DIAGNOSTICS, 0.1)}
    scores = {"step": 25, "eval_runtime": 2.0, "eval_stsb_dev_spearman": 70.0, "train_loss": 0.5}
    assert terms_of([record, scores]) == ["robust", "adversarial"]
    assert score_name([record, scores]) == "eval_stsb_dev_spearman"


def test_every_diagnostic_of_every_method_and_defence_is_known() -> None:
    """One that is not would be drawn as a term of the loss. SMART's two are terms: they are summed into the loss."""
    source = Path(holdfast.__file__).parent
    files = [*(source / "objectives").glob("*.py"), *(source / "classifiers" / "defences").glob("*.py")]
    texts = [file.read_text(encoding="utf-8") for file in files]
    named = {name for text in texts for name in re.findall(r"""diagnostics\["(\w+)"\]""", text)}
    blocks = [block for text in texts for block in re.findall(r"diagnostics \|?= \{(.*?)\}\n", text, re.DOTALL)]
    named |= {name for block in blocks for name in re.findall(r'"(\w+)":', block)}
    named |= loss_rise(torch.tensor(0.5), torch.tensor(1.0)).keys()
    assert {"delta_norm", "replaced_words", "gradient_share", "attack_loss_rise"} <= named
    assert named - DIAGNOSTICS == {"smoothness", "proximity"}


def state(step: int, first: bool = True) -> Any:
    return SimpleNamespace(global_step=step, max_steps=40, is_world_process_zero=first)


def log_of(file: MetricsFile, step: int, **logs: float) -> None:
    file.on_step_end(None, state(step), None)  # type: ignore[arg-type]
    file.on_log(None, state(step), None, logs=logs)  # type: ignore[arg-type]


def begin(file: MetricsFile, step: int = 0, first: bool = True) -> None:
    file.on_train_begin(None, state(step, first), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (None, {"state": TRAINED}),
        (KeyboardInterrupt(), {"state": STOPPED}),
        (ValueError("no\nluck"), {"state": FAILED, "why": "no"}),
        (MemoryError(), {"state": FAILED, "why": "MemoryError"}),
    ],
)
def test_how_a_part_of_a_run_ended_is_told(
    tmp_path: Path, error: BaseException | None, message: dict[str, str]
) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    with contextlib.nullcontext() if error is None else pytest.raises(type(error)), file:
        begin(file)
        log_of(file, 10, loss=1.0)
        if error is not None:
            raise error
    begun, logged, ended = read_log(file.path)
    assert (begun["state"], begun["step"], begun["max_steps"]) == (BEGUN, 0, 40)
    assert begun["process"]["pid"] == os.getpid()
    assert logged["time"] >= begun["time"] > 1.7e9
    assert {key: value for key, value in ended.items() if key in ("state", "why")} == message
    assert ended["step"] == 10


def test_a_disk_that_is_full_hides_no_error(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "gone" / "metrics.jsonl")
    file._step = 10
    with pytest.raises(ValueError, match="the error itself"), file:
        raise ValueError("the error itself")


def test_a_run_that_did_not_begin_and_other_processes_tell_nothing(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    with file:
        begin(file, first=False)
        file.on_log(None, state(10, first=False), None, logs={"loss": 1.0})  # type: ignore[arg-type]
    assert not file.path.exists()


def test_a_resumed_run_drops_what_it_will_tell_again(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    with file:
        begin(file)
        for step in (10, 20, 30):
            log_of(file, step, loss=1.0 / step)
    again = MetricsFile(file.path)
    with again:
        begin(again, step=20)
    assert [(one["step"], one.get("state", "")) for one in read_log(file.path)] == [
        (0, BEGUN), (10, ""), (20, ""), (20, BEGUN), (20, TRAINED),
    ]  # fmt: skip


def test_the_seconds_of_a_run_are_those_of_all_its_parts() -> None:
    """A part counts from its beginning to the last record that the run went on from."""
    text = lines(
        {"step": 0, "state": BEGUN, "time": 100.0},
        {"step": 10, "loss": 1.0, "time": 130.0},
        {"step": 20, "loss": 0.9, "time": 150.0},  # lost: the checkpoint is of step 10
        {"step": 10, "state": BEGUN, "time": 500.0},
        {"step": 20, "loss": 0.9, "time": 520.0},
        {"step": 20, "state": STOPPED, "time": 521.0},
        {"step": 20, "state": BEGUN, "time": 900.0},
        {"step": 30, "loss": 0.8, "time": 990.0},
    )
    assert seconds_of_parts(parse_log(text)) == pytest.approx(30.0 + 21.0 + 90.0)
    assert seconds_of_parts(parse_log(text.splitlines()[0])) == seconds_of_parts(()) == 0.0


def test_short_runs_log_oftener() -> None:
    assert [logging_steps(steps) for steps in (None, 5, 60, 249, 250, 10**9)] == [25, 1, 6, 24, 25, 25]


def test_whether_a_process_is_alive() -> None:
    here = this_process()
    assert is_alive(here) is True
    assert is_alive({**here, "pid": 2**22 + 12345}) is False, "no such number"
    assert is_alive({**here, "host": "elsewhere"}) is None
    assert is_alive({}) is None
    if here["started"] is not None:
        assert is_alive({**here, "started": here["started"] - 1}) is False, "the number was given out again"
