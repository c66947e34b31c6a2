"""A fine-tuning run's folder: what every run's folder is, for its own settings."""

from __future__ import annotations

from typing import Any

from holdfast.classifiers.settings import FinetuneSettings
from holdfast.training import folder
from holdfast.training.folder import METRICS_FILE, RUN_FILE, begin, clear, export, forget_unless_resumable

__all__ = ["METRICS_FILE", "RUN_FILE", "begin", "clear", "export", "finished_run", "forget_unless_resumable"]


def finished_run(settings: FinetuneSettings, resume: bool) -> dict[str, Any] | None:
    """The result of a run that is finished already; see :func:`holdfast.training.folder.finished_run`."""
    return folder.finished_run(settings.folder, settings.result_file, "finetune", resume)
