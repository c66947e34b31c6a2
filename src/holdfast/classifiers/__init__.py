"""Classifiers on top of an encoder, fine-tuned or fitted to its frozen vectors, for use and for attacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.classifiers.finetune_run import finetune
    from holdfast.classifiers.finetune_settings import FinetuneSettings

__all__ = ["FinetuneSettings", "finetune"]

__getattr__ = lazy_exports(
    __name__,
    {
        "FinetuneSettings": "finetune_settings",
        "finetune": "finetune_run",
    },
)
