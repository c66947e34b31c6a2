"""`holdfast distill`: a student learns the vectors that its teacher gives the clean texts; resumable at any point."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.modules import Dense
from transformers import set_seed

from holdfast.backbone_dropout import dropout_of
from holdfast.data.corpus import SpooledCorpus, spool_corpus
from holdfast.data.joined_texts import DividedCorpus, divided
from holdfast.data.registry import is_local, load_pairs
from holdfast.encoder import Encoder, freeze_unused
from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.evaluation.sts_dev import StsDev
from holdfast.hardening.distill_settings import DistillSettings
from holdfast.hardening.distillation_record import METHOD, objective_options, run_record, settings_record
from holdfast.hardening.student import Student, build_student, parse_student, without_projection
from holdfast.hardening.student_card import student_card
from holdfast.hardening.student_evaluation import CLEAN, StudentEvaluator, noisy, rows_of, speeds
from holdfast.input_limits import cut_line, input_limit, limited_to, lowered, lowered_line, set_limit
from holdfast.model_lookup import resolve_model
from holdfast.models import load_sentence_transformer, read_as, refuse_routes
from holdfast.objectives.anchored import Anchored
from holdfast.pretraining.vocabulary import own_tokenizer
from holdfast.progress import stage
from holdfast.runs.run import Run
from holdfast.runs.run_log import DISTILL_FILE
from holdfast.runs.training_progress import TrainingProgress, TrainingStage
from holdfast.text_prompts import prompt_of
from holdfast.training.corpus_checks import refuse_single_text
from holdfast.training.cpu import FreedMemory, fast_on_cpu
from holdfast.training.export import export
from holdfast.training.teacher_vectors import TeacherVectors, sampled_texts, teacher_vectors
from holdfast.training.trainer import HoldfastTrainer

VECTORS_FOLDER = "teacher-vectors"
"""The folder of the teacher's vectors in that of the run, unless another was named."""

ROWS_PER_GROUP = 16
"""Texts of like length that are run together on a CPU. Joined texts are much longer than others: groups of 32 have 2.1
times the tokens of the texts, groups of 16 have 1.4 times, and a step takes 0.7 of the time."""


@dataclass(frozen=True)
class _Parts:
    """The parts of a run, before the training."""

    teacher: SentenceTransformer
    student: SentenceTransformer
    projection: Dense | None
    objective: Anchored
    texts: DividedCorpus


def distill(
    settings: DistillSettings,
    *,
    resume: bool = False,
    console: Console | None = None,
    command: list[str] | None = None,
) -> dict[str, Any]:
    """Train a student and return the result, which is also written to ``OUTPUT/distill.json``.

    ``resume``, ``console`` and ``command`` are those of `Run`. A resumed run gives the weights of an unbroken one.

    Returns:
        A result with a row for the held-out texts, clean and with noise (``cosine`` of the student's vectors to the
        teacher's of the clean texts, ``teacher_cosine`` of the teacher's own), and one for STS-B dev where it is at
        hand; ``made`` holds steps, sizes and speeds.

    Raises:
        UserError: an error in the settings or the data, or as in `Run`.
    """
    settings.check()
    output = settings.output
    run = Run(
        "distill",
        output,
        resume=resume,
        save_steps=settings.save_steps,
        console=console,
        command=command,
        result_file=output / DISTILL_FILE,
        kept=(VECTORS_FOLDER,),
    )
    with run.alone():
        return _distill(settings, run)


def _distill(settings: DistillSettings, run: Run) -> dict[str, Any]:
    student = parse_student(settings.student)
    identity = settings_record(settings, student)
    if (finished := run.finished(identity, precision=settings.precision)) is not None:
        return finished
    parts = _parts(settings, student, run)
    run.begin(run_record(settings, identity, parts.texts, parts.teacher, parts.student))
    _print_sizes(parts, run)
    run.print(lowered_line(settings.max_length, input_limit(parts.teacher), settings.teacher))
    set_limit(parts.teacher, lowered(settings.max_length, parts.teacher))
    vectors = _vectors(settings, parts, run)
    evaluator = _evaluator(settings, parts, run)
    seconds, made = _train(settings, parts, vectors, evaluator, run)
    result = _finish(settings, parts, evaluator, made, seconds, run)
    shutil.rmtree(run.folder / VECTORS_FOLDER, ignore_errors=True)
    return result


