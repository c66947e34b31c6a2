"""`holdfast compare`: samples of the items that result files share, and rows of differences between them."""

from __future__ import annotations

from holdfast.evaluation.pairing.attacked import attacked_by_all
from holdfast.evaluation.pairing.audited import is_paired
from holdfast.evaluation.pairing.compare_inputs import ComparedResult, RowKey, Side, read_side
from holdfast.evaluation.pairing.rows import compare, difference_row, draw

__all__ = [
    "ComparedResult",
    "RowKey",
    "Side",
    "attacked_by_all",
    "compare",
    "difference_row",
    "draw",
    "is_paired",
    "read_side",
]
