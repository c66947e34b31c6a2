"""The steps of an audit after the first pass: plan all changed texts, encode them together, measure, attack."""

from __future__ import annotations

import collections
import functools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from holdfast.audit import adversarial_items, random_change_items, vector_items
from holdfast.audit.audit_context import AuditContext
from holdfast.audit.audit_edits import WITH_OWN_ITEM
from holdfast.audit.item_names import item_name, task_and_split
from holdfast.audit.item_rows import Item, NotMeasured, absent
from holdfast.audit.item_selection import ITEMS, ItemSelection
from holdfast.audit.labelled_items import INFERENCE_SETS, inference_items
from holdfast.audit.move_items import MEANING_TASK, MoveItems
from holdfast.audit.planned_items import Planned
from holdfast.audit.poisoning_item import poisoning_item
from holdfast.audit.retrieval_items import ROWS as RETRIEVAL_ROWS
from holdfast.audit.retrieval_items import retrieval_items
from holdfast.edits.edit import Edit, Side
from holdfast.edits.edit_table import EditTable
from holdfast.errors import NotInstalled
from holdfast.evaluation.form_losses import with_losses
from holdfast.forms import parse_forms

Rows = Sequence[tuple[str, str]]

_COPIES_SHARE, _EDITING_SHARE = 0.4, 0.3
"""Shares of the rest of the time: for encoding changed texts, and for making them."""
_ONE_STEP = 0.25
"""Share of the rest of the time for making changed texts that one item may take."""
_SHOWN_ORDER = ("breaks", "bends", "holds", "too few", "absent")
LEAST_PER_ITEM = 20
"""Texts per item that are drawn even if they do not fit into the time."""


@dataclass(frozen=True)
class PlannedStep:
    """A step whose texts are encoded with those of the others: ``rows`` are ``(task, split)`` of its result rows."""

    rows: Rows
    plan: Callable[[AuditContext], Planned]
    side: Side = "hold"

    def absent(self, reason: str) -> list[Item]:
        """Return the rows of items that could not be measured."""
        return [absent(task, reason, split, side=self.side) for task, split in self.rows]


@dataclass(frozen=True)
class AttackStep:
    """An attack: its name in the progress display, ``(task, split)`` of its result rows, and its function."""

    name: str
    rows: Rows
    measure: Callable[[AuditContext], list[Item]]


def _surface(task: str, split: str = "all") -> PlannedStep:
    return PlannedStep([(task, split)], functools.partial(random_change_items.surface_items, task=task, split=split))


_FIRST = (
    PlannedStep([("audit-quality", "dev")], vector_items.quality_items),
    _surface("audit-case", "lower"),
    _surface("audit-case", "upper"),
    _surface("audit-full-stop"),
    _surface("audit-blank"),
    PlannedStep([("audit-typos", "all"), ("audit-noise", "all")], random_change_items.typos_items),
    PlannedStep([("audit-synonyms", "all")], random_change_items.synonyms_items),
    PlannedStep([("audit-fillers", "all")], random_change_items.fillers_items),
)

ATTACKS = (
    AttackStep(
        "adversarial typing errors", [("audit-adversarial-typos", "all")], lambda c: [adversarial_items.typos_item(c)]
    ),
    AttackStep(
        "adversarial synonyms",
        [("audit-adversarial-synonyms", "all")],
        lambda context: [adversarial_items.synonyms_item(context)],
    ),
    AttackStep(
        "adversarial scores",
        [("audit-advsts-typos", "dev"), ("audit-advsts", "dev")],
        adversarial_items.scores_items,
    ),
    AttackStep("nearest neighbours", [("audit-neighbours", "all")], lambda c: [adversarial_items.neighbours_item(c)]),
    AttackStep("poisoned corpus", [("audit-poisoning", "all")], lambda c: [poisoning_item(c)]),
)


