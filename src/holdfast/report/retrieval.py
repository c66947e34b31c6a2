"""Retrieval in a report: clean queries beside noisy versions of them, by collection, model and system."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.evaluation.pairing.compare_inputs import as_object
from holdfast.evaluation.retrieval import TASK
from holdfast.evaluation.retrieval_systems import ENCODER
from holdfast.evaluation.retrieval_table import is_lexical, version_name
from holdfast.report.elements import MUTED, Bar, Bars, Table, TableCell, number_cell
from holdfast.report.model_scores import share_interval
from holdfast.report.result_sources import RECALL, ReportSource
from holdfast.runs.run_log import number_of

_METRICS = {"recall@1": "Recall@1", "ndcg@10": "nDCG@10"}

Rows = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
"""The rows of a collection by (who answers, name of the queries); several rows are seeds of one model."""


def retrieval_sources(sources: Iterable[ReportSource]) -> list[ReportSource]:
    """Return the sources that measured retrieval: a comparison of such results has other metrics."""
    return [source for source in sources if source.kind == "evaluate" and any(map(_is_search, source.rows))]


def retrieval_bars(sources: Sequence[ReportSource], colours: Mapping[str, str]) -> list[Bars]:
    """Chart recall@1 of each version of the queries, by model and system: a figure for each collection."""
    figures = []
    for number, (name, rows) in enumerate(_collections(sources).items(), start=1):
        groups: dict[str, list[Bar]] = {}
        for (who, split), own in rows.items():
            groups.setdefault(version_name(split), []).append(_bar(who, own, colours))
        title = f"Retrieval under noise: {name}"
        data = tuple(
            (TableCell(group), TableCell(bar.label), *(number_cell(v, 1) for v in (bar.value, bar.low, bar.high)))
            for group, bars in groups.items()
            for bar in bars
        )
        id = f"retrieval-noise-{number}"
        table = Table(f"{id}-data", f"{title}, %", ("queries", "model", "value", "low", "high"), data, labels=2)
        note = (
            "Share of relevant documents at the first place, for clean queries and noisy versions of them. Higher is "
        )
        note += "better. Whiskers: 95 % interval; for several seeds: lowest and highest."
        shown = tuple((group, tuple(bars)) for group, bars in groups.items())
        figures.append(Bars(id, title, note, "recall@1, %", shown, table, top=100.0))
    return figures


def retrieval_tables(sources: Sequence[ReportSource]) -> list[Table]:
    """Return recall@1 and nDCG@10 by model and version of the queries, with differences to the clean queries."""
    tables = []
    for number, (name, rows) in enumerate(_collections(sources).items(), start=1):
        versions = list(dict.fromkeys(split for _, split in rows))
        for metric, title in _METRICS.items():
            lines = tuple(
                (TableCell(who), *(_cell(metric, rows.get((who, split), ())) for split in versions))
                for who in dict.fromkeys(who for who, _ in rows)
            )
            note = (
                "×100; small: the difference to the clean queries with its 95 % interval, paired by query; of several "
            )
            note += "seeds the standard deviation."
            columns = ("model", *map(version_name, versions))
            id = f"retrieval-{metric.replace('@', '-')}-{number}"
            tables.append(Table(id, f"{title}: {name}", columns, lines, note=note, stacked=True))
    return tables


def _collections(sources: Sequence[ReportSource]) -> dict[str, Rows]:
    """Return the rows by collection; a search by words is the same for all models, and is there once."""
    found: dict[str, dict[tuple[str, str], list[Mapping[str, Any]]]] = {}
    read = retrieval_sources(sources)
    splits: dict[str, set[str]] = {}
    for row in (row for source in read for row in source.rows if _is_search(row)):
        splits.setdefault(str(row.get("data", "")), set()).add(str(row.get("qrels", "")))
    for source in read:
        for row in filter(_is_search, source.rows):
            name, qrels = str(row.get("data", "")), str(row.get("qrels", ""))
            own = found.setdefault(f"{name}, {qrels}" if len(splits[name]) > 1 and qrels else name, {})
            key = (_who(source.label, row), str(row["split"]))
            if not (is_lexical(row) and key in own):
                own.setdefault(key, []).append(row)
    return {name: _ordered(rows) for name, rows in found.items()}


def _ordered(rows: dict[tuple[str, str], list[Mapping[str, Any]]]) -> Rows:
    """Return the rows with the versions of the queries together, in the order of the first result."""
    versions = list(dict.fromkeys(split for _, split in rows))
    return dict(sorted(rows.items(), key=lambda item: versions.index(item[0][1])))


def _is_search(row: Mapping[str, Any]) -> bool:
    return bool(row["task"] == TASK)


def _who(label: str, row: Mapping[str, Any]) -> str:
    system = str(row.get("system", ENCODER.name))
    if is_lexical(row):
        return system
    return label if system == ENCODER.name else f"{label} + {system}"


def _bar(who: str, rows: Sequence[Mapping[str, Any]], colours: Mapping[str, str]) -> Bar:
    values = [float(row["metrics"][RECALL]) for row in rows]
    value = statistics.fmean(values)
    interval = as_object(rows[0].get("interval")).get(RECALL) or share_interval(value, rows[0]["n"]) or (None, None)
    low, high = (min(values), max(values)) if len(values) > 1 else interval
    # The part before " + " of a model with a correction is the label of the model.
    colour = colours.get(who) or colours.get(who.rpartition(" + ")[0], MUTED)
    ends = "" if low is None or high is None else f", {low:.1f} to {high:.1f} %"
    return Bar(who, value, low, high, colour, f"{value:.1f} %{ends}")


def _cell(metric: str, rows: Sequence[Mapping[str, Any]]) -> TableCell:
    values = [float(row["metrics"][metric]) for row in rows if metric in row["metrics"]]
    if not values:
        return TableCell("–")
    value = f"{statistics.fmean(values):.1f}"
    if len(values) > 1:
        return TableCell(value, f"± {statistics.stdev(values):.1f}", f"standard deviation of {len(values)} seeds")
    found = as_object(as_object(as_object(rows[0].get("against")).get("clean")).get(metric))
    difference, low, high = (number_of(found.get(name)) for name in ("difference", "low", "high"))
    if difference is None or low is None or high is None:
        return TableCell(value)
    detail = f"{difference:+.1f} ({low:+.1f} to {high:+.1f})"
    return TableCell(value, detail, "difference to the clean queries, 95 % interval")
