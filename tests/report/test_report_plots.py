"""The page's figures as files."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from small_results import everything, space, write

from holdfast.errors import UserError
from holdfast.report import write_report
from holdfast.report.plots import check_plots


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
