"""Poisoning of a corpus in a report: success against depth beside controls, and what detectors find."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.report.elements import MUTED, SHAPES, Chart, LegendKey, Line, Mark, Shape, Table, TableCell, number_cell
from holdfast.report.result_sources import ReportSource
from holdfast.runs.run_log import number_of

_CONTROLS = {"ordinary": "as many documents", "random": "as many random texts"}
_CURVES = {"success": "made passages", **_CONTROLS}

Rows = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
"""Metrics by (recipe, model); several are seeds of one model."""


def is_poisoning(source: ReportSource) -> bool:
    """Return True for a result of ``attack --goal poison``."""
    goal = source.protocol.get("goal")
    return source.kind == "attack" and isinstance(goal, dict) and goal.get("kind") == "poison"


def poisoning_charts(sources: Sequence[ReportSource], colours: Mapping[str, str]) -> list[Chart]:
    """Chart the share of held-out queries with a made passage in the top k against k, for each corpus."""
    collections = enumerate(_collections(sources).items(), start=1)
    return [_chart(f"poisoning-{number}", corpus, rows, colours) for number, (corpus, rows) in collections]


def poisoning_tables(sources: Sequence[ReportSource]) -> list[Table]:
    """Return, for each corpus, what was found of the passages of each recipe and model, and what detects them."""
    collections = enumerate(_collections(sources).items(), start=1)
    return [_table(f"poisoning-results-{number}", corpus, rows) for number, (corpus, rows) in collections]


def _collections(sources: Iterable[ReportSource]) -> dict[str, Rows]:
    found: dict[str, dict[tuple[str, str], list[Mapping[str, Any]]]] = {}
    for source in filter(is_poisoning, sources):
        searched = source.protocol["goal"].get("searched")
        corpus = str(searched.get("source", "")) if isinstance(searched, dict) else ""
        own = found.setdefault("/".join(corpus.split("/")[-2:]), {})  # a file and its folder
        for row in source.rows:
            own.setdefault((str(row.get("recipe", "–")), source.label), []).append(row["metrics"])
    return dict(found)


def _mean(metrics: Sequence[Mapping[str, Any]], name: str) -> float | None:
    values = [value for each in metrics if (value := number_of(each.get(name))) is not None]
    return statistics.fmean(values) if values else None


def _depths(rows: Rows) -> list[int]:
    names = {name.partition("@")[2] for own in rows.values() for each in own for name in each if name[:8] == "success@"}
    return sorted(int(name) for name in names if name.isdigit())


def _curve(metrics: Sequence[Mapping[str, Any]], kind: str, depths: Sequence[int]) -> tuple[tuple[float, float], ...]:
    values = ((k, _mean(metrics, f"{kind}@{k}")) for k in depths)
    return tuple((float(k), value) for k, value in values if value is not None)


def _chart(id: str, corpus: str, rows: Rows, colours: Mapping[str, str]) -> Chart:
    depths = _depths(rows)
    recipes = list(dict.fromkeys(recipe for recipe, _ in rows))
    shapes: dict[str, Shape] = {recipe: SHAPES[place % len(SHAPES)] for place, recipe in enumerate(recipes)}
    lines: list[Line] = []
    marks: list[Mark] = []
    for (recipe, label), metrics in rows.items():
        points = _curve(metrics, "success", depths)
        lines.append(Line(points, colours[label], message=f"{recipe}, {label}"))
        marks += [
            Mark(k, value, colours[label], shapes[recipe], f"{recipe}, {label}: {value:.1f} % in the top {k:.0f}")
            for k, value in points
        ]
        if recipe == recipes[0]:  # ordinary documents are the same for all recipes
            lines.append(
                Line(_curve(metrics, "ordinary", depths), colours[label], dotted=True, message=f"documents, {label}")
            )
    title = f"Success against depth: {corpus}"
    note = "Share of held-out queries with a made passage among their k nearest documents. Lower is more robust. "
    note += "Dotted: as many ordinary documents of the corpus."
    cells = tuple(
        (
            TableCell(recipe),
            TableCell(label),
            TableCell(name),
            *(number_cell(_mean(own, f"{kind}@{k}"), 1) for k in depths),
        )
        for (recipe, label), own in rows.items()
        for kind, name in _CURVES.items()
    )
    columns = ("recipe", "model", "passages", *(f"top {k}" for k in depths))
    return Chart(
        id=id,
        title=title,
        note=note,
        x_axis="depth k",
        y_axis="held-out queries, %",
        lines=tuple(line for line in lines if len(line.points) > 1),
        marks=tuple(marks),
        legend=(
            *(LegendKey(label, colours[label], "circle") for label in dict.fromkeys(label for _, label in rows)),
            *(LegendKey(recipe, MUTED, shape, line=True) for recipe, shape in shapes.items()),
        ),
        from_zero=True,
        data=Table(f"{id}-data", f"{title}, %", columns, cells, labels=3),
    )


def _table(id: str, corpus: str, rows: Rows) -> Table:
    depths = _depths(rows)
    middle = depths[len(depths) // 2] if depths else 0
    cells = tuple(
        (
            TableCell(recipe),
            TableCell(label),
            *(_share(metrics, f"success@{k}") for k in depths),
            *(_share(metrics, f"{kind}@{middle}") for kind in _CONTROLS),
            *(
                _share(metrics, f"{name}_{part}")
                for name in ("hub", "perplexity")
                for part in ("recall", "false_alarms")
            ),
        )
        for (recipe, label), metrics in rows.items()
    )
    columns = (
        *("recipe", "model", *(f"top {k}, %" for k in depths)),
        *(f"{name}, top {middle}" for name in _CONTROLS.values()),
        *("found by N_k, %", "false alarms, %", "found by perplexity, %", "false alarms, %"),
    )
    note = "Small: 95 % interval; of several seeds the standard deviation. Detectors: N_k counts the queries that have "
    note += (
        "a document among their 10 nearest; thresholds are set on one half of the documents, false alarms counted on "
    )
    note += "the other."
    return Table(id, f"Poisoning of {corpus}", columns, cells, labels=2, note=note, stacked=True)


def _share(metrics: Sequence[Mapping[str, Any]], name: str) -> TableCell:
    values = [value for each in metrics if (value := number_of(each.get(name))) is not None]
    if not values:
        return TableCell("–")
    text = f"{statistics.fmean(values):.1f}"
    if len(values) > 1:
        return TableCell(text, f"± {statistics.stdev(values):.1f}", f"standard deviation of {len(values)} seeds")
    low, high = (number_of(metrics[0].get(f"{name}_{end}")) for end in ("low", "high"))
    return TableCell(text, "" if low is None or high is None else f"{low:.1f}–{high:.1f}", "95 % bootstrap interval")
