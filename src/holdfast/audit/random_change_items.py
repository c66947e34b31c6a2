"""Audit items with random changes of the texts, which do not depend on the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.audit import changed_copies
from holdfast.audit.audit_context import AuditContext
from holdfast.audit.item_rows import Item, NotMeasured, item
from holdfast.audit.vector_movement import Copy, Movement
from holdfast.audit.verdicts import PULL_BREAKS, PULL_HOLDS, SURFACE_BREAKS, SURFACE_HOLDS, of_harm, of_rate, worst
from holdfast.edits.casing_and_spacing import add_trailing_space, lower_case, toggle_full_stop, upper_case
from holdfast.evaluation.intervals import rate_interval

SURFACE_CHANGES: dict[tuple[str, str], tuple[str, Callable[[str], str | None]]] = {
    ("audit-case", "lower"): ("lower case", lower_case),
    ("audit-case", "upper"): ("upper case", upper_case),
    ("audit-full-stop", "all"): ("adding or removing the final full stop", toggle_full_stop),
    ("audit-blank", "all"): ("a trailing space", add_trailing_space),
}
"""The meaning-preserving changes, by task and split: a name, and the function that changes a text."""


def surface_item(context: AuditContext, task: str, split: str) -> Item:
    """Measure the effect of a meaning-preserving change."""
    name, change = SURFACE_CHANGES[task, split]
    movement = _move(context, changed_copies.changed_texts(context.space.texts, change), f"{name} changes no text")
    recipe = "-".join([task.removeprefix("audit-"), *([split] if split != "all" else [])])
    sentence = f"{name} moves the vector as far as {{:.2f}} replaced words would"
    return _movement_item(context, task, split, recipe, movement, sentence, (SURFACE_HOLDS, SURFACE_BREAKS))


def typos_items(context: AuditContext) -> list[Item]:
    """Measure the effect of random typing errors, and how often a mistyped text is nearest to its original."""
    seed = context.settings.seed
    copies = changed_copies.exchanged_words(context.space, changed_copies.typing_error, kind="typos", seed=seed)
    movement = _move(context, copies)
    return [
        _exchange_item(context, "audit-typos", "random-typos", movement, "a mistyped word"),
        _noise_item(context, movement),
    ]


def synonyms_item(context: AuditContext) -> Item:
    """Measure the effect of random synonyms."""
    exchange, source = context.linguistics.synonym()
    context.record["random_synonyms"] = source
    copies = changed_copies.exchanged_words(context.space, exchange, kind="synonyms", seed=context.settings.seed)
    movement = _move(context, copies, "no text has a word with a synonym")
    return _exchange_item(context, "audit-synonyms", "random-synonyms", movement, "a synonym")


def fillers_item(context: AuditContext) -> Item:
    """Measure the effect of words replaced by probable fillers of a masked language model."""
    masked_lm = context.linguistics.masked_lm()
    movement = _move(context, changed_copies.filled_words(context.space, masked_lm, seed=context.settings.seed))
    return _exchange_item(context, "audit-fillers", "random-fillers", movement, "a masked LM's likely word")


def _move(
    context: AuditContext, copies: Sequence[Copy], without_copies: str = "no text has a word that may be changed"
) -> Movement:
    """Encode copies and compare them with the texts; ``without_copies`` is the reason if there are none."""
    if not copies:
        raise NotMeasured(without_copies)
    with context.progress.encoding() as progress:
        return context.space.move(copies, progress)


def _exchange_item(context: AuditContext, task: str, recipe: str, movement: Movement, name: str) -> Item:
    sentence = f"{name} moves the vector by {{:.1f}} times its share of the words"
    return _movement_item(context, task, "all", recipe, movement, sentence, (PULL_HOLDS, PULL_BREAKS))


def _movement_item(
    context: AuditContext,
    task: str,
    split: str,
    recipe: str,
    movement: Movement,
    sentence: str,
    thresholds: tuple[float, float],
) -> Item:
    """Create an item from moved copies; ``sentence`` is a format for the pull, ``thresholds`` judge it."""
    space = context.space
    metrics = space.metrics(movement, context.settings.seed)
    pull, changed = metrics["pull"], metrics["neighbour_changed"]
    return item(
        task,
        split,
        len(movement.copies),
        metrics,
        worst(of_harm(pull, *thresholds), of_rate(changed)),
        f"{sentence.format(pull)}; {changed:.0f} % of texts get another nearest neighbour",
        headline="stability",
        examples=space.examples(movement, recipe),
        items=space.items(movement),
    )


def _noise_item(context: AuditContext, movement: Movement) -> Item:
    """Measure how often a mistyped text is nearest to its original; random or constant models fail."""
    found, chance = 100.0 * float(movement.found.mean()), 100.0 / len(context.space.texts)
    low, high = (100.0 * end for end in rate_interval(movement.found, seed=context.settings.seed))
    message = f"{found:.1f} % of mistyped texts are nearest to their own original ({chance:.2g} % by chance)"
    if low <= chance:
        message += ": the model is no better than random"
    metrics = {"found": found, "found_low": low, "found_high": high, "chance": chance}
    verdict, count = of_rate(100.0 - found), len(movement.copies)
    items = {"text": context.space.numbers_of(movement), "correct": movement.found.astype(int).tolist()}
    return item("audit-noise", "all", count, metrics, verdict, message, headline="found", items=items)
