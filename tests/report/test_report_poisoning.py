"""Poisoning of a corpus in a report: the chart of success against depth, and the table of controls and detectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_results import WILD, attack, example, result, row, write

from holdfast.report.contents import make_contents
from holdfast.report.html import render_page
from holdfast.report.poisoning import poisoning_charts, poisoning_tables
from holdfast.report.result_sources import ReportSource, models_of, read_sources
from holdfast.report.svg import draw


def poisoned(model: str, success: float, corpus: str = "there/pets.jsonl", **more: Any) -> dict[str, Any]:
    rows = []
    for place, recipe in enumerate(("hotflip", "natural")):
        metrics: dict[str, float] = {"success_rate": success, "hub_recall": 100.0, "hub_false_alarms": 5.0}
        for k in (1, 10, 20):
            for kind, value in {"success": success + k - 10 * place, "ordinary": float(k), "random": k / 2}.items():
                metrics |= {f"{kind}@{k}": value, f"{kind}@{k}_low": value - 1, f"{kind}@{k}_high": value + 1}
        rows.append(row("poison", 50, "all", metrics, recipe=recipe))
    goal = {"kind": "poison", "searched": {"source": f"/data/{corpus}"}}
    made = [example(0, "hotflip", label=None, before={"value": 0.1}, after={"value": 0.3}, changed=[])]
    return result(
        "attack", model, rows, protocol={"goal": goal, "task": "poison", "split": "all"}, examples=made, **more
    )


def read(folder: Path, *made: dict[str, Any], seeds: bool = False) -> tuple[list[ReportSource], dict[str, str]]:
    words = [write(folder / f"{n}.json", value) for n, value in enumerate(made)]
    sources = read_sources([",".join(words)] if seeds else words)
    return sources, {label: f"c{n}" for n, label in enumerate(models_of(sources))}


def test_success_against_depth(tmp_path: Path) -> None:
    sources, colours = read(tmp_path, poisoned("a", 60.0), poisoned("b", 40.0), poisoned("a", 20.0, "here/cars.txt"))
    first, second = poisoning_charts(sources, colours)
    assert (first.title, second.title) == (
        "Success against depth: there/pets.jsonl",
        "Success against depth: here/cars.txt",
    )
    curves = [(line.points, line.colour) for line in first.lines if not line.dotted]
    assert curves[0] == (((1.0, 61.0), (10.0, 70.0), (20.0, 80.0)), "c0")
    assert curves[1] == (((1.0, 51.0), (10.0, 60.0), (20.0, 70.0)), "c0")
    assert len(curves) == 4
    dotted = [line for line in first.lines if line.dotted]
    assert [line.points for line in dotted] == [((1.0, 1.0), (10.0, 10.0), (20.0, 20.0))] * 2
    assert [key.name for key in first.legend] == ["a", "b", "hotflip", "natural"]
    assert len(first.data.rows) == 2 * 2 * 3
    assert "<path" in str(draw(first)) or "<polyline" in str(draw(first))


def test_the_table_has_controls_and_detectors(tmp_path: Path) -> None:
    sources, _ = read(tmp_path, poisoned("a", 60.0))
    (table,) = poisoning_tables(sources)
    assert table.columns[2:7] == (
        "top 1, %",
        "top 10, %",
        "top 20, %",
        "as many documents, top 10",
        "as many random texts, top 10",
    )
    hotflip = [cell.plain for cell in table.rows[0]]
    assert hotflip[:7] == [
        "hotflip",
        "a",
        "61.0 60.0–62.0",
        "70.0 69.0–71.0",
        "80.0 79.0–81.0",
        "10.0 9.0–11.0",
        "5.0 4.0–6.0",
    ]
    assert hotflip[7:] == ["100.0", "5.0", "–", "–"]


def test_seeds_are_averaged(tmp_path: Path) -> None:
    sources, colours = read(tmp_path, poisoned("a", 60.0, seed=1), poisoned("a", 40.0, seed=2), seeds=True)
    (chart,) = poisoning_charts(sources, colours)
    assert chart.lines[0].points[0] == (1.0, pytest.approx(51.0))
    (table,) = poisoning_tables(sources)
    assert table.rows[0][2].plain == "51.0 ± 14.1"


def test_it_is_a_section_of_its_own_apart_from_other_attacks(tmp_path: Path) -> None:
    sources, _ = read(tmp_path, poisoned(WILD, 60.0, WILD), attack("b", 50.0))
    contents = make_contents(sources, examples=10)
    sections = {section.id: section for section in contents.sections}
    assert len(sections["poisoning"].figures) == len(sections["poisoning"].tables) == 1
    assert all("poison" not in figure.title for figure in sections["attacks"].figures)
    assert "poison" not in str(sections["attacks"].tables)
    page = render_page(contents, title="t")
    assert "Poisoning of a corpus" in page
    assert "<script>hit()" not in page
