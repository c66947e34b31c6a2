"""One training run from a corpus to a finished model: load, train, select, export; resumable at any point."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate import PartialState
from rich.console import Console
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from transformers import PrinterCallback, set_seed
from transformers.utils import logging as transformers_logging

from holdfast import __version__
from holdfast import precision as arithmetic
from holdfast.data.corpus import SpooledCorpus, found_again, spool_corpus
from holdfast.data.registry import is_local, load_pairs
from holdfast.distributed import agree, found_once_here, leave_process_group
from holdfast.encoder import Encoder, freeze_unused
from holdfast.encoding import default_prompt
from holdfast.errors import UserError
from holdfast.evaluation.sts import evaluate_sts
from holdfast.evaluation.sts_dev import StsDev
from holdfast.files import exclusive
from holdfast.input_limits import cut_line, cut_lines, lowered, lowered_line, set_limit
from holdfast.launch import is_first_process, processes
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.models import load_sentence_transformer, read_as
from holdfast.objectives import Anchored, Objective
from holdfast.progress import stage
from holdfast.prompt import template_length, text_limit
from holdfast.results import environment, new_result, write_result
from holdfast.runs import run_folder as run_folder
from holdfast.runs.checkpoints import latest_intact
from holdfast.runs.run_log import METRICS_FILE, RESULT_FILE, read_log
from holdfast.runs.run_record import RUN, digest_of
from holdfast.runs.training_progress import MetricsFile, TrainingProgress, logging_steps
from holdfast.training.corpus_checks import refuse_one_text, share_in_first_batches
from holdfast.training.cpu import FreedMemory, fast_on_cpu
from holdfast.training.duplicates import duplicates_before, logged_shares
from holdfast.training.export import export, model_card
from holdfast.training.method_options import method_options, objective_class, option_defaults
from holdfast.training.selection import KeepBest
from holdfast.training.sharding import asked_for as sharding_asked_for
from holdfast.training.train_config import TrainConfig, resolved_selection
from holdfast.training.trainer import HoldfastTrainer
from holdfast.user_classes import is_user_class, source_sha256


@exclusive(lambda config: run_folder.alone(Path(config.output)))
def train(
    config: TrainConfig, *, resume: bool = False, console: Console | None = None, command: list[str] | None = None
) -> dict[str, Any]:
    """Train as ``config`` says and return the result, which is also written to ``OUTPUT/results.json``.

    Args:
        config: settings of the run.
        resume: resume the run in ``config.output``; the final weights are the same as without the interruption.
        console: console for progress; None: no output.
        command: words of the command, for the result; None: those of this process.

    Raises:
        UserError: a mistake in the configuration or the data, an output folder with other files, a loss that is not
            finite, or a full disk.
    """
    with sharding_asked_for() as shard:
        return _train(config, resume, shard, console or Console(quiet=True), command)


def _train(
    config: TrainConfig, resume: bool, shard: bool, console: Console, command: list[str] | None
) -> dict[str, Any]:
    objective_type = objective_class(config.method)
    options = method_options(config.method, config.preset, config.options)
    config = config.completed(objective_type)
    if processes() > 1:
        PartialState(cpu=not torch.accelerator.is_available())
    # Without --resume only the first process checks: the others might see files that it has just written.
    said = _said(config, {**option_defaults(objective_type), **options})
    if (resume or is_first_process()) and (finished := _finished(config, said, resume, console)) is not None:
        console.print(f"{config.output} is finished already: nothing to resume", highlight=False)
        return finished
    _quiet_transformers()
    set_seed(config.seed)
    with stage(console, f"loading {config.model}", announce=False):
        model = load_sentence_transformer(config.model, pooling=config.pooling)
    _warn_default_prompt(config.model, model, objective_type, console)
    with stage(console, f"reading {config.corpus}", unit="sentences", announce=False) as reading:
        corpus = _spooled(config, reading.update)
    selection = resolved_selection(config.selection, config.data)
    record = _record(config, said, corpus, selection, model)
    checkpoint = run_folder.begin(config.output, record, console) if is_first_process() else None
    if processes() > 1:
        dist.barrier()
        checkpoint, _ = latest_intact(config.output) if resume else (None, [])
    where = f"{processes()} process{'es' * (processes() > 1)} on {model.device}, {record['training']['precision']}"
    where += ", weights and optimiser sharded" * shard
    console.print(f"{corpus.sentences:,} sentences in {corpus.source}; {where}", highlight=False)
    if config.selection == "auto" and selection == "last":
        console.print("no STS-B dev at hand (--data or HOLDFAST_DATA): the last step will be kept", highlight=False)
    try:
        objective = _objective(config, objective_type, model, options)
        return _run(config, model, objective, corpus, record, checkpoint, shard, console, command)
    except UserError:
        if is_first_process():
            run_folder.forget_unless_resumable(config.output)
        raise


def _warn_default_prompt(spec: str, model: SentenceTransformer, kind: type[Objective], console: Console) -> None:
    """Report that training does not use the model's default prompt, if it has one.

    Raises:
        UserError: the objective preserves the model's vectors, and those without the prompt are not the ones in use.
    """
    prompt = default_prompt(model)
    if not prompt:
        return
    message = f"{spec} puts its default prompt {prompt!r} before every text, and training sees sentences without it"
    if issubclass(kind, Anchored):
        raise UserError(
            f"{message}: the vectors that would be kept are not those in use; if they are used without the prompt, "
            "save the model with default_prompt_name = None first"
        )
    console.print(message, highlight=False, markup=False)


def _spooled(config: TrainConfig, progress: Callable[[int], None]) -> SpooledCorpus:
    """Return the corpus; one process of each machine reads it.

    Raises:
        UserError: the corpus is invalid, or not the same on every machine.
    """

    def spool() -> SpooledCorpus:
        return spool_corpus(
            config.corpus,
            column=config.column,
            positive_column=config.positive_column,
            data=config.data,
            max_chars=config.max_chars,
            at_least=config.batch_size or 1,
            progress=progress,
        )

    if processes() == 1:
        return spool()
    corpus = found_again(json.loads(found_once_here("corpus", lambda: json.dumps(spool().facts()))))
    if not agree(corpus.sha256):
        raise UserError(f"the corpus {config.corpus} is not the same on every machine of this run")
    return corpus


def _objective(
    config: TrainConfig, kind: type[Objective], model: SentenceTransformer, options: dict[str, Any]
) -> Objective:
    """Return the objective; its ValueErrors, on options or columns, become UserErrors."""
    columns = 1 if config.positive_column is None else 2
    try:
        objective = kind(model, **options)
    except ValueError as error:
        raise UserError(f"{config.method}: {error}") from error
    try:
        objective.check_columns(columns)
    except ValueError as error:
        advice = "name the other with --positive-column" if columns == 1 else "leave out --positive-column"
        raise UserError(f"{config.method}: {error}; {advice}") from error
    return objective


def _run(
    config: TrainConfig,
    model: SentenceTransformer,
    objective: Objective,
    corpus: SpooledCorpus,
    record: dict[str, Any],
    checkpoint: Path | None,
    shard: bool,
    console: Console,
    command: list[str] | None,
) -> dict[str, Any]:
    limit = model.max_seq_length  # restored for the exported model
    if line := lowered_line(config.max_length, text_limit(model), config.model):
        console.print(line, highlight=False, markup=False)
    set_limit(model, record["max_seq_length"])
    dev = None
    if record["selection"] == "stsb-dev":
        # In the training's precision, which is faster, since it only selects. The final evaluation is in fp32.
        pairs = load_pairs("stsb", "dev", data=config.data)
        dev = StsDev(pairs, max_seq_length=limit, precision=record["training"]["precision"])
    encoder = Encoder(model)
    _look_for_duplicates(config, corpus, encoder, record["options"], console)
    freeze_unused(encoder, encoder.tokenise(corpus.dataset[:2]["sentence"]))
    best = KeepBest(config.output)
    progress = TrainingProgress(console, (config.batch_size or 1) * config.accumulate)
    metrics = MetricsFile(config.output / METRICS_FILE)
    trainer = HoldfastTrainer(
        model=model,
        args=_arguments(config, record, evaluate=dev is not None, on_cpu=model.device.type == "cpu"),
        train_dataset=corpus.dataset,
        loss=objective,
        evaluator=dev,
        callbacks=[progress, metrics, FreedMemory(), *([best] if dev else [])],
        keep_checkpoints=config.keep_checkpoints,
        shard=shard,
    )
    trainer.remove_callback(PrinterCallback)
    began = time.monotonic()
    try:
        with metrics, fast_on_cpu(objective):
            trainer.train_from(checkpoint)
    finally:
        progress.close()
    seconds = time.monotonic() - began
    model = trainer.plain_model()
    leave_process_group()  # only the first process does the rest
    if not trainer.is_world_process_zero():
        return {}
    set_limit(model, limit)
    truncated = trainer.cut_texts(record["max_seq_length"]).record()
    if line := cut_line(truncated):
        console.print(f"in training {line}", highlight=False)
    chosen: dict[str, Any] = {"protocol": _PROTOCOLS[record["selection"]], "steps": trainer.state.global_step}
    if best.score is not None and dev is not None:
        best.restore(model)
        chosen |= {"step": best.step, "score": best.score}
    return _finish(config, model, record, {"selected": chosen, "truncated": truncated}, seconds, console, command)


def _look_for_duplicates(
    config: TrainConfig, corpus: SpooledCorpus, encoder: Encoder, options: dict[str, Any], console: Console
) -> None:
    """Report a large share of duplicates in the first batches, if the method has an option for duplicates.

    Raises:
        UserError: all sentences are equal.
    """
    refuse_one_text(corpus, encoder)
    if is_first_process() and (duplicates := options.get("duplicates")) is not None:
        assert config.batch_size is not None
        share, batches = share_in_first_batches(corpus, encoder, config.batch_size, config.seed)
        if message := duplicates_before(share, batches, duplicates):
            console.print(message, highlight=False)


_PROTOCOL = (
    *("method", "method_sha256", "preset", "options", "pooling", "training", "corpus", "selection"),
    *("base_model", "base_model_sha256", "max_seq_length", "dimensions"),
)
_PROTOCOLS = {
    "stsb-dev": "the step with the best Spearman ×100 on STS-B dev was kept",
    "last": "the last step was kept (no STS-B dev data was used)",
}


def _finish(
    config: TrainConfig,
    model: SentenceTransformer,
    record: dict[str, Any],
    made: dict[str, Any],
    seconds: float,
    console: Console,
    command: list[str] | None,
) -> dict[str, Any]:
    """Export the model, evaluate the exported model, write card and result, and remove temporary files."""
    output, chosen = config.output, made["selected"]
    export(model, output, model_card(record, chosen, None))
    rows = None
    if config.report_sts and is_local("sts12", "test", config.data):
        with stage(console, "measuring the seven STS test sets", unit="sentences") as measuring:
            finished = load_sentence_transformer(str(output))
            rows = evaluate_sts(finished, data=config.data, progress=measuring.update)
        for line in cut_lines(rows):
            console.print(line, highlight=False, markup=False)
        export(model, output, model_card(record, chosen, rows))
    result = new_result(
        "train",
        command=command,
        model=str(output),
        path=output,
        protocol={**{key: record[key] for key in _PROTOCOL if key in record}, **read_as(model)},
        seed=config.seed,
        results=rows or [],
        timing={"train_seconds": seconds},
        device=str(model.device),
    )
    result |= {**made, RUN: digest_of(record)}
    if shares := logged_shares(read_log(output / METRICS_FILE)):
        result["duplicates"] = shares
    write_result(output / RESULT_FILE, result)
    _clear(config)
    return result


def _finished(config: TrainConfig, said: dict[str, Any], resume: bool, console: Console) -> dict[str, Any] | None:
    """Return the result of this run if it is finished, and remove files that only an unfinished run needs."""
    finished = run_folder.finished_run(config.output, config.output / RESULT_FILE, "train", resume, said, console)
    if finished is not None:
        _clear(config)
    return finished


def _clear(config: TrainConfig) -> None:
    """Remove files that only an unfinished run needs; checkpoints stay if ``save_steps`` was given."""
    run_folder.clear(config.output, keep_checkpoints=config.save_steps is not None)


def _record(
    config: TrainConfig, said: dict[str, Any], corpus: SpooledCorpus, selection: str, model: SentenceTransformer
) -> dict[str, Any]:
    """Return the content of ``run.json``, with which a resumed run must agree."""
    precision = arithmetic.resolve(config.precision, model.device)
    return {
        **said,
        "training": {**said["training"], "precision": precision, "processes": processes()},
        "corpus": {
            "source": corpus.source,
            "sentences": corpus.sentences,
            "sha256": corpus.sha256,
            **({} if config.positive_column is None else {"positives": config.positive_column}),
        },
        "selection": selection,
        # A prompt does not shorten the sentence. Vectors are trained at the size in use, after truncate_dim.
        "max_seq_length": lowered(config.max_length, model, template_length(model)),
        "dimensions": model.get_embedding_dimension(),
        "versions": {"holdfast": __version__, **environment()["packages"]},
    }


def _said(config: TrainConfig, options: dict[str, Any]) -> dict[str, Any]:
    """Return the part of the record that follows from the settings, without reading data."""
    keys = ("batch_size", "accumulate", "learning_rate", "epochs", "max_steps", "max_length", "seed", "max_grad_norm")
    own = {"method_sha256": source_sha256(objective_class(config.method))} if is_user_class(config.method) else {}
    return {
        "method": config.method,
        **own,
        "preset": config.preset,
        "options": options,
        "base_model": config.model,
        "base_model_sha256": model_identity(resolve_model(config.model))["model_sha256"],
        "pooling": config.pooling,
        "training": {key: getattr(config, key) for key in keys},
        "eval_steps": config.eval_steps,
    }


def _arguments(
    config: TrainConfig, record: dict[str, Any], *, evaluate: bool, on_cpu: bool
) -> SentenceTransformerTrainingArguments:
    training = record["training"]
    return SentenceTransformerTrainingArguments(
        output_dir=str(config.output),
        per_device_train_batch_size=training["batch_size"] // training["processes"],
        gradient_accumulation_steps=config.accumulate,
        num_train_epochs=config.epochs or 1.0,
        max_steps=config.max_steps or -1,
        learning_rate=training["learning_rate"],
        lr_scheduler_type="linear",
        max_grad_norm=config.max_grad_norm,
        optim="adamw_torch_fused",
        bf16=training["precision"] == "bf16",
        use_cpu=on_cpu,
        seed=config.seed,
        dataloader_drop_last=True,  # a smaller last batch would have fewer negatives
        ddp_find_unused_parameters=False,
        ddp_broadcast_buffers=False,  # rows are grouped by length: ranks must not wait for each other inside a step
        eval_strategy="steps" if evaluate else "no",
        eval_steps=config.eval_steps,
        save_strategy="steps",
        save_steps=config.save_steps or 500,
        logging_steps=logging_steps(config.max_steps or _steps(config, record)),
        logging_nan_inf_filter=False,  # a loss that is not finite stops the run
        report_to=list(config.report_to) or "none",
        disable_tqdm=True,
    )


def _steps(config: TrainConfig, record: dict[str, Any]) -> float:
    """Return the optimiser steps of a run given by epochs, counted as the trainer counts them."""
    batches: int = record["corpus"]["sentences"] // record["training"]["batch_size"]  # a partial batch is dropped
    return math.ceil(batches / config.accumulate) * (config.epochs or 1.0)


def _quiet_transformers() -> None:
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