def planned_steps(edits: EditTable, selection: ItemSelection, moves: MoveItems | None = None) -> list[PlannedStep]:
    """Return the steps with changed texts, in the order of the result: hold edits, then move edits, then labelled sets.

    Args:
        edits: the edits.
        selection: the items that are measured; other steps are left out.
        moves: the items of move edits; None: only the rows are needed.
    """
    steps = list(_FIRST)
    for edit in edits.side("hold"):
        if edit.NAME not in WITH_OWN_ITEM:
            plan = functools.partial(random_change_items.edit_items, edit=edit)
            steps.append(PlannedStep([task_and_split(edit.NAME)], plan))
    versions = [task_and_split(name) for name in selection.versions]
    steps.append(PlannedStep([*RETRIEVAL_ROWS, *versions], retrieval_items))
    for family, reason in edits.missing.items():
        steps.append(PlannedStep([task_and_split(family)], functools.partial(_missing, reason=reason)))
    for edit in edits.side("move"):
        steps.append(
            PlannedStep([task_and_split(edit.NAME)], functools.partial(_moved, moves=moves, edit=edit), "move")
        )
    for inference in INFERENCE_SETS:
        plan = functools.partial(inference_items, inference=inference)
        steps.append(PlannedStep([(inference.task, inference.split)], plan, "move"))
    missing = {task_and_split(family) for family in edits.missing}  # rows of families that could not be made
    return [step for step in steps if missing.intersection(step.rows) or selection.wants(step.rows)]


def attack_steps(selection: ItemSelection) -> list[AttackStep]:
    """Return the attacks on selected items."""
    return [step for step in ATTACKS if selection.wants(step.rows)]


def selected(items: Iterable[Item], selection: ItemSelection) -> list[Item]:
    """Return the selected ones of some items; families of edits that could not be made stay, with their reason."""
    return [each for each in items if item_name(each.row) not in ITEMS or selection.has(item_name(each.row))]


def _missing(_context: AuditContext, reason: str) -> Planned:
    raise NotMeasured(reason)


def _moved(_context: AuditContext, moves: MoveItems | None, edit: Edit) -> Planned:
    assert moves is not None
    return moves.plan(edit)


def all_absent(edits: EditTable, selection: ItemSelection, reason: str) -> list[Item]:
    """Return all selected items after that of the vectors as not measured, in the order of the result."""
    changed = [item for step in planned_steps(edits, selection) for item in step.absent(reason)]
    attacks = [absent(task, reason, split, side="hold") for step in ATTACKS for task, split in step.rows]
    return selected([*changed, absent(MEANING_TASK, reason, side="move"), *attacks], selection)


# --- changed texts -------------------------------------------------------------------------------------------------


def with_texts_per_item(context: AuditContext) -> AuditContext:
    """Return the context with the number of texts per item that fits into the time; a given number stays."""
    if context.settings.texts_per_item is not None:
        return replace(context, texts_per_item=context.settings.texts_per_item)
    steps = planned_steps(context.edits, context.selection)
    items = sum(len(step.rows) * (1 + (step.side == "move")) for step in steps)
    wanted = min(context.texts_per_item, len(context.space.texts))
    fitting = context.journal.planned(
        "texts_per_item",
        lambda: context.budget.fitting(wanted, items * context.seconds_per_text, _COPIES_SHARE, LEAST_PER_ITEM),
    )
    if fitting < wanted:
        context.budget.left_out.append(f"{fitting:,} of {wanted:,} texts per item")
    return replace(context, texts_per_item=fitting)


def measure_changed_texts(context: AuditContext, timing: dict[str, float]) -> list[Item]:
    """Plan, encode and measure all items of changed texts, and the labelled sets."""
    moves = MoveItems(context)
    steps = planned_steps(context.edits, context.selection, moves)
    exact = context.settings.texts_per_item is not None
    began = time.monotonic()
    context.progress.begin("changing the texts")
    plans = []
    whole = float("inf") if exact else context.budget.deadline(_EDITING_SHARE)
    stopped: list[str] = []
    for step in steps:
        now = time.monotonic()
        deadline = now + _ONE_STEP * (whole - now)
        plans.append(_planned(step, replace(context, deadline=deadline)))
        if time.monotonic() > deadline:
            stopped += [item_name({"task": task, "split": split}) for task, split in step.rows]
    if stopped:
        context.budget.left_out.append(f"fewer texts changed for {', '.join(stopped)}")
    texts = [text for plan in plans if isinstance(plan, Planned) for text in plan.texts]
    context.progress.end(f"{len({text for _, text in texts}):,} changed texts for {len(steps)} items")
    timing["edits"], began = time.monotonic() - began, time.monotonic()
    context.progress.begin("encoding the changed texts")
    deadline = float("inf") if exact else context.budget.deadline(2 * _COPIES_SHARE)
    ordered = [text for _, text in sorted(texts, key=lambda pair: pair[0])]
    with context.progress.encoding() as progress:
        complete = context.vectors.add(ordered, progress, deadline=deadline)
    if not complete:
        lost = len({text for text in ordered if text not in context.vectors})
        context.budget.left_out.append(f"{lost:,} changed texts")
    items = _items(steps, plans, moves, context)
    timing["encoding"] = time.monotonic() - began
    context.progress.end(verdict_counts(items))
    return [*items, *_in_forms(items, steps, plans, moves, context, timing)]


