"""Audit items with adversarial attacks, which choose each change by its effect on the model."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from holdfast.attacks.attack_progress import AttackProgress, work_of
from holdfast.attacks.attack_settings import SIDE_BY_SIDE
from holdfast.attacks.encoder_targets import DriftTarget, EncoderTarget
from holdfast.attacks.engine import Engine
from holdfast.attacks.examples import Attempt, Example
from holdfast.attacks.metrics import correlations, skip_reasons, summarise
from holdfast.attacks.recipes import Recipe
from holdfast.attacks.recipes.typos import Typos
from holdfast.attacks.retrieval_target import RetrievalTarget
from holdfast.attacks.scored_pair_target import ScoredPairTarget, fitted_scale
from holdfast.attacks.work_estimate import queries_of
from holdfast.audit.audit_context import AuditContext
from holdfast.audit.audited_texts import local_sts, sts_missing, truncate_words
from holdfast.audit.item_names import item_name
from holdfast.audit.item_rows import Item, NotMeasured, absent, item
from holdfast.audit.time_budget import TimeIsUp, stopped_at
from holdfast.audit.verdicts import judged, rate
from holdfast.data.registry import ScoredPairs

NEIGHBOURS = 5
MARGIN = 1.0
LEAST_ATTACKS = 5
"""Attacks below which an item that the time budget cut short has no verdict."""
_FIT_SHARE, _LEAST_FIT = 0.3, 200
"""The share of a step's time that the fit of a scale may take, and the pairs that it needs in any case."""


def typos_item(context: AuditContext) -> Item:
    """Attack with typing errors until a text's vector is half-way to other texts."""
    return _drift_item(context, "audit-adversarial-typos", Typos(), "typing errors in")


def synonyms_item(context: AuditContext) -> Item:
    """Attack with WordNet synonyms until a text's vector is half-way to other texts."""
    context.require_english()
    return _drift_item(context, "audit-adversarial-synonyms", context.linguistics.synonym_attack(), "synonyms for")


def _drift_item(context: AuditContext, task: str, recipe: Recipe, change: str) -> Item:
    target = DriftTarget(context.model, source=context.settings.model, threshold=context.space.halfway)

    def describe(metrics: dict[str, float]) -> str:
        return f"{metrics['success_rate']:.0f} % of texts can be moved half-way to another text{_by(metrics, change)}"

    return _attack_item(context, task, recipe, target, _examples(context), describe)


def neighbours_item(context: AuditContext) -> Item:
    """Attack with typing errors until none of a text's original neighbours is among its nearest neighbours."""
    texts = context.space.texts
    if len(texts) <= 2 * NEIGHBOURS:
        raise NotMeasured(f"needs more than {2 * NEIGHBOURS} texts, to have enough neighbours")
    target = RetrievalTarget(
        context.model, source=context.settings.model, corpus=texts, k=NEIGHBOURS, vectors=context.vectors.vectors(texts)
    )

    def describe(metrics: dict[str, float]) -> str:
        rate = metrics["success_rate"]
        return f"{rate:.0f} % of texts can lose all {NEIGHBOURS} nearest neighbours{_by(metrics, 'typing errors in')}"

    return _attack_item(context, "audit-neighbours", Typos(), target, _examples(context), describe)


# --- scored pairs ------------------------------------------------------------------------------------------------


def scores_items(context: AuditContext) -> list[Item]:
    """Run AdvSTS with typing errors and with synonyms: move similarities away from gold (see ``ScoredPairTarget``)."""
    recipes: dict[str, Callable[[], Recipe]] = {
        "audit-advsts-typos": Typos,
        "audit-advsts": context.linguistics.synonym_attack,
    }
    pairs = local_sts("dev", context.settings.data)
    target, examples = (None, []) if pairs is None else _scored(context, pairs)
    half = replace(context, deadline=time.monotonic() + (context.deadline - time.monotonic()) / 2)
    items = []
    wanted = {task: recipe for task, recipe in recipes.items() if context.selection.wants([(task, "dev")])}
    for own, (task, recipe) in zip((half, context)[-len(wanted) :], wanted.items(), strict=True):
        try:
            attack = recipe()
            if target is None:
                raise NotMeasured(sts_missing(context.settings.data))
            items.append(_attack_item(own, task, attack, target, examples, _describe_scores, "dev", correlations))
        except NotMeasured as reason:
            items.append(absent(task, str(reason), "dev"))
    return items


