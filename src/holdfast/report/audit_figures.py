"""The figures of audits: hold against move by model, and people's noise beside synthetic noise."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from holdfast.audit.item_names import item_name
from holdfast.report.elements import MUTED, Bar, Bars, Chart, Line, Mark, Table, TableCell, number_cell
from holdfast.report.model_scores import mean_and_ends
from holdfast.report.result_sources import ReportSource

Colours = Mapping[str, str]

HUMAN, SYNTHETIC = "human noise", "synthetic noise"
_MEANING = "audit-meaning"
_NOISE = (HUMAN, SYNTHETIC)


def sides_chart(sources: Sequence[ReportSource], colours: Colours) -> Chart | None:
    """Chart the mean stability under hold edits against P(hold edit nearer than move edit); None without both."""
    found: dict[str, list[tuple[float, float]]] = {}
    charted = [source for source in _audits(sources) if _nearer(source) is not None]
    measured = [items for source in charted if (items := _stability_items(source))]
    common = set.intersection(*map(set, measured)) if measured else set()
    compared = f"over {_items(len(common))}" if common else "over an audit's own hold items: none is in all of them"
    for source in charted:
        items = _stability_items(source)
        own = [value for item, value in items.items() if item in common or not common]
        hold, move = statistics.fmean(own) if own else None, _nearer(source)
        if hold is not None and move is not None:
            found.setdefault(source.label, []).append((hold, move))
    if not found:
        return None
    places = {
        label: (statistics.fmean(hold for hold, _ in seeds), statistics.fmean(move for _, move in seeds))
        for label, seeds in found.items()
    }
    title = "Hold against move"
    marks = tuple(
        Mark(hold, move, colours[label], "circle", f"{label}: stability {hold:.3f}, P {move:.3f}", label=label)
        for label, (hold, move) in places.items()
    )
    rows = tuple(
        (TableCell(label), number_cell(hold, 3), number_cell(move, 3)) for label, (hold, move) in places.items()
    )
    x_axis, y_axis = "mean stability under hold edits", "P(hold edit nearer than move edit)"
    left = min(0.0, *(hold for hold, _ in places.values()))
    return Chart(
        id="hold-move",
        title=title,
        note="Further right, the vector holds where the meaning holds; further up, it moves where the meaning moves. "
        f"The best place is the upper right. The mean is {compared}. "
        "The line is a model without any sense of the difference: P = 0.5.",
        x_axis=x_axis,
        y_axis=y_axis,
        lines=(Line(((left, 0.5), (1.0, 0.5)), MUTED, dotted=True), Line(((1.0, 0.0), (1.0, 1.0)), MUTED, dotted=True)),
        marks=marks,
        legend=(),
        data=Table("hold-move-data", title, ("model", x_axis, y_axis), rows),
    )


def noise_bars(sources: Sequence[ReportSource], colours: Colours) -> Bars | None:
    """Chart the stability under each kind of noise, people's and synthetic, by model; None without any."""
    found: dict[str, dict[str, list[Mapping[str, float]]]] = {}
    for group in _NOISE:
        for source in _audits(sources):
            for row in source.rows:
                if row.get("group") == group and "stability" in row["metrics"]:
                    own = found.setdefault(f"{item_name(row)} ({group})", {})
                    own.setdefault(source.label, []).append(row["metrics"])
    if not any(HUMAN in name for name in found):
        return None
    groups = {
        name: [_stability_bar(label, seeds, colours[label]) for label, seeds in own.items()]
        for name, own in found.items()
    }
    title = "Stability under noise"
    rows = tuple(
        (TableCell(name), TableCell(bar.label), *(number_cell(v, 3) for v in (bar.value, bar.low, bar.high)))
        for name, bars in groups.items()
        for bar in bars
    )
    return Bars(
        id="noise",
        title=title,
        note="Noise in a tenth of the words: as people and their machines make it, and typing errors drawn at random. "
        "Higher is more robust. Whiskers: 95 % bootstrap interval; of several seeds lowest and highest.",
        axis="stability",
        groups=tuple((name, tuple(bars)) for name, bars in groups.items()),
        data=Table("noise-data", title, ("noise", "model", "value", "low", "high"), rows, labels=2),
        top=1.0,
    )


def _stability_bar(label: str, seeds: Sequence[Mapping[str, float]], colour: str) -> Bar:
    value, low, high = mean_and_ends(seeds, "stability")
    return Bar(label, value, low, high, colour, f"{value:.3f}")


def _audits(sources: Sequence[ReportSource]) -> Iterator[ReportSource]:
    return (source for source in sources if source.kind == "audit")


def _stability_items(source: ReportSource) -> dict[tuple[str, str], float]:
    """Return the stability under each hold item that an audit measured."""
    return {
        (row["task"], row["split"]): row["metrics"]["stability"] for row in source.rows if "stability" in row["metrics"]
    }


def _items(count: int) -> str:
    return "the one hold item that all audits have" if count == 1 else f"the {count} hold items that all audits have"


def _nearer(source: ReportSource) -> float | None:
    """Return P(hold edit nearer) over all move edits; None if it was not measured."""
    rows = [row["metrics"] for row in source.rows if row["task"] == _MEANING]
    return rows[0].get("p_hold_nearer") if rows else None
