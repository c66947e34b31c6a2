"""Baselines of the papers' tables: word vectors, poolings, whitening and a flow, as plain SentenceTransformers.

`BASELINES` lists them; `holdfast.baselines.construction.make_baseline` makes one. No baseline is trained
with a contrastive loss, and an encoder's own weights are never changed.
"""

from __future__ import annotations

from holdfast.baselines.registry import BASELINES, Baseline

__all__ = ["BASELINES", "Baseline"]
