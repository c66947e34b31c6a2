"""The layout of a file of results: which keys it must have, of which types, and the checks of what is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from holdfast.errors import UserError

SCHEMA = "holdfast.results/1"
AUDIT_ITEM = "audit-"
"""Beginning of the tasks of an audit's rows."""

# Required keys and their types; a writer may add keys.
_REQUIRED: dict[str, type | tuple[type, ...]] = {
    "schema": str,
    "kind": str,
    "created": str,
    "model": str,
    "model_sha256": str,
    "protocol": dict,
    "environment": dict,
    "command": str,
    "seed": (int, type(None)),
    "results": list,
}
_ROW_REQUIRED: dict[str, type | tuple[type, ...]] = {"task": str, "split": str, "n": int, "metrics": dict}
# Required keys of an example of attack or audit, to show its text or to try it again; and its optional keys.
EXAMPLE_TEXTS: dict[str, type | tuple[type, ...]] = {"recipe": str, "outcome": str, "original": str}
EXAMPLE_REQUIRED: dict[str, type | tuple[type, ...]] = {
    **EXAMPLE_TEXTS,
    "adversarial": str,
    **dict.fromkeys(("number", "queries"), int),
    **dict.fromkeys(("before", "after"), dict),
    "changed": list,
}
EXAMPLE_MAY: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("other", "reason", "item"), (str, type(None))),
    "label": (int, float, type(None)),
    "neighbours": (list, type(None)),
    "queries": int,
}
# Allowed sets of a row's items: each is a list of n numbers.
_ITEMS: tuple[tuple[str, ...], ...] = (
    *(("correct",), ("gold", "similarity"), ("gold", "prediction"), ("correct", "text"), ("stability", "text")),
    ("nearer", "text"),
    ("mrr@10", "ndcg@10", "recall@1", "recall@10", "recall@100"),
)


def check_result(result: Any, where: str) -> None:
    """Check what was read from a file of results.

    Raises:
        UserError: it is no result, of another schema, or lacks keys, or a value is of the wrong type.
    """
    if not isinstance(result, dict) or "schema" not in result:
        raise UserError(f"{where}: not a holdfast result: it has no 'schema'")
    if result["schema"] != SCHEMA:
        raise UserError(f"{where}: its schema is {result['schema']!r}, this version of holdfast reads {SCHEMA!r}")
    check_keys(result, _REQUIRED, where)
    for number, row in enumerate(result["results"], start=1):
        place = f"{where}: row {number} of results"
        if not isinstance(row, dict):
            raise UserError(f"{place} is not an object")
        check_keys(row, _ROW_REQUIRED, place)
        for name, value in row["metrics"].items():
            if not is_number(value):
                raise UserError(f"{place}: the metric {name!r} is {value!r}, not a finite number")
        if "items" in row:
            _check_items(row["items"], row["n"], place)


def _check_items(items: Any, count: int, place: str) -> None:
    """Check that items are one of `_ITEMS`, each a list of ``count`` numbers; ``text`` numbers an audit's texts."""
    if not isinstance(items, dict) or tuple(sorted(items)) not in _ITEMS:
        kinds = " or ".join(", ".join(kind) for kind in _ITEMS)
        raise UserError(f"{place}: its items are not one of {kinds}")
    for name, values in items.items():
        if not isinstance(values, list) or len(values) != count:
            raise UserError(f"{place}: items.{name} is not a list of its {count:,} items")
        for number, value in enumerate(values):
            if not is_number(value) or (name == "correct" and value not in (0, 1)):
                valid = "0 or 1" if name == "correct" else "a finite number"
                raise UserError(f"{place}: items.{name}[{number}] is {value!r}, not {valid}")


def is_number(value: Any) -> bool:
    """Return True if a JSON value is a finite number within the range of float; true and false are not numbers."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def check_example(row: Mapping[str, Any], place: str) -> None:
    """Check the nested parts of an example."""
    for change in row["changed"]:
        if not isinstance(change, list) or [type(part) for part in change] != [int, str, str]:
            raise UserError(f"{place}: a change is [place, word, other word], not {change!r}")
    for name in ("before", "after"):
        if row[name] and not is_number(row[name].get("value")):
            raise UserError(f"{place}: the output {name!r} has no number 'value'")
        nearest = row[name].get("neighbours", [])
        if not isinstance(nearest, list) or not all(isinstance(text, str) for text in nearest):
            raise UserError(f"{place}: the 'neighbours' {name} are not a list of texts")
    neighbours = row.get("neighbours")
    if neighbours and (len(neighbours) != 2 or not all(isinstance(text, str) for text in neighbours)):
        raise UserError(f"{place}: 'neighbours' are not two texts")


def check_keys(value: dict[str, Any], required: dict[str, type | tuple[type, ...]], where: str) -> None:
    """Check that the required keys are there, each with a value of its type."""
    missing = [key for key in required if key not in value]
    if missing:
        raise UserError(f"{where}: not a complete holdfast result: {', '.join(map(repr, missing))} missing")
    for key, kind in required.items():
        # JSON's true is also a Python int; no key here is a bool.
        if not isinstance(value[key], kind) or isinstance(value[key], bool):
            raise UserError(f"{where}: {key!r} is of the wrong type ({type(value[key]).__name__})")
