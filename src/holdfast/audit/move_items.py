"""Audit items of changed meanings: is a copy with the same meaning nearer to its text than one with another meaning?"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.attacks.examples import Attempt
from holdfast.audit.audit_context import AuditContext
from holdfast.audit.edited_copies import HoldBeside, Pair, moved_pairs
from holdfast.audit.item_names import task_and_split
from holdfast.audit.item_rows import Item, NotMeasured, absent, item
from holdfast.audit.planned_items import NOT_ENCODED, Planned
from holdfast.audit.vector_movement import ROUNDING, WORST, Space, spans_of
from holdfast.audit.verdicts import CHANCE, Judgement, judged
from holdfast.audit.verdicts import nearer as nearer_measure
from holdfast.edits.edit import ENGLISH, Edit
from holdfast.edits.edit_table import MEANING, PARAPHRASE, SYNTHETIC, group_of
from holdfast.edits.words import Words
from holdfast.evaluation.intervals import share_interval

MEANING_TASK = "audit-meaning"
BESIDE = (PARAPHRASE, SYNTHETIC)
"""The groups of hold edits that stand beside a move edit: those that change words. One is drawn for each text."""
_FORM_BESIDE = ("punctuation", "full-stop", "case.lower")
LEAST_TEXTS = 5
"""Texts below which an item of a changed meaning is not measured."""


def outcomes(hold: npt.NDArray[np.float64], move: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return 1 where the hold edit is nearer, 0 where the move edit is, ½ where the cosines are equal as rounded."""
    difference = hold - move
    tied = np.abs(difference) <= 1.5 * ROUNDING  # both are rounded
    return np.where(tied, 0.5, (difference > 0.0).astype(np.float64))


def beside_of(context: AuditContext) -> HoldBeside:
    """Return the choice of the hold edit beside a move edit, from the edits that apply to the language."""
    fitting = [edit for edit in context.edits.side("hold") if context.language.is_english or edit.LANGUAGE is None]
    words = [edit for edit in fitting if group_of(edit) in BESIDE]
    form = [edit for edit in fitting if edit.NAME in _FORM_BESIDE]
    context.record["beside"] = [edit.NAME for edit in words]
    return HoldBeside(context.texts, words, form)


class MoveItems:
    """The items of all move edits, and the item of their mean, which is measured last.

    Args:
        context: the context of the audit.
    """

    def __init__(self, context: AuditContext) -> None:
        self._context = context
        self._outcomes: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))  # by form

    @functools.cached_property
    def _beside(self) -> HoldBeside:
        return beside_of(self._context)

    def plan(self, move: Edit) -> Planned:
        """Plan the item of a move edit.

        Raises:
            NotMeasured: the edit needs English texts, or applies to too few texts.
        """
        context = self._context
        if move.LANGUAGE == ENGLISH:
            context.require_english()
        pairs = moved_pairs(context.texts, move, self._beside, most=context.texts_per_item, deadline=context.deadline)
        _require(pairs, move)
        texts = [(copy.index, copy.text) for pair in pairs for copy in (pair.move, pair.hold)]
        return Planned(texts, lambda context: [self._measure(context, move, pairs)])

    def _measure(self, context: AuditContext, move: Edit, planned: Sequence[Pair]) -> Item:
        known = context.vectors
        pairs = [pair for pair in planned if pair.move.text in known and pair.hold.text in known]
        if not pairs:
            raise NotMeasured(NOT_ENCODED)
        _require(pairs, move)
        space = context.space
        hold, moved = (space.cosines([getattr(pair, side) for pair in pairs]) for side in ("hold", "move"))
        nearer = outcomes(hold, moved)
        for pair, outcome in zip(pairs, nearer.tolist(), strict=True):
            self._outcomes[context.form_name][pair.move.index].append(outcome)
        task, split = task_and_split(move.NAME)
        metrics = {
            **_probability(nearer, context.settings.seed),
            "cosine_hold": float(hold.mean()),
            "cosine_move": float(moved.mean()),
            "stability_hold": float(space.stability(hold).mean()),
            "stability_move": float(space.stability(moved).mean()),
            "share_hold": 100.0 * float(np.mean([pair.hold.share for pair in pairs])),
            "share_move": 100.0 * float(np.mean([pair.move.share for pair in pairs])),
        }
        return item(
            task,
            split,
            len(pairs),
            metrics,
            _judged(len(pairs), metrics),
            _message(move.ABOUT, metrics),
            headline="p_hold_nearer",
            examples=_examples(space, move.NAME, pairs, hold, moved),
            side="move",
            group=MEANING,
            beside=_by_kind([pair.beside for pair in pairs], nearer),
            items={"text": [space.numbers[pair.move.index] for pair in pairs], "nearer": nearer.tolist()},
        )

    def headline(self, context: AuditContext) -> Item:
        """Return the item of all move edits: of each text the mean over the edits that apply to it, then over texts."""
        outcomes_of_texts = self._outcomes[context.form_name]
        if not outcomes_of_texts:
            return absent(MEANING_TASK, "no text could be changed in its meaning", side="move", group=MEANING)
        indices = sorted(outcomes_of_texts)
        means = np.array([np.mean(outcomes_of_texts[index]) for index in indices])
        metrics = _probability(means, context.settings.seed)
        return item(
            *(MEANING_TASK, "all", len(means), metrics, _judged(len(means), metrics)),
            _message("all changes of the meaning", metrics),
            headline="p_hold_nearer",
            side="move",
            group=MEANING,
            items={"text": [context.space.numbers[i] for i in indices], "nearer": np.round(means, 5).tolist()},
        )


