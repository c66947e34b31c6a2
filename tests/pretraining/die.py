"""Run by test_pretrain_resume.py: pretrain a tiny model and die by SIGKILL at a given point, or live to the end.

Usage: die.py CORPUS HELD_OUT OUTPUT POINT, where POINT is "never", "step-N", "saving-N" (the checkpoint is written and
not yet sealed) or "exporting".
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from holdfast.pretraining import PretrainSettings, pretrain
from holdfast.pretraining.pretrain_trainer import PretrainTrainer
from holdfast.runs import resumable, run_folder


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DieAt(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == self.step:
            die()


def main() -> None:
    corpus, held_out, output, point = sys.argv[1:]
    event, _, number = point.partition("-")
    if event == "step":
        original = PretrainTrainer.__init__

        def patched(self: Any, **kwargs: Any) -> None:
            original(self, **kwargs)
            self.add_callback(DieAt(int(number)))

        PretrainTrainer.__init__ = patched  # type: ignore[method-assign]
    if event == "saving":
        seal = resumable.seal
        resumable.seal = lambda path: die() if path.name == f"checkpoint-{number}" else seal(path)
    if event == "exporting":
        run_folder.export = die  # type: ignore[assignment]
    settings = PretrainSettings(
        corpus=corpus,
        held_out=held_out,
        output=Path(output),
        vocabulary=120,
        layers=1,
        hidden=16,
        heads=2,
        max_length=32,
        max_steps=30,  # 13 steps an epoch: it crosses two of them
        batch_tokens=600,
        learning_rate=1e-2,
        eval_steps=7,
        save_steps=6,
        precision="fp32",
    )
    pretrain(settings, resume=True, command=["test"])


if __name__ == "__main__":
    main()
