"""The page's figures as files."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_results import everything, space, write

from holdfast.errors import UserError
from holdfast.files import locked
from holdfast.report import write_report
from holdfast.report.elements import Chart, LegendKey, Mark, Table
from holdfast.report.figures import pairs_chart
from holdfast.report.plots import check_plot, check_plots, write_plot, write_plots


def test_every_figure_as_png_and_svg(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    written = write_report(everything(tmp_path), tmp_path / "r.html", plots=tmp_path / "plots")
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert names == {f"{figure}.{kind}" for figure in written.figures for kind in ("png", "svg")}
    assert len(names) == len(written.plots) == 2 * len(written.figures) >= 18
    for path in written.plots:
        if path.suffix == ".svg":
            ET.parse(path)
        else:
            assert path.read_bytes().startswith(b"\x89PNG")
    text = "".join(ET.parse(tmp_path / "plots" / "success-1.svg").getroot().itertext())
    assert "Attack success on mr" in text
    assert "typos" in text


def test_the_same_figure_gives_the_same_files_and_names_hold_no_formulas(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    word = write(tmp_path / "s.json", space("costs $5 and $6_x"))
    for name in ("x", "y"):
        write_report([word], tmp_path / "r.html", plots=tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "x").iterdir())
    assert files == ["pairs-1.png", "pairs-1.svg"]
    assert all((tmp_path / "x" / name).read_bytes() == (tmp_path / "y" / name).read_bytes() for name in files)
    assert "$5 and $6_x" in "".join(ET.parse(tmp_path / "x" / "pairs-1.svg").getroot().itertext())


def test_without_matplotlib_one_line_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError) as caught:
        write_report(["nowhere.json"], tmp_path / "r.html", plots=tmp_path / "plots")
    assert str(caught.value) == "--plots needs matplotlib: pip install 'holdfast[report]'"
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="folder"):
        check_plots(tmp_path / "file")


def texts_of(picture: Path) -> list[tuple[str, float, float]]:
    """Each text with its x and y."""
    found = [element for element in ET.parse(picture).iter() if element.tag.endswith("}text")]
    return [("".join(text.itertext()), float(text.get("x", "nan")), float(text.get("y", "nan"))) for text in found]


def test_points_have_their_names_beside_them_and_no_legend_says_them_again(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    places = {"low": (1.0, 1.0), "a name far too long for the right": (9.0, 5.0), "another": (5.0, 5.0)}
    marks = tuple(Mark(*place, f"c{n}", "circle", name, name) for n, (name, place) in enumerate(places.items()))
    keys = tuple(LegendKey(mark.label, mark.colour, "circle") for mark in marks)
    chart = Chart("named", "Title", "", "x", "y", (), marks, keys, Table("t", "t", ("row",), ()))
    picture = write_plots([chart], tmp_path)[1]
    names = [(text, x, y) for text, x, y in texts_of(picture) if text in places]
    assert [text for text, _, _ in names] == list(places)  # once each
    (_, _, low), (long, above, high), (_, beside, _) = names
    assert low > high  # y grows downwards
    width = float((ET.parse(picture).getroot().get("viewBox") or "").split()[2])
    assert above + 4.0 * len(long) < width  # to the left of its point, or over the other: within the frame
    assert abs(names[1][2] - names[2][2]) > 8.0 or above > beside + 4.0 * len("another")

    unnamed = replace(chart, marks=tuple(replace(mark, label="") for mark in marks))
    assert {text for text, _, _ in texts_of(write_plots([unnamed], tmp_path)[1])} >= set(places)


def test_a_name_without_room_is_in_the_legend(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = {"low": (1.0, 1.0), "high": (9.0, 9.0), "a name much too long for a picture, " * 4: (5.0, 5.0)}
    marks = tuple(Mark(*place, f"c{n}", "circle", name, name) for n, (name, place) in enumerate(names.items()))
    keys = tuple(LegendKey(mark.label, mark.colour, "circle") for mark in marks)
    chart = Chart("crowded", "Title", "", "x", "y", (), marks, keys, Table("t", "t", ("row",), ()))
    shown = [text for text, _, _ in texts_of(write_plots([chart], tmp_path)[1])]
    assert [shown.count(name) for name in names] == [2, 2, 1]


def test_what_a_killed_report_left_is_removed_and_only_that(tmp_path: Path) -> None:
    given, plots = everything(tmp_path), tmp_path / "plots"
    plots.mkdir()
    for left in (
        tmp_path / ".r.html.abcdefgh.part",
        plots / ".loss-1.png.abcdefgh.part",
        plots / ".dev-1.svg.12345678.part",
    ):
        left.write_text("half")
    (plots / ".mine").write_text("kept")
    write_report(given, tmp_path / "r.html", plots=plots)
    assert [path.name for path in tmp_path.glob(".*")] == []
    assert [path.name for path in plots.glob(".*")] == [".mine"]


def test_two_reports_do_not_write_the_same_pictures(tmp_path: Path) -> None:
    given, plots = everything(tmp_path), tmp_path / "plots"
    plots.mkdir()
    with locked(plots / ".plots.lock", plots), pytest.raises(UserError, match="plots is in use by"):
        write_report(given, tmp_path / "r.html", plots=plots)


# --- the picture of `holdfast space --plot` ----------------------------------------------------------------------


def pairs_svg(path: Path, model: str = "m", labels: tuple[Any, ...] = (0, 1)) -> str:
    pytest.importorskip("matplotlib")
    plane = space(pairs=20, labels=labels)["coordinates"]
    write_plot(pairs_chart(plane, id="pairs", model=model, path=path), path)
    return path.read_text(encoding="utf-8")


def test_a_picture_joins_each_pair_and_names_the_classes(tmp_path: Path) -> None:
    text = pairs_svg(tmp_path / "plane.svg")
    assert text.count("stroke-dasharray") == 20, "a line for each pair"
    for name in ("clean, class 0", "adversarial, class 0", "clean, class 1", "adversarial, class 1"):
        assert f">{name}<" in text
    assert text == pairs_svg(tmp_path / "again.svg"), "the same points give the same file"


@pytest.mark.parametrize("labels", [(None,), tuple(range(20)), (0,), (0.5,)])
def test_without_few_classes_the_colours_are_the_two_kinds(tmp_path: Path, labels: tuple[Any, ...]) -> None:
    text = pairs_svg(tmp_path / "plane.svg", labels=labels)
    assert ">clean<" in text
    assert ">adversarial<" in text
    assert "class" not in text.split("</style>")[1]


def test_a_png_is_a_picture_and_a_name_is_no_formula(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plane = space()["coordinates"]
    path = tmp_path / "plane.png"
    write_plot(pairs_chart(plane, id="pairs", model="my$model_{x$", path=path), path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert [found.name for found in tmp_path.iterdir()] == ["plane.png"]


def test_a_file_that_cannot_hold_a_picture_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"\.png or \.svg"):
        check_plot(tmp_path / "plane.jpeg")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        check_plot(tmp_path / "folder.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UserError, match=r"pip install 'holdfast\[report\]'"):
        check_plot(tmp_path / "plane.png")
