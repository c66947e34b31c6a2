"""`holdfast audit`: run all audit items and return one result."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from holdfast.attacks.work_estimate import WorkEstimate, queries_of
from holdfast.audit import adversarial_items, audit_steps, changed_copies, vector_items
from holdfast.audit.audit_context import AuditContext, Linguistics
from holdfast.audit.audit_edits import edits_of
from holdfast.audit.audit_inputs import load_encoder, prepare_inputs, selection_of
from holdfast.audit.audit_journal import AuditJournal
from holdfast.audit.audit_progress import AuditProgress
from holdfast.audit.audit_settings import EXAMPLES, TEXTS_PER_ITEM, AuditSettings
from holdfast.audit.audited_texts import Texts, local_sts
from holdfast.audit.edited_copies import ReadTexts
from holdfast.audit.item_rows import Item
from holdfast.audit.item_selection import ATTACKED, ItemSelection, copies_of_a_text
from holdfast.audit.shared_vectors import SharedVectors
from holdfast.audit.time_budget import TimeBudget
from holdfast.audit.vector_movement import Space, Units
from holdfast.audit.verdicts import thresholds
from holdfast.edits.text_language import Language, language_of
from holdfast.endpoint_options import EndpointOptions
from holdfast.forms import forms_protocol, parse_forms
from holdfast.input_limits import Cuts, cut_line
from holdfast.model_lookup import is_function
from holdfast.models import backend_of, read_as
from holdfast.precision import resolve as resolve_precision
from holdfast.progress import stage
from holdfast.results import new_result, write_result
from holdfast.text_prompts import prompt_protocol
from holdfast.user_functions import VectorFunction

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.user_functions import SentenceEncoder


_PILOT = 32
"""Texts whose encoding tells how long all will take."""
_FIRST_PASS_SHARE = 0.25
"""Share of the time budget for the vectors of the unchanged texts."""
_LEAST_TEXTS = 100
"""Texts that are encoded even if they do not fit into this share."""


def audit(
    settings: AuditSettings,
    *,
    resume: bool = False,
    console: Console | None = None,
    command: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Audit an encoder; with ``settings.output`` the result is written to that file.

    Vectors and finished attacks are kept in a journal beside that file until then (`AuditJournal`); ``resume`` goes on
    from it.

    Returns:
        A result of the kind "audit" (see :mod:`holdfast.results`): a row per item with ``verdict``, ``headline`` (its
        main metric) and ``told`` (a sentence), and ``examples``, the attempts and the texts that moved furthest, each
        with its ``item``.

    Raises:
        UserError: invalid settings, a model or texts that cannot be read, a named resource that is missing, or a
            journal that is not continued or of another audit.
    """
    import torch

    began, cpu = time.monotonic(), time.process_time()
    with stage(console, "reading the texts", announce=False):
        folder, linguistics, texts = prepare_inputs(settings)
    with stage(console, f"loading {settings.model}", announce=False):
        model, identity = load_encoder(settings, folder)
        for form in parse_forms(settings.forms):
            form.require_of(model, settings.model)
    if folder is not None and backend_of(model) is None:
        settings = replace(settings, precision=resolve_precision(settings.precision, torch.device(str(model.device))))
    else:  # the precision of a function or a graph is fixed: a second query would give the same answer
        settings = replace(settings, precision="fp32")
    selection = selection_of(settings)
    if settings.estimate:
        with stage(console, "encoding the first texts", announce=False):
            found = _estimate(settings, texts, _pilot(SharedVectors(model), texts, Cuts()), selection)
        if console is not None:
            console.print(found.line(), highlight=False, markup=False)
        return {"estimate": found.record()}
    journal = AuditJournal(settings.output, _journal_settings(settings, texts, identity))
    about_journal = journal.open(resume=resume)
    if isinstance(model, VectorFunction) and settings.output is not None and not model.keeps_answers:
        model.memory = journal
    budget = TimeBudget(settings.max_seconds, began - journal.spent)
    forms = parse_forms(settings.forms)
    progress = AuditProgress(console, 3 + len(forms) + len(audit_steps.attack_steps(selection)))
    language = language_of(texts.texts, settings.language)
    for line in filter(None, (*about_journal, _describe_texts(texts, settings), language.line())):
        progress.console.print(line, highlight=False, markup=False)
    cuts = Cuts()
    with contextlib.closing(progress):
        items, timing, context = _run_items(
            settings,
            model,
            texts,
            linguistics,
            progress,
            cuts,
            budget=budget,
            language=language,
            journal=journal,
            selection=selection,
        )
    if budget.left_out:
        progress.console.print(left_out_line(budget), highlight=False, markup=False)
    result = new_result(
        "audit",
        command=command,
        model=settings.model,
        identity=identity,
        protocol={
            **_protocol(settings, texts, linguistics, context),
            **({"items": selection.record()} if settings.items is not None else {}),
            "language": language.record(),
            "left_out": budget.left_out,
            **(forms_protocol(forms) if forms else {}),
            **read_as(model),
            **prompt_protocol(model),
        },
        seed=settings.seed,
        results=[item.row for item in items],
        timing={"audit_seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu, **timing},
        device=str(model.device),
    )
    if folder is not None:
        result["truncated"] = cuts.record()
    result["examples"] = [example for item in items for example in item.examples]
    if settings.output is not None:
        write_result(settings.output, result)
        journal.remove()
    return result


_OF_REQUESTS = tuple(each.name for each in fields(EndpointOptions) if each.name not in ("endpoint", "endpoint_model"))
"""Options of an endpoint that change no answer."""


def _journal_settings(settings: AuditSettings, texts: Texts, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that an audit depends on, to tell its journal from that of another one."""
    without = ("output", "call_batch", "retries", "estimate", "device", *_OF_REQUESTS)
    given = {each.name: getattr(settings, each.name) for each in fields(settings) if each.name not in without}
    return {
        **{name: value if isinstance(value, (int, float, type(None))) else str(value) for name, value in given.items()},
        "model_sha256": identity["model_sha256"],
        "model_files": json.dumps(identity["model_files"], sort_keys=True),  # its tokeniser, pooling and prompts
        "texts_sha256": texts.sha256,
    }


def _describe_texts(texts: Texts, settings: AuditSettings) -> str:
    cut = f", {texts.cut:,} of them cut after {settings.max_words} words (--max-words)" if texts.cut else ""
    return f"{len(texts.texts):,} of {texts.available:,} texts of {texts.source}{cut}"


def left_out_line(budget: TimeBudget) -> str:
    """Return the line about what did not fit into the time budget."""
    return f"within {budget.seconds:g} s (--max-seconds): {'; '.join(budget.left_out)}"


def _run_items(
    settings: AuditSettings,
    model: SentenceEncoder,
    texts: Texts,
    linguistics: Linguistics,
    progress: AuditProgress,
    cuts: Cuts,
    *,
    budget: TimeBudget,
    language: Language,
    journal: AuditJournal,
    selection: ItemSelection,
) -> tuple[list[Item], dict[str, float], AuditContext | None]:
    """Run all items; return them, the seconds of each step, and the context (None if nothing can be compared)."""
    timing: dict[str, float] = {}
    began = time.monotonic()
    progress.begin("vectors")
    vectors = SharedVectors(model, None if isinstance(model, VectorFunction) else journal)
    pace = float(journal.planned("pace", lambda: _pilot(vectors, texts, cuts)))
    progress.console.print(_estimate(settings, texts, pace, selection).line(), highlight=False, markup=False)
    if not isinstance(model, VectorFunction) and journal.spent:
        _pilot(vectors, texts, cuts)  # the truncated ones are counted again
    texts = _texts_in_time(texts, pace, budget, journal, exact=settings.texts_per_item is not None)
    with progress.encoding() as encoded:
        first, units = vector_items.vectors_item(model, texts.texts, encoded, cuts, vectors)
    progress.end(first.row["verdict"])
    if line := cut_line(cuts.record()):
        progress.console.print(line, highlight=False)
    timing["vectors"] = time.monotonic() - began
    edits = edits_of(linguistics, texts.texts, selection)
    if not vector_items.can_compare(units):
        reason = f"not measured: {first.row['told']}"
        return [first, *audit_steps.all_absent(edits, selection, reason)], timing, None
    for form in parse_forms(settings.forms):
        form.require(units.shape[1], settings.model)  # of a function, only its vectors tell
    space = _space(model, texts, units, vectors)
    context = AuditContext(
        settings=settings,
        model=model,
        space=space,
        linguistics=linguistics,
        progress=progress,
        vectors=vectors,
        texts=ReadTexts.of(space, settings.seed),
        edits=edits,
        language=language,
        budget=budget,
        selection=selection,
        journal=journal,
        seconds_per_text=journal.planned("seconds_per_text", lambda: vectors.seconds_per_text),
    )
    context = audit_steps.with_texts_per_item(context)
    changed = audit_steps.measure_changed_texts(context, timing)
    return [*audit_steps.selected([first], selection), *changed, *audit_steps.attack(context, timing)], timing, context


def _pilot(vectors: SharedVectors, texts: Texts, cuts: Cuts) -> float:
    """Encode the first few texts; return the seconds that each took."""
    vectors.add(texts.texts[:1], cuts=cuts)  # the first call is slower than the others
    vectors.add(texts.texts[:_PILOT], cuts=cuts)
    return vectors.seconds_per_text


def _estimate(settings: AuditSettings, texts: Texts, pace: float, selection: ItemSelection) -> WorkEstimate:
    """Estimate the work of an audit from the seconds that a text takes."""
    count = len(texts.texts)
    per_item = min(count, settings.texts_per_item or TEXTS_PER_ITEM)
    pairs = local_sts("dev", settings.data) if selection.has("quality") else None
    quality = len({*pairs.sentences1, *pairs.sentences2}) if pairs is not None else 0
    attacked = texts.texts[: settings.examples or EXAMPLES]
    attacks = sum(map(selection.has, ATTACKED))
    return WorkEstimate(
        texts=count,
        encodings=count + quality + per_item * copies_of_a_text(selection),
        queries=queries_of(attacked, attacks),
        seconds_per_text=pace,
        call_batch=settings.call_batch if is_function(settings.model) else None,
        limit=0.0 if None not in (settings.examples, settings.texts_per_item) else settings.max_seconds,
    )


def _texts_in_time(texts: Texts, pace: float, budget: TimeBudget, journal: AuditJournal, *, exact: bool) -> Texts:
    """Return the texts whose vectors fit into a share of the time, by the seconds of a text; all if ``exact``."""
    if exact:
        return texts
    count = journal.planned(
        "texts",
        lambda: budget.fitting(len(texts.texts), pace, _FIRST_PASS_SHARE, _LEAST_TEXTS),
    )
    if count < len(texts.texts):
        budget.left_out.append(f"{count:,} of {len(texts.texts):,} texts")
    return replace(texts, texts=texts.texts[:count], numbers=texts.numbers[:count])


def _space(model: SentenceEncoder, texts: Texts, units: Units, vectors: SharedVectors) -> Space:
    """Create the space of the texts that have a valid vector."""
    usable = [i for i, row in enumerate(units) if row.any()]
    chosen, numbers = [texts.texts[i] for i in usable], [texts.numbers[i] for i in usable]
    return Space(model, chosen, numbers, units[usable], vectors.units)


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
        "texts_per_item": settings.texts_per_item,
        "max_seconds": settings.max_seconds,
        "max_words": settings.max_words,
        "share_of_words": changed_copies.SHARE,
        "pooling": settings.pooling,
        **({"prompt_options": settings.prompt_settings} if settings.prompt_settings else {}),
        "precision_of_search": settings.precision,
        "thresholds": thresholds(),
        "resources": dict(vars(linguistics.names)),
        "opened_resources": linguistics.resources.sources(),
    }
    if linguistics.misspellings is not None:
        protocol["misspellings"] = linguistics.misspellings.record()
    if context is not None:
        protocol |= {
            "drift_threshold": context.space.halfway,
            "neighbours": adversarial_items.NEIGHBOURS,
            "drawn": {"texts": len(context.space.texts), "texts_per_item": context.texts_per_item},
            **context.record,
        }
    return protocol
