"""Audit item of a poisoned corpus: a few passages that are made to be near many of the audited texts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.attacks.poisoning.hotflip import HotFlip
from holdfast.attacks.poisoning.mean_similarity import SearchSpace
from holdfast.attacks.poisoning.passage_making import Attacked, make_passage, query_groups
from holdfast.attacks.poisoning.passage_measures import Search, measured, passage_rows
from holdfast.attacks.poisoning.poison_queries import LEAST, split_queries
from holdfast.attacks.poisoning.poison_recipe import Passage, PoisonRecipe
from holdfast.attacks.poisoning.proposed_words import MaskedLMWords
from holdfast.attacks.poisoning.retrieved_share import DEPTHS, HEADLINE
from holdfast.audit.audit_context import AuditContext
from holdfast.audit.item_rows import Item, NotMeasured, item
from holdfast.audit.verdicts import judged, rate
from holdfast.errors import UserError

TASK = "audit-poisoning"
PASSAGES = 3
QUERIES = 400
"""Audited texts that are queries, at most; no more than half of all. The others are searched."""
CONSTANTS = {"words": 12, "steps": 40, "candidates": 20}
"""Constants of the recipe."""


@dataclass(frozen=True)
class _Poisoned:
    recipe: PoisonRecipe
    passages: Sequence[Passage]
    left_out: int


def poisoning_item(context: AuditContext) -> Item:
    """Make passages for some of the audited texts, and count the others that find one among their 10 nearest texts.

    Half of the drawn texts are what passages are made for, the other half measures them, and the remaining texts are
    searched. With gradients the recipe is `hotflip`, else `masked-lm`. The verdict is that of the share beyond the one
    of as many ordinary texts, which depends on the number of texts alone.
    """
    texts = list(dict.fromkeys(context.space.texts))
    count = min(QUERIES, len(texts) // 2)
    if count < 2 * LEAST:
        raise NotMeasured(f"needs {4 * LEAST} different texts, to search some with others")
    seed = context.settings.seed
    try:
        space = SearchSpace(context.model, source=context.settings.model)
        split = split_queries(texts[:count], seed=seed)
        fitted, held_out = (
            space.prepared(context.side_vectors("query").vectors(list(part))) for part in (split.fitted, split.held_out)
        )
        corpus = texts[count:]
        vectors = space.prepared(context.side_vectors("document").vectors(corpus))
        groups = query_groups(space, split.fitted, fitted, PASSAGES, seed=seed)
        found = _passages(context, Attacked(space, corpus, vectors, groups, seed))
    except UserError as error:
        raise NotMeasured(str(error)) from error
    search = Search(space, vectors, split.held_out, held_out, corpus, seed)
    return _item(context, found, search)


def _passages(context: AuditContext, attacked: Attacked) -> _Poisoned:
    """Make the passages: with gradients if the model gives them, else with proposals of the masked LM."""
    try:
        return _made(context, HotFlip(**CONSTANTS), attacked)
    except UserError:
        context.require_english()
        context.linguistics.masked_lm()  # raises the reason if there is none
        return _made(context, MaskedLMWords(**CONSTANTS), attacked)


def _made(context: AuditContext, recipe: PoisonRecipe, attacked: Attacked) -> _Poisoned:
    began, resources = time.monotonic(), context.linguistics.resources
    passages = []
    for number in range(PASSAGES):
        until = began + (number + 1) / PASSAGES * (context.deadline - began)

        def stopped(until: float = until) -> bool:
            return time.monotonic() > until

        passages.append(make_passage(recipe, number, attacked, resources, stopped=stopped))
    return _Poisoned(recipe, passages, sum(not recipe.ended(passage) for passage in passages))


def _item(context: AuditContext, found: _Poisoned, search: Search) -> Item:
    recipe, passages = found.recipe, found.passages
    if any(not passage.step for passage in passages):
        raise NotMeasured(f"{found.left_out} of {PASSAGES} passages were not made: the time ended (--max-seconds)")
    if found.left_out:
        context.budget.left_out.append(f"poisoning: {found.left_out} of {PASSAGES} passages not made to the end")
    metrics, ranks = measured(passages, search)
    known = len(search.corpus)
    metrics = {name: value for name, value in metrics.items() if not any(f"@{k}" in name for k in DEPTHS if k >= known)}
    success, ordinary = metrics["success_rate"], metrics[f"ordinary@{HEADLINE}"]
    count = len(ranks)
    message = (
        f"{success:.0f} % of other texts have one of {PASSAGES} made passages among their {HEADLINE} nearest texts "
        f"(as many ordinary texts: {ordinary:.0f} %)"
    )
    return item(
        TASK,
        "all",
        count,
        metrics,
        judged(count, rate(*(max(0.0, metrics[f"success_rate{end}"] - ordinary) for end in ("", "_low", "_high")))),
        message,
        headline="success_rate",
        examples=passage_rows(recipe.NAME, passages, search),
        recipe=recipe.NAME,
        constants=recipe.constants(),
        side="hold",
        group="adversarial",
        ranks=ranks.tolist(),
        held_out_sha256=search.held_out_sha256,
        **({"left_out": found.left_out} if found.left_out else {}),
    )
