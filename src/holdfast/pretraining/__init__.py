"""Training a masked language model from scratch, or continuing one, on unlabelled sentences.

from holdfast.pretraining import PretrainSettings, pretrain
"""

from __future__ import annotations

from holdfast.pretraining.pretrain_settings import PretrainSettings
from holdfast.pretraining.pretraining_run import pretrain

__all__ = ["PretrainSettings", "pretrain"]
