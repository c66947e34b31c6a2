"""The heads between sentence vectors and losses in training, which are dropped afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from holdfast.distributed import joined, sum_over_processes
from holdfast.objectives.contrastive import at_least_fp32, full_precision
from holdfast.objectives.option_checks import check_words

HeadKind = Literal["tanh", "none"]
AnyHeadKind = Literal["tanh", "none", "bn"]


@dataclass(frozen=True)
class BatchMoments:
    """The mean and the variance of a batch normalisation.

    Attributes:
        mean: (views, 1, d).
        variance: (views, 1, d), the mean squared deviation.
    """

    mean: Tensor
    variance: Tensor

    def of_view(self, index: int) -> BatchMoments:
        """Return the moments of one view, (1, 1, d)."""
        return BatchMoments(self.mean[index : index + 1], self.variance[index : index + 1])


Statistics = tuple[BatchMoments, ...]
"""The moments of one view at each batch normalisation of a head; empty for a head without one."""


class Head(nn.Module):
    """The train-only head of SimCSE: ``Linear(d, d)`` and ``Tanh``, dropped at evaluation and export.

    Computed in fp32. Initialised like BERT's own pooler: weights N(0, 0.02²), bias 0.

    Args:
        dimension: d.
        kind: "tanh", or "none" for no head.
    """

    def __init__(self, dimension: int, kind: HeadKind = "tanh") -> None:
        super().__init__()
        check_words(head=(kind, HeadKind))
        self.dense: nn.Linear | None = None
        if kind == "tanh":
            self.dense = nn.Linear(dimension, dimension)
            nn.init.normal_(self.dense.weight, std=0.02)
            nn.init.zeros_(self.dense.bias)

    def forward(self, vectors: Tensor, *, views: int = 1, statistics: Statistics | None = None) -> Tensor:
        """Project (rows, d) → (rows, d); each row independently of its view and its batch."""
        with full_precision(vectors):
            vectors = at_least_fp32(vectors)
            return vectors if self.dense is None else self.dense(vectors).tanh()

    def with_statistics(self, vectors: Tensor, *, views: int = 1) -> tuple[Tensor, list[Statistics]]:
        """Return the output of ``forward``, and the statistics of each view, which are empty."""
        return self(vectors), [()] * views

    @contextlib.contextmanager
    def unmoved(self) -> Iterator[None]:
        """Keep running statistics, if there are any, unchanged by passes inside the context."""
        norms = [module for module in self.modules() if isinstance(module, BatchNorm)]
        for norm in norms:
            norm.moves = False
        try:
            yield
        finally:
            for norm in norms:
                norm.moves = True


class BatchNormHead(Head):
    """V-advCSE's head: ``Linear(d, 2d)``, batch normalisation, ReLU, ``Linear(2d, d)``, batch normalisation.

    The linear maps have no bias and weights N(0, 0.02²); the second normalisation has no scale and shift. Computed in
    fp32. In training mode rows are normalised by the statistics of their batch: the rows *of their own view* on all
    processes together. In evaluation mode they are normalised by the running statistics.

    Args:
        dimension: d.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension, "none")
        self.wide = nn.Linear(dimension, 2 * dimension, bias=False)
        self.wide_norm = BatchNorm(2 * dimension)
        self.narrow = nn.Linear(2 * dimension, dimension, bias=False)
        self.narrow_norm = BatchNorm(dimension, affine=False)
        nn.init.normal_(self.wide.weight, std=0.02)
        nn.init.normal_(self.narrow.weight, std=0.02)

    def forward(self, vectors: Tensor, *, views: int = 1, statistics: Statistics | None = None) -> Tensor:
        """Project (rows, d) → (rows, d).

        Args:
            vectors: equally many rows of each view, view after view.
            views: number of views; each view is normalised as a batch of its own.
            statistics: normalise with these statistics of one view, possibly from another pass; the running statistics
                then do not change. None: batch statistics; in training mode the running statistics move once.
        """
        return self._project(vectors, views, statistics)[0]

    def with_statistics(self, vectors: Tensor, *, views: int = 1) -> tuple[Tensor, list[Statistics]]:
        """Return the output of ``forward``, and the statistics of each view, attached to the graph."""
        projected, moments = self._project(vectors, views, None)
        return projected, [tuple(m.of_view(view) for m in moments) for view in range(views)]

    def _project(self, vectors: Tensor, views: int, statistics: Statistics | None) -> tuple[Tensor, Statistics]:
        first, second = statistics or (None, None)
        with full_precision(vectors):
            rows = at_least_fp32(vectors).reshape(views, -1, vectors.shape[-1])
            hidden, first = self.wide_norm(self.wide(rows), first)
            projected, second = self.narrow_norm(self.narrow(hidden.relu()), second)
        assert first is not None
        assert second is not None
        return projected.flatten(0, 1), (first, second)


