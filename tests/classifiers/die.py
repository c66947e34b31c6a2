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


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DieAt(TrainerCallback):
    def __init__(self, event: str, step: int) -> None:
        self.event, self.step = event, step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.event == "step" and state.global_step == self.step:
            die()

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.event == "best" and state.global_step == self.step:
            die()


def main() -> None:
    model, data, output, point, *defended = sys.argv[1:]
    defence, *options = defended or ["none"]
    event, _, number = point.partition("-")
    if event in ("step", "best"):
        original = classifier_trainer.ClassifierTrainer.__init__

        def patched(self: Any, **kwargs: Any) -> None:
            original(self, **kwargs)
            self.add_callback(DieAt(event, int(number)))

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