def _require(pairs: Sequence[Pair], move: Edit) -> None:
    if len(pairs) < LEAST_TEXTS:
        raise NotMeasured(f"{move.ABOUT}: applies to {len(pairs)} texts, at least {LEAST_TEXTS} are needed")


def _probability(nearer: npt.NDArray[np.float64], seed: int) -> dict[str, float]:
    low, high = share_interval(nearer, seed=seed)
    return {"p_hold_nearer": float(nearer.mean()), "p_hold_nearer_low": low, "p_hold_nearer_high": high}


def _judged(n: int, metrics: dict[str, float]) -> Judgement:
    return judged(n, nearer_measure(*(metrics[f"p_hold_nearer{end}"] for end in ("", "_low", "_high"))))


def _message(about: str, metrics: dict[str, float]) -> str:
    message = f"{about}: a copy with the same meaning is nearer in {100 * metrics['p_hold_nearer']:.0f} % of texts"
    if "cosine_hold" in metrics:
        message += f" (cosine {metrics['cosine_hold']:.3f}, with another meaning {metrics['cosine_move']:.3f})"
    return message + ("; no better than a coin" if metrics["p_hold_nearer_low"] <= CHANCE else "")


def _by_kind(names: Sequence[str], nearer: npt.NDArray[np.float64]) -> dict[str, dict[str, float]]:
    """Return, by the hold edit that stood beside, the number of texts and the mean outcome."""
    found = {}
    for name in dict.fromkeys(names):
        own = nearer[[other == name for other in names]]
        found[name] = {"n": len(own), "p_hold_nearer": float(own.mean())}
    return found


def _examples(
    space: Space,
    recipe: str,
    pairs: Sequence[Pair],
    hold: npt.NDArray[np.float64],
    moved: npt.NDArray[np.float64],
) -> list[dict[str, Any]]:
    """Return the `WORST` pairs, those first whose move edit is nearest in comparison; a success deceives the model."""
    rows = []
    for i in np.argsort(hold - moved, kind="stable")[:WORST]:
        pair, original = pairs[i], space.texts[pairs[i].move.index]
        attempt = Attempt(
            number=space.numbers[pair.move.index],
            recipe=recipe,
            outcome="succeeded" if outcomes(hold[i : i + 1], moved[i : i + 1])[0] < 1.0 else "failed",
            original=original,
            adversarial=pair.move.text,
            before={"value": 1.0},
            after={"value": float(moved[i])},
            words=len(Words.of(original).words),
            queries=1,
            passes=1,
        )
        held = {"edit": pair.beside, "text": pair.hold.text, "value": float(hold[i]), **spans_of(pair.hold)}
        rows.append({**attempt.row(), **spans_of(pair.move), "hold": held})
    return rows