class BatchNorm(nn.Module):
    """Batch normalisation over the joined batch of all processes, with statistics that other passes can reuse.

    With one process and one view it is ``torch.nn.BatchNorm1d``. The statistics carry gradient to the rows of every
    process; the running statistics are equal on all processes. With several views they move once, by the average over
    the views; without gradients (an evaluation that leaves the loss in training mode) they do not move.

    Args:
        dimension: d.
        affine: learn a scale and a shift.
        eps: added to the variance.
        momentum: weight of the new batch in the running statistics.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, dimension: int, *, affine: bool = True, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum, self.moves = eps, momentum, True
        self.weight = nn.Parameter(torch.ones(dimension)) if affine else None
        self.bias = nn.Parameter(torch.zeros(dimension)) if affine else None
        self.register_buffer("running_mean", torch.zeros(dimension))
        self.register_buffer("running_var", torch.ones(dimension))

    def forward(self, rows: Tensor, moments: BatchMoments | None = None) -> tuple[Tensor, BatchMoments]:
        """Return the normalised rows (views, B, d), and the moments used: ``moments`` if given."""
        if moments is None:
            moments = self._measured(rows) if self.training else self._running(len(rows))
        normalised = (rows - moments.mean) * (moments.variance + self.eps).rsqrt()
        if self.weight is not None and self.bias is not None:
            normalised = normalised * self.weight + self.bias
        return normalised, moments

    def _measured(self, rows: Tensor) -> BatchMoments:
        """Return the moments of each view over the rows of all processes; in training, update the running ones."""
        if rows.shape[1] == 1 and not joined():
            raise ValueError("batch normalisation needs at least two sentences in a batch")
        mean, _ = _joined_mean(rows)
        variance, count = _joined_mean((rows - mean).square())  # in two passes: E[x²] − E[x]² would lose precision
        if self.moves and torch.is_grad_enabled():
            with torch.no_grad():
                self.running_mean.lerp_(mean.mean(dim=(0, 1)), self.momentum)
                self.running_var.lerp_((variance * count / (count - 1)).mean(dim=(0, 1)), self.momentum)
        return BatchMoments(mean, variance)

    def _running(self, views: int) -> BatchMoments:
        # Copies: the moments are used after this pass, and a later pass may change the buffers.
        return BatchMoments(*(buffer.clone().expand(views, 1, -1) for buffer in (self.running_mean, self.running_var)))


def make_head(dimension: int, kind: AnyHeadKind) -> Head:
    """Return a head of a kind: "tanh", "none" (:class:`Head`) or "bn" (:class:`BatchNormHead`)."""
    check_words(head=(kind, AnyHeadKind))
    return BatchNormHead(dimension) if kind == "bn" else Head(dimension, kind)


def _joined_mean(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean of rows (views, B, d) over all processes, (views, 1, d) with gradient, and their number."""
    own = rows.new_full((len(rows), 1, 1), rows.shape[1])
    total = sum_over_processes(torch.cat([rows.sum(dim=1, keepdim=True), own], dim=-1))
    return total[..., :-1] / total[..., -1:], total[..., -1:]
