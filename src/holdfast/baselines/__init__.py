"""The tables' other rows: word vectors, poolings, whitening and a flow, each exported as a plain SentenceTransformer.

`BASELINES` names them; `holdfast.baselines.run.make_baseline` makes one. Nothing here is trained with a contrastive
loss, and an encoder's own weights are never changed.
"""

from __future__ import annotations

from holdfast.baselines.registry import BASELINES, Baseline

__all__ = ["BASELINES", "Baseline"]
