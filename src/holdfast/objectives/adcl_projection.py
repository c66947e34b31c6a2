"""ADCL's projection g of a sentence vector, and the spread of what it gives."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from holdfast.objectives.contrastive import at_least_fp32, full_precision
from holdfast.objectives.option_checks import check_words

ProjectionKind = Literal["mlp", "linear"]


class Projection(nn.Module):
    """g: ``Linear(d, d)``, ``Sigmoid``, ``Linear(d, c)``, ``Tanh``, in fp32; dropped after training (§3.2, app. F).

    Sigmoid gives all sentences nearly the same vector, of halves, so that at the start their z are nearly parallel: the
    mean cosine of z is 0.998 where it is 0.60 without the first two layers, and a short run stays there.

    Args:
        dimension: d.
        size: c.
        kind: "mlp", or "linear" without the first two layers.
    """

    def __init__(self, dimension: int, size: int, kind: ProjectionKind = "mlp") -> None:
        super().__init__()
        check_words(projection=(kind, ProjectionKind))
        if size < 1:
            raise ValueError(f"projection_size must be 1 or more, got {size}")
        hidden = [nn.Linear(dimension, dimension), nn.Sigmoid()] if kind == "mlp" else []
        self.layers = nn.Sequential(*hidden, nn.Linear(dimension, size), nn.Tanh())

    def forward(self, vectors: Tensor) -> Tensor:
        """Project (rows, d) → (rows, c), with values in (−1, 1)."""
        with full_precision(vectors):
            projected: Tensor = self.layers(at_least_fp32(vectors))
            return projected


def mean_cosine(vectors: Tensor) -> Tensor:
    """Return the mean cosine of the pairs of different rows of (n, c), a scalar; 0 for one row."""
    unit = nn.functional.normalize(vectors.float(), dim=-1)
    count = len(unit)
    return (unit.sum(dim=0).square().sum() - count) / max(count * (count - 1), 1)
