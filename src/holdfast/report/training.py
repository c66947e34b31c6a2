"""Training curves from a run's log, and whether the run was sound."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.report.figures import Colours
from holdfast.report.parts import Cell, Chart, Flag, Key, Line, Mark, Table, colour
from holdfast.report.sources import TRAININGS, Source, number_of

RISES = ("attack_rise", "attack_loss_rise")
"""How much the attack raised the loss that it ascends, by the method."""

_NOT_TERMS = frozenset(
    ("step", "epoch", "loss", "grad_norm", "learning_rate", "delta_norm", "gradient_share", "train_loss", "total_flos")
) | frozenset(RISES)
_LOGARITHMIC = 50.0
"""Loss terms that differ by more than this factor are drawn over a logarithmic axis."""
_HARDLY = 1e-3
"""A regulariser with a smaller share of the gradient hardly trains the encoder."""
_ROUNDING = 1e-3

Curve = list[tuple[float, float]]


def curve(records: Iterable[Mapping[str, Any]], name: str) -> Curve:
    """(step, value) of one quantity: finite ones, of a step told twice the later."""
    found = {}
    for record in records:
        value = number_of(record.get(name))
        if value is not None:
            found[float(record["step"])] = value
    return sorted(found.items())


def terms_of(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the loss's terms: what is logged beside the loss and is neither a score nor a diagnostic."""
    names = dict.fromkeys(name for record in records if "loss" in record for name in record)
    return [
        name
        for name in names
        if name not in _NOT_TERMS and not name.startswith(("eval_", "train_")) and len(curve(records, name)) > 0
    ]


def score_name(records: Iterable[Mapping[str, Any]]) -> str | None:
    """The score that the run was evaluated by on the way."""
    names = dict.fromkeys(name for record in records for name in record if name.startswith("eval_"))
    wanted = [name for name in names if name.endswith(("_spearman", "_accuracy"))]
    return wanted[0] if wanted else None


def dev_charts(sources: Sequence[Source], colours: Colours) -> list[Chart]:
    """The score on the way, all runs with the same score together."""
    groups: dict[str, list[tuple[Source, Curve]]] = {}
    for source in _logged(sources):
        name = score_name(source.log)
        if name is not None:
            groups.setdefault(name, []).append((source, curve(source.log, name)))
    return [_dev_chart(name, number, own, colours) for number, (name, own) in enumerate(groups.items(), start=1)]


def _logged(sources: Iterable[Source]) -> list[Source]:
    return [source for source in sources if source.kind in TRAININGS and source.log]


def _dev_chart(name: str, number: int, runs: Sequence[tuple[Source, Curve]], colours: Colours) -> Chart:
    what = name.removeprefix("eval_").replace("_", " ")
    marks = []
    for source, points in runs:
        step = number_of((source.result.get("selected") or {}).get("step"))
        for x, y in points:
            kept = x == step
            told = f"{source.label}, step {x:g}: {y:.2f}{', kept' if kept else ''}"
            marks.append(Mark(x, y, colours[source.label], "diamond" if kept else "circle", told, hollow=not kept))
    id = f"dev-{number}"
    title = f"Score while training: {what}"
    return Chart(
        id=id,
        title=title,
        note="The step that was kept is a filled diamond.",
        x_axis="step",
        y_axis=what,
        lines=tuple(Line(tuple(points), colours[source.label]) for source, points in runs),
        marks=tuple(marks),
        legend=tuple(
            {source.label: Key(source.label, colours[source.label], line=True) for source, _ in runs}.values()
        ),
        data=_curves_table(id, title, [(source.label, points) for source, points in runs]),
    )


def _curves_table(id: str, title: str, curves: Sequence[tuple[str, Curve]]) -> Table:
    steps = sorted({x for _, points in curves for x, _ in points})
    held = [dict(points) for _, points in curves]
    rows = tuple(
        (Cell(f"{step:g}"), *(Cell(f"{own[step]:.6g}" if step in own else "–") for own in held)) for step in steps
    )
    return Table(f"{id}-data", title, ("step", *(name for name, _ in curves)), rows)


