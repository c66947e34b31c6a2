"""One training run from a corpus to a finished model: load, train, select, export; resumable at any point."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from rich.console import Console
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation import BaseEvaluator
from transformers import set_seed

from holdfast import precision as arithmetic
from holdfast.adapters import add_lora, merge_adapters
from holdfast.backbone_dropout import dropout_of, has_dropout
from holdfast.data.corpus import SpooledCorpus, open_spooled, spool_corpus
from holdfast.data.registry import is_local, load_pairs
from holdfast.distributed import agree, found_once_here, leave_process_group
from holdfast.encoder import Encoder, freeze_unused
from holdfast.errors import UserError
from holdfast.evaluation.sts import STS_TASKS, evaluate_sts
from holdfast.evaluation.sts_dev import StsDev
from holdfast.input_limits import cut_line, cut_lines, lowered, lowered_line, set_limit
from holdfast.launch import is_first_process, processes
from holdfast.models import load_sentence_transformer, read_as, refuse_routes
from holdfast.objectives import Objective
from holdfast.objectives.dimensions import fitted_dimensions, parse_dimensions
from holdfast.progress import stage
from holdfast.prompt import template_length, text_limit
from holdfast.prompt_tokens import added_tokens
from holdfast.runs.best_weights import KeepBest
from holdfast.runs.duplicate_shares import duplicates_before, logged_shares
from holdfast.runs.run import Run
from holdfast.runs.run_log import METRICS_FILE, RISE_SHARE, median_of, read_log
from holdfast.runs.soundness import below_start
from holdfast.runs.training_progress import TrainingProgress, TrainingStage
from holdfast.static_encoder import static_module, trainable
from holdfast.text_prompts import prompt_of
from holdfast.training.adapter_training import adapter_base, check_lora, trainable_numbers
from holdfast.training.corpus_checks import refuse_single_text, share_in_first_batches
from holdfast.training.cpu import FreedMemory, fast_on_cpu
from holdfast.training.export import export, model_card
from holdfast.training.method_options import (
    method_options,
    objective_class,
    option_defaults,
    require_dropout,
    with_dropout,
)
from holdfast.training.sharding import sharding_requested
from holdfast.training.teacher_vectors import expect_vectors, read_vectors
from holdfast.training.train_config import TrainConfig, resolved_selection
from holdfast.training.trainer import HoldfastTrainer
from holdfast.training.training_plan import DEFAULT_MEMORY, memory_of, plan_of
from holdfast.training.training_record import (
    GOAL,
    MATRYOSHKA,
    PROTOCOL,
    SELECTION_PROTOCOLS,
    full_record,
    settings_record,
    trainer_arguments,
)
from holdfast.training.training_texts import TrainingTexts, WeightChoice

_METRIC = "eval_stsb_dev_spearman"


def train(
    config: TrainConfig,
    *,
    resume: bool = False,
    console: Console | None = None,
    command: list[str] | None = None,
    texts: TrainingTexts | None = None,
) -> dict[str, Any]:
    """Train with the settings ``config`` and return the result, which is also written to ``OUTPUT/results.json``.

    ``resume``, ``console`` and ``command`` are those of `Run`. A resumed run gives the weights of an unbroken one.
    ``texts`` gives the texts in place of the corpus of the settings, and may choose the weights that are kept.

    Raises:
        UserError: an error in the settings or the data, or as in `Run`.
    """
    if config.plan:
        return plan(config, console=console)
    if config.plan_memory is not None:
        raise UserError("--plan-memory is for --plan: give both, or leave it out")
    run = Run(
        "train", Path(config.output), resume=resume, save_steps=config.save_steps, console=console, command=command
    )
    with run.alone(), sharding_requested() as shard:
        return _train(config, run, shard, texts)


def plan(config: TrainConfig, *, console: Console | None = None) -> dict[str, Any]:
    """Return what a training would cost, as ``{"plan": ...}`` (`TrainingPlan.record`), and print it.

    No file is written.

    Raises:
        UserError: an error in the settings, the model or the corpus.
    """
    objective_type, options = _method(config)
    config = config.completed(objective_type)
    memory_of(config.plan_memory or DEFAULT_MEMORY)  # an error before the model is loaded
    if (lora := config.adapters) is not None:
        check_lora(config, lora, shard=False)
    set_seed(config.seed)
    with stage(console, f"loading {config.model}", announce=False):
        model = load_sentence_transformer(config.model, pooling=config.pooling, device="cpu", prompts=config)
    refuse_routes(model, config.model)
    if lora is not None:
        add_lora(model, lora, adapter_base(config.model))
    model = _trainable(config, model)
    length = lowered(config.max_length, model, template_length(model) + added_tokens(model))
    set_limit(model, length)
    precision = arithmetic.resolve(config.precision, model.device)
    with dropout_of(model, config.dropout), stage(console, "measuring a few sentences", announce=False):
        objective = _objective(config, objective_type, model, options)
        if config.vectors is not None:
            expect_vectors(objective)
        found = plan_of(config, model, objective, length, precision, processes())
    if console is not None:
        for line in found.lines():
            console.print(line, highlight=False, markup=False)
    return {"plan": found.record()}


def _train(config: TrainConfig, run: Run, shard: bool, texts: TrainingTexts | None) -> dict[str, Any]:
    objective_type, options = _method(config)
    config = config.completed(objective_type)
    if config.matryoshka is not None:
        parse_dimensions(config.matryoshka)  # an error before the model is loaded
    lora = config.adapters
    if lora is not None:
        check_lora(config, lora, shard=shard)
    if processes() > 1:
        PartialState(cpu=not torch.accelerator.is_available())
    identity = settings_record(config, {**option_defaults(objective_type), **options})
    identity |= {} if texts is None else texts.record()
    asked = {} if texts is not None or config.selection == "auto" else {"selection": config.selection}
    goal = {} if texts is None else {GOAL: texts.goal()}
    if finished := run.finished(identity | asked | goal, precision=config.precision, where_recorded=[GOAL]):
        return finished
    set_seed(config.seed)
    with stage(run.console, f"loading {config.model}", announce=False):
        model = load_sentence_transformer(config.model, pooling=config.pooling, prompts=config)
    refuse_routes(model, config.model)
    if prompt := prompt_of(model):
        run.print(f"training puts the prompt {prompt!r} before every sentence; it is never perturbed")
    with stage(run.console, f"reading {config.corpus}", unit="sentences", announce=False) as reading:
        corpus = _spooled(config, texts, reading.update)
    prepared = {} if texts is None else dict(texts.prepare_model(model, corpus))
    if lora is not None:
        add_lora(model, lora, adapter_base(config.model))
        trained, everything = trainable_numbers(model)
        run.print(f"adapters of rank {lora.r} are trained: {trained:,} of {everything:,} numbers")
    choice, line = (None, "") if texts is None else texts.choice()
    selection = GOAL if choice is not None else resolved_selection(config.selection, config.data)
    goal = {} if choice is None else {GOAL: choice.record()}
    if config.matryoshka is not None:
        weights = parse_dimensions(config.matryoshka)
        prepared[MATRYOSHKA] = list(fitted_dimensions(weights, model.get_embedding_dimension() or 0))
    model = _trainable(config, model)
    run.begin(full_record(config, identity, corpus, selection, model) | goal | prepared)
    where = f"{processes()} process{'es' * (processes() > 1)} on {model.device}, {run.record['training']['precision']}"
    where += ", weights and optimiser sharded" * shard
    run.print(f"{corpus.sentences:,} sentences in {corpus.source}; {where}", line)
    if config.selection == "auto" and selection == "last":
        run.print("no STS-B dev data found (--data or HOLDFAST_DATA): the last step will be kept")
    with dropout_of(model, config.dropout):  # before objectives copy the model
        objective = _objective(config, objective_type, model, options)
        return _run(config, model, objective, corpus, run, shard, choice)


def _method(config: TrainConfig) -> tuple[type[Objective], dict[str, Any]]:
    """Return the objective's class and its options, other than the defaults."""
    kind = objective_class(config.method)
    options = method_options(config.method, config.preset, config.options)
    if config.dropout:
        options = with_dropout(config.method, options)
    if config.adapters is not None and config.adapters.dropout:
        require_dropout(config.method, options, "--lora dropout=X has no effect unless the encoder's is turned on")
    return kind, kind.completed_options(options, config.data)


