"""Audit items with adversarial attacks, which choose each change by its effect on the model."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.attacks.attack_progress import AttackProgress
from holdfast.attacks.encoder_targets import DriftTarget, EncoderTarget, RetrievalTarget, ScoredPairTarget, fitted_scale
from holdfast.attacks.engine import Engine
from holdfast.attacks.examples import Attempt, Example
from holdfast.attacks.metrics import correlations, skip_reasons, summarise
from holdfast.attacks.recipes import Recipe
from holdfast.attacks.recipes.typos import Typos
from holdfast.audit.audit_context import AuditContext
from holdfast.audit.audited_texts import cut_to, how_to_have_sts, sts_here
from holdfast.audit.item_rows import Item, absent, item
from holdfast.audit.verdicts import of_rate

NEIGHBOURS = 5
MARGIN = 1.0


def typos_item(context: AuditContext) -> Item:
    """Attack with typing errors until a text's vector is half-way to other texts."""
    return _drift_item(context, "audit-adversarial-typos", Typos(), "mistyped")


def synonyms_item(context: AuditContext) -> Item:
    """Attack with WordNet synonyms until a text's vector is half-way to other texts."""
    recipe = context.linguistics.synonym_attack()
    if isinstance(recipe, str):
        return absent("audit-adversarial-synonyms", recipe)
    return _drift_item(context, "audit-adversarial-synonyms", recipe, "exchanged for synonyms")


def _drift_item(context: AuditContext, task: str, recipe: Recipe, done: str) -> Item:
    target = DriftTarget(context.model, source=context.settings.model, threshold=context.space.halfway)
    attempts = _attempts(context, recipe, target, _examples(context))

    def message(metrics: dict[str, float]) -> str:
        return f"{metrics['success_rate']:.0f} % of texts can be moved half-way to another text{_by(metrics, done)}"

    return _item(task, recipe, attempts, message, context.settings.seed)


def neighbours_item(context: AuditContext) -> Item:
    """Attack with typing errors until none of a text's original neighbours is among its nearest neighbours."""
    task, texts = "audit-neighbours", context.space.texts
    if len(texts) <= 2 * NEIGHBOURS:
        return absent(task, f"needs more than {2 * NEIGHBOURS} texts to have neighbours among")
    target = RetrievalTarget(context.model, source=context.settings.model, corpus=texts, k=NEIGHBOURS)
    recipe = Typos()
    attempts = _attempts(context, recipe, target, _examples(context))

    def message(metrics: dict[str, float]) -> str:
        rate = metrics["success_rate"]
        return f"{rate:.0f} % of texts can be made to lose all {NEIGHBOURS} neighbours{_by(metrics, 'mistyped')}"

    return _item(task, recipe, attempts, message, context.settings.seed)


# --- scored pairs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scored:
    """Scored pairs to attack, and a target with a fitted scale from cosines to scores."""

    target: ScoredPairTarget
    examples: list[Example]


def scores_items(context: AuditContext) -> list[Item]:
    """Run AdvSTS with typing errors and with synonyms: move similarities away from gold (see ``ScoredPairTarget``)."""
    synonyms = context.linguistics.synonym_attack()
    recipes: dict[str, Recipe | str] = {"audit-advsts-typos": Typos(), "audit-advsts": synonyms}
    scored = _scored(context)
    items = []
    for task, recipe in recipes.items():
        if isinstance(recipe, str) or scored is None:
            why = recipe if isinstance(recipe, str) else how_to_have_sts(context.settings.data)
            items.append(absent(task, why, "dev"))
            continue
        attempts = _attempts(context, recipe, scored.target, scored.examples)
        message, more = _describe_scores, correlations(attempts)
        items.append(_item(task, recipe, attempts, message, context.settings.seed, split="dev", more=more))
    return items


def _scored(context: AuditContext) -> _Scored | None:
    """Sample pairs of STS-B dev, and fit the scale on other pairs; return None if STS-B is missing."""
    pairs = sts_here("dev", context.settings.data)
    if pairs is None:
        return None
    rng = random.Random(f"{context.settings.seed}/advsts")
    rows = list(range(len(pairs.scores)))
    train = sts_here("train", context.settings.data)
    if train is not None:
        fitted_on, fit_rows = train, list(range(len(train.scores)))
    else:  # the scale must not be fitted on attacked pairs
        rng.shuffle(rows)
        fitted_on, fit_rows, rows = pairs, sorted(rows[: len(rows) // 2]), rows[len(rows) // 2 :]
    attacked = sorted(rng.sample(rows, min(context.settings.examples, len(rows))))
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
    longest = context.settings.max_words
    examples = [
        Example(i, (cut_to(pairs.sentences1[i], longest), cut_to(pairs.sentences2[i], longest)), 1, pairs.scores[i])
        for i in attacked
    ]
    return _Scored(ScoredPairTarget(context.model, source=context.settings.model, scale=scale, margin=MARGIN), examples)


def _describe_scores(metrics: dict[str, float]) -> str:
    message = f"{metrics['success_rate']:.0f} % of scored pairs can be moved {MARGIN:g} of 5 points further from gold"
    if "spearman_after" in metrics:
        message += f"; Spearman {metrics['spearman_before']:.0f} falls to {metrics['spearman_after']:.0f}"
    return message


# --- running -----------------------------------------------------------------------------------------------------


def _examples(context: AuditContext) -> list[Example]:
    """Return the first texts as examples; their order is random."""
    chosen = list(zip(context.space.numbers, context.space.texts, strict=True))[: context.settings.examples]
    return [Example(number, (text,)) for number, text in chosen]


def _attempts(
    context: AuditContext, recipe: Recipe, target: EncoderTarget, examples: Sequence[Example]
) -> list[Attempt]:
    """Attack examples; return all attempts in the order of the examples."""
    settings = context.settings
    engine = Engine(target, context.linguistics.resources, bf16=settings.precision == "bf16", seed=settings.seed)
    by_number: dict[int, Attempt] = {}
    with AttackProgress(context.progress.console, context.progress.label, len(examples), engine.under_way) as progress:
        for attempt in engine.run(recipe, examples):
            by_number[attempt.number] = attempt
            progress.add(attempt)
    return [by_number[example.number] for example in examples]


def _item(
    task: str,
    recipe: Recipe,
    attempts: Sequence[Attempt],
    message: Callable[[dict[str, float]], str],
    seed: int,
    *,
    split: str = "all",
    more: dict[str, float] | None = None,
) -> Item:
    metrics = {**summarise(attempts, has_classes=False, seed=seed), **(more or {})}
    rows = [attempt.row() for attempt in attempts]
    skipped = skip_reasons(attempts)
    if "success_rate" not in metrics:
        reasons = "; ".join(f"{count} texts: {reason}" for reason, count in skipped.items())
        found = absent(task, f"nothing could be attacked ({reasons})", split)
        return Item({**found.row, "skipped": skipped}, [{**row, "item": task} for row in rows])
    return item(
        task,
        split,
        len(attempts),
        metrics,
        of_rate(metrics["success_rate"]),
        message(metrics),
        headline="success_rate",
        examples=rows,
        recipe=recipe.NAME,
        constants=dict(vars(recipe)),
        skipped=skipped,
    )


def _by(metrics: dict[str, float], done: str) -> str:
    return f", {metrics['replaced']:.0f} % of their words {done}" if "replaced" in metrics else ""