def _scored(context: AuditContext, pairs: ScoredPairs) -> tuple[ScoredPairTarget, list[Example]]:
    """Sample pairs to attack, and create a target with a scale from cosines to scores, fitted on other pairs."""
    rng = random.Random(f"{context.settings.seed}/advsts")
    rows = list(range(len(pairs.scores)))
    train = local_sts("train", context.settings.data)
    if train is not None:
        fitted_on, fit_rows = train, list(range(len(train.scores)))
    else:  # the scale must not be fitted on attacked pairs
        rng.shuffle(rows)
        fitted_on, fit_rows, rows = pairs, sorted(rows[: len(rows) // 2]), rows[len(rows) // 2 :]
    fit_rows = _fitting(context, fitted_on, fit_rows)
    attacked = sorted(rng.sample(rows, min(context.examples, len(rows))))
    scale = fitted_scale(
        context.model,
        [fitted_on.sentences1[row] for row in fit_rows],
        [fitted_on.sentences2[row] for row in fit_rows],
        [fitted_on.scores[row] for row in fit_rows],
    )
    context.record["advsts"] = {
        "margin": MARGIN,
        "scale": f"isotonic fit on {len(fit_rows)} pairs of {fitted_on.split}",
    }
    target = ScoredPairTarget(context.model, source=context.settings.model, scale=scale, margin=MARGIN)
    longest = context.settings.max_words
    texts = {
        row: (truncate_words(pairs.sentences1[row], longest), truncate_words(pairs.sentences2[row], longest))
        for row in attacked
    }
    return target, [Example(row, texts[row], 1, pairs.scores[row]) for row in attacked]


def _fitting(context: AuditContext, pairs: ScoredPairs, rows: list[int]) -> list[int]:
    """Return the pairs on which the scale is fitted: as many as can be encoded in a part of the step's time."""
    seconds = 2 * context.seconds_of(pairs.sentences1)
    left = context.deadline - time.monotonic()
    if seconds * len(rows) <= _FIT_SHARE * left:
        return rows
    count = max(_LEAST_FIT, int(_FIT_SHARE * left / seconds))
    return sorted(random.Random(f"{context.settings.seed}/fit").sample(rows, min(count, len(rows))))


def _describe_scores(metrics: dict[str, float]) -> str:
    rate, margin = metrics["success_rate"], f"{MARGIN:g} of 5 points"
    message = f"{rate:.0f} % of similarities can be moved {margin} further from the gold score"
    if "spearman_after" in metrics:
        message += f"; Spearman {metrics['spearman_before']:.0f} before, {metrics['spearman_after']:.0f} after"
    return message


# --- running -----------------------------------------------------------------------------------------------------


def _examples(context: AuditContext) -> list[Example]:
    """Return the first texts as examples; their order is random."""
    chosen = list(zip(context.space.numbers, context.space.texts, strict=True))[: context.examples]
    return [Example(number, (text,)) for number, text in chosen]


def _attempts(
    context: AuditContext, name: str, recipe: Recipe, target: EncoderTarget, examples: Sequence[Example]
) -> list[Attempt]:
    """Attack the examples of the item ``name`` that were not attacked before a stop, until the deadline of the step.

    The attempts are returned in the order of the examples.

    If the time seems short, the examples are attacked one after the other, and the one under attack at the deadline
    does not count: of examples attacked side by side those that end first are the successes. If the time ends all the
    same while several are under attack, only those before the first that did not end count.
    """
    settings = context.settings
    side_by_side = SIDE_BY_SIDE if _seems_enough(context, examples) else 1
    engine = Engine(
        target,
        context.linguistics.resources,
        cheap_search=settings.precision == "bf16",
        seed=settings.seed,
        side_by_side=side_by_side,
    )
    by_number = context.journal.attempts(name)
    waiting = [example for example in examples if example.number not in by_number]
    work = sum(work_of(example.text) for example in waiting)
    console, label = context.progress.console, context.progress.label
    shown = AttackProgress(console, label, len(waiting), engine.under_way, work=work)
    with shown, contextlib.suppress(TimeIsUp), stopped_at(context.model, context.deadline):
        for attempt in engine.run(recipe, waiting) if waiting else ():
            by_number[attempt.number] = attempt
            context.journal.add_attempt(name, attempt)
            shown.add(attempt)
    ended = itertools.takewhile(lambda example: example.number in by_number, examples)
    return [by_number[example.number] for example in ended]


def _seems_enough(context: AuditContext, examples: Sequence[Example]) -> bool:
    """Return True if all examples can be attacked in half of the time left, by a rough estimate of the queries."""
    texts = [example.text for example in examples]
    return queries_of(texts, 1) * context.seconds_of(texts) < 0.5 * (context.deadline - time.monotonic())


def _attack_item(
    context: AuditContext,
    task: str,
    recipe: Recipe,
    target: EncoderTarget,
    examples: Sequence[Example],
    describe: Callable[[dict[str, float]], str],
    split: str = "all",
    more: Callable[[Sequence[Attempt]], dict[str, float]] | None = None,
) -> Item:
    """Attack examples, and create an item: ``describe`` turns its metrics into words, ``more`` adds metrics."""
    name = item_name({"task": task, "split": split})
    attempts = _attempts(context, name, recipe, target, examples)
    left_out = len(examples) - len(attempts)
    if left_out:
        context.budget.left_out.append(f"{name}: {left_out} of {len(examples)} texts not attacked")
    if left_out and len(attempts) < LEAST_ATTACKS:
        reason = f"{len(attempts)} of {len(examples)} attacks ended in their share of {context.budget.seconds:g} s"
        raise NotMeasured(
            f"{reason}, at least {LEAST_ATTACKS} are needed (--max-seconds, or --examples N for N exactly)"
        )
    metrics = {**summarise(attempts, has_classes=False, seed=context.settings.seed), **(more(attempts) if more else {})}
    rows = [attempt.row() for attempt in attempts]
    skipped = skip_reasons(attempts)
    if "success_rate" not in metrics:
        reasons = "; ".join(f"{count} texts: {reason}" for reason, count in skipped.items())
        return absent(task, f"no text could be attacked ({reasons})", split, examples=rows, skipped=skipped)
    return item(
        task,
        split,
        len(attempts),
        metrics,
        judged(int(metrics["attacked"]), rate(*(metrics[f"success_rate{end}"] for end in ("", "_low", "_high")))),
        describe(metrics),
        headline="success_rate",
        examples=rows,
        recipe=recipe.NAME,
        constants=recipe.constants(),
        skipped=skipped,
        side="hold",
        group="adversarial",
        **({"left_out": left_out} if left_out else {}),
    )


def _by(metrics: dict[str, float], change: str) -> str:
    return f", by {change} {metrics['replaced']:.0f} % of their words" if "replaced" in metrics else ""
