"""Training a masked language model from scratch, or continuing one, on unlabelled sentences.

from holdfast.pretraining import PretrainSettings, pretrain
"""

from __future__ import annotations

from holdfast.pretraining.run import pretrain
from holdfast.pretraining.settings import PretrainSettings

__all__ = ["PretrainSettings", "pretrain"]
