"""Audit items with random changes of the texts, which do not depend on the model."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.audit import changed_copies
from holdfast.audit.audit_context import AuditContext
from holdfast.audit.edited_copies import edited_copies
from holdfast.audit.item_names import task_and_split
from holdfast.audit.item_rows import Item, item
from holdfast.audit.planned_items import Planned, planned_copies
from holdfast.audit.vector_movement import Movement
from holdfast.audit.verdicts import PULL_BREAKS, PULL_HOLDS, SURFACE_BREAKS, SURFACE_HOLDS, Measure, judged, rate
from holdfast.edits.casing_and_spacing import add_trailing_space, lower_case, toggle_full_stop, upper_case
from holdfast.edits.edit import ENGLISH, Edit
from holdfast.edits.edit_table import FORM, OTHER_WORDS, PARAPHRASE, SYNTHETIC, group_of
from holdfast.evaluation.intervals import rate_interval
from holdfast.result_layout import AUDIT_ITEM

SURFACE_CHANGES: dict[tuple[str, str], tuple[str, Callable[[str], str | None]]] = {
    ("audit-case", "lower"): ("lower case", lower_case),
    ("audit-case", "upper"): ("upper case", upper_case),
    ("audit-full-stop", "all"): ("adding or removing the final full stop", toggle_full_stop),
    ("audit-blank", "all"): ("a trailing space", add_trailing_space),
}
"""The meaning-preserving changes, by task and split: a name, and the function that changes a text."""
_SURFACE = (SURFACE_HOLDS, SURFACE_BREAKS)


def surface_items(context: AuditContext, task: str, split: str) -> Planned:
    """Plan the item of a meaning-preserving change."""
    name, change = SURFACE_CHANGES[task, split]
    copies = changed_copies.changed_texts(context.few_texts, change)
    recipe = "-".join([task.removeprefix(AUDIT_ITEM), *([split] if split != "all" else [])])
    sentence = f"{name} moves the vector as far as {{:.2f}} replaced words would"

    def measure(context: AuditContext, movement: Movement) -> list[Item]:
        return [movement_item(context, task, split, recipe, movement, sentence, _SURFACE, FORM)]

    return planned_copies(copies, measure, f"{name} changes no text")


def typos_items(context: AuditContext) -> Planned:
    """Plan the items of random typing errors: their effect, and how often a mistyped text is nearest to its own."""
    copies = changed_copies.exchanged_words(
        context.few_texts,
        changed_copies.typing_error,
        kind="typos",
        seed=context.settings.seed,
        deadline=context.deadline,
    )

    def measure(context: AuditContext, movement: Movement) -> list[Item]:
        typos = _exchange_item(context, "audit-typos", "random-typos", movement, "a mistyped word", SYNTHETIC)
        return [typos, _noise_item(context, movement)]

    return planned_copies(copies, measure)


def synonyms_items(context: AuditContext) -> Planned:
    """Plan the item of random synonyms."""
    context.require_english()
    exchange, source = context.linguistics.synonym()
    context.record["random_synonyms"] = source
    copies = changed_copies.exchanged_words(
        context.few_texts, exchange, kind="synonyms", seed=context.settings.seed, deadline=context.deadline
    )

    def measure(context: AuditContext, movement: Movement) -> list[Item]:
        return [_exchange_item(context, "audit-synonyms", "random-synonyms", movement, "a synonym", PARAPHRASE)]

    return planned_copies(copies, measure, "no text has a word with a synonym")


def fillers_items(context: AuditContext) -> Planned:
    """Plan the item of words replaced by probable fillers of a masked language model."""
    if context.settings.masked_lm is None:  # the default one is English; a named one may know the language
        context.require_english()
    masked_lm = context.linguistics.masked_lm()
    copies = changed_copies.filled_words(
        context.few_texts, masked_lm, seed=context.settings.seed, deadline=context.deadline
    )

    def measure(context: AuditContext, movement: Movement) -> list[Item]:
        name = "a masked LM's likely word"
        return [_exchange_item(context, "audit-fillers", "random-fillers", movement, name, OTHER_WORDS)]

    return planned_copies(copies, measure)


def edit_items(context: AuditContext, edit: Edit) -> Planned:
    """Plan the item of an edit that keeps the meaning: noise of people and machines, evasion, paraphrases."""
    if edit.LANGUAGE == ENGLISH:
        context.require_english()
    copies = edited_copies(
        context.texts,
        edit,
        strength=changed_copies.SHARE,
        most=context.texts_per_item,
        deadline=context.deadline,
        of_one_word=group_of(edit) == FORM,  # it should have no effect at all
    )
    task, split = task_and_split(edit.NAME)
    sentence, limits = (
        f"{edit.ABOUT}: the vector moves by {{:.1f}} times the share of the words",
        (PULL_HOLDS, PULL_BREAKS),
    )
    if group_of(edit) == FORM:
        sentence, limits = f"{edit.ABOUT} moves the vector as far as {{:.2f}} replaced words would", _SURFACE

    def measure(context: AuditContext, movement: Movement) -> list[Item]:
        return [movement_item(context, task, split, edit.NAME, movement, sentence, limits, group_of(edit))]

    return planned_copies(copies, measure, f"no text can be changed: {edit.ABOUT}")


def _exchange_item(context: AuditContext, task: str, recipe: str, movement: Movement, name: str, group: str) -> Item:
    sentence = f"{name} moves the vector by {{:.1f}} times its share of the words"
    return movement_item(context, task, "all", recipe, movement, sentence, (PULL_HOLDS, PULL_BREAKS), group)


def movement_item(
    context: AuditContext,
    task: str,
    split: str,
    recipe: str,
    movement: Movement,
    sentence: str,
    thresholds: tuple[float, float],
    group: str,
) -> Item:
    """Create an item from moved copies; ``sentence`` is a format for the pull, ``thresholds`` judge it."""
    space = context.space
    metrics = space.metrics(movement, context.settings.seed)
    count = len(movement.copies)
    moved = Measure(metrics["pull"], metrics["pull_low"], metrics["pull_high"], *thresholds)
    lost = rate(*(100.0 - metrics[f"found@1{end}"] for end in ("", "_high", "_low")))
    ten = f" and {metrics['found@10']:.0f} % among the first 10" if "found@10" in metrics else ""
    found = f"{metrics['found@1']:.0f} % of the changed texts find their text first{ten}"
    return item(
        task,
        split,
        count,
        metrics,
        judged(count, moved, lost),
        f"{found}; {sentence.format(metrics['pull'])}; {metrics['neighbour_changed']:.0f} % get another nearest "
        "neighbour beside their own text",
        headline="stability",
        examples=space.examples(movement, recipe),
        side="hold",
        group=group,
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
    count = len(movement.copies)
    verdict = judged(count, rate(100.0 - found, 100.0 - high, 100.0 - low))
    items = {"text": context.space.numbers_of(movement), "correct": movement.found.astype(int).tolist()}
    return item(
        *("audit-noise", "all", count, metrics, verdict, message),
        headline="found",
        side="hold",
        group=SYNTHETIC,
        items=items,
    )
