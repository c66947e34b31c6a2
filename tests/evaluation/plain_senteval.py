"""SentEval's protocol as its paper and code describe it, one fresh scikit-learn fit after the other; slow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from holdfast.data.registry import Labelled

NESTED_GRID = [0.25, 0.5, 1, 2, 4, 8]
TRAIN_GRID = [0.5, 1, 2, 4, 8, 16, 32]


def ten_folds(x: np.ndarray, y: np.ndarray) -> Any:
    return StratifiedKFold(n_splits=10, shuffle=True, random_state=1111).split(x, y)


def fitted(x: np.ndarray, y: np.ndarray, c: float, settings: dict[str, Any]) -> LogisticRegression:
    return LogisticRegression(C=c, random_state=1111, **settings).fit(x, y)


def by_cross_validation(x: np.ndarray, y: np.ndarray, grid: Sequence[float], settings: dict[str, Any]) -> float:
    scores = []
    for c in grid:
        accuracies = [fitted(x[a], y[a], c, settings).score(x[b], y[b]) for a, b in ten_folds(x, y)]
        scores.append(round(100 * float(np.mean(accuracies)), 2))
    return grid[int(np.argmax(scores))]


def sorted_part(part: Labelled, vectors: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels in the order in which SentEval encodes: by length, then label (TREC's are alphabetical)."""
    if part.sentences2 is None:
        rows = [
            ((len(s.split()), part.classes[y]), vectors[s], y)
            for s, y in zip(part.sentences1, part.labels, strict=True)
        ]
    else:
        rows = [
            (
                (len(s.split()), len(t.split()), part.classes[y]),
                np.concatenate([np.abs(vectors[s] - vectors[t]), vectors[s] * vectors[t]]),
                y,
            )
            for s, t, y in zip(part.sentences1, part.sentences2, part.labels, strict=True)
        ]
    rows.sort(key=lambda row: row[0])
    return np.stack([x for _, x, _ in rows]), np.array([y for _, _, y in rows])


def plain_accuracy(
    parts: dict[str, Labelled], vectors: dict[str, np.ndarray], **settings: Any
) -> tuple[float, list[float]]:
    """SentEval's test accuracy x100 and the strengths it chose; ``settings`` go to LogisticRegression."""
    data = {name: sorted_part(part, vectors) for name, part in parts.items()}
    if "all" in data:
        x, y = data["all"]
        accuracies, chosen = [], []
        for a, b in ten_folds(x, y):
            chosen.append(by_cross_validation(x[a], y[a], NESTED_GRID, settings))
            accuracies.append(fitted(x[a], y[a], chosen[-1], settings).score(x[b], y[b]))
        return 100 * float(np.mean(accuracies)), chosen
    x, y = data["train"]
    if "dev" in data:
        scores = [round(100 * fitted(x, y, c, settings).score(*data["dev"]), 2) for c in NESTED_GRID]
        c = NESTED_GRID[int(np.argmax(scores))]
    else:
        c = by_cross_validation(x, y, TRAIN_GRID, settings)
    return 100 * fitted(x, y, c, settings).score(*data["test"]), [c]
