"""Tuples that the parts of the objective `Combined` hand to one another."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from holdfast.objectives.heads import Statistics


class NegativeMasks(NamedTuple):
    """The masks of the negatives of each query.

    Attributes:
        equal: (B, N), true at keys of the batch that are not negatives, as returned by `Objective.equal_texts`.
        queue: (B, Q), true at keys of the queue that are negatives, from `Objective.equal_in_queue`; None: no queue.
    """

    equal: Tensor | None
    queue: Tensor | None


class Projected(NamedTuple):
    """Projected vectors z and their keys, both (B, d), and the statistics of z's view."""

    z: Tensor
    keys: Tensor
    statistics: Statistics
