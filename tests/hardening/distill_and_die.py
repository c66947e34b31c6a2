"""Run by test_distill.py: distil a tiny student and die by SIGKILL at a given point, or live to the end.

Usage: distill_and_die.py TEACHER CORPUS OUTPUT POINT, where POINT is "block-N" (before the teacher's N-th block of
vectors) or as in `dying.die_at`.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from dying import die, die_at
from holdfast.hardening import distillation_run
from holdfast.hardening.distill_settings import DistillSettings
from holdfast.training import teacher_vectors, trainer


def main() -> None:
    teacher, corpus, output, point = sys.argv[1:]
    event, _, number = point.partition("-")
    distillation_run.teacher_vectors = functools.partial(teacher_vectors.teacher_vectors, block=20)  # type: ignore
    if event == "block":
        encode, calls = teacher_vectors.encode_sentences, []

        def dying(*args: Any, **options: Any) -> Any:
            calls.append(1)
            return die() if len(calls) == int(number) else encode(*args, **options)

        teacher_vectors.encode_sentences = dying
    die_at(point, trainer.HoldfastTrainer, distillation_run)
    settings = DistillSettings(
        teacher,
        "layers=1,hidden=24,vocabulary=60,heads=2",
        corpus,
        Path(output),
        max_steps=20,  # 6 steps an epoch: the run crosses epoch boundaries
        batch_size=8,
        learning_rate=1e-2,
        join=0.3,
        hold_out=5,
        dropout=0.1,
        save_steps=4,
        eval_steps=5,
        precision="fp32",
        options={"tries": 2},
    )
    distillation_run.distill(settings, resume=True, command=["test"])


if __name__ == "__main__":
    main()
