"""Adversarial examples for the page: cut where words were exchanged, in an order that shows every attack early."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.adversary.words import pieces
from holdfast.errors import UserError
from holdfast.report.sources import Source
from holdfast.report.tables import task_of
from holdfast.training.log import number_of

OUTCOMES = ("succeeded", "failed", "skipped")
LONG = 3000
"""Letters of an example beyond which the stretches that stayed the same are shortened, so that a page stays small."""
_KEPT = 160

Piece = str | tuple[str, str]


@dataclass(frozen=True)
class Example:
    """An adversarial text.

    Attributes:
        model: the attacked model's short name.
        task: what it was attacked on, with its split; of an audit, the item.
        recipe: the attack.
        outcome: succeeded, failed or skipped.
        pieces: what stayed, and (old, new) for what was exchanged.
        other: the text of the pair that was left alone, or "".
        told: what the model said before and after, or why it was skipped.
        neighbours: of retrieval, the nearest text before and after, or "".
    """

    model: str
    task: str
    recipe: str
    outcome: str
    pieces: tuple[Piece, ...]
    other: str = ""
    told: str = ""
    neighbours: tuple[str, ...] = ()


@dataclass(frozen=True)
class Examples:
    """Those on the page.

    Attributes:
        shown: in their order.
        there: how many the results hold.
        shortened: of how many the unchanged stretches are shortened.
    """

    shown: tuple[Example, ...]
    there: int
    shortened: int

    def options(self) -> dict[str, list[str]]:
        """What can be filtered by, with its values."""
        return {
            name: list(dict.fromkeys(getattr(example, name) for example in self.shown))
            for name in ("model", "task", "recipe", "outcome")
        }


def collect_examples(sources: Sequence[Source], most: int) -> Examples:
    """The examples of all results, at most ``most``.

    Those that succeeded come first, then those that failed, then those that were skipped; among them the results and
    recipes take turns, so that every attack is seen early, and has its share where not all fit.
    """
    turns: list[tuple[int, int, int, Source, dict[str, Any]]] = []
    for source in sources:
        taken: dict[tuple[str, str], int] = {}
        for row in source.result.get("examples", []):
            key = (row["recipe"], row["outcome"])
            taken[key] = taken.get(key, 0) + 1
            rank = OUTCOMES.index(row["outcome"]) if row["outcome"] in OUTCOMES else len(OUTCOMES)
            turns.append((rank, taken[key], len(turns), source, row))
    turns.sort(key=lambda turn: turn[:3])
    found = [_example(source, row) for *_, source, row in turns[:most]]
    return Examples(tuple(example for example, _ in found), len(turns), sum(cut for _, cut in found))


def _example(source: Source, row: Mapping[str, Any]) -> tuple[Example, bool]:
    try:
        cut = tuple(pieces(row["original"], row["adversarial"], row.get("changed") or ()))
        cut = tuple(piece if isinstance(piece, str) else (str(piece[0]), str(piece[1])) for piece in cut)
    except (TypeError, ValueError) as error:
        raise UserError(f"{source.path}: an example's 'changed' is no list of changes: {error}") from error
    long = sum(len(piece) if isinstance(piece, str) else len(piece[0]) + len(piece[1]) for piece in cut) > LONG
    task = row.get("item") or _attacked(source) or source.kind
    neighbours = row.get("neighbours") or _nearest(row)
    example = Example(
        model=source.label,
        task=str(task),
        recipe=row["recipe"],
        outcome=row["outcome"],
        pieces=tuple(_shortened(piece) for piece in cut) if long else cut,
        other=str(row.get("other") or ""),
        told=_told(row),
        neighbours=tuple(str(text) for text in neighbours) if isinstance(neighbours, list) else (),
    )
    return example, long


def _nearest(row: Mapping[str, Any]) -> list[Any]:
    """Of an attack on neighbours the nearest text before and after."""
    both = [(row.get(when) or {}).get("neighbours") or [] for when in ("before", "after")]
    return [texts[0] for texts in both] if all(both) else []


def _attacked(source: Source) -> str:
    task = source.protocol.get("task")
    return task_of({"task": task, "split": source.protocol.get("split", "all")}) if task else ""


def _shortened(piece: Piece) -> Piece:
    if not isinstance(piece, str) or len(piece) <= 2 * _KEPT + 5:
        return piece
    return f"{piece[:_KEPT]} […] {piece[-_KEPT:]}"


def _told(row: Mapping[str, Any]) -> str:
    if row.get("reason"):
        return str(row["reason"])
    said = [_verdict(row.get(when)) for when in ("before", "after")]
    queries = row.get("queries")
    parts = [" → ".join(filter(None, said))] if all(said) else []
    if isinstance(queries, int) and queries > 1:
        parts.append(f"{queries:,} queries")
    return ", ".join(parts)


def _verdict(verdict: Any) -> str:
    value = number_of(verdict.get("value")) if isinstance(verdict, dict) else None
    if value is None:
        return ""
    return f"class {verdict['label']} (right one {value:.3f})" if "label" in verdict else f"{value:.3f}"


def as_json(examples: Examples) -> str:
    """The examples for the page's script: names once, each example as numbers of its names and its texts."""
    options = examples.options()
    places = {name: {value: n for n, value in enumerate(values)} for name, values in options.items()}
    rows = [
        [
            *(places[name][getattr(example, name)] for name in options),
            example.pieces,
            example.other,
            example.told,
            example.neighbours,
        ]
        for example in examples.shown
    ]
    return script_json({"options": options, "rows": rows})


def script_json(value: Any) -> str:
    """``value`` as JSON that may stand in a ``script`` element: nothing in it ends the element or a line.

    ``<``, ``>`` and ``&`` only occur inside of strings, where JSON lets any letter be written by its number; so do the
    two separators that end a line in JavaScript (U+2028 and U+2029).
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
