"""What a person sees of a training, by a clock of the tests."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest
from rich.console import Console
from transformers import TrainerControl, TrainerState, TrainingArguments

from holdfast.runs.training_progress import TrainingProgress, TrainingStage


def score(metrics: dict[str, float]) -> str:
    return f"STS-B dev {metrics['eval_stsb_dev_spearman']:.2f}"


class Run:
    """A training whose steps take four seconds each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, *, first: int = 0) -> None:
        self.seconds, self.message = 1000.0, io.StringIO()
        monkeypatch.setattr(time, "monotonic", lambda: self.seconds)
        self.args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True)
        self.state, self.control = TrainerState(), TrainerControl()
        self.state.max_steps, self.state.global_step = 100, first
        self.progress = TrainingProgress(TrainingStage(Console(file=self.message, width=200), batch_size=64), score)
        self("on_train_begin")

    def __call__(self, event: str, **kwargs: Any) -> None:
        getattr(self.progress, event)(self.args, self.state, self.control, **kwargs)

    def step(self) -> None:
        self("on_step_begin")
        self.seconds += 4.0
        self.state.global_step += 1
        self("on_step_end")

    @property
    def lines(self) -> list[str]:
        return self.message.getvalue().splitlines()


def test_lines_come_before_the_first_record_of_the_loss(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    run = Run(monkeypatch, tmp_path)
    assert run.lines == ["training: 0/100 steps"]
    run.step()
    run.step()
    assert run.lines[1:] == [
        "training: 1/100 steps  16 sentences/s  ETA 6.6 min",
        "training: 2/100 steps  16 sentences/s  ETA 6.5 min",
    ]
    run("on_log", logs={"loss": 0.5})
    assert run.lines[3:] == ["training: 2/100 steps  16 sentences/s  loss 0.5000  ETA 6.5 min"]


def test_a_continued_run_counts_its_own_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    run = Run(monkeypatch, tmp_path, first=90)
    run.step()
    assert run.lines == ["training: 90/100 steps", "training: 91/100 steps  16 sentences/s  ETA 36 s"]


def test_what_comes_between_steps_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    run = Run(monkeypatch, tmp_path)
    run.control.should_evaluate = run.control.should_save = True
    run.step()
    assert "measuring, saving" in run.lines[-1]
    run("on_evaluate", metrics={"eval_stsb_dev_spearman": 71.5})
    run.control.should_evaluate = run.control.should_save = False
    run.step()
    assert "STS-B dev 71.50" in run.lines[-1]
    assert "measuring" not in run.lines[-1]
