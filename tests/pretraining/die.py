"""Run by test_pretrain_resume.py: pretrain a tiny model and die by SIGKILL at a given point, or live to the end.

Usage: die.py CORPUS HELD_OUT OUTPUT POINT, where POINT is as in `dying.die_at`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dying import die_at
from holdfast.pretraining import PretrainSettings, pretrain
from holdfast.pretraining.pretrain_trainer import PretrainTrainer
from holdfast.runs import run_folder


def main() -> None:
    corpus, held_out, output, point = sys.argv[1:]
    die_at(point, PretrainTrainer, run_folder)
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