def _items(
    steps: Sequence[PlannedStep], plans: Sequence[Planned | NotMeasured], moves: MoveItems, context: AuditContext
) -> list[Item]:
    """Return the selected items of all steps, from the vectors of the context."""
    items = [item for step, plan in zip(steps, plans, strict=True) for item in _measured(step, plan, context)]
    return selected([*items, moves.headline(context)], context.selection)


def _in_forms(
    plain: Sequence[Item],
    steps: Sequence[PlannedStep],
    plans: Sequence[Planned | NotMeasured],
    moves: MoveItems,
    context: AuditContext,
    timing: dict[str, float],
) -> list[Item]:
    """Return the measured items in each form of ``--as``, without examples, with the differences to the plain ones."""
    found: list[Item] = []
    for form in parse_forms(context.settings.forms):
        began = time.monotonic()
        context.progress.begin(f"as {form}")
        own = context.in_form(form)
        assert own.form is not None
        about = {"form": str(form), "vectors": own.form.record()}
        items = [each for each in _items(steps, plans, moves, own) if each.row["verdict"] != "absent"]
        found += [Item({**each.row, **about}) for each in items]
        context.progress.end(verdict_counts(items))
        timing[f"as {form}"] = time.monotonic() - began
    if found:
        with_losses([each.row for each in (*plain, *found)], context.settings.seed)
    return found


def _planned(step: PlannedStep, context: AuditContext) -> Planned | NotMeasured:
    try:
        if time.monotonic() > context.deadline:
            raise NotMeasured("no text could be changed before the end of the time budget (--max-seconds)")
        return step.plan(context)
    except NotMeasured as reason:
        return reason
    except NotInstalled as reason:
        return NotMeasured(str(reason))


def _measured(step: PlannedStep, plan: Planned | NotMeasured, context: AuditContext) -> list[Item]:
    """Return the items of a step; each row tells how many of its texts were not encoded in time."""
    try:
        if isinstance(plan, NotMeasured):
            raise plan
        items = plan.measure(context)
    except NotMeasured as reason:
        return step.absent(str(reason))
    lost = sum(text not in context.vectors for _, text in plan.texts)
    for each in items if lost else ():
        each.row["left_out"] = lost
    return items


def verdict_counts(items: Iterable[Item]) -> str:
    """Return the number of items of each verdict: "1 breaks, 3 holds"."""
    counts = collections.Counter(str(each.row["verdict"]) for each in items)
    return ", ".join(f"{counts[name]} {name}" for name in _SHOWN_ORDER if counts[name])


# --- attacks -------------------------------------------------------------------------------------------------------


def attack(context: AuditContext, timing: dict[str, float]) -> list[Item]:
    """Run the attacks, each within its share of the time left."""
    items = []
    exact = context.settings.examples is not None
    steps = attack_steps(context.selection)
    for number, step in enumerate(steps):
        began = time.monotonic()
        context.progress.begin(step.name)
        share = 0.95 / (len(steps) - number)
        deadline = float("inf") if exact else context.budget.deadline(share)
        try:
            new = step.measure(replace(context, deadline=deadline))
        except NotMeasured as reason:
            new = [absent(task, str(reason), split, side="hold") for task, split in step.rows]
        new = selected(new, context.selection)
        context.progress.end(", ".join(item.row["verdict"] for item in new))
        timing[step.name] = time.monotonic() - began
        items += new
    return items
