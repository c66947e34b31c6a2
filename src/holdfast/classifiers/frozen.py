"""A classifier on a frozen encoder: multinomial logistic regression on its sentence vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from holdfast.text_prompts import prompts_with_default

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Array = npt.NDArray[np.float32]

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Values of scikit-learn's C, the inverse of the L2 strength, for vectors whose coordinates have a mean square of 1."""

_MAX_ITERATIONS = 2000


@dataclass(frozen=True)
class Fit:
    """A fitted linear layer.

    Attributes:
        weight: (classes, d), for the encoder's unscaled vectors.
        bias: (classes,).
        strength: the C that was chosen.
        scores: accuracy ×100 on the selection part for each C.
    """

    weight: Array
    bias: Array
    strength: float
    scores: dict[float, float]


def fit(vectors: Array, labels: Sequence[float], dev_vectors: Array, dev_labels: Sequence[float]) -> Fit:
    """Fit a logistic regression; select the strength by accuracy on the selection part, the strongest of equal ones.

    Vectors are (n, d) and (m, d); each class number from 0 to classes − 1 must occur in ``labels``.
    """
    from sklearn.linear_model import LogisticRegression

    # One scale for all coordinates: C has the same meaning for every encoder, and the geometry does not change.
    scale = float(np.sqrt(np.mean(np.square(vectors, dtype=np.float64)))) or 1.0
    scaled, dev_scaled = vectors.astype(np.float64) / scale, dev_vectors.astype(np.float64) / scale
    scores: dict[float, float] = {}
    best: LogisticRegression | None = None
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, max_iter=_MAX_ITERATIONS).fit(scaled, labels)
        scores[strength] = 100 * float(model.score(dev_scaled, dev_labels))
        if best is None or scores[strength] > scores[best.C]:
            best = model
    assert best is not None
    weight, bias = best.coef_ / scale, best.intercept_
    if len(weight) == 1:  # for two classes, scikit-learn has only the difference of the logits
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    return Fit(weight.astype(np.float32), bias.astype(np.float32), float(best.C), scores)


def with_head(encoder: SentenceTransformer, fitted: Fit) -> SentenceTransformer:
    """Return a SentenceTransformer of the encoder's modules and a native ``Dense`` whose vectors are the logits.

    The prompt with which the vectors were made is its default.
    """
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense

    prompts, default = prompts_with_default(encoder)  # of use without the chosen prompt the logits would be wrong
    classifier = SentenceTransformer(
        modules=list(encoder.children()), device=str(encoder.device), prompts=prompts, default_prompt_name=default
    )
    classes, width = fitted.weight.shape
    # truncate_dim does not cut between modules: the dimensions that it drops reach the layer, with weights of 0.
    whole = classifier.get_embedding_dimension() or width
    weight = np.pad(fitted.weight, ((0, 0), (0, whole - width)))
    head = Dense(
        whole,
        classes,
        activation_function=torch.nn.Identity(),
        init_weight=torch.from_numpy(weight),
        init_bias=torch.from_numpy(fitted.bias),
    )
    classifier.append(head.to(classifier.device))
    return classifier
