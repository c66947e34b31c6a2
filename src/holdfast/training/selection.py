"""Which step's weights are kept: the best on STS-B *dev*, never on a test split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_model, save_model
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holdfast.errors import UserError
from holdfast.files import atomic_path, sha256, telling_write_errors
from holdfast.training.checkpoints import BEST_FILE, BEST_FOLDER, best_is_damaged, best_is_intact, seal_best
from holdfast.training.record import RUN, digest_in

__all__ = ["BEST_FOLDER", "METRIC", "KeepBest"]

METRIC = "eval_stsb_dev_spearman"


class KeepBest(TrainerCallback):
    """Keeps the weights of the best evaluation so far in ``OUTPUT/best/``, with its step and score.

    Ties keep the earlier step. A resumed run reads the score back from the file, unless that is damaged: then it has
    gone back to before the file's step (see `holdfast.training.checkpoints`), and makes it again.

    Args:
        folder: the run's output folder.
        metric: what is compared, by its name among an evaluation's metrics.
        after: evaluations at this step and before it are not of what is trained, and do not count.
    """

    def __init__(self, folder: Path, metric: str = METRIC, *, after: float = 0.0) -> None:
        self.metric, self.after = metric, after
        self.folder = folder
        self.path = folder / BEST_FOLDER / BEST_FILE
        self.step, self.score = (None, None) if best_is_damaged(folder) else _read(self.path)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Save the model when its score beats the best so far."""
        score = kwargs["metrics"][self.metric]
        if state.global_step <= self.after or (self.score is not None and score <= self.score):
            return
        self.step, self.score = state.global_step, score
        if args.should_save:
            with atomic_path(self.path) as temporary, telling_write_errors(self.path):
                metadata = {"step": str(self.step), "score": repr(score)}
                if (run := digest_in(self.folder)) is not None:
                    metadata[RUN] = run
                save_model(kwargs["model"], str(temporary), metadata=metadata)
                seal_best(self.path, sha256(temporary))

    def restore(self, model: torch.nn.Module) -> None:
        """Put the best weights into ``model``.

        Raises:
            UserError: they are not as they were written.
        """
        if not best_is_intact(self.folder):
            raise UserError(f"{self.path} is damaged: continue with --resume, which goes back to before it was written")
        load_model(model, str(self.path))  # read on the CPU, which every file can be, and copied from there


def _read(path: Path) -> tuple[int | None, float | None]:
    if not path.exists():
        return None, None
    with safe_open(str(path), framework="pt") as file:
        metadata = file.metadata()
    return int(metadata["step"]), float(metadata["score"])
