"""Run by test_resume.py: train a tiny model and die by SIGKILL at a given point, or live to the end.

Usage: die.py MODEL CORPUS DATA OUTPUT METHOD POINT, where POINT is as in `dying.die_at`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from methods import OPTIONS

from dying import die_at
from holdfast.training import trainer, training_run


def main() -> None:
    model, corpus, data, output, method, point = sys.argv[1:]
    die_at(point, trainer.HoldfastTrainer, training_run)
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