def _trainable(config: TrainConfig, model: SentenceTransformer) -> SentenceTransformer:
    """Return the model in its form for training; a static encoder, which has no layers, can be anchored only."""
    if static_module(model) is not None and config.method != "anchored":
        raise UserError(
            f"{config.model} has static vectors, without layers or dropout, which {config.method} needs: harden it "
            "(`holdfast harden`), or train an encoder with a transformer"
        )
    return trainable(model)


def _spooled(config: TrainConfig, texts: TrainingTexts | None, progress: Callable[[int], None]) -> SpooledCorpus:
    """Return the corpus, which one process of each machine reads; refuse one that differs between machines."""

    def read() -> dict[str, Any]:
        if texts is not None:
            return texts.read(progress)
        corpus = spool_corpus(
            config.corpus,
            column=config.column,
            positive_column=config.positive_column,
            data=config.data,
            max_chars=config.max_chars,
            at_least=config.batch_size or 1,
            progress=progress,
        )
        return corpus.facts()

    facts = read() if processes() == 1 else json.loads(found_once_here("corpus", lambda: json.dumps(read())))
    corpus = open_spooled(facts) if texts is None else texts.open(facts)
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
    if (config.dropout or objective.needs_dropout(columns)) and not has_dropout(model):
        raise UserError(
            f"{config.method}: the two views of a sentence differ by dropout, and {config.model} has none: "
            "give --dropout, such as 0.1"
        )
    if config.matryoshka is not None:
        objective.use_dimensions(parse_dimensions(config.matryoshka))
    if config.mini_batch_size is not None:
        objective.use_mini_batches(config.mini_batch_size)
    return objective


