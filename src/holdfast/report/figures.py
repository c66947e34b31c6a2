"""The figures of a report, as plain values: the drawing, and the same numbers as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.audit.item_names import item_name
from holdfast.errors import UserError
from holdfast.report.axes import decimals_of
from holdfast.report.elements import (
    MUTED,
    SHADES,
    SHAPES,
    Bar,
    Bars,
    Chart,
    LegendKey,
    Line,
    Mark,
    Shape,
    Table,
    TableCell,
    colour,
    number_cell,
)
from holdfast.report.model_scores import Scores, best_of, mean_and_ends
from holdfast.report.result_sources import ReportSource
from holdfast.report.tables import AVERAGE, drop_of, task_of
from holdfast.runs.run_log import number_of

Colours = Mapping[str, str]
"""The colour of each model, the same on the whole page."""


def success_bars(sources: Sequence[ReportSource], colours: Colours) -> list[Bars]:
    """Chart the success rate of each recipe on each model, with its 95 % interval, for each attacked task and split."""
    figures = [_bars_of(task, number, sources, colours) for number, task in enumerate(_attacked(sources), start=1)]
    return [figure for figure in figures if figure.groups]  # none if no text of the task was attacked


def _attacked(sources: Sequence[ReportSource]) -> list[str]:
    """Return the names of attacked tasks with their splits, which are not seeds of one measurement."""
    return list(dict.fromkeys(task_of(row) for source in _of(sources, "attack") for row in source.rows))


def _of(sources: Sequence[ReportSource], kind: str) -> list[ReportSource]:
    return [source for source in sources if source.kind == kind]


def _bars_of(task: str, number: int, sources: Sequence[ReportSource], colours: Colours) -> Bars:
    groups: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    for source in _of(sources, "attack"):
        for row in source.rows:
            if task_of(row) == task and "success_rate" in row["metrics"]:
                own = groups.setdefault(str(row.get("recipe", "–")), {})
                own.setdefault(source.label, []).append(row["metrics"])
    bars = {
        recipe: [_success_bar(label, found, colours) for label, found in own.items()] for recipe, own in groups.items()
    }
    note = "Lower is more robust. Whiskers: 95 % bootstrap interval"
    several = any(len(found) > 1 for own in groups.values() for found in own.values())
    note += "; for several seeds: mean, lowest and highest." if several else "."
    title = f"Attack success on {task}"
    data = _bars_data(f"success-{number}", f"{title}, %", "recipe", bars)
    return Bars(f"success-{number}", title, note, "attack success, %", _grouped(bars), data, top=100.0)


def _success_bar(label: str, found: Sequence[Mapping[str, float]], colours: Colours) -> Bar:
    value, low, high = mean_and_ends(found, "success_rate")
    message = f"{value:.1f} %{_between(low, high)}"
    if len(found) > 1:
        message = f"mean {value:.1f} %, seeds {low:.1f} to {high:.1f} %"
    return Bar(label, value, low, high, colours[label], message)


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f", 95 % interval {low:.1f} to {high:.1f} %"


def _grouped(groups: Mapping[str, Sequence[Bar]]) -> tuple[tuple[str, tuple[Bar, ...]], ...]:
    return tuple((name, tuple(bars)) for name, bars in groups.items())


def _bars_data(id: str, title: str, group: str, groups: Mapping[str, Sequence[Bar]], digits: int = 1) -> Table:
    rows = tuple(
        (TableCell(name), TableCell(bar.label), *(number_cell(v, digits) for v in (bar.value, bar.low, bar.high)))
        for name, bars in groups.items()
        for bar in bars
    )
    return Table(f"{id}-data", title, (group, "model", "value", "low", "high"), rows, labels=2)


def audit_bars(sources: Sequence[ReportSource], colours: Colours) -> Bars | None:
    """Chart the items of audits that searched for an adversarial text, by model; None without any."""
    found: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    for source in _of(sources, "audit"):
        for row in source.rows:
            if "success_rate" in row["metrics"]:
                found.setdefault(item_name(row), {}).setdefault(source.label, []).append(row["metrics"])
    if not found:
        return None
    groups = {
        item: [_success_bar(label, seeds, colours) for label, seeds in own.items()] for item, own in found.items()
    }
    title = "Success of the audit's attacks"
    note = "Lower is more robust. Whiskers: 95 % bootstrap interval; of several seeds lowest and highest."
    data = _bars_data("audit-success", f"{title}, %", "item", groups)
    return Bars("audit-success", title, note, "texts, %", _grouped(groups), data, top=100.0)


def queries_charts(sources: Sequence[ReportSource], colours: Colours) -> list[Chart]:
    """Chart queries against the drop of the score for each attacked task and split (RobustEmbed, Figure 2)."""
    charts = (_queries_of(task, number, sources, colours) for number, task in enumerate(_attacked(sources), start=1))
    return [chart for chart in charts if chart is not None]


def _queries_of(task: str, number: int, sources: Sequence[ReportSource], colours: Colours) -> Chart | None:
    points: dict[str, list[tuple[float, float, str]]] = {}
    name = "accuracy"
    for source in _of(sources, "attack"):
        for row in source.rows:
            drop, queries = drop_of(row["metrics"]), row["metrics"].get("queries")
            if task_of(row) == task and drop is not None and queries is not None:
                name = drop[2]
                points.setdefault(str(row.get("recipe", "–")), []).append((queries, drop[0] - drop[1], source.label))
    if not points:
        return None
    shapes = {recipe: SHAPES[place % len(SHAPES)] for place, recipe in enumerate(points)}
    models = dict.fromkeys(label for own in points.values() for *_, label in own)
    y_axis = f"drop of {name}, points"
    rows = tuple(
        (TableCell(recipe), TableCell(label), number_cell(queries, 1), number_cell(drop, 1))
        for recipe, own in points.items()
        for queries, drop, label in own
    )
    title = f"Queries against the drop of {name} on {task}"
    return Chart(
        id=f"queries-{number}",
        title=title,
        note="A point for each recipe and model; points of one recipe are joined. A robust model lies low and right: "
        "many queries for a small drop (as RobustEmbed's Figure 2).",
        x_axis="mean queries of an attacked text",
        y_axis=y_axis,
        lines=tuple(Line(tuple(sorted((q, d) for q, d, _ in own)), MUTED) for own in points.values() if len(own) > 1),
        marks=tuple(
            Mark(queries, drop, colours[label], shapes[recipe], f"{recipe}, {label}: {queries:.1f} queries, {drop:.1f}")
            for recipe, own in points.items()
            for queries, drop, label in own
        ),
        legend=(
            *(LegendKey(label, colours[label], "circle") for label in models),
            *(LegendKey(recipe, MUTED, shape, line=True) for recipe, shape in shapes.items()),
        ),
        from_zero=True,
        data=Table(f"queries-{number}-data", title, ("recipe", "model", "queries", y_axis), rows, labels=2),
    )


def space_chart(space: Scores, similarity: Scores, colours: Colours) -> Chart | None:
    """Chart alignment against uniformity, with models in the shade of their average (RobustEmbed, Figure 3)."""
    places = {
        label: (own["uniformity"].mean, own["alignment"].mean)
        for label, own in space.items()
        if "uniformity" in own and "alignment" in own
    }
    if not places:
        return None
    averages = {label: similarity[label][AVERAGE].mean for label in places if AVERAGE in similarity.get(label, {})}
    shades = shades_of(averages)
    best = best_of(similarity, AVERAGE)
    marks = tuple(
        Mark(
            x,
            y,
            shades.get(label, colours[label]),
            "diamond" if label in best else "circle",
            f"{label}: uniformity {x:.3f}, alignment {y:.3f}{_average(averages.get(label))}",
            label=label,
        )
        for label, (x, y) in places.items()
    )
    rows = tuple(
        (TableCell(label), number_cell(x, 3), number_cell(y, 3), number_cell(averages.get(label), 2))
        for label, (x, y) in places.items()
    )
    note = "Lower is better on both axes: towards the lower left, texts that mean the same lie close, and the space is "
    note += "evenly used (as RobustEmbed's Figure 3)."
    if averages:
        note += " Shades go by the STS average; a diamond is the highest."
    columns = ("model", "uniformity", "alignment", "STS average")
    return Chart(
        id="alignment-uniformity",
        title="Alignment and uniformity",
        note=note,
        x_axis="uniformity",
        y_axis="alignment",
        lines=(),
        marks=marks,
        legend=_shade_keys(averages),
        data=Table("alignment-uniformity-data", "Alignment, uniformity and STS average", columns, rows),
    )


def _average(value: float | None) -> str:
    return "" if value is None else f", STS average {value:.2f}"


def shades_of(values: Mapping[str, float]) -> dict[str, str]:
    """Return a shade for each value: `SHADES` equal steps from lowest to highest; the last shade if all are equal."""
    if not values:
        return {}
    low, high = min(values.values()), max(values.values())
    span = (high - low) or 1.0
    last = SHADES - 1
    return {
        name: f"q{last if high == low else min(last, int(SHADES * (value - low) / span))}"
        for name, value in values.items()
    }


def _shade_keys(averages: Mapping[str, float]) -> tuple[LegendKey, ...]:
    if not averages:
        return ()
    low, high = min(averages.values()), max(averages.values())
    if high == low:
        return (LegendKey(f"STS average {low:.1f}", f"q{SHADES - 1}", "circle"),)
    step = (high - low) / SHADES
    names = [f"{low + n * step:.1f} to {low + (n + 1) * step:.1f}" for n in range(SHADES)]
    names[0] = f"STS average {names[0]}"
    return tuple(LegendKey(name, f"q{n}", "circle") for n, name in enumerate(names))


def pairs_charts(sources: Sequence[ReportSource]) -> list[Chart]:
    """Chart the clean and adversarial texts of `holdfast space` results with ``coordinates`` (ADCL, Figure 3).

    Raises:
        UserError: the coordinates are not pairs of points.
    """
    return [
        pairs_chart(source.result["coordinates"], id=f"pairs-{source.number}", model=source.label, path=source.path)
        for source in sources
        if "coordinates" in source.result
    ]


def pairs_chart(plane: Any, *, id: str, model: str, path: Path) -> Chart:
    """Chart clean and adversarial texts as points in a plane.

    If the texts are of two to seven classes, each class has a colour; otherwise clean texts have one colour and
    adversarial texts another. ``plane`` is as `holdfast space --coordinates` writes it, to the file ``path``.

    Raises:
        UserError: the coordinates are not pairs of points.
    """
    pairs = _points(plane, path)
    labels = [pair["clean"].get("label") for pair in pairs]
    classes = sorted({label for label in labels if isinstance(label, int)})
    by_class = 2 <= len(classes) <= 7 and all(isinstance(label, int) for label in labels)
    lines, marks, rows = [], [], []
    for pair, label in zip(pairs, labels, strict=True):
        ends = [(float(pair[kind]["x"]), float(pair[kind]["y"])) for kind, _ in _KINDS]
        texts = [_short(pair[kind]["text"]) for kind, _ in _KINDS]
        lines.append(Line(tuple(ends), MUTED, dotted=True))
        for number, (kind, shape) in enumerate(_KINDS):
            shade = colour(classes.index(label) if by_class else number)
            marks.append(Mark(*ends[number], shade, shape, f"{kind}: {texts[number]}", hollow=number == 0))
        rows.append((*map(TableCell, texts), TableCell(f"{math.dist(*ends):.3f}")))
    groups = [("", [0, 1])]
    if by_class:
        groups = [(f", class {label}", [place, place]) for place, label in enumerate(classes)]
    keys = tuple(
        LegendKey(f"{kind}{name}", colour(shades[number]), shape, hollow=number == 0)
        for name, shades in groups
        for number, (kind, shape) in enumerate(_KINDS)
    )
    recipe = " ".join(str(plane[key]) for key in ("item", "recipe") if plane.get(key))
    title = f"Texts before and after {recipe}, as {model} sees them"
    perplexity = number_of(plane.get("perplexity"))
    method = str(plane.get("method", "t-SNE")) + ("" if perplexity is None else f", perplexity {perplexity:.3g}")
    note = f"{len(pairs):,} pairs, {method}: a clean text is a circle, its adversarial text a triangle, a dotted line "
    note += "joins them. Points that are close together are similar; distances of far points mean nothing (as ADCL's "
    note += "Figure 3)."
    data = Table(f"{id}-data", title, ("clean", "adversarial", "distance"), tuple(rows), labels=2)
    return Chart(id, title, note, "", "", tuple(lines), tuple(marks), keys, data, bare=True, half=True)


_KINDS: tuple[tuple[str, Shape], ...] = (("clean", "circle"), ("adversarial", "triangle"))


def _points(plane: Any, path: Path) -> list[dict[str, Any]]:
    """Return the two points of each pair, by kind."""
    pairs: dict[Any, dict[str, Any]] = {}
    try:
        for point in plane["points"]:
            if not isinstance(point["text"], str) or None in (number_of(point["x"]), number_of(point["y"])):
                raise ValueError("a point without a text or a place")
            pairs.setdefault(point["pair"], {})[point["kind"]] = point
        if not pairs or any({"clean", "adversarial"} - set(own) for own in pairs.values()):
            raise ValueError("a pair that is not two points")
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: its coordinates are not those of `holdfast space --plot`: {error}") from error
    return list(pairs.values())


def _short(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def step_bars(sources: Sequence[ReportSource], colours: Colours) -> Bars | None:
    """Chart the seconds of a training step; None if no training records its time."""
    groups: dict[str, list[Bar]] = {}
    for source in _of(sources, "train"):
        seconds = seconds_per_step(source)
        if seconds is None:
            continue
        message = f"{seconds:.{max(3, decimals_of(seconds))}f} s a step"
        bar = Bar(source.label, seconds, None, None, colours[source.label], message)
        groups.setdefault(_setting(source), []).append(bar)
    if not groups:
        return None
    note = "Wall time of the training without its evaluations, divided by its steps. Compare only what ran with the "
    note += "same setting on a machine that did nothing else."
    digits = max(3, *(decimals_of(bar.value) for own in groups.values() for bar in own))
    data = _bars_data("step-cost", "Seconds of a training step", "setting", groups, digits)
    return Bars("step-cost", "Cost of a training step", note, "seconds a step", _grouped(groups), data)


def seconds_per_step(source: ReportSource) -> float | None:
    """Return the wall-clock seconds per step, without the evaluations that the log records; None if unknown."""
    selected = source.result.get("selected")
    total = number_of((source.result.get("timing") or {}).get("train_seconds"))
    steps = number_of(selected.get("steps")) if isinstance(selected, dict) else None
    if total is None or not steps:
        return None
    measured = sum(number_of(record.get("eval_runtime")) or 0.0 for record in source.log)
    return max(0.0, total - measured) / steps


def _setting(source: ReportSource) -> str:
    training = source.protocol.get("training")
    training = training if isinstance(training, dict) else {}
    device = source.result["environment"].get("device", "?")
    return f"batch {training.get('batch_size', '?')}, {training.get('precision', '?')}, {device}"
