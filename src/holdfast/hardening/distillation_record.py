"""The record of a distillation, with which a resumed run must agree."""

from __future__ import annotations

from typing import Any

from sentence_transformers import SentenceTransformer

from holdfast import precision as arithmetic
from holdfast.data.joined_texts import DividedCorpus
from holdfast.data.sources import CORPORA
from holdfast.hardening.distill_settings import DistillSettings
from holdfast.hardening.student import NewStudent, Student
from holdfast.input_limits import lowered
from holdfast.model_lookup import model_identity, option_contents, resolve_model
from holdfast.objectives.anchored import Anchored
from holdfast.text_prompts import prompt_protocol
from holdfast.training.method_options import method_options, option_defaults, with_dropout

METHOD = "anchored"
_TRAINING = (
    *("batch_size", "learning_rate", "warmup_share", "epochs", "max_steps", "dropout", "max_length", "seed", "export"),
)
_SHAPE = {"layers": "num_hidden_layers", "hidden": "hidden_size", "vocabulary": "vocab_size"}


def objective_options(settings: DistillSettings) -> dict[str, Any]:
    """Return the options of the objective.

    Raises:
        UserError: an unknown option, or a value of a wrong type.
    """
    options = method_options(METHOD, None, settings.options)
    return with_dropout(METHOD, options) if settings.dropout else options


def settings_record(settings: DistillSettings, student: Student) -> dict[str, Any]:
    """Return the part of the record that follows from the settings, without reading data."""
    named = model_identity(resolve_model(student))["model_sha256"] if isinstance(student, str) else None
    options = option_defaults(Anchored) | objective_options(settings)
    return {
        "method": METHOD,
        "options": options,
        **option_contents(options, Anchored.FILE_OPTIONS),
        "teacher": settings.teacher,
        "teacher_sha256": model_identity(resolve_model(settings.teacher))["model_sha256"],
        "pooling": settings.pooling,
        **({"prompt_options": settings.prompt_settings} if settings.prompt_settings else {}),
        "student": str(student) if isinstance(student, NewStudent) else settings.student,
        "student_sha256": named,
        **({"student_prompt": settings.student_prompt} if settings.student_prompt else {}),
        "space": settings.space,
        "max_positions": settings.max_positions,
        "join": settings.join,
        "training": {name: getattr(settings, name) for name in _TRAINING},
        "eval_steps": settings.eval_steps,
    }


def run_record(
    settings: DistillSettings,
    identity: dict[str, Any],
    texts: DividedCorpus,
    teacher: SentenceTransformer,
    student: SentenceTransformer,
) -> dict[str, Any]:
    """Return the content of ``run.json``; ``identity`` is the `settings_record`."""
    corpus = texts.training
    config: Any = student.transformers_model.config  # type: ignore[union-attr]
    return {
        **identity,
        "training": {**identity["training"], "precision": arithmetic.resolve(settings.precision, student.device)},
        "corpus": {"source": corpus.source, "sentences": corpus.sentences, "sha256": corpus.sha256},
        "held_out": len(texts.held_out),
        "shape": {name: getattr(config, key) for name, key in _SHAPE.items()},
        "max_seq_length": lowered(settings.max_length, student),
        "dimensions": teacher.get_embedding_dimension(),
        "attribution": settings.attribution or _known_licences(settings.corpus),
        **{f"teacher_{key}": value for key, value in prompt_protocol(teacher, sides=False).items()},
    }


def _known_licences(source: str) -> str | None:
    """Return the licences of a corpus, joined, if all of its parts are registered corpora; else None."""
    known = {entry.name: entry.licence for entry in CORPORA}
    licences = [known.get(part.strip()) for part in source.split(",")]
    return None if None in licences else "; ".join(dict.fromkeys(filter(None, licences)))
