"""Scores of a classifier (accuracy, F1) and of a regression (correlations)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.attacks.classifier import Classifier
from holdfast.classifiers.labelled_texts import Part
from holdfast.encoding import Progress
from holdfast.input_limits import Cuts

_WITH_F1 = ("mrpc", "qqp")
"""Tasks with unbalanced classes, for which F1 of the second class is reported with the accuracy, as in GLUE."""

_DECIMALS = 6
"""Decimals of a recorded prediction; fp32 is not more precise."""

Logits = npt.NDArray[np.float32]


def accuracy(logits: Logits, labels: Sequence[float]) -> float:
    """Return the share of rows whose largest logit is that of the label, ×100."""
    return 100 * float(np.mean(logits.argmax(axis=1) == np.asarray(labels)))


def spearman(predictions: npt.ArrayLike, scores: Sequence[float]) -> float:
    """Return Spearman's rank correlation ×100; 0 of one pair, and if all predictions, or all scores, are equal."""
    from scipy.stats import spearmanr

    return _correlation(spearmanr, predictions, scores)


def pearson(predictions: npt.ArrayLike, scores: Sequence[float]) -> float:
    """Return Pearson's correlation ×100; 0 of one pair, and if all predictions, or all scores, are equal."""
    from scipy.stats import pearsonr

    return _correlation(pearsonr, predictions, scores)


def score_row(classifier: Classifier, task: str, part: Part, progress: Progress | None = None) -> dict[str, Any]:
    """Return a row of results, computed in fp32.

    The row is ``{task, split, n, metrics, items, items_sha256, data_sha256, source, truncated}``. ``items`` has one
    entry per text, in the order of the data: ``correct`` (0 or 1), or for a regression ``gold`` and ``prediction``.
    ``items_sha256`` is the hash of these texts, ``data_sha256`` that of their whole split. ``truncated`` has the number
    of distinct texts that exceed the model's length limit.
    """
    cuts = Cuts()
    logits = classifier.logits(part.texts, progress=progress, cuts=cuts)
    metrics, items = _of_scores(logits, part) if part.graded else _of_classes(logits, part, task)
    row = {"task": task, "split": part.split, "n": len(part), "metrics": metrics, "items": items}
    row |= {"items_sha256": part.items_sha256, "data_sha256": part.data_sha256, "source": part.source}
    return {**row, "truncated": cuts.record()}


def _of_classes(logits: Logits, part: Part, task: str) -> tuple[dict[str, float], dict[str, list[Any]]]:
    metrics = {"accuracy": accuracy(logits, part.labels)}
    predicted = logits.argmax(axis=1)
    if task in _WITH_F1 and logits.shape[1] == 2:  # a folder of one's own may have the name, and more classes
        from sklearn.metrics import f1_score

        metrics["f1"] = 100 * float(f1_score(part.labels, predicted, zero_division=0.0))
    return metrics, {"correct": (predicted == np.asarray(part.labels)).astype(int).tolist()}


def _of_scores(logits: Logits, part: Part) -> tuple[dict[str, float], dict[str, list[Any]]]:
    # The metrics are computed from the rounded predictions, so that they agree with the items exactly.
    predictions = [round(float(value), _DECIMALS) for value in logits[:, 0]]
    metrics = {"spearman": spearman(predictions, part.labels), "pearson": pearson(predictions, part.labels)}
    return metrics, {"gold": list(part.labels), "prediction": predictions}


def _correlation(measure: Any, predictions: npt.ArrayLike, scores: Sequence[float]) -> float:
    if len(scores) < 2:
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about constant input, for which 0 is returned
        value = float(measure(np.asarray(predictions, dtype=np.float64), np.asarray(scores, dtype=np.float64))[0])
    return 100 * value if np.isfinite(value) else 0.0
