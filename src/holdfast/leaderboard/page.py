"""The page of a board: one HTML file that loads nothing else, with a table of all entries and a chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

from holdfast.leaderboard.entry import KINDS
from holdfast.leaderboard.suite import QUALITY, ROBUSTNESS, Suite
from holdfast.report.examples import script_json
from holdfast.report.html import policy_hash
from holdfast.results import shown

TITLE = "Leaderboard of sentence encoders"
GROUPS = {"overall": "Overall", QUALITY: "Quality", ROBUSTNESS: "Robustness", "deployed": "Deployed", "cost": "Cost"}
"""The groups of columns, in the order of the table."""
_COST = {
    "speed": (
        "Speed",
        "texts per second of processor time, as a multiple of the encoder bundled; 5 rounds in turns",
        2,
    ),
    "parameters": ("Parameters, M", "numbers that were trained, in millions", 1),
    "bytes": ("Size, MB", "the files of the weights on disk, in megabytes", 1),
    "dimensions": ("Dimensions", "numbers of a vector", 0),
}
_MILLIONS = ("parameters", "bytes")


def render_board(entries: Sequence[Mapping[str, Any]], suite: Suite) -> str:
    """Return the page of checked entries as HTML, the best overall quality first.

    What entries hold is escaped where it is printed. The policy in the page's head allows only its own style and
    scripts, by their hashes, and forbids loading anything. The same entries give the same page.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    own, report = (resources.files(f"holdfast.{name}").joinpath("page") for name in ("leaderboard", "report"))
    files = (report, "style.css"), (own, "board.css"), (report, "script.js"), (own, "board.js"), (own, "board.html.j2")
    *styles, common, script, source = (place.joinpath(name).read_text(encoding="utf-8") for place, name in files)
    style = "\n".join(styles)
    template = Environment(autoescape=True, undefined=StrictUndefined, auto_reload=False).from_string(source)
    ordered = [shown(dict(entry)) for entry in ranked(entries)]
    columns = columns_of(suite)
    return template.render(
        title=TITLE,
        suite=suite,
        groups={name: title for name, title in GROUPS.items() if any(c["group"] == name for c in columns)},
        columns=columns,
        rows=[row_of(entry, columns) for entry in ordered],
        kinds={kind: about for kind, about in KINDS.items() if any(e["encoder"]["kind"] == kind for e in ordered)},
        data=Markup(script_json(_data(ordered, columns))),
        style=Markup(style),
        scripts=[Markup(common), Markup(script)],
        style_hash=policy_hash(style),
        script_hashes=[policy_hash(common), policy_hash(script)],
        newest=max((entry["created"] for entry in ordered), default=""),
    )


def ranked(entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return entries by their overall quality, the best first; those without one are the last, by name."""

    def rank(entry: Mapping[str, Any]) -> tuple[float, str]:
        return -entry["scores"].get(QUALITY, {"value": -1e9})["value"], entry["name"]

    return sorted(entries, key=rank)


def columns_of(suite: Suite) -> list[dict[str, Any]]:
    """Return the columns of the table: ``{name, title, about, group, digits}``."""
    overall = [
        {
            "name": name,
            "title": about["title"],
            "about": f"mean of {', '.join(suite.columns[column].title for column in about['columns'])}",
            "group": "overall",
            "digits": 1,
        }
        for name, about in suite.overall.items()
    ]
    measured = [
        {"name": c.name, "title": c.title, "about": c.about, "group": c.group, "digits": 1}
        for c in suite.columns.values()
    ]
    cost = [
        {"name": name, "title": title, "about": about, "group": "cost", "digits": digits}
        for name, (title, about, digits) in _COST.items()
    ]
    return [*overall, *measured, *cost]


def value_of(entry: Mapping[str, Any], column: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the value of an entry in a column, with ``low`` and ``high`` if it has an interval; None: it has none."""
    if column["group"] != "cost":
        score = entry["scores"].get(column["name"])
        return None if score is None else {end: score[end] for end in ("value", "low", "high")}
    cost, name = entry["cost"], column["name"]
    if name not in cost:
        return None
    scale = 1e-6 if name in _MILLIONS else 1.0
    ends = {end: cost[f"{name}_{end}"] for end in ("low", "high") if f"{name}_{end}" in cost}
    return {"value": scale * cost[name], **ends}


def row_of(entry: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row of an entry: ``{entry, cells}``; a cell is ``{text, detail}``, both empty without a value."""
    cells = []
    for column in columns:
        value, digits = value_of(entry, column), column["digits"]
        if value is None:
            cells.append({"text": "", "detail": ""})
            continue
        detail = f"{value['low']:,.{digits}f}–{value['high']:,.{digits}f}" if "low" in value else ""
        cells.append({"text": f"{value['value']:,.{digits}f}", "detail": detail})
    return {"entry": entry, "cells": cells}


def _data(entries: Sequence[Mapping[str, Any]], columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the page's script needs: the columns, and the values of each entry in them."""
    return {
        "columns": [dict(column) for column in columns],
        "entries": [
            {
                "name": entry["name"],
                "kind": entry["encoder"]["kind"],
                "base": entry["encoder"]["base"],
                "values": [value_of(entry, column) for column in columns],
            }
            for entry in entries
        ],
    }
