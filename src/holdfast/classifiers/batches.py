"""The order of training texts, and their batches."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from holdfast.adversary.token_batches import padded
from holdfast.training.sampling import EpochOrder

_BATCHES_SORTED = 20
"""Number of batches whose texts are sorted by length together: this removes most padding and keeps batches mixed."""


class LengthOrder(EpochOrder):
    """Row numbers in an order drawn from (seed, epoch), in which the rows of a batch have similar lengths.

    The order is cut into batches of ``batch_size`` from the front; an incomplete batch is the last. Cross-entropy is a
    mean over texts, so the grouping of texts into batches does not change the loss of a text, unlike in contrastive
    training.

    Args:
        lengths: number of tokens of each row.
        batch_size: number of rows of a batch.
        seed: the run's seed.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        super().__init__(len(lengths), seed)
        self.lengths, self.batch_size = lengths, batch_size

    def __iter__(self) -> Iterator[int]:
        rows = list(super().__iter__())
        whole = len(rows) - len(rows) % self.batch_size
        rest = rows[whole:]
        batches: list[list[int]] = []
        window = self.batch_size * _BATCHES_SORTED
        for start in range(0, whole, window):
            sorted_rows = sorted(rows[start : min(start + window, whole)], key=self.lengths.__getitem__)
            batches += [sorted_rows[i : i + self.batch_size] for i in range(0, len(sorted_rows), self.batch_size)]
        random.Random(f"{self.seed} {self.epoch}").shuffle(batches)
        for batch in [*batches, rest]:
            yield from batch


class Collate:
    """Collator of rows into a batch: tokens padded to the longest row, (B, L), and ``labels``, (B,), int64 or float32.

    The batch also holds the row numbers, ``rows``, a list of B, so that a defence can find the texts.

    Args:
        tokenizer: the model's tokeniser.
        encoded: the training texts, as returned by :func:`holdfast.attacks.classifier.tokenise`.
        labels: their class numbers, or their scores (floats).
    """

    def __init__(self, tokenizer: Any, encoded: Mapping[str, Sequence[Any]], labels: Sequence[float]) -> None:
        self.tokenizer, self.encoded, self.labels = tokenizer, encoded, labels

    def __call__(self, rows: Sequence[int]) -> dict[str, Any]:
        """Return the batch of some rows."""
        batch = padded(self.tokenizer, self.encoded, rows, torch.device("cpu"))
        return {**batch, "labels": torch.tensor([self.labels[row] for row in rows]), "rows": list(rows)}
