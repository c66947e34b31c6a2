"""holdfast: sentence embeddings that hold fast under attack.

Train robust sentence encoders without labels, audit any encoder, and ship the result as an ordinary
``SentenceTransformer``. Importing this package does no work and loads no model.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from holdfast.renamed import RenamedModules

if TYPE_CHECKING:
    from holdfast.evaluation.sts import evaluate_sts
    from holdfast.models import load_sentence_transformer
    from holdfast.training.train_config import TrainConfig
    from holdfast.training.training_run import train

__version__ = "0.1.0"

__all__ = ["TrainConfig", "evaluate_sts", "load_sentence_transformer", "train"]

_HOMES = {
    "TrainConfig": "holdfast.training.train_config",
    "train": "holdfast.training.training_run",
    "evaluate_sts": "holdfast.evaluation.sts",
    "load_sentence_transformer": "holdfast.models",
}

sys.meta_path.append(RenamedModules)


def __getattr__(name: str) -> Any:
    """Import a public name on first access, so that torch is not loaded only to print a version."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
