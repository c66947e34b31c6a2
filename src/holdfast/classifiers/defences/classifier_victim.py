"""A Hugging Face sequence classifier as a victim of attacks that exchange words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.adversary.geometry import Slopes
from holdfast.adversary.token_batches import in_batches, padded
from holdfast.attacks.classifier import Text, tokenise
from holdfast.attacks.classifier_gradients import classification_layer
from holdfast.backbone import Backbone
from holdfast.classifiers.losses import task_loss


class ClassifierVictim:
    """A victim for the Geometry Attack, for use inside ``attacking(model)``: z is the input of the last linear layer.

    The loss is the task's loss.

    Args:
        model: the classifier.
        tokenizer: its fast tokeniser.
        originals: n texts, or pairs, in which the second text is attacked.
        labels: (n,): class numbers; or floating scores, for which `defeated` is always False.
        max_length: tokens per text or pair.

    Raises:
        UserError: the classifier does not end in a linear layer.
    """

    def __init__(self, model: Any, tokenizer: Any, originals: Sequence[Text], labels: Tensor, max_length: int) -> None:
        self._model, self._tokenizer, self._max_length = model, tokenizer, max_length
        self._originals, self._labels = originals, labels
        self._backbone = Backbone.of_transformer(model.base_model)
        self._layer = classification_layer(model, model.config.num_labels, str(model.name_or_path))

    def slopes(self, texts: Sequence[str], rows: Sequence[int]) -> Slopes:
        """Return z and the loss's gradients at z and at the first layer's input: one forward and one backward pass."""
        columns = [list(column) for column in zip(*self._whole(texts, rows), strict=True)]
        encoded = self._tokenizer(
            *columns, truncation=True, max_length=self._max_length, return_offsets_mapping=True, verbose=False
        )
        features = padded(self._tokenizer, encoded, range(len(texts)), self._labels.device)
        mask = features["attention_mask"].float()
        leaf = mask.new_zeros(*mask.shape, self._model.config.hidden_size).requires_grad_()
        with torch.enable_grad(), self._backbone.perturbed(leaf, mask), self._watching() as entering:
            loss = task_loss(self._model(**features).logits, self._labels[list(rows)])
            direction, tokens = torch.autograd.grad(loss, [entering[0], leaf])
        offsets = [self._offsets(encoded, row) for row in range(len(texts))]
        return Slopes(entering[0].detach().float(), direction.float(), tokens, offsets)

    @torch.no_grad()
    def vectors(self, texts: Sequence[str], rows: Sequence[int]) -> Tensor:
        """Return z of n texts, computed in batches of similar length."""
        encoded = tokenise(self._tokenizer, self._whole(texts, rows), self._max_length)
        order: list[int] = []
        vectors = []
        with self._watching() as entering:
            for numbers, features in in_batches(self._tokenizer, encoded, self._labels.device):
                self._model(**features)
                order += numbers
                vectors.append(entering.pop().float())
        return torch.cat(vectors)[torch.tensor(order).argsort()]

    def loss(self, z: Tensor, rows: Sequence[int]) -> Tensor:
        """Return the task's mean loss of n vectors."""
        return task_loss(self._layer(z), self._labels[list(rows)])

    def defeated(self, z: Tensor, rows: Sequence[int]) -> Sequence[bool]:
        """Return, for each of n vectors, True if the predicted class is not the label."""
        if self._labels.is_floating_point():
            return [False] * len(rows)
        with torch.no_grad():
            wrong: list[bool] = (self._layer(z).argmax(dim=-1) != self._labels[list(rows)]).tolist()
        return wrong

    def undefeated(self) -> list[int]:
        """Return the indices of the originals that the classifier predicts correctly."""
        rows = range(len(self._originals))
        if self._labels.is_floating_point():
            return list(rows)
        z = self.vectors([text[-1] for text in self._originals], rows)
        return [row for row, wrong in zip(rows, self.defeated(z, rows), strict=True) if not wrong]

    def _whole(self, texts: Sequence[str], rows: Sequence[int]) -> list[Text]:
        return [(*self._originals[row][:-1], text) for text, row in zip(texts, rows, strict=True)]

    def _offsets(self, encoded: Any, row: int) -> list[tuple[int, int]]:
        """Return the span of characters in the attacked text for each token; (0, 0) for tokens of the other text."""
        attacked = len(self._originals[0]) - 1
        spans: Sequence[tuple[int, int]] = encoded["offset_mapping"][row]
        return [span if of == attacked else (0, 0) for of, span in zip(encoded.sequence_ids(row), spans, strict=True)]

    @contextlib.contextmanager
    def _watching(self) -> Iterator[list[Tensor]]:
        """Record the inputs of the last layer, one entry per pass."""
        entering: list[Tensor] = []

        def keep(_module: nn.Module, args: tuple[Any, ...]) -> None:
            entering.append(args[0])

        handle = self._layer.register_forward_pre_hook(keep)
        try:
            yield entering
        finally:
            handle.remove()
