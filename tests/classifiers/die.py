"""Run by test_finetune.py: fine-tune a tiny model and die by SIGKILL at a given point, or live to the end.

Usage: die.py MODEL DATA OUTPUT POINT [DEFENCE [NAME=VALUE …]], where POINT is as in `dying.die_at`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dying import die_at
from holdfast.classifiers import FinetuneSettings, classifier_trainer, finetune
from holdfast.option_parsing import split_settings
from holdfast.runs import run_folder


def main() -> None:
    model, data, output, point, *defended = sys.argv[1:]
    defence, *options = defended or ["none"]
    die_at(point, classifier_trainer.ClassifierTrainer, run_folder)
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
