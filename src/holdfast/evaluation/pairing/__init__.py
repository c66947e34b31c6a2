"""`holdfast compare`: from result files to samples of the items that they share, and to rows of differences."""

from __future__ import annotations

from holdfast.evaluation.pairing.audited import is_paired
from holdfast.evaluation.pairing.rows import compare
from holdfast.evaluation.pairing.sides import Side, Source, read_side

__all__ = ["Side", "Source", "compare", "is_paired", "read_side"]
