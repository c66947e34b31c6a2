"""Training a masked language model from scratch, or continuing one, on unlabelled sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.pretraining.pretrain_settings import PretrainSettings
    from holdfast.pretraining.pretraining_run import pretrain

__all__ = ["PretrainSettings", "pretrain"]

__getattr__ = lazy_exports(
    __name__,
    {
        "PretrainSettings": "pretrain_settings",
        "pretrain": "pretraining_run",
    },
)
