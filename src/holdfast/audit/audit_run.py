"""`holdfast audit`: run all audit items and return one result."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.audit import adversarial_items, changed_copies, random_change_items, vector_items
from holdfast.audit.audit_context import AuditContext, Linguistics
from holdfast.audit.audit_progress import AuditProgress
from holdfast.audit.audit_settings import AuditSettings
from holdfast.audit.audited_texts import POOL, Texts, choose_texts
from holdfast.audit.item_rows import Item, NotMeasured, absent
from holdfast.audit.vector_movement import Space, Units
from holdfast.audit.verdicts import thresholds
from holdfast.errors import UserError
from holdfast.input_limits import Cuts, cut_line
from holdfast.model_lookup import CALL, model_identity, resolve_model
from holdfast.models import load_sentence_transformer, read_as
from holdfast.number_ranges import check_numbers
from holdfast.precision import resolve as resolve_precision
from holdfast.progress import stage
from holdfast.results import new_result
from holdfast.text_prompts import prompt_protocol, refuse_prompts
from holdfast.user_functions import VectorFunction

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.user_functions import SentenceEncoder


@dataclass(frozen=True)
class _Step:
    """A step after the check of the vectors.

    Attributes:
        name: the name in the progress display, and the key of its seconds in the result.
        rows: ``(task, split)`` of its result rows.
        measure: the function that measures the items.
    """

    name: str
    rows: Sequence[tuple[str, str]]
    measure: Callable[[AuditContext], list[Item]]


def _step(name: str, task: str, measure: Callable[[AuditContext], Item], split: str = "all") -> _Step:
    """Create a step with one item."""
    return _Step(name, [(task, split)], lambda context: [measure(context)])


def _surface_step(name: str, task: str, split: str = "all") -> _Step:
    return _step(name, task, functools.partial(random_change_items.surface_item, task=task, split=split), split)


_STEPS = (
    _step("quality", "audit-quality", vector_items.quality_item, "dev"),
    _surface_step("small letters", "audit-case", "lower"),
    _surface_step("capitals", "audit-case", "upper"),
    _surface_step("full stop", "audit-full-stop"),
    _surface_step("trailing blank", "audit-blank"),
    _Step("typing errors", [("audit-typos", "all"), ("audit-noise", "all")], random_change_items.typos_items),
    _step("synonyms", "audit-synonyms", random_change_items.synonyms_item),
    _step("likely other words", "audit-fillers", random_change_items.fillers_item),
    _step("adversarial typing errors", "audit-adversarial-typos", adversarial_items.typos_item),
    _step("adversarial synonyms", "audit-adversarial-synonyms", adversarial_items.synonyms_item),
    _Step(
        "adversarial scores", [("audit-advsts-typos", "dev"), ("audit-advsts", "dev")], adversarial_items.scores_items
    ),
    _step("nearest neighbours", "audit-neighbours", adversarial_items.neighbours_item),
)


def audit(
    settings: AuditSettings, *, console: Console | None = None, command: Sequence[str] | None = None
) -> dict[str, Any]:
    """Audit an encoder.

    Returns:
        A result of the kind "audit" (see :mod:`holdfast.results`): a row per item with ``verdict``, ``headline`` (its
        main metric) and ``told`` (a sentence), and ``examples``, the attempts and the texts that moved furthest, each
        with its ``item``.

    Raises:
        UserError: invalid settings, a model or texts that cannot be read, or a named resource that is missing.
    """
    import torch

    began, cpu = time.monotonic(), time.process_time()
    with stage(console, "reading the texts", announce=False):
        folder, linguistics, texts = prepare_inputs(settings)
    with stage(console, f"loading {settings.model}", announce=False):
        model, identity = _encoder(settings, folder)
    if folder is not None:
        settings = replace(settings, precision=resolve_precision(settings.precision, torch.device(str(model.device))))
    else:  # the precision of a function is fixed: a second query would give the same answer
        settings = replace(settings, precision="fp32")
    progress = AuditProgress(console, 1 + len(_STEPS))
    progress.console.print(_describe_texts(texts, settings), highlight=False, markup=False)
    cuts = Cuts()
    with contextlib.closing(progress):
        items, timing, context = _run_items(settings, model, texts, linguistics, progress, cuts)
    result = new_result(
        "audit",
        command=command,
        model=settings.model,
        identity=identity,
        protocol={**_protocol(settings, texts, linguistics, context), **read_as(model), **prompt_protocol(model)},
        seed=settings.seed,
        results=[item.row for item in items],
        timing={"audit_seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu, **timing},
        device=str(model.device),
    )
    if folder is not None:
        result["truncated"] = cuts.record()
    result["examples"] = [example for item in items for example in item.examples]
    return result


def _encoder(settings: AuditSettings, folder: Path | None) -> tuple[SentenceEncoder, dict[str, Any]]:
    """Load the encoder; return it and its hashes."""
    if folder is None:
        return VectorFunction.named(settings.model, call_batch=settings.call_batch)
    model = load_sentence_transformer(
        settings.model, pooling=settings.pooling, device=settings.device, prompts=settings
    )
    return model, model_identity(folder)


def prepare_inputs(settings: AuditSettings) -> tuple[Path | None, Linguistics, Texts]:
    """Return the model's folder (None for a function), the resources and the texts of an audit.

    Raises:
        UserError: invalid settings, a missing named resource, or texts that cannot be read: all errors that can be
            found without the model, so before `holdfast harden` trains one.
    """
    _check(settings)
    folder = None if settings.model.startswith(CALL) else resolve_model(settings.model)
    return folder, Linguistics(settings, folder), texts_of(settings)


def texts_of(settings: AuditSettings) -> Texts:
    """Load the texts of an audit."""
    return choose_texts(
        settings.texts,
        data=settings.data,
        count=max(POOL, settings.examples),
        max_words=settings.max_words,
        seed=settings.seed,
    )


def matches(result: Mapping[str, Any], settings: AuditSettings) -> bool:
    """Return True if an audit result matches these settings; of the resources, only a named masked LM is compared."""
    protocol = result["protocol"]
    return (
        result["model_sha256"] == model_identity(resolve_model(settings.model))["model_sha256"]
        and result["seed"] == settings.seed
        and protocol.get("prompt_options", {}) == settings.prompt_settings
        and all(protocol[name] == getattr(settings, name) for name in ("examples", "max_words", "pooling"))
        and settings.masked_lm in (None, protocol["resources"]["masked_lm"])
        and protocol["texts"]["sha256"] == texts_of(settings).sha256
    )


def _check(settings: AuditSettings) -> None:
    check_numbers(settings)
    if settings.pooling is not None and settings.model.startswith(CALL):
        raise UserError(f"--pooling is for a raw masked language model, and {settings.model} is a function")
    if settings.model.startswith(CALL):
        refuse_prompts(settings, settings.model)


def _describe_texts(texts: Texts, settings: AuditSettings) -> str:
    cut = f", {texts.cut:,} of them cut after {settings.max_words} words (--max-words)" if texts.cut else ""
    return (
        f"{len(texts.texts):,} of {texts.available:,} texts of {texts.source}{cut}; "
        f"{min(settings.examples, len(texts.texts)):,} of them are attacked"
    )


def _run_items(
    settings: AuditSettings,
    model: SentenceEncoder,
    texts: Texts,
    linguistics: Linguistics,
    progress: AuditProgress,
    cuts: Cuts,
) -> tuple[list[Item], dict[str, float], AuditContext | None]:
    """Run all items; return them, the seconds of each step, and the context (None if nothing can be compared)."""
    timing: dict[str, float] = {}
    began = time.monotonic()
    progress.begin("vectors")
    with progress.encoding() as encoded:
        first, units = vector_items.vectors_item(model, texts.texts, encoded, cuts)
    progress.end(first.row["verdict"])
    if line := cut_line(cuts.record()):
        progress.console.print(line, highlight=False)
    timing["vectors"] = time.monotonic() - began
    items = [first]
    if not vector_items.can_compare(units):
        reason = f"not measured: {first.row['told']}"
        items += [absent(task, reason, split) for step in _STEPS for task, split in step.rows]
        return items, timing, None
    context = AuditContext(settings, model, _space(model, texts, units), linguistics, progress)
    for step in _STEPS:
        began = time.monotonic()
        progress.begin(step.name)
        try:
            new = step.measure(context)
        except NotMeasured as reason:
            new = [absent(task, str(reason), split) for task, split in step.rows]
        progress.end(", ".join(item.row["verdict"] for item in new))
        timing[step.name] = time.monotonic() - began
        items += new
    return items, timing, context


def _space(model: SentenceEncoder, texts: Texts, units: Units) -> Space:
    """Create the space of the texts that have a valid vector."""
    usable = [i for i, row in enumerate(units) if row.any()]
    return Space(model, [texts.texts[i] for i in usable], [texts.numbers[i] for i in usable], units[usable])


def _protocol(
    settings: AuditSettings, texts: Texts, linguistics: Linguistics, context: AuditContext | None
) -> dict[str, Any]:
    """Return all settings, apart from the model, that the numbers depend on."""
    protocol: dict[str, Any] = {
        "texts": {
            "source": texts.source,
            "sha256": texts.sha256,
            "available": texts.available,
            "audited": len(texts.texts),
            "cut": texts.cut,
        },
        "examples": settings.examples,
        "max_words": settings.max_words,
        "share_of_words": changed_copies.SHARE,
        "pooling": settings.pooling,
        **({"prompt_options": settings.prompt_settings} if settings.prompt_settings else {}),
        "precision_of_search": settings.precision,
        "thresholds": thresholds(),
        "resources": dict(vars(linguistics.names)),
        "opened_resources": linguistics.resources.sources(),
    }
    if context is not None:
        protocol |= {
            "drift_threshold": context.space.halfway,
            "neighbours": adversarial_items.NEIGHBOURS,
            **context.record,
        }
    return protocol
