"""Adversarial examples for the page: split at exchanged words, in an order that shows every attack early."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import UserError
from holdfast.report.result_sources import ReportSource
from holdfast.report.tables import task_of
from holdfast.results import shown, shown_pieces
from holdfast.runs.run_log import number_of

OUTCOMES = ("succeeded", "failed", "skipped")
LONG = 3000
"""Characters of an example above which its unchanged parts are shortened, to keep the page small."""
_KEPT = 160

Piece = str | tuple[str, str]


@dataclass(frozen=True)
class ShownExample:
    """An adversarial text.

    Attributes:
        model: the attacked model's short name.
        task: the attacked task with its split; for an audit, the item.
        recipe: the attack.
        outcome: succeeded, failed or skipped.
        pieces: unchanged text, and (old, new) for exchanged text.
        other: the text of the pair that was not attacked, or "".
        message: the model's output before and after, or why the example was skipped.
        neighbours: for retrieval, the nearest text before and after; else empty.
    """

    model: str
    task: str
    recipe: str
    outcome: str
    pieces: tuple[Piece, ...]
    other: str = ""
    message: str = ""
    neighbours: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShownExamples:
    """The examples on the page, the number of examples in the results, and the number of shortened ones."""

    shown: tuple[ShownExample, ...]
    total: int
    shortened: int

    def options(self) -> dict[str, list[str]]:
        """Return the filters of the page and their values."""
        return {
            name: list(dict.fromkeys(getattr(example, name) for example in self.shown))
            for name in ("model", "task", "recipe", "outcome")
        }


def collect_examples(sources: Sequence[ReportSource], most: int) -> ShownExamples:
    """Collect the examples of all results, at most ``most``.

    Successful examples come first, then failed, then skipped ones. Within each group, results and recipes take turns,
    so that every attack is shown early, and has its share if not all examples fit.
    """
    turns: list[tuple[int, int, int, ReportSource, dict[str, Any]]] = []
    for source in sources:
        taken: dict[tuple[str, str], int] = {}
        for row in source.result.get("examples", []):
            key = (row["recipe"], row["outcome"])
            taken[key] = taken.get(key, 0) + 1
            rank = OUTCOMES.index(row["outcome"]) if row["outcome"] in OUTCOMES else len(OUTCOMES)
            turns.append((rank, taken[key], len(turns), source, row))
    turns.sort(key=lambda turn: turn[:3])
    found = [_example(source, row) for *_, source, row in turns[:most]]
    return ShownExamples(tuple(example for example, _ in found), len(turns), sum(cut for _, cut in found))


def _example(source: ReportSource, row: Mapping[str, Any]) -> tuple[ShownExample, bool]:
    try:
        cut = tuple(shown_pieces(row))
    except (TypeError, ValueError) as error:
        raise UserError(f"{source.path}: an example's 'changed' is not a list of changes: {error}") from error
    row = shown(row)
    long = sum(len(piece) if isinstance(piece, str) else len(piece[0]) + len(piece[1]) for piece in cut) > LONG
    task = row.get("item") or _attacked(source) or source.kind
    neighbours = row.get("neighbours") or _nearest(row)
    example = ShownExample(
        model=source.label,
        task=str(task),
        recipe=row["recipe"],
        outcome=row["outcome"],
        pieces=tuple(_shortened(piece) for piece in cut) if long else cut,
        other=str(row.get("other") or ""),
        message=_outcome(row),
        neighbours=tuple(str(text) for text in neighbours) if isinstance(neighbours, list) else (),
    )
    return example, long


def _nearest(row: Mapping[str, Any]) -> list[Any]:
    """Return the nearest text before and after an attack on neighbours; else an empty list."""
    both = [(row.get(when) or {}).get("neighbours") or [] for when in ("before", "after")]
    return [texts[0] for texts in both] if all(both) else []


def _attacked(source: ReportSource) -> str:
    task = source.protocol.get("task")
    return task_of({"task": task, "split": source.protocol.get("split", "all")}) if task else ""


def _shortened(piece: Piece) -> Piece:
    if not isinstance(piece, str) or len(piece) <= 2 * _KEPT + 5:
        return piece
    return f"{piece[:_KEPT]} […] {piece[-_KEPT:]}"


def _outcome(row: Mapping[str, Any]) -> str:
    if row.get("reason"):
        return str(row["reason"])
    outputs = [_output(row.get(when)) for when in ("before", "after")]
    queries = row.get("queries")
    parts = [" → ".join(outputs)] if all(outputs) else []
    if isinstance(queries, int) and queries > 1:
        parts.append(f"{queries:,} queries")
    by = row.get("changed_by")  # the recipes of an ensemble
    if isinstance(by, list) and by:
        parts.append(f"by {' + '.join(dict.fromkeys(map(str, by)))}")
    held = row.get("hold")
    if isinstance(held, dict) and (value := number_of(held.get("value"))) is not None:
        parts.append(f"beside ({held.get('edit')}, {value:.3f}): {held.get('text')}")
    return ", ".join(parts)


def _output(output: Any) -> str:
    """Return the model's output before or after an attack, as text."""
    value = number_of(output.get("value")) if isinstance(output, dict) else None
    if value is None:
        return ""
    return f"class {output['label']} (right one {value:.3f})" if "label" in output else f"{value:.3f}"


def as_json(examples: ShownExamples) -> str:
    """Encode the examples for the page's script: names once, each example as indices of its names and its texts."""
    options = examples.options()
    places = {name: {value: n for n, value in enumerate(values)} for name, values in options.items()}
    rows = [
        [
            *(places[name][getattr(example, name)] for name in options),
            example.pieces,
            example.other,
            example.message,
            example.neighbours,
        ]
        for example in examples.shown
    ]
    return script_json({"options": options, "rows": rows})


def script_json(value: Any) -> str:
    """Encode ``value`` as JSON for a ``script`` element: it cannot end the element or a line.

    ``<``, ``>`` and ``&`` occur only inside strings, where JSON allows numeric escapes; the same holds for the two
    separators that end a line in JavaScript (U+2028 and U+2029).
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
