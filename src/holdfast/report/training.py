"""Training curves from a run's log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.report.elements import Chart, LegendKey, Line, Mark, Table, TableCell, colour
from holdfast.report.figures import Colours
from holdfast.report.result_sources import ReportSource
from holdfast.runs import soundness
from holdfast.runs.run_log import RISES, TRAININGS, Curve, curve, number_of, score_name, terms_of
from holdfast.runs.soundness import Flag

_LOGARITHMIC = 50.0
"""Loss terms that differ by more than this factor are drawn on a logarithmic axis."""


def dev_charts(sources: Sequence[ReportSource], colours: Colours) -> list[Chart]:
    """Chart the scores during training: one chart for each score, with all of its runs."""
    groups: dict[str, list[tuple[ReportSource, Curve]]] = {}
    for source in _logged(sources):
        name = score_name(source.log)
        if name is not None:
            groups.setdefault(name, []).append((source, curve(source.log, name)))
    return [_dev_chart(name, number, own, colours) for number, (name, own) in enumerate(groups.items(), start=1)]


def _logged(sources: Iterable[ReportSource]) -> list[ReportSource]:
    return [source for source in sources if source.kind in TRAININGS and source.log]


def _dev_chart(name: str, number: int, runs: Sequence[tuple[ReportSource, Curve]], colours: Colours) -> Chart:
    score = name.removeprefix("eval_").replace("_", " ")
    marks = []
    for source, points in runs:
        step = number_of((source.result.get("selected") or {}).get("step"))
        for x, y in points:
            kept = x == step
            message = f"{source.label}, step {x:g}: {y:.2f}{', kept' if kept else ''}"
            marks.append(Mark(x, y, colours[source.label], "diamond" if kept else "circle", message, hollow=not kept))
    id = f"dev-{number}"
    title = f"Score while training: {score}"
    return Chart(
        id=id,
        title=title,
        note="The step that was kept is a filled diamond.",
        x_axis="step",
        y_axis=score,
        lines=tuple(Line(tuple(points), colours[source.label]) for source, points in runs),
        marks=tuple(marks),
        legend=tuple(
            {source.label: LegendKey(source.label, colours[source.label], line=True) for source, _ in runs}.values()
        ),
        data=_curves_table(id, title, [(source.label, points) for source, points in runs]),
    )


def _curves_table(id: str, title: str, curves: Sequence[tuple[str, Curve]]) -> Table:
    steps = sorted({x for _, points in curves for x, _ in points})
    held = [dict(points) for _, points in curves]
    rows = tuple(
        (TableCell(f"{step:g}"), *(TableCell(f"{own[step]:.6g}" if step in own else "–") for own in held))
        for step in steps
    )
    return Table(f"{id}-data", title, ("step", *(name for name, _ in curves)), rows)


def run_charts(source: ReportSource) -> list[Chart]:
    """Chart one run: the loss and its terms by name; the rise of the loss under its attack."""
    charts = []
    names = ["loss", *(name for name in terms_of(source.log))]
    losses = [(name, points) for name in names if (points := curve(source.log, name))]
    if losses:
        charts.append(_curves(f"loss-{source.number}", "Loss and its terms", "loss", losses))
    rises = [(name, points) for name in RISES if (points := curve(source.log, name))]
    if rises:
        note = "Rise of the attacked loss in each logged step; above 0 the attack works."
        axis = "rise of the loss"
        charts.append(_curves(f"rise-{source.number}", "Rise of the loss under the attack", axis, rises, note=note))
    return charts


def _curves(id: str, title: str, axis: str, curves: Sequence[tuple[str, Curve]], note: str = "") -> Chart:
    values = [y for _, points in curves for _, y in points]
    logarithmic = min(values) > 0 and max(values) > _LOGARITHMIC * min(values)
    return Chart(
        id=id,
        title=title,
        note=" ".join(filter(None, (note, "Logarithmic axis." if logarithmic else ""))),
        x_axis="step",
        y_axis=axis,
        lines=tuple(Line(tuple(points), colour(place), dotted=place > 0) for place, (_, points) in enumerate(curves)),
        marks=tuple(
            Mark(x, y, colour(place), "circle", f"{name}, step {x:g}: {y:.4g}", hollow=True)
            for place, (name, points) in enumerate(curves)
            for x, y in points
        ),
        legend=tuple(
            LegendKey(name.replace("_", " "), colour(place), line=True) for place, (name, _) in enumerate(curves)
        ),
        data=_curves_table(id, title, curves),
        logarithmic=logarithmic,
        half=True,
    )


def flags(source: ReportSource) -> list[Flag]:
    """Return the flags on the soundness of a run (see `holdfast.runs.soundness`)."""
    return soundness.flags(source.log, soundness.options_of(source.protocol), source.result.get("selected"))
