"""Measurements of a student: cosines to its teacher on held-out texts, STS-B dev, and its speed."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation import BaseEvaluator

from holdfast.edits.random_edits import RandomEdits
from holdfast.encoding import Vectors, encode_sentences
from holdfast.evaluation.sts_dev import StsDev
from holdfast.precision import ResolvedPrecision

CLEAN, NOISY = "cosine_clean", "cosine_noisy"
_ROUNDS, _SPEED_TEXTS = 3, 512


def noisy(texts: Sequence[str], edits: RandomEdits, seed: int) -> list[str]:
    """Return the texts with random changes, which depend only on the seed and the text."""
    return [edits.of(text, random.Random(f"{seed}/noise/{text}")) for text in texts]


class StudentEvaluator(BaseEvaluator):
    """Evaluator of the mean cosine of a student's vectors to the teacher's of the clean texts, and of STS-B dev.

    Args:
        texts: held-out texts.
        changed: the same texts with noise.
        targets: the teacher's vectors of the clean texts, (n, d).
        sts: the STS-B dev evaluator; None: its data is not at hand.
        precision: ``"fp32"`` or ``"bf16"``.
    """

    def __init__(
        self,
        texts: Sequence[str],
        changed: Sequence[str],
        targets: Vectors,
        sts: StsDev | None,
        precision: ResolvedPrecision,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.texts, self.changed, self.targets, self.sts, self.precision = texts, changed, targets, sts, precision
        self.primary_metric = CLEAN

    def __call__(  # type: ignore[override]  # the base class takes all kinds of models, this class only encoders
        self, model: SentenceTransformer, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return the metrics of the student: cosines, and those of `StsDev`."""
        return self.cosines(model) | (self.sts(model) if self.sts is not None else {})

    def cosines(self, model: SentenceTransformer, precision: ResolvedPrecision | None = None) -> dict[str, float]:
        """Return the mean cosines on clean and noisy texts; empty without held-out texts."""
        if not self.texts:
            return {}
        vectors = encode_sentences(model, [*self.texts, *self.changed], precision=precision or self.precision)
        clean, changed = np.split(vectors, 2)
        return {CLEAN: mean_cosine(clean, self.targets), NOISY: mean_cosine(changed, self.targets)}


def mean_cosine(first: Vectors, second: Vectors) -> float:
    """Return the mean cosine of the rows of two matrices (n, d)."""
    dots = (first * second).sum(axis=1, dtype=np.float64)
    norms = np.linalg.norm(first, axis=1).astype(np.float64) * np.linalg.norm(second, axis=1)
    return float((dots / np.maximum(norms, 1e-12)).mean())


def speeds(models: Sequence[SentenceTransformer], texts: Sequence[str]) -> list[float]:
    """Return the speed of each model in texts per second, in fp32: the median of rounds in which they take turns."""
    chosen = list(texts[:_SPEED_TEXTS])
    seconds: list[list[float]] = [[] for _ in models]
    for _ in range(_ROUNDS):
        for model, times in zip(models, seconds, strict=True):
            began = time.perf_counter()
            encode_sentences(model, chosen)
            times.append(time.perf_counter() - began)
    distinct = len(set(chosen))
    return [distinct / statistics.median(times) for times in seconds]


def rows_of(
    evaluator: StudentEvaluator,
    student: dict[str, float],
    teacher: dict[str, float],
) -> list[dict[str, Any]]:
    """Return the rows of a result, from the metrics of the student and of the teacher, as returned by the evaluator."""
    rows: list[dict[str, Any]] = []
    for name, split in ((CLEAN, "clean"), (NOISY, "noisy")):
        if name in student:
            metrics = {"cosine": student[name], "teacher_cosine": teacher[name]}
            rows.append(
                {"task": "teacher-cosine", "split": f"held-out-{split}", "n": len(evaluator.texts), "metrics": metrics}
            )
    if evaluator.sts is not None:
        name = f"{evaluator.sts.name}_spearman"
        metrics = {"spearman": student[name], "teacher_spearman": teacher[name]}
        rows.append({"task": "stsb", "split": "dev", "n": len(evaluator.sts.pairs.sentences1), "metrics": metrics})
    return rows
