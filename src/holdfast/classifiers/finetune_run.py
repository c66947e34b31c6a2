"""A resumable run from an encoder and a labelled task to a classifier: training, selection, export, measurement."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from sentence_transformers.util import get_device_name
from transformers import TrainingArguments, set_seed

from holdfast import precision as arithmetic
from holdfast.attacks.classifier import Classifier, load_classifier
from holdfast.attacks.encoder_targets import finite_vectors
from holdfast.classifiers.classifier_trainer import ClassifierTrainer, selection_metric
from holdfast.classifiers.defences import DEFENCES, all_options, make_defence
from holdfast.classifiers.finetune_settings import FinetuneSettings
from holdfast.classifiers.frozen import fit, with_head
from holdfast.classifiers.initial_model import new_classifier
from holdfast.classifiers.labelled_texts import sample
from holdfast.classifiers.model_card import card
from holdfast.classifiers.scores import score_row
from holdfast.classifiers.splits import short_name
from holdfast.classifiers.training_data import TrainingData, load_training_data
from holdfast.data.tasks import task_named
from holdfast.encoding import Progress
from holdfast.errors import UserError
from holdfast.evaluation.adversarial_space import load_space_encoder
from holdfast.files import expanded, paths_in, sha256, write_json, write_text
from holdfast.input_limits import Cuts, cut_line, cut_lines, input_protocol, lowered, lowered_line, set_limit
from holdfast.model_folder import CLASSES_FILE
from holdfast.model_lookup import model_identity, option_contents, resolve_model
from holdfast.models import read_as, saved_plainly
from holdfast.progress import stage
from holdfast.prompt import template_length, text_limit
from holdfast.prompt_tokens import added_tokens
from holdfast.runs import run_folder
from holdfast.runs.best_weights import KeepBest
from holdfast.runs.run import Run
from holdfast.runs.training_progress import TrainingProgress, TrainingStage
from holdfast.text_prompts import prompt_protocol
from holdfast.training.cpu import FreedMemory, fast_on_cpu


def finetune(
    settings: FinetuneSettings,
    *,
    resume: bool = False,
    console: Console | None = None,
    command: list[str] | None = None,
) -> dict[str, Any]:
    """Make a classifier and return its result, which is also written to ``settings.result_file``.

    ``resume``, ``console`` and ``command`` are those of `Run`. A resumed run gives the weights of an unbroken one.

    Raises:
        UserError: an error in the settings or the data, or as in `Run`.
    """
    run = Run(
        "finetune",
        settings.folder,
        resume=resume,
        save_steps=settings.save_steps,
        console=console,
        command=command,
        result_file=settings.result_file,
    )
    with run.alone():
        return _finetune(settings.completed(), run)


def _finetune(settings: FinetuneSettings, run: Run) -> dict[str, Any]:
    identity = _settings_record(settings)
    if (finished := run.finished(identity, precision=settings.precision, where_recorded=["files"])) is not None:
        return finished
    with stage(run.console, f"reading {settings.task}", announce=False):
        material = load_training_data(
            settings.task,
            train_split=settings.train_split,
            examples=settings.examples,
            seed=settings.seed,
            data=settings.data,
            adversarial_texts=[expanded(path) for path in paths_in(settings.adversarial_texts or "")],
        )
    material = _measured_on(material, settings)
    if settings.frozen and material.regression:
        raise UserError(f"--frozen fits a logistic regression, and {material.task} has scores: leave out --frozen")
    run.print(*_describe(material))
    run.begin(_record(settings, identity, material))
    summary = _fit_frozen(settings, material, run) if settings.frozen else _train(settings, material, run)
    return _finish(material, summary, run)


def _train(settings: FinetuneSettings, material: TrainingData, run: Run) -> dict[str, Any]:
    """Fine-tune, export the best epoch, and return a summary of the training."""
    set_seed(settings.seed)
    with stage(run.console, f"loading {settings.model}", announce=False):
        start = new_classifier(settings.model, material, settings.max_length, settings, settings.label_map)
    model, tokenizer = start.model, start.tokenizer
    if start.head is not None:
        run.print(start.head.describe())
    if start.prompt is not None:
        run.print(f"the prompt {start.prompt!r} is put before every text, by the tokeniser of the classifier, too")
    metric = selection_metric(material.dev)
    metric_name = metric.removeprefix("eval_")
    defence = make_defence(settings.defence, settings.options)
    args = _arguments(settings, len(material.train), run, on_cpu=model.device.type == "cpu")
    best = KeepBest(settings.folder, metric, after=defence.clean_epochs * args.eval_steps)
    trainer = ClassifierTrainer(
        model=model,
        tokenizer=tokenizer,
        defence=defence,
        train=material.train,
        dev=material.dev,
        max_length=tokenizer.model_max_length,
        precision=run.record["training"]["precision"],
        args=args,
    )
    _print_limits(settings, tokenizer.model_max_length, trainer.cuts, run)
    run.print(*defence.notices)
    progress = TrainingProgress(
        TrainingStage(run.console, settings.batch_size),
        lambda metrics: f"dev {metric_name} {metrics[metric]:.2f}",
        print_scores=True,
    )
    seconds = run.train(trainer, progress, [FreedMemory(), best], fast_on_cpu(model))
    best.restore(model)
    run.export_transformer(model, tokenizer)
    head = {} if start.head is None else {"head": start.head.record()}
    return {
        "selected": {
            "protocol": f"the epoch with the best {metric_name} on {_name_of_dev(material)} was kept",
            "step": best.step,
            "steps": trainer.state.global_step,
            "score": best.score,
        },
        "seconds": seconds,
        "start": {"new_weights": start.new_weights, **head},
        "reading": {
            "max_seq_length": tokenizer.model_max_length,
            **({} if start.prompt is None and not settings.no_prompt else {"prompt": start.prompt}),
        },
        "truncated": trainer.cuts.record(),
    }


def _print_limits(settings: FinetuneSettings, limit: int | None, cuts: Cuts, run: Run) -> None:
    """Print the length limit if it differs from ``--max-length``, and the number of training texts that are cut."""
    if settings.frozen and limit is None:
        run.print(f"{settings.model} has no length limit: it reads texts whole")
    run.print(lowered_line(settings.max_length, limit, settings.model), cut_line(cuts.record()))


def _fit_frozen(settings: FinetuneSettings, material: TrainingData, run: Run) -> dict[str, Any]:
    """Fit the linear layer, export encoder and layer, and return a summary of the training."""
    with stage(run.console, f"loading {settings.model}", announce=False):
        encoder = load_space_encoder(settings.model, prompts=settings)
    if (resolve_model(settings.model) / CLASSES_FILE).is_file():
        run.print(f"{settings.model} is a classifier on a frozen encoder: only the encoder is used")
    set_limit(encoder, lowered(settings.max_length, encoder, template_length(encoder) + added_tokens(encoder)))
    began = time.monotonic()
    cuts = Cuts()
    with stage(run.console, "encoding", unit="texts") as shown:
        train, dev = (
            finite_vectors(
                encoder,
                [text[0] for text in part.texts],
                source=settings.model,
                role=None,
                precision=run.record["training"]["precision"],
                progress=shown.update,
                cuts=counted,
            )
            for part, counted in ((material.train, cuts), (material.dev, None))
        )
    _print_limits(settings, text_limit(encoder, added_tokens(encoder)), cuts, run)
    with stage(run.console, "fitting the logistic regression"):
        fitted = fit(train, material.train.labels, dev, material.dev.labels)
    classifier = with_head(encoder, fitted)

    def save(folder: Path) -> None:
        with saved_plainly(classifier.tokenizer):
            classifier.save_pretrained(str(folder), create_model_card=False)
        write_json(folder / CLASSES_FILE, {"classes": material.classes, "task": material.task})

    run_folder.export(run.folder, save, "modules.json")
    selected = {
        "protocol": f"the L2 strength with the best accuracy on {_name_of_dev(material)} was kept",
        "C": fitted.strength,
        "score": fitted.scores[fitted.strength],
        "scores": {str(strength): score for strength, score in fitted.scores.items()},
    }
    return {
        "selected": selected,
        "seconds": time.monotonic() - began,
        "start": {"new_weights": []},
        "reading": {**input_protocol(encoder), **read_as(encoder), **prompt_protocol(encoder, sides=False)},
        "truncated": cuts.record(),
    }


def _finish(material: TrainingData, summary: dict[str, Any], run: Run) -> dict[str, Any]:
    """Load the exported model, measure it, and write its card and the result."""
    began = time.monotonic()
    classifier = load_classifier(str(run.folder), regression=material.regression)
    with stage(run.console, "measuring", unit="texts") as shown:
        rows = _rows(classifier, material, shown.update)
    write_text(run.folder / "README.md", card(run.record, summary["selected"], rows))
    run.print(*cut_lines(rows))
    protocol = {**run.protocol(), **summary["start"], **summary["reading"]}
    timing = {"train_seconds": summary["seconds"], "evaluate_seconds": time.monotonic() - began}
    entries = {"selected": summary["selected"], "truncated": summary["truncated"]}
    return run.finish(protocol, rows, timing, classifier.device, **entries)


def _measured_on(material: TrainingData, settings: FinetuneSettings) -> TrainingData:
    """Return the material with at most ``test_examples`` texts in each test part, and a note about this."""
    if settings.test_examples is None:
        return material
    tests = tuple(sample(part, settings.test_examples, settings.seed) for part in material.tests)
    whole = {part.split: len(part) for part in material.tests}
    sampled = {part.split: whole[part.split] for part in tests if len(part) < whole[part.split]}
    notes = [
        f"measured on a sample of {part.split}, drawn by the seed: {len(part):,} of {whole[part.split]:,}"
        for part in tests
        if part.split in sampled
    ]
    return replace(material, tests=tests, notes=(*material.notes, *notes), sampled_from=sampled)


def _rows(classifier: Classifier, material: TrainingData, progress: Progress) -> list[dict[str, Any]]:
    """Return a row for each part; a row of a sample has the number of texts that the sample was drawn from."""
    rows = [score_row(classifier, material.task, part, progress) for part in (material.dev, *material.tests)]
    sampled = material.sampled_from
    return [{**row, "sample": {"of": sampled[row["split"]]}} if row["split"] in sampled else row for row in rows]


def _settings_record(settings: FinetuneSettings) -> dict[str, Any]:
    """Return the part of the record that depends on the settings only."""
    keys = ("epochs", "max_steps", "batch_size", "learning_rate", "max_length", "examples", "seed")
    options = all_options(settings.defence, settings.options)
    return {
        "task": short_name(task_named(settings.task)),
        "train_split": settings.train_split,
        "test_examples": settings.test_examples,
        "defence": settings.defence,
        "defence_options": options,
        **option_contents(options, DEFENCES[settings.defence].FILE_OPTIONS),
        "frozen": settings.frozen,
        "base_model": settings.model,
        "base_model_sha256": model_identity(resolve_model(settings.model))["model_sha256"],
        **({"prompt_options": settings.prompt_settings} if settings.prompt_settings else {}),
        **({"label_map": dict(settings.label_map)} if settings.label_map is not None else {}),
        "training": {key: getattr(settings, key) for key in keys},
        "files": _files_of(settings),
    }


def _files_of(settings: FinetuneSettings) -> dict[str, list[str]]:
    """Return the hashes of the files of an own task, and of the adversarial texts, which a finished run read, too."""
    own = [part.own for part in task_named(settings.task).splits if part.own is not None]
    adversarial = [expanded(path) for path in paths_in(settings.adversarial_texts or "")]
    return {
        name: sorted(sha256(path) for path in paths if path.is_file())
        for name, paths in (("task", own), ("adversarial_texts", adversarial))
    }


def _record(settings: FinetuneSettings, identity: dict[str, Any], material: TrainingData) -> dict[str, Any]:
    """Return the content of ``run.json``, which must be the same for a resumed run."""
    precision = arithmetic.resolve(settings.precision, torch.device(get_device_name()))
    parts = {"train": material.train, "dev": material.dev, **{part.split: part for part in material.tests}}
    return {
        "classes": material.classes,
        "takes_pairs": material.takes_pairs,
        **identity,
        "training": {**identity["training"], "precision": precision},
        "data": {
            name: {"split": part.split, "texts": len(part), "source": part.source, "sha256": part.data_sha256}
            for name, part in parts.items()
        },
        "excluded": [vars(exclusion) for exclusion in material.excluded],
        **({"notes": list(material.notes)} if material.notes else {}),
        **({"regression": True} if material.regression else {}),
        **({"adversarial_texts": [more.record() for more in material.adversarial]} if material.adversarial else {}),
    }


def _describe(material: TrainingData) -> Iterator[str]:
    """Yield lines on the sizes of the parts, and on the texts that were excluded."""
    sizes = ", ".join(f"{part.split} {len(part):,}" for part in (material.train, material.dev, *material.tests))
    kind = "regression" if material.regression else f"{len(material.classes)} classes"
    yield f"{material.task}: {sizes} ({kind})"
    yield from material.notes
    for out in material.excluded:
        if out.texts is None:
            yield f"{out.because} is not available: its texts may be among the training texts"
        else:
            dev = f" and {out.from_dev:,} from selection" if out.from_dev else ""
            yield f"excluded {out.from_train:,} from training{dev}: in {out.because}"


def _name_of_dev(material: TrainingData) -> str:
    if material.dev.split == "held-out":
        return f"{len(material.dev):,} texts held out of {material.task} {material.train.split}"
    return f"{material.task} {material.dev.split}"


def _arguments(settings: FinetuneSettings, texts: int, run: Run, *, on_cpu: bool) -> TrainingArguments:
    steps_in_epoch = -(-texts // settings.batch_size)
    steps = settings.max_steps or steps_in_epoch * (settings.epochs or 1.0)
    return TrainingArguments(
        # By steps, not epochs, so that a checkpoint at an epoch's last step is always written after its evaluation.
        **run.arguments(on_cpu=on_cpu, evaluate=True, eval_steps=steps_in_epoch, steps=steps),
        per_device_train_batch_size=settings.batch_size,
        num_train_epochs=settings.epochs,
        max_steps=settings.max_steps or -1,
        lr_scheduler_type="linear",
        max_grad_norm=1.0,
        remove_unused_columns=False,
        report_to="none",
    )