def _parts(settings: DistillSettings, student: Student, run: Run) -> _Parts:
    """Load the teacher, read the corpus, and build the student."""
    if settings.pooling is None and not (resolve_model(settings.teacher) / "modules.json").exists():
        raise UserError(f"{settings.teacher} is a raw language model, not an encoder: name its --pooling")
    options = objective_options(settings)
    with stage(run.console, f"loading {settings.teacher}", announce=False):
        teacher = load_sentence_transformer(settings.teacher, pooling=settings.pooling, prompts=settings)
    if prompt := prompt_of(teacher):
        run.print(f"the teacher reads every text after the prompt {prompt!r}")
    if prompt := settings.student_prompt:
        run.print(f"the student reads every text after the prompt {prompt!r}, in training and in use")
    with stage(run.console, f"reading {settings.corpus}", unit="sentences", announce=False) as reading:
        corpus = spool_corpus(
            settings.corpus,
            column=settings.column,
            data=settings.data,
            max_chars=settings.max_chars,
            at_least=settings.batch_size,
            progress=reading.update,
        )
    with stage(run.console, "preparing the texts", unit="texts", announce=False) as shown:
        texts = divided(
            corpus,
            held_out=settings.hold_out,
            join=settings.join,
            seed=settings.seed,
            max_chars=settings.max_chars,
            progress=shown.update,
        )
    if texts.training.sentences < settings.batch_size:
        raise UserError(
            f"the corpus {settings.corpus} has {texts.training.sentences} texts to train on, fewer than one batch of "
            f"{settings.batch_size}: give more text or a smaller --batch-size"
        )

    def tokenizer_of(pieces: int) -> Any:
        with stage(run.console, "counting word pieces"):
            return own_tokenizer(corpus, pieces, max_length=settings.max_positions)

    set_seed(settings.seed)
    model, projection = build_student(student, teacher, tokenizer_of, settings.max_positions, settings.student_prompt)
    refuse_routes(model, student if isinstance(student, str) else settings.teacher)
    try:
        objective = Anchored(model, **options)
        objective.use_labels()
        if model.device.type == "cpu":
            objective.length_groups = max(1, settings.batch_size // ROWS_PER_GROUP)
    except ValueError as error:
        raise UserError(f"{METHOD}: {error}") from error
    return _Parts(teacher, model, projection, objective, texts)


def _vectors(settings: DistillSettings, parts: _Parts, run: Run) -> TeacherVectors:
    """Return the teacher's vectors of the training texts, and show the objective a sample of the texts."""
    vectors = teacher_vectors(
        parts.teacher,
        parts.texts.training,
        settings.vectors or run.folder / VECTORS_FOLDER,
        teacher_sha256=run.record["teacher_sha256"],
        precision=run.record["training"]["precision"],
        console=run.console,
    )
    if wanted := parts.objective.WANTED_TEXTS:
        parts.objective.see_texts(*sampled_texts(parts.texts.training, vectors, wanted, settings.seed))
    return vectors


def _evaluator(settings: DistillSettings, parts: _Parts, run: Run) -> StudentEvaluator:
    held_out, precision = parts.texts.held_out, run.record["training"]["precision"]
    sts = None
    if is_local("stsb", "dev", settings.data):
        sts = StsDev(load_pairs("stsb", "dev", data=settings.data), precision=precision)
    with stage(run.console, "encoding the held-out texts", announce=False):
        targets = encode_sentences(parts.teacher, held_out)
    return StudentEvaluator(
        held_out, noisy(held_out, parts.objective.random_edits, settings.seed), targets, sts, precision
    )


def _train(
    settings: DistillSettings, parts: _Parts, vectors: TeacherVectors, evaluator: StudentEvaluator, run: Run
) -> tuple[float, dict[str, Any]]:
    """Train the student; return the seconds, and the steps made and the truncated texts."""
    student, corpus = parts.student, parts.texts.training
    encoder = Encoder(student)
    refuse_single_text(corpus, encoder)
    freeze_unused(encoder, encoder.tokenise(corpus.dataset[:2]["sentence"]))
    limit = run.record["max_seq_length"]
    own_limit = student.max_seq_length
    set_limit(student, limit)
    evaluate = bool(evaluator.texts) or evaluator.sts is not None
    trainer = HoldfastTrainer(
        model=student,
        args=_arguments(settings, run, corpus, evaluate=evaluate, on_cpu=student.device.type == "cpu"),
        train_dataset=corpus.dataset,
        loss=parts.objective,
        evaluator=evaluator if evaluate else None,
        keep_checkpoints=settings.keep_checkpoints,
        vectors=vectors,
    )
    progress = TrainingProgress(TrainingStage(run.console, settings.batch_size), _score, print_scores=True)
    with dropout_of(student, settings.dropout or None):
        seconds = run.train(trainer, progress, [FreedMemory()], fast_on_cpu(parts.objective))
    set_limit(student, own_limit)
    truncated = trainer.cut_texts(limit).record()
    if line := cut_line(truncated):
        run.print(f"in training {line}")
    return seconds, {"steps": trainer.state.global_step, "truncated": truncated}


def _score(metrics: dict[str, float]) -> str:
    shown = {f"eval_{CLEAN}": ("cosine {:.4f}"), "eval_stsb_dev_spearman": "STS-B dev {:.2f}"}
    return ", ".join(text.format(metrics[name]) for name, text in shown.items() if name in metrics)


def _arguments(
    settings: DistillSettings, run: Run, corpus: SpooledCorpus, *, evaluate: bool, on_cpu: bool
) -> SentenceTransformerTrainingArguments:
    batches = corpus.sentences // settings.batch_size  # a partial batch is dropped
    steps = settings.max_steps or math.ceil(batches * (settings.epochs or 1.0))
    return SentenceTransformerTrainingArguments(
        **run.arguments(on_cpu=on_cpu, evaluate=evaluate, eval_steps=settings.eval_steps, steps=steps),
        per_device_train_batch_size=settings.batch_size,
        num_train_epochs=settings.epochs or 1.0,
        max_steps=settings.max_steps or -1,
        lr_scheduler_type="linear",
        warmup_steps=round(settings.warmup_share * steps),
        max_grad_norm=1.0,
        dataloader_drop_last=True,
        report_to="none",
    )


def _finish(
    settings: DistillSettings,
    parts: _Parts,
    evaluator: StudentEvaluator,
    made: dict[str, Any],
    seconds: float,
    run: Run,
) -> dict[str, Any]:
    """Measure and export the student, and write its card and the result."""
    student = parts.student
    evaluator.precision = "fp32"
    if evaluator.sts is not None:
        evaluator.sts.precision = "fp32"
    limit = lowered(settings.max_length, student)  # as the teacher's is
    with stage(run.console, "measuring student and teacher"):
        with limited_to(student, limit):
            measured = evaluator(student)
        of_teacher = evaluator(parts.teacher)
        if settings.space == "student" and parts.projection is not None:
            student = without_projection(student, parts.projection)
            if evaluator.sts is not None:
                with limited_to(student, limit):
                    measured |= evaluator.sts(student)
        texts = evaluator.texts or list(parts.texts.training.dataset[:512]["sentence"])
        with limited_to(student, limit):
            speed, teacher_speed = speeds((student, parts.teacher), texts)
    rows = rows_of(evaluator, measured, of_teacher)
    made |= {"parameters": _weights(student), "teacher_parameters": _weights(parts.teacher), "stored": settings.export}
    made |= {"texts_per_second": speed, "teacher_texts_per_second": teacher_speed, "speed": speed / teacher_speed}
    made |= {"train_seconds": seconds, "dimensions": student.get_embedding_dimension()}
    device = student.device
    half = settings.export == "fp16"
    student.to("cpu", dtype=torch.float16 if half else torch.float32)
    export(student, run.folder, "", half=half)
    weights = (path for path in run.folder.glob("**/*.safetensors") if _is_model(path.relative_to(run.folder)))
    made["megabytes"] = sum(path.stat().st_size for path in weights) / 1e6
    export(student, run.folder, student_card(run.record, made, rows), half=half)
    return run.finish(run.protocol() | read_as(parts.teacher), rows, {"train_seconds": seconds}, device, made=made)


def _is_model(path: Path) -> bool:
    """Return True for a file of the finished model, by its path in the run's folder."""
    return not any(part.startswith(("checkpoint-", "best")) for part in path.parts)


def _weights(model: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def _print_sizes(parts: _Parts, run: Run) -> None:
    corpus, held_out = parts.texts.training, len(parts.texts.held_out)
    teacher, student = _weights(parts.teacher), _weights(parts.student)
    run.print(
        f"{corpus.sentences:,} texts in {corpus.source}, {held_out:,} more held out; teacher {teacher / 1e6:.1f} M "
        f"weights, student {student / 1e6:.1f} M; {parts.student.device}, {run.record['training']['precision']}",
        f"the student's {parts.projection.in_features} numbers are projected to the teacher's "
        f"{parts.projection.out_features}"
        if parts.projection is not None
        else "",
    )
