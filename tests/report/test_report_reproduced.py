"""The papers' figures from results of `reproduce`: lines, scatters and planes, on the page and as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_results import result, row, space, write

from holdfast.errors import UserError
from holdfast.report import write_report
from holdfast.report.reproduced import reproduced_charts, write_pictures
from holdfast.report.result_sources import ReportSource, read_sources


def cell(name: str, column: str, mean: float | None, published: float | None = None, **more: Any) -> dict[str, Any]:
    labels = dict(zip(("attack", "encoder"), name.split(), strict=False))
    metrics = {} if mean is None else {"mean": mean}
    why: list[str] = ["no data"] if mean is None else []
    return row(name, 1, column, metrics, labels=labels, published=published, not_run=why, values=[], **more)


def reproduced(rows: list[dict[str, Any]], figure: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    protocol = {"table": "x/figure1", "title": "A figure", "source": "a test", "scale": "small", "seeds": 1}
    columns = list(dict.fromkeys(one["split"] for one in rows))
    return result("reproduce", "tiny", rows, protocol={**protocol, "columns": columns, "figure": figure, **more})


def source_of(tmp_path: Path, made: dict[str, Any]) -> ReportSource:
    (source,) = read_sources([write(tmp_path / "x-figure1-small.json", made)])
    return source


LINES = {
    "kind": "lines",
    "y": "average",
    "panels": [{"x": "batch", "points": {"b 32": 32.0, "b 64": 64.0}}, {"x": "τ", "points": {"t 1": 1.0}}],
}


def test_a_line_for_each_row_in_each_panel(tmp_path: Path) -> None:
    rows = [
        *(cell("A", "b 32", 70.0, 71.5), cell("A", "b 64", 75.0), cell("A", "t 1", 60.0)),
        *(cell("B", "b 32", 50.0), cell("B", "b 64", None), cell("B", "t 1", None)),
    ]
    batch, temperature = reproduced_charts(source_of(tmp_path, reproduced(rows, LINES)))
    assert [line.points for line in batch.lines] == [((32.0, 70.0), (64.0, 75.0))]  # B has one point, and so no line
    assert [(mark.x, mark.y, mark.hollow) for mark in batch.marks] == [
        *((32.0, 70.0, False), (32.0, 71.5, True), (64.0, 75.0, False), (32.0, 50.0, False)),
    ]
    assert (batch.x_axis, batch.y_axis, batch.title) == ("batch", "average", "A figure: batch")
    assert [key.name for key in batch.legend] == ["A", "B", "published"]
    assert "Hollow: published." in batch.note
    assert [(mark.x, mark.y) for mark in temperature.marks] == [(1.0, 60.0)]
    assert [key.name for key in temperature.legend] == ["A", "B"]
    assert [c.text for c in batch.data.rows[0]] == ["A", "b 32", "70.00", "71.50"]
    assert batch.id != temperature.id


def test_a_scatter_joins_what_it_is_told_to(tmp_path: Path) -> None:
    rows = [
        *(cell("PWWS USCAL", "drop", 40.0), cell("PWWS USCAL", "queries", 100.0)),
        *(cell("PWWS Robust", "drop", 20.0, 21.0), cell("PWWS Robust", "queries", 150.0, 160.0)),
        *(cell("BAE USCAL", "drop", 10.0), cell("BAE USCAL", "queries", None)),
    ]
    figure = {"kind": "scatter", "x": "drop", "y": "queries", "join": "attack"}
    (chart,) = reproduced_charts(source_of(tmp_path, reproduced(rows, figure)))
    assert [line.points for line in chart.lines] == [((20.0, 150.0), (40.0, 100.0))]
    assert [(m.x, m.y, m.hollow) for m in chart.marks] == [
        (40.0, 100.0, False),
        (20.0, 150.0, False),
        (21.0, 160.0, True),
    ]
    uscal, robust, _ = chart.marks
    assert uscal.colour != robust.colour
    assert uscal.shape == robust.shape
    assert [key.name for key in chart.legend] == ["USCAL", "Robust", "PWWS", "BAE", "published"]
    alone = {"kind": "scatter", "x": "drop", "y": "queries"}
    (chart,) = reproduced_charts(source_of(tmp_path, reproduced(rows, alone)))
    assert not chart.lines
    assert (chart.x_axis, chart.y_axis) == ("drop", "queries")
    (message,) = reproduced_charts(source_of(tmp_path, reproduced(rows, {**alone, "axes": {"x": "accuracy lost"}})))
    assert (message.x_axis, message.y_axis) == ("accuracy lost", "queries")
    assert message.marks == chart.marks
    assert [mark.label for mark in chart.marks] == ["PWWS USCAL", "PWWS Robust", ""]
    many = [cell(f"m{n}", column, float(n)) for n in range(10) for column in ("drop", "queries")]
    (chart,) = reproduced_charts(source_of(tmp_path, reproduced(many, alone)))
    seen = [(mark.colour, mark.shape) for mark in chart.marks]
    assert len(set(seen)) == 10, "there are eight colours"
    assert [(key.colour, key.shape) for key in chart.legend] == seen


def test_a_scatter_of_several_seeds_has_whiskers(tmp_path: Path) -> None:
    rows = [*(cell("PWWS A", "drop", 40.0), cell("PWWS A", "queries", 100.0)), cell("PWWS B", "drop", 20.0)]
    rows += [cell("PWWS B", "queries", 150.0)]
    rows[0]["metrics"]["std"], rows[1]["metrics"]["std"], rows[3]["metrics"]["std"] = 2.0, 5.0, 10.0
    figure = {"kind": "scatter", "x": "drop", "y": "queries"}
    (chart,) = reproduced_charts(source_of(tmp_path, reproduced(rows, figure)))
    first, second = (mark.colour for mark in chart.marks)
    assert [(line.points, line.colour) for line in chart.lines] == [
        (((38.0, 100.0), (42.0, 100.0)), first),
        (((40.0, 95.0), (40.0, 105.0)), first),
        (((20.0, 140.0), (20.0, 160.0)), second),
    ]
    assert "Whiskers: ± 1 standard deviation" in chart.note
    (joined,) = reproduced_charts(source_of(tmp_path, reproduced(rows, {**figure, "join": "attack"})))
    assert [line.points for line in joined.lines] == [((20.0, 150.0), (40.0, 100.0))]
    assert "Whiskers" not in joined.note


def test_planes_once_for_each_row(tmp_path: Path) -> None:
    plane = space("c")["coordinates"]
    rows = [cell(name, column, 1.0, coordinates=plane) for name in ("NP", "ADCL") for column in ("d_pos", "d_neg")]
    charts = reproduced_charts(source_of(tmp_path, reproduced(rows, {"kind": "pairs"})))
    assert [chart.id for chart in charts] == ["reproduced-1-plane-1", "reproduced-1-plane-2"]
    assert "as NP, A figure sees them" in charts[0].title
    assert charts[0].bare
    assert len(charts[0].marks) == len(plane["points"])


def test_a_table_and_an_empty_figure_have_no_chart(tmp_path: Path) -> None:
    rows = [cell("A", "b 32", None), cell("A", "b 64", None), cell("A", "t 1", None)]
    assert reproduced_charts(source_of(tmp_path, reproduced(rows, None))) == []
    assert reproduced_charts(source_of(tmp_path, reproduced(rows, LINES))) == []
    assert write_pictures(tmp_path / "x.json", reproduced(rows, LINES)) == []


@pytest.mark.parametrize(
    "figure", [{"kind": "lines"}, {"kind": "lines", "panels": [3]}, {"kind": "scatter", "x": "b 32", "y": "nothing"}]
)
def test_a_figure_that_makes_no_sense_is_one_line(tmp_path: Path, figure: dict[str, Any]) -> None:
    source = source_of(tmp_path, reproduced([cell("A", "b 32", 1.0)], figure))
    with pytest.raises(UserError, match=r"x-figure1-small\.json: its figure is not one of `holdfast reproduce`"):
        reproduced_charts(source)


def test_pictures_beside_the_result_and_charts_on_the_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [cell("A", "b 32", 70.0, 71.5), cell("A", "b 64", 75.0), cell("A", "t 1", 60.0)]
    made = reproduced(rows, LINES, note="How it is read.")
    word = write(tmp_path / "x-figure1-small.json", made)
    pictures = write_pictures(Path(word), made)
    names = [f"x-figure1-small{number}.{kind}" for number in ("", "-2") for kind in ("png", "svg")]
    assert sorted(path.name for path in pictures) == sorted(names)
    assert all(path.parent == tmp_path and path.stat().st_size for path in pictures)
    written = write_report([word], tmp_path / "r.html")
    assert written.figures == ("reproduced-1-panel-1", "reproduced-1-panel-2")
    assert "How it is read." in (tmp_path / "r.html").read_text(encoding="utf-8")
