"""Run by test_resume.py: train a tiny model and die by SIGKILL at a given point, or live to the end.

Usage: die.py MODEL CORPUS DATA OUTPUT METHOD POINT, where POINT is "never", "step-N", "saving-N" (the checkpoint is
written and not yet sealed), "best-N" (the evaluation is done, the checkpoint of the step not begun) or "exporting".
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from methods import OPTIONS
from transformers import TrainerCallback

from holdfast.runs import resumable
from holdfast.runs.best_weights import KeepBest
from holdfast.training import trainer, training_run


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DieAt(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            die()


def die_after_the_best_weights(step: int) -> None:
    on_evaluate = KeepBest.on_evaluate

    def patched(self: KeepBest, args: Any, state: Any, control: Any, **named: Any) -> None:
        on_evaluate(self, args, state, control, **named)
        if state.global_step == step:
            die()

    KeepBest.on_evaluate = patched  # type: ignore[method-assign]


def main() -> None:
    model, corpus, data, output, method, point = sys.argv[1:]
    event, _, number = point.partition("-")
    if event == "best":
        die_after_the_best_weights(int(number))
    if event == "step":
        original = trainer.HoldfastTrainer.__init__

        def patched(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            self.add_callback(DieAt(int(number)))

        trainer.HoldfastTrainer.__init__ = patched  # type: ignore[method-assign]
    if event == "saving":
        seal = resumable.seal
        resumable.seal = lambda folder: die() if folder.name == f"checkpoint-{number}" else seal(folder)
    if event == "exporting":
        training_run.export = die  # type: ignore[assignment]
    config = training_run.TrainConfig(
        method=method,
        options=OPTIONS.get(method, {}),
        model=model,
        corpus=corpus,
        output=Path(output),
        data=Path(data),
        max_steps=20,  # 7 steps an epoch: the run crosses two epoch boundaries
        batch_size=8,
        learning_rate=1e-2,
        save_steps=4,
        eval_steps=3,
        precision="fp32",
        report_sts=False,
    )
    training_run.train(config, resume=True, command=["test"])


if __name__ == "__main__":
    main()
