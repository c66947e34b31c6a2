"""`holdfast compare`: samples of the items that result files share, and rows of differences between them."""

from __future__ import annotations

from holdfast.evaluation.pairing.attacked import attacked_by_all
from holdfast.evaluation.pairing.audited import is_paired
from holdfast.evaluation.pairing.rows import compare, differing, draw
from holdfast.evaluation.pairing.sides import Key, Side, Source, read_side

__all__ = ["Key", "Side", "Source", "attacked_by_all", "compare", "differing", "draw", "is_paired", "read_side"]
