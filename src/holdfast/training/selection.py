"""Which step's weights are kept: the best on STS-B *dev*, never on a test split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_model, save_model
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holdfast.files import atomic_path, telling_write_errors

METRIC = "eval_stsb_dev_spearman"
BEST_FOLDER = "best"


class KeepBest(TrainerCallback):
    """Keeps the weights of the best evaluation so far in ``OUTPUT/best/``, with its step and score.

    Ties keep the earlier step. A resumed run reads the score back from the file.

    Args:
        folder: the run's output folder.
        metric: what is compared, by its name among an evaluation's metrics.
    """

    def __init__(self, folder: Path, metric: str = METRIC) -> None:
        self.metric = metric
        self.path = folder / BEST_FOLDER / "model.safetensors"
        self.step, self.score = _read(self.path)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Save the model when its score beats the best so far."""
        score = kwargs["metrics"][self.metric]
        if self.score is not None and score <= self.score:
            return
        self.step, self.score = state.global_step, score
        if args.should_save:
            with atomic_path(self.path) as temporary, telling_write_errors(self.path):
                metadata = {"step": str(self.step), "score": repr(score)}
                save_model(kwargs["model"], str(temporary), metadata=metadata)

    def restore(self, model: torch.nn.Module) -> None:
        """Put the best weights into ``model``."""
        load_model(model, str(self.path), device=str(next(model.parameters()).device))


def _read(path: Path) -> tuple[int | None, float | None]:
    if not path.exists():
        return None, None
    with safe_open(str(path), framework="pt") as file:
        metadata = file.metadata()
    return int(metadata["step"]), float(metadata["score"])
