"""Run by test_finetune.py: fine-tune a tiny model and die by SIGKILL at a given point, or live to the end.

Usage: die.py MODEL DATA OUTPUT POINT [DEFENCE [NAME=VALUE …]], where POINT is "never", "step-N", "saving-N" (the
checkpoint is written and not yet sealed), "best-N" (the evaluation is done, the checkpoint of the step not begun) or
"exporting".
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from holdfast.classifiers import FinetuneSettings, classifier_trainer, finetune
from holdfast.option_parsing import split_settings
from holdfast.runs import resumable, run_folder
from holdfast.runs.best_weights import KeepBest


def die(*_: Any, **__: Any) -> None:
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
    model, data, output, point, *defended = sys.argv[1:]
    defence, *options = defended or ["none"]
    event, _, number = point.partition("-")
    if event == "best":
        die_after_the_best_weights(int(number))
    if event == "step":
        original = classifier_trainer.ClassifierTrainer.__init__

        def patched(self: Any, **kwargs: Any) -> None:
            original(self, **kwargs)
            self.add_callback(DieAt(int(number)))

        classifier_trainer.ClassifierTrainer.__init__ = patched  # type: ignore[method-assign]
    if event == "saving":
        seal = resumable.seal
        resumable.seal = lambda path: die() if path.name == f"checkpoint-{number}" else seal(path)
    if event == "exporting":
        run_folder.export = die
    settings = FinetuneSettings(
        model=model,
        task="sst2",
        output=Path(output),
        data=Path(data),
        defence=defence,
        options=split_settings(options),
        max_steps=37,  # 15 steps an epoch: it ends in the middle of one
        batch_size=16,
        learning_rate=5e-3,
        save_steps=6,
        precision="fp32",
    )
    finetune(settings, resume=True, command=["test"])


if __name__ == "__main__":
    main()
