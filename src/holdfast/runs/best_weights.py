"""The best weights of a run so far, by the score of its evaluations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import load_model, save_file, save_model
from sentence_transformers import SentenceTransformer
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holdfast.adapters import adapter_weights, has_adapters
from holdfast.errors import UserError
from holdfast.files import atomic_path, one_line_write_errors, sha256
from holdfast.runs.checkpoints import BEST_FILE, BEST_FOLDER, best_is_damaged, best_is_intact, best_notes, seal_best
from holdfast.runs.run_record import RUN, digest_in


class KeepBest(TrainerCallback):
    """Callback that keeps the weights of the best evaluation so far in ``OUTPUT/best/``, with step and score.

    On ties the earlier step is kept. A resumed run reads the score from the file. If the file is damaged, the run was
    resumed from before the file's step (see `holdfast.runs.checkpoints`) and writes it again.

    Args:
        folder: output folder of the run.
        metric: name of the metric to compare.
        after: evaluations at or before this step are ignored.
    """

    def __init__(self, folder: Path, metric: str, *, after: float = 0.0) -> None:
        self.metric, self.after = metric, after
        self.folder = folder
        self.path = folder / BEST_FOLDER / BEST_FILE
        notes = {} if best_is_damaged(folder) else best_notes(self.path)
        self.step: int | None = int(notes["step"]) if notes else None
        self.score: float | None = float(notes["score"]) if notes else None

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Save the model when its score beats the best so far."""
        score = kwargs["metrics"][self.metric]
        if state.global_step <= self.after or (self.score is not None and score <= self.score):
            return
        self.step, self.score = state.global_step, score
        if args.should_save:
            with atomic_path(self.path) as temporary, one_line_write_errors(self.path):
                metadata = {"step": str(self.step), "score": repr(score)}
                if (run := digest_in(self.folder)) is not None:
                    metadata[RUN] = run
                model = kwargs["model"]
                if has_adapters(model):
                    save_file(adapter_weights(model), str(temporary), metadata=metadata)
                else:
                    save_model(model, str(temporary), metadata=metadata)
                seal_best(self.path, sha256(temporary))

    def restore(self, model: SentenceTransformer) -> None:
        """Put the best weights into ``model``.

        Raises:
            UserError: the file is missing or damaged.
        """
        if not best_is_intact(self.folder):
            raise UserError(f"{self.path} is damaged: continue with --resume, which goes back to before it was written")
        # Read on the CPU, then copied to the model's device. Of a model with adapters the file holds only these.
        load_model(model, str(self.path), strict=not has_adapters(model))