def run_charts(source: Source) -> list[Chart]:
    """Of one run: the loss and its terms by name; the rise of the loss under its attack."""
    charts = []
    names = ["loss", *(name for name in terms_of(source.log))]
    losses = [(name, points) for name in names if (points := curve(source.log, name))]
    if losses:
        charts.append(_curves(f"loss-{source.number}", "Loss and its terms", "loss", losses))
    rises = [(name, points) for name in RISES if (points := curve(source.log, name))]
    if rises:
        note = "How much the attack raises the loss that it ascends, in each logged step; above 0 it works."
        axis = "rise of the loss"
        charts.append(_curves(f"rise-{source.number}", "The attack's rise of the loss", axis, rises, note=note))
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
        legend=tuple(Key(name.replace("_", " "), colour(place), line=True) for place, (name, _) in enumerate(curves)),
        data=_curves_table(id, title, curves),
        logarithmic=logarithmic,
        half=True,
    )


# --- flags -------------------------------------------------------------------------------------------------------


def flags(source: Source) -> list[Flag]:
    """Whether the run was sound: loss, gradients, the attack, δ, the step that was kept."""
    found = [_loss(source), _gradients(source), _rise(source), _radius(source), _share(source), _selected(source)]
    return [flag for flag in found if flag is not None]


def _loss(source: Source) -> Flag | None:
    told = [(record["step"], record["loss"]) for record in source.log if "loss" in record]
    if not told:
        return None
    broken = [step for step, value in told if number_of(value) is None]
    if broken:
        return Flag("bad", "loss", f"not a finite number at step {broken[0]}")
    first, last = told[0][1], told[-1][1]
    if len(told) > 1 and last >= first:
        return Flag("look", "loss", f"did not fall: {first:.4g} at step {told[0][0]}, {last:.4g} at step {told[-1][0]}")
    return Flag("good", "loss", f"from {first:.4g} to {last:.4g}")


def _gradients(source: Source) -> Flag | None:
    told = [(record["step"], record["grad_norm"]) for record in source.log if "grad_norm" in record]
    if not told:
        return None
    broken = [step for step, value in told if number_of(value) is None]
    if broken:
        return Flag("bad", "gradients", f"not finite at step {broken[0]}")
    zero = [step for step, value in told if value == 0]
    if zero:
        return Flag("bad", "gradients", f"exactly 0 in {len(zero)} of {len(told)} logged steps, first at {zero[0]}")
    values = [value for _, value in told]
    return Flag("good", "gradients", f"never 0; norm {min(values):.3g} to {max(values):.3g}")


def _rise(source: Source) -> Flag | None:
    rises = [y for name in RISES for _, y in curve(source.log, name)]
    if not rises:
        return None
    above = sum(rise > 0 for rise in rises)
    told = (
        f"the loss rose under the attack in {above} of {len(rises)} logged steps; median {statistics.median(rises):.3g}"
    )
    return Flag("good" if above == len(rises) else "look" if 2 * above > len(rises) else "bad", "attack", told)


def _radius(source: Source) -> Flag | None:
    norms = [y for _, y in curve(source.log, "delta_norm")]
    options = source.protocol.get("options")
    radius = number_of(options.get("radius")) if isinstance(options, dict) else None
    if not norms:
        return None
    largest, middle = max(norms), statistics.median(norms)
    if not radius:
        return Flag("told", "δ", f"norm {middle:.3g} (median), at most {largest:.3g}")
    told = f"norm {middle:.3g} (median), {100 * middle / radius:.0f} % of the ball's radius {radius:g}"
    if largest > radius * (1 + _ROUNDING):
        return Flag("bad", "δ", f"{told}: leaves the ball, {largest:.4g}")
    if middle < 0.01 * radius:
        return Flag("look", "δ", f"{told}: it hardly leaves the centre")
    return Flag("good", "δ", told + (", at its edge" if middle > 0.99 * radius else ""))


def _share(source: Source) -> Flag | None:
    shares = [y for _, y in curve(source.log, "gradient_share")]
    if not shares:
        return None
    middle = statistics.median(shares)
    told = f"{100 * middle:.2g} % of the gradient (median)"
    if middle < _HARDLY:
        return Flag("look", "regulariser", f"{told}: it hardly trains the encoder")
    return Flag("good", "regulariser", told)


def _selected(source: Source) -> Flag | None:
    selected = source.result.get("selected")
    if not isinstance(selected, dict):
        return None
    step, steps, score = (number_of(selected.get(key)) for key in ("step", "steps", "score"))
    if step is None or steps is None:
        return None
    told = f"step {step:g} of {steps:g} was kept" + ("" if score is None else f", score {score:.2f}")
    if score is not None and step == steps:
        return Flag("look", "selection", f"{told}: the last one, so longer training may be better")
    return Flag("good" if score is not None else "told", "selection", told)
