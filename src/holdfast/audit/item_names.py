"""The names of audit items, as the report card prints them and as conditions on them name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.forms import form_of
from holdfast.result_layout import AUDIT_ITEM

_WHOLE = ("all", "dev", "test", "trial")
"""Splits that are not part of an item's name: those of data sets, and "all"."""


def item_name(row: Mapping[str, Any]) -> str:
    """Return the name of a row of an audit's result: ``typos``, ``case.lower``, ``negation``, ``typos.int8``."""
    split, form = str(row["split"]), form_of(row)
    name = str(row["task"]).removeprefix(AUDIT_ITEM) + ("" if split in _WHOLE else f".{split}")
    return name if form is None else f"{name}.{form}"


def compared_name(row: Mapping[str, Any]) -> str:
    """Return the name of a row of a comparison: an audit item, or a task with its split, recipe and form."""
    if str(row["task"]).startswith(AUDIT_ITEM):
        return item_name(row)
    names = [row["task"], "" if row["split"] in ("test", "all") else row["split"], row.get("recipe", "")]
    return " ".join(name for name in names if name) + (f" as {row['form']}" if form_of(row) else "")


def task_and_split(name: str) -> tuple[str, str]:
    """Return the task and the split of the item with this name, the inverse of `item_name` for changed texts."""
    kind, _, variant = name.partition(".")
    return AUDIT_ITEM + kind, variant or "all"