def _run(
    config: TrainConfig,
    model: SentenceTransformer,
    objective: Objective,
    corpus: SpooledCorpus,
    run: Run,
    shard: bool,
    choice: WeightChoice | None,
) -> dict[str, Any]:
    record = run.record
    limit = model.max_seq_length  # restored for the exported model
    run.print(lowered_line(config.max_length, text_limit(model, added_tokens(model)), config.model))
    evaluator, metric = _evaluator(config, model, run, choice)
    set_limit(model, record["max_seq_length"])
    encoder = Encoder(model)
    refuse_single_text(corpus, encoder)
    if is_first_process():
        run.print(_duplicates_line(config, corpus, encoder, record["options"]), *objective.notices)
    freeze_unused(encoder, encoder.tokenise(corpus.dataset[:2]["sentence"]))
    best = KeepBest(config.output, metric) if evaluator else None
    start = _score_before_training(evaluator, model)
    trainer = HoldfastTrainer(
        model=model,
        args=trainer_arguments(
            config, run, evaluations=_evaluations(evaluator, choice), on_cpu=model.device.type == "cpu"
        ),
        train_dataset=corpus.dataset,
        loss=objective,
        evaluator=evaluator,
        keep_checkpoints=config.keep_checkpoints,
        vectors=read_vectors(config, model, objective, corpus, run),
        shard=shard,
    )
    shown = TrainingStage(run.console, (config.batch_size or 1) * config.accumulate)
    progress = TrainingProgress(shown, _sts_dev_shown if choice is None else choice.shown)
    seconds = run.train(trainer, progress, [FreedMemory(), *([best] if best else [])], fast_on_cpu(objective))
    model = trainer.plain_model()
    leave_process_group()  # only the first process does the rest
    if not trainer.is_world_process_zero():
        return {}
    set_limit(model, limit)
    truncated = trainer.cut_texts(record["max_seq_length"]).record()
    if line := cut_line(truncated):
        run.print(f"in training {line}")
    summary: dict[str, Any] = {"truncated": truncated}
    chosen: dict[str, Any] = {"steps": trainer.state.global_step}
    if choice is not None and best is not None:
        summary |= choice.choose(model, best, trainer.state.global_step)
        chosen |= {"protocol": choice.protocol, **summary["selected"]}
    else:
        chosen["protocol"] = SELECTION_PROTOCOLS[record["selection"]]
        if best is not None and best.score is not None:
            best.restore(model)
            chosen |= {"step": best.step, "score": best.score, "start": start}
        run.print(below_start(chosen))
    return _finish(config, model, {**summary, "selected": chosen}, seconds, run)


