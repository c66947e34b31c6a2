"""Deaths by SIGKILL at a given point of a run, for the scripts that tests of a resume run."""

from __future__ import annotations

import os
import signal
from types import ModuleType
from typing import Any

from transformers import TrainerCallback

from holdfast.runs import resumable
from holdfast.runs.best_weights import KeepBest


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(point: str, trainer: Any, exporting: ModuleType) -> None:
    """Let this process die at a point, or never.

    Args:
        point: "never", "step-N", "saving-N" (the checkpoint is written and not yet sealed), "best-N" (the evaluation is
            done, the checkpoint of the step not begun) or "exporting"; the caller may know others.
        trainer: the class of the trainer.
        exporting: the module that calls ``export``.
    """
    event, _, number = point.partition("-")
    if event == "best":
        _die_after_the_best_weights(int(number))
    if event == "step":
        original = trainer.__init__

        def patched(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            self.add_callback(_DieAt(int(number)))

        trainer.__init__ = patched
    if event == "saving":
        seal = resumable.seal
        resumable.seal = lambda path: die() if path.name == f"checkpoint-{number}" else seal(path)
    if event == "exporting":
        exporting.export = die  # type: ignore[attr-defined]


class _DieAt(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            die()


def _die_after_the_best_weights(step: int) -> None:
    on_evaluate = KeepBest.on_evaluate

    def patched(self: KeepBest, args: Any, state: Any, control: Any, **named: Any) -> None:
        on_evaluate(self, args, state, control, **named)
        if state.global_step == step:
            die()

    KeepBest.on_evaluate = patched  # type: ignore[method-assign]
