"""A run's folder, with best weights, checkpoints and a log as a training writes them, made in milliseconds."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from rich.console import Console
from safetensors.torch import save_file

from holdfast.files import write_json
from holdfast.runs.best_weights import KeepBest
from holdfast.runs.checkpoints import seal
from holdfast.runs.run import Run as TrainingRun
from holdfast.runs.run_log import METRICS_FILE, RUN_FILE
from holdfast.runs.training_progress import MetricsFile


class Run:
    """A run's folder, with best weights and checkpoints as a trainer writes them."""

    def __init__(self, folder: Path, **record: Any) -> None:
        self.folder = folder
        self.record = {"what": "a run", **record}
        self.model = torch.nn.Linear(3, 2)
        self.best = KeepBest(folder, "score")
        write_json(folder / RUN_FILE, self.record)

    def evaluate(self, step: int, score: float) -> None:
        torch.nn.init.constant_(self.model.weight, float(step))
        state, arguments = type("State", (), {"global_step": step}), type("Arguments", (), {"should_save": True})
        self.best.on_evaluate(arguments, state, None, metrics={"score": score}, model=self.model)

    def save(self, step: int) -> Path:
        checkpoint = self.folder / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        save_file({"weight": torch.full((50,), float(step))}, checkpoint / "model.safetensors")
        seal(checkpoint)
        return checkpoint

    def log(self, *steps: int) -> Path:
        """Log as a trainer does, from its begin on."""
        with MetricsFile(self.folder / METRICS_FILE) as file:
            state = SimpleNamespace(is_world_process_zero=True, global_step=0, max_steps=100)
            file.on_train_begin(None, state, None)  # type: ignore[arg-type]
            for step in steps:
                state.global_step = step
                file.on_log(None, state, None, logs={"loss": 1.0})  # type: ignore[arg-type]
        return file.path

    def begin(self) -> tuple[str | None, str]:
        message = io.StringIO()
        console = Console(file=message, width=500)
        run = TrainingRun("train", self.folder, resume=True, save_steps=None, console=console, command=None)
        run.begin(self.record)
        return run.checkpoint.name if run.checkpoint else None, message.getvalue()


def flip(path: Path, place: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)