def _evaluator(
    config: TrainConfig, model: SentenceTransformer, run: Run, choice: WeightChoice | None
) -> tuple[BaseEvaluator | None, str]:
    """Return the evaluator, with the model's own length limit, and the name of the metric that selects."""
    # In the training's precision, which is faster, since it only selects. The final evaluation is in fp32.
    limit, precision = model.max_seq_length, run.record["training"]["precision"]
    if choice is not None:
        evaluator = choice.prepare(model, precision=precision, max_seq_length=limit, console=run.console)
        return evaluator, choice.metric
    if run.record["selection"] != "stsb-dev":
        return None, _METRIC
    pairs = load_pairs("stsb", "dev", data=config.data)
    return StsDev(pairs, max_seq_length=limit, precision=precision), _METRIC


def _score_before_training(evaluator: BaseEvaluator | None, model: SentenceTransformer) -> float | None:
    """Return the score on STS-B dev of the model that a training starts from.

    It is None if nothing is selected on STS-B dev, or if the model has no score: its vectors may be all alike.

    A resumed run measures it again: its model is the same until the trainer loads the checkpoint.
    """
    if not isinstance(evaluator, StsDev):
        return None
    try:
        return evaluator(model)[_METRIC.removeprefix("eval_")]
    except UserError:
        return None


def _evaluations(evaluator: BaseEvaluator | None, choice: WeightChoice | None) -> int | None:
    """Return the number of evaluations of a run; None: every ``eval_steps`` steps; 0: there are none."""
    if evaluator is None:
        return 0
    return None if choice is None else choice.evaluations


def _sts_dev_shown(metrics: dict[str, float]) -> str:
    return f"STS-B dev {metrics[_METRIC]:.2f}"


def _duplicates_line(config: TrainConfig, corpus: SpooledCorpus, encoder: Encoder, options: dict[str, Any]) -> str:
    """Return a message on a large share of duplicates in the first batches, for methods with an option for them."""
    duplicates = options.get("duplicates")
    if duplicates is None:
        return ""
    assert config.batch_size is not None
    share, batches = share_in_first_batches(corpus, encoder, config.batch_size, config.seed)
    return duplicates_before(share, batches, duplicates)


def _finish(
    config: TrainConfig, model: SentenceTransformer, summary: dict[str, Any], seconds: float, run: Run
) -> dict[str, Any]:
    """Export the model, evaluate the exported model, and write its card and the result."""
    output, record, chosen = run.folder, run.record, summary["selected"]
    if config.adapters is not None and config.adapters.save == "merged":
        merge_adapters(model)
    export(model, output, model_card(record, chosen, None))
    rows = None
    if config.report_sts and all(is_local(task, "test", config.data) for task in STS_TASKS):
        with stage(run.console, "measuring the seven STS test sets", unit="sentences") as measuring:
            finished = load_sentence_transformer(str(output), prompts=config)
            rows = evaluate_sts(finished, data=config.data, progress=measuring.update)
        run.print(*cut_lines(rows))
        export(model, output, model_card(record, chosen, rows))
    log = read_log(output / METRICS_FILE)
    if shares := logged_shares(log):
        summary["duplicates"] = shares
    if (share := median_of(log, RISE_SHARE)) is not None:
        summary["attack"] = {"loss_share": share}
    protocol = {**{key: record[key] for key in PROTOCOL if key in record}, **read_as(model)}
    return run.finish(protocol, rows or [], {"train_seconds": seconds}, model.device, **summary)
