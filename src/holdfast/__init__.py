"""holdfast: sentence embeddings that hold fast under attack.

Train robust sentence encoders without labels, audit any encoder, and ship the result as an ordinary
``SentenceTransformer``. Importing this package does no work and loads no model.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports
from holdfast.renamed import RenamedModules
from holdfast.version import __version__ as __version__

if TYPE_CHECKING:
    from holdfast.baselines.spelling_step import spelling_of_corpus, spelling_step, with_spelling
    from holdfast.evaluation.sts import evaluate_sts
    from holdfast.leaderboard.entry_encoders import load
    from holdfast.models import load_sentence_transformer
    from holdfast.training.train_config import TrainConfig
    from holdfast.training.training_run import train

__all__ = [
    "TrainConfig",
    "evaluate_sts",
    "load",
    "load_sentence_transformer",
    "spelling_of_corpus",
    "spelling_step",
    "train",
    "with_spelling",
]

sys.meta_path.append(RenamedModules)

__getattr__ = lazy_exports(
    __name__,
    {
        "TrainConfig": "training.train_config",
        "train": "training.training_run",
        "evaluate_sts": "evaluation.sts",
        "load": "leaderboard.entry_encoders",
        "load_sentence_transformer": "models",
        "spelling_of_corpus": "baselines.spelling_step",
        "spelling_step": "baselines.spelling_step",
        "with_spelling": "baselines.spelling_step",
    },
)
