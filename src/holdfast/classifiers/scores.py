"""How often a classifier is right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.attacks.classifier import Classifier
from holdfast.classifiers.material import Part
from holdfast.encoding import Progress

_WITH_F1 = ("mrpc", "qqp")
"""Tasks of unequal classes, for which F1 of the second class is reported beside the accuracy, as in GLUE."""


def accuracy(logits: npt.NDArray[np.float32], labels: Sequence[int]) -> float:
    """The share of rows whose largest logit is that of the label, ×100."""
    return 100 * float(np.mean(logits.argmax(axis=1) == np.asarray(labels)))


def score_row(classifier: Classifier, task: str, part: Part, progress: Progress | None = None) -> dict[str, Any]:
    """A row of results, computed in fp32: ``{task, split, n, metrics, data_sha256, source}``."""
    logits = classifier.logits(part.texts, progress=progress)
    metrics = {"accuracy": accuracy(logits, part.labels)}
    if task in _WITH_F1:
        from sklearn.metrics import f1_score

        metrics["f1"] = 100 * float(f1_score(part.labels, logits.argmax(axis=1), zero_division=0.0))
    row = {"task": task, "split": part.split, "n": len(part), "metrics": metrics}
    return {**row, "data_sha256": part.data_sha256, "source": part.source}
