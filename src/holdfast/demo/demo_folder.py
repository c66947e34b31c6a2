"""The demo's folder: its creation, its reuse by a resumed demo, and checks against other content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from holdfast.demo.demo_sentences import load_pairs, write_sentiment
from holdfast.demo.demo_settings import CORPUS_FILE, PAIRS_FILE, RECORD_FILE, REPORT_FILE, TASK_FOLDER, DemoSettings
from holdfast.errors import UserError
from holdfast.files import write_json, write_text
from holdfast.runs.run_folder import LOCK_FILE

_AGAIN = "to run it again, remove the folder or name another one with --output"


def refuse_finished(settings: DemoSettings) -> None:
    """Refuse a folder that is a file, or that holds a finished demo; this needs no text.

    Raises:
        UserError: the folder is a file or holds a finished demo.
    """
    if settings.output.exists() and not settings.output.is_dir():
        raise UserError(f"{settings.output} is a file; the demo needs a folder: holdfast demo --output DIR")
    report = settings.file(REPORT_FILE)
    if report.exists():
        raise UserError(f"the demo in {settings.output} is finished (report: {report}): {_AGAIN}")


def prepare(settings: DemoSettings, corpus: Sequence[str], model_sha256: str) -> None:
    """Write the texts into the demo's folder, unless it holds files that do not belong to this demo.

    Raises:
        UserError: the folder holds other files, or a demo with other settings.
    """
    folder, text = settings.output, "\n".join(corpus) + "\n"
    record = _record(settings, text, model_sha256)
    if folder.is_dir() and {path.name for path in folder.iterdir()} - {LOCK_FILE}:
        for name, before, now in _differences(settings, record):
            raise UserError(f"{folder} has a demo with {name} {before}, and {name} is now {now}: {_AGAIN}")
    write_json(settings.file(RECORD_FILE), record)  # written first: it marks the folder as this demo's
    write_text(settings.file(CORPUS_FILE), text)
    sentences = dict.fromkeys(text for pair in load_pairs() for text in (pair.sentence1, pair.sentence2))
    write_text(settings.file(PAIRS_FILE), "\n".join(sentences) + "\n")
    write_sentiment(settings.file(TASK_FOLDER))


def _record(settings: DemoSettings, corpus: str, model_sha256: str) -> dict[str, Any]:
    """Return the record that must be the same for a resumed demo."""
    names = ("steps", "batch_size", "epochs", "learning_rate", "attacked", "audited", "seed")
    sizes = {name: getattr(settings, name) for name in names}
    return {"model": model_sha256, "corpus": hashlib.sha256(corpus.encode()).hexdigest(), **sizes}


def _differences(settings: DemoSettings, record: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    try:
        before = json.loads(settings.file(RECORD_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{settings.output} holds other files: name an empty folder with --output") from error
    if not isinstance(before, dict):
        raise UserError(f"{settings.file(RECORD_FILE)} is damaged: choose another folder with --output")
    return [(name, before.get(name), value) for name, value in record.items() if before.get(name) != value]
