"""One run from sentences to a masked language model: tokenise, train, export, evaluate; resumable."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from sentence_transformers.util import get_device_name
from transformers import TrainingArguments, set_seed

from holdfast import precision as arithmetic
from holdfast.data.corpus import SpooledCorpus, spool_corpus
from holdfast.data.sources import CORPORA
from holdfast.errors import UserError
from holdfast.files import write_text
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.pretraining.batches import HELD_OUT_SHARE, Group, TrainingSteps, held_out_groups
from holdfast.pretraining.masking import Masking
from holdfast.pretraining.model import (
    check_prompts,
    continued_model,
    fill,
    load_finished,
    measure,
    new_model,
    ready_to_train,
)
from holdfast.pretraining.model_card import card
from holdfast.pretraining.pretrain_settings import PretrainSettings
from holdfast.pretraining.pretrain_trainer import Clock, PretrainTrainer
from holdfast.pretraining.pretraining_progress import PretrainStage
from holdfast.pretraining.step_order import StepOrder
from holdfast.pretraining.tokens import TokenisedCorpus, tokenise_corpus
from holdfast.pretraining.vocabulary import load_tokenizer, own_tokenizer, tokenizer_hash
from holdfast.progress import stage
from holdfast.runs.run import Run
from holdfast.runs.training_progress import TrainingProgress
from holdfast.training.cpu import FreedMemory

CPU_GROUP_TOKENS = 2048
"""Tokens of a group on a CPU, chosen with benchmarks/pretrain_step.py."""
_TRAINING = (
    *("max_steps", "epochs", "hours", "batch_tokens", "learning_rate", "warmup_share", "weight_decay", "dropout"),
    *("mask_share", "whole_words", "max_length", "seed", "export"),
)
_SHAPE = ("layers", "hidden", "heads", "intermediate", "vocabulary")
_GPU_GROUPS = 4  # groups of a step, so that it holds sentences of several lengths
_ENDLESS = 10**9  # steps of a run that ends by time


@dataclass(frozen=True)
class _Material:
    """The tokeniser and the data of a run."""

    tokenizer: Any
    spooled: SpooledCorpus
    corpus: TokenisedCorpus
    held_out: TokenisedCorpus | None
    masking: Masking


def pretrain(
    settings: PretrainSettings,
    *,
    resume: bool = False,
    console: Console | None = None,
    command: list[str] | None = None,
) -> dict[str, Any]:
    """Train a masked language model and return the result, which is also written to ``OUTPUT/results.json``.

    ``resume``, ``console`` and ``command`` are those of `Run`. A resumed run gives the weights of an unbroken one if it
    ends by steps or epochs.

    Raises:
        UserError: an error in the settings or the data, or as in `Run`.
    """
    run = Run(
        "pretrain", settings.output, resume=resume, save_steps=settings.save_steps, console=console, command=command
    )
    with run.alone():
        return _pretrain(settings.completed(), run)


def _pretrain(settings: PretrainSettings, run: Run) -> dict[str, Any]:
    identity = _settings_record(settings)
    known = {**identity, "held_out": None if settings.held_out is None else {}}
    if (finished := run.finished(known, precision=settings.precision, where_recorded=["asked"])) is not None:
        return finished
    given, model = _given_tokenizer(settings), None
    if given is not None:  # errors before the corpus is read
        check_prompts(given, settings.prompts)
    if settings.model is not None:
        with stage(run.console, f"loading {settings.model}", announce=False):
            model = continued_model(settings.model, given, settings.max_length)
    material = _material(settings, given, run.console)
    if given is None:
        check_prompts(material.tokenizer, settings.prompts)
    set_seed(settings.seed)
    if model is None:
        model = new_model(settings, material.tokenizer)
    run.begin(_record(settings, identity, material, model))
    return _finish(settings, material, _train(settings, material, model, run), run)


def _material(settings: PretrainSettings, given: Any, console: Console) -> _Material:
    """Read the corpus, make a vocabulary if no tokeniser is given, and tokenise the sentences."""
    reading: dict[str, Any] = {"column": settings.column, "data": settings.data, "max_chars": settings.max_chars}
    held_out_spooled = None
    if settings.held_out is not None:  # first, since it is small: a mistake in its name is reported early
        with stage(console, f"reading {settings.held_out}", unit="sentences", announce=False) as shown:
            held_out_spooled = spool_corpus(settings.held_out, **reading, progress=shown.update)
    with stage(console, f"reading {settings.corpus}", unit="sentences", announce=False) as shown:
        spooled = spool_corpus(settings.corpus, **reading, progress=shown.update)
    began = time.monotonic()
    with stage(console, "counting word pieces"):
        tokenizer = _own_tokenizer(settings, spooled) if given is None else given
    masking = Masking(tokenizer, share=settings.mask_share, whole_words=settings.whole_words)
    counted = time.monotonic()
    with stage(console, "tokenising the corpus", unit="sentences", total=spooled.sentences) as shown:
        held_out = None
        if held_out_spooled is not None:
            held_out = tokenise_corpus(held_out_spooled, tokenizer, max_length=settings.max_length)
            if not masking.maskable[held_out.ids].any():
                raise UserError(f"the held-out sentences {settings.held_out} hold no word of the vocabulary")
        corpus = tokenise_corpus(
            spooled,
            tokenizer,
            max_length=settings.max_length,
            without=held_out,
            progress=shown.update,
        )
    if not masking.maskable[corpus.ids].any():
        raise UserError(f"the corpus {settings.corpus} holds no word of the vocabulary: give another --tokenizer")
    material = _Material(tokenizer, spooled, corpus, held_out, masking)
    _print_sizes(material, counted - began, time.monotonic() - counted, console)
    return material


def _given_tokenizer(settings: PretrainSettings) -> Any:
    """Return the tokeniser of the settings; None: it is made from the corpus."""
    if settings.model is not None:
        return load_tokenizer(settings.model, "--model")
    if settings.tokenizer is None:
        return None
    tokenizer = load_tokenizer(settings.tokenizer, "--tokenizer")
    tokenizer.model_max_length = settings.max_length  # the number of positions of the new model
    return tokenizer


def _own_tokenizer(settings: PretrainSettings, corpus: SpooledCorpus) -> Any:
    assert settings.vocabulary is not None
    return own_tokenizer(corpus, settings.vocabulary, max_length=settings.max_length)


def _print_sizes(material: _Material, count_seconds: float, cut_seconds: float, console: Console) -> None:
    """Print the sizes, the held-out sentences, and the time of the preparation."""
    corpus, held_out = material.corpus, material.held_out
    tokens = len(corpus.ids)
    lines = [
        f"{len(corpus):,} sentences, {tokens:,} tokens ({corpus.ids.nbytes / 1e6:.1f} MB), "
        f"{100 * corpus.unknown / tokens:.2f} % unknown; {len(material.tokenizer):,} pieces; vocabulary in "
        f"{count_seconds:.1f} s, tokens in {cut_seconds:.1f} s"
    ]
    if held_out is not None:
        lines.append(f"held out: {len(held_out):,} sentences; {corpus.removed:,} of the corpus are among them: removed")
    if corpus.cut:
        lines.append(f"{corpus.cut:,} sentences are longer than --max-length: they are truncated")
    for line in lines:
        console.print(line, highlight=False)


def _train(settings: PretrainSettings, material: _Material, model: Any, run: Run) -> dict[str, Any]:
    """Train and export the model, and return the outcome: steps, tokens, sizes, time."""
    on_cpu = get_device_name() == "cpu"
    clock = Clock(settings.hours * 3600 if settings.hours is not None else math.inf)
    order = _order(settings, material.corpus, run.record["training"]["group_tokens"])
    steps = settings.max_steps or (_ENDLESS if clock.leads else order.steps_of(settings.epochs or 1.0))
    pad_id = material.tokenizer.pad_token_id
    held_out = _held_out(material, order.group_tokens)
    trainer = PretrainTrainer(
        model=model,
        steps=TrainingSteps(material.corpus, material.masking, order, pad_id, steps),
        held_out=held_out,
        warmup=settings.warmup_share,
        clock=clock,
        keep_checkpoints=settings.keep_checkpoints,
        processing_class=material.tokenizer,
        args=_arguments(settings, steps, run, evaluate=bool(held_out), on_cpu=on_cpu),
    )
    progress = TrainingProgress(
        PretrainStage(run.console, order, clock),
        lambda of: f"held-out perplexity {of['eval_perplexity']:.2f}, {of['eval_masked_accuracy']:.1f} % right",
        print_scores=True,
    )
    run.train(trainer, progress, [FreedMemory()], ready_to_train(model, settings.dropout))
    done = trainer.state.global_step
    outcome = {
        "steps": done,
        "tokens": order.tokens_before(done),
        "epochs": order.epochs_before(done),
        "train_seconds": clock.elapsed,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "stored": settings.export,
    }
    model.to("cpu", dtype=torch.float16 if settings.export == "fp16" else torch.float32)
    run.export_transformer(model, material.tokenizer)
    return {**outcome, "megabytes": (settings.output / "model.safetensors").stat().st_size / 1e6}


def _group_tokens(settings: PretrainSettings, device: str) -> int:
    """Return the maximum number of tokens of a group on a device; the sentences of a step depend on it."""
    if device == "cpu":
        return min(CPU_GROUP_TOKENS, settings.batch_tokens)
    return max(1, settings.batch_tokens // _GPU_GROUPS)


def _order(settings: PretrainSettings, corpus: TokenisedCorpus, group_tokens: int) -> StepOrder:
    groups = max(1, settings.batch_tokens // group_tokens)
    return StepOrder(corpus.lengths, group_tokens=group_tokens, groups_per_step=groups, seed=settings.seed)


def _held_out(material: _Material, group_tokens: int) -> list[Group]:
    if material.held_out is None:
        return []
    masking = Masking(material.tokenizer, share=HELD_OUT_SHARE)
    return held_out_groups(material.held_out, masking, material.tokenizer.pad_token_id, group_tokens)


def _finish(settings: PretrainSettings, material: _Material, outcome: dict[str, Any], run: Run) -> dict[str, Any]:
    """Evaluate the exported model, and write its card and the result."""
    began = time.monotonic()
    model, tokenizer = load_finished(run.folder)
    model.to(get_device_name())
    rows = []
    with stage(run.console, "measuring"):
        groups = _held_out(material, CPU_GROUP_TOKENS)
        if groups:
            places = sum(len(group["labels"]) for group in groups)
            metrics = measure(model, groups, bf16=False)
            rows.append({"task": "masked-lm", "split": "held-out", "n": places, "metrics": metrics})
        prompts = fill(model, tokenizer, settings.prompts)
    write_text(run.folder / "README.md", card(run.record, outcome, rows, prompts))
    timing = {"train_seconds": outcome["train_seconds"], "evaluate_seconds": time.monotonic() - began}
    return run.finish(run.protocol(), rows, timing, model.device, made=outcome, prompts=prompts)


def _record(settings: PretrainSettings, identity: dict[str, Any], material: _Material, model: Any) -> dict[str, Any]:
    """Return the content of ``run.json``, with which a resumed run must agree."""
    device = get_device_name()
    precision = arithmetic.resolve(settings.precision, torch.device(device))
    held_out = material.held_out
    known_licence = next((entry.licence for entry in CORPORA if entry.name == settings.corpus), None)
    return {
        **identity,
        "training": {**identity["training"], "precision": precision, "group_tokens": _group_tokens(settings, device)},
        "shape": _shape(model.config),
        "vocabulary": {
            "pieces": len(material.tokenizer),
            "sha256": tokenizer_hash(material.tokenizer),
            "told": _describe_vocabulary(settings, len(material.tokenizer)),
        },
        "mask_token": material.tokenizer.mask_token,
        "corpus": {
            "source": material.spooled.source,
            "sha256": material.spooled.sha256,
            "sentences": len(material.corpus),
            "tokens": len(material.corpus.ids),
            "unknown_tokens": material.corpus.unknown,
            "cut": material.corpus.cut,
            "removed_held_out": material.corpus.removed,
        },
        "held_out": None
        if held_out is None
        else {"source": settings.held_out, "sentences": len(held_out), "tokens": len(held_out.ids)},
        "attribution": settings.attribution or known_licence,
    }


def _settings_record(settings: PretrainSettings) -> dict[str, Any]:
    """Return the part of the record that follows from the settings, without reading data."""
    identity = model_identity(resolve_model(settings.model))["model_sha256"] if settings.model is not None else None
    training = {name: getattr(settings, name) for name in _TRAINING}
    asked = {} if settings.model is not None else {name: getattr(settings, name) for name in _SHAPE}
    return {"base_model": settings.model, "base_model_sha256": identity, "training": training, "asked": asked}


def _shape(config: Any) -> dict[str, int]:
    names = {"layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads"}
    return {name: getattr(config, key) for name, key in names.items() if hasattr(config, key)}


def _describe_vocabulary(settings: PretrainSettings, pieces: int) -> str:
    if settings.model is None and settings.tokenizer is None:
        return f"{pieces:,} WordPieces, counted on the corpus"
    return f"{pieces:,} pieces, those of {settings.model or settings.tokenizer}"


def _arguments(settings: PretrainSettings, steps: int, run: Run, *, evaluate: bool, on_cpu: bool) -> TrainingArguments:
    return TrainingArguments(
        **run.arguments(on_cpu=on_cpu, evaluate=evaluate, eval_steps=settings.eval_steps, steps=steps),
        per_device_train_batch_size=1,  # a step's groups are one item
        max_steps=steps,
        weight_decay=settings.weight_decay,
        adam_beta2=0.98,  # RoBERTa, §3.1: more stable with large batches
        adam_epsilon=1e-6,
        max_grad_norm=1.0,
        remove_unused_columns=False,
        report_to="none",
    )
