"""A batch of labelled texts with the classifier in training, as the Geometry Attack takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from holdfast.adversary.geometry import BatchGradients
from holdfast.adversary.token_batches import padded
from holdfast.attacks.classifier import Text
from holdfast.attacks.gradient_classifier import GradientClassifier
from holdfast.classifiers.losses import task_loss


class LabelledBatch:
    """A batch to attack: a :class:`~holdfast.adversary.geometry.GradientModel` with the loss of the task.

    Use it inside ``attacking(model)``.

    Args:
        model: a Hugging Face sequence classifier.
        tokenizer: its fast tokeniser.
        originals: n texts, or pairs, in which the second text is attacked.
        labels: (n,): class numbers; or floating scores, for which `finished` is always False.
        max_length: tokens per text or pair.

    Raises:
        UserError: the classifier does not end in a linear layer.
    """

    def __init__(self, model: Any, tokenizer: Any, originals: Sequence[Text], labels: Tensor, max_length: int) -> None:
        self._classifier = GradientClassifier(model, tokenizer, max_tokens=max_length, source=str(model.name_or_path))
        self._tokenizer, self._originals, self._labels = tokenizer, originals, labels

    def gradients(self, texts: Sequence[str], rows: Sequence[int]) -> BatchGradients:
        """Return z and the gradients of the loss: one forward and one backward pass."""
        encoded = self._classifier.tokenised(self._inputs(texts, rows))
        every = range(len(texts))
        features = padded(self._tokenizer, encoded, every, self._labels.device)
        labels = self._labels[list(rows)]
        attacked = [len(self._originals[row]) - 1 for row in rows]
        return self._classifier.gradients(encoded, features, every, attacked, lambda logits: task_loss(logits, labels))

    def vectors(self, texts: Sequence[str], rows: Sequence[int]) -> Tensor:
        """Return z of n texts, computed in batches of similar length; equal inputs are encoded once."""
        distinct: dict[Text, int] = {}
        places = [distinct.setdefault(text, len(distinct)) for text in self._inputs(texts, rows)]
        return self._classifier.vectors(list(distinct))[0][places]

    def loss(self, z: Tensor, rows: Sequence[int]) -> Tensor:
        """Return the task's mean loss of n vectors."""
        return task_loss(self._classifier.layer(z), self._labels[list(rows)])

    def finished(self, z: Tensor, rows: Sequence[int]) -> Sequence[bool]:
        """Return, for each of n vectors, True if the predicted class is not the label."""
        if self._labels.is_floating_point():
            return [False] * len(rows)
        with torch.no_grad():
            wrong: list[bool] = (self._classifier.layer(z).argmax(dim=-1) != self._labels[list(rows)]).tolist()
        return wrong

    def unfinished(self) -> list[int]:
        """Return the indices of the originals that the classifier predicts correctly."""
        rows = range(len(self._originals))
        if self._labels.is_floating_point():
            return list(rows)
        z = self.vectors([text[-1] for text in self._originals], rows)
        return [row for row, wrong in zip(rows, self.finished(z, rows), strict=True) if not wrong]

    def _inputs(self, texts: Sequence[str], rows: Sequence[int]) -> list[Text]:
        return [(*self._originals[row][:-1], text) for text, row in zip(texts, rows, strict=True)]
