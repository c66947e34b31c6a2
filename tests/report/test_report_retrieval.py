"""Retrieval in a report: the figure and the tables of clean and noisy queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_results import WILD, evaluate, result, row, write

from holdfast.report.contents import make_contents
from holdfast.report.elements import MUTED
from holdfast.report.html import render_page
from holdfast.report.result_sources import ReportSource, models_of, read_sources
from holdfast.report.retrieval import retrieval_bars, retrieval_tables
from holdfast.report.svg import draw


def retrieval(
    model: str, recall: float, *, data: str = "pets", systems: tuple[str, ...] = ("encoder",)
) -> dict[str, Any]:
    rows = []
    for place, system in enumerate(systems):
        for split, lost in (("queries", 0.0), ("queries-keyboard", 20.0)):
            metrics = {"recall@1": recall + place - lost, "ndcg@10": recall + 5 + place - lost}
            found = {"difference": -lost, "low": -lost - 4, "high": -lost + 4, "p": 0.01}
            against = {"clean": dict.fromkeys(metrics, found)} if lost else {}
            more = {"system": system, "data": data, "against": against}
            rows.append(row("retrieval", 100, split, metrics, **more))
    return result("evaluate", model, rows)


def read(folder: Path, *made: dict[str, Any], seeds: bool = False) -> tuple[list[ReportSource], dict[str, str]]:
    words = [write(folder / f"{n}.json", value) for n, value in enumerate(made)]
    sources = read_sources([",".join(words)] if seeds else words)
    return sources, {label: f"c{n}" for n, label in enumerate(models_of(sources))}


def test_bars_by_version_model_and_system(tmp_path: Path) -> None:
    systems = ("encoder", "bm25", "spelling")
    sources, colours = read(tmp_path, retrieval("a", 80.0, systems=systems), retrieval("b", 60.0, systems=systems))
    (bars,) = retrieval_bars(sources, colours)
    assert bars.title == "Retrieval under noise: pets"
    assert [name for name, _ in bars.groups] == ["clean", "keyboard"]
    clean = bars.groups[0][1]
    assert [(bar.label, bar.value, bar.colour) for bar in clean] == [
        ("a", 80.0, "c0"),
        ("bm25", 81.0, MUTED),
        ("a + spelling", 82.0, "c0"),
        ("b", 60.0, "c1"),
        ("b + spelling", 62.0, "c1"),
    ]
    assert clean[0].low == pytest.approx(71.1, abs=0.1)
    assert [bar.value for bar in bars.groups[1][1]] == [60.0, 61.0, 62.0, 40.0, 42.0]
    assert len(bars.data.rows) == 10
    assert str(draw(bars)).count("<rect") >= 10


def test_tables_with_differences_to_clean_queries(tmp_path: Path) -> None:
    sources, _ = read(tmp_path, retrieval("a", 80.0), retrieval("b", 70.0, data="cars"))
    pets, pets_ndcg, cars, _ = retrieval_tables(sources)
    assert (pets.title, pets_ndcg.title, cars.title) == ("Recall@1: pets", "nDCG@10: pets", "Recall@1: cars")
    assert pets.columns == ("model", "clean", "keyboard")
    ((label, clean, keyboard),) = pets.rows
    assert (label.text, clean.text, clean.detail) == ("a", "80.0", "")
    assert (keyboard.text, keyboard.detail) == ("60.0", "-20.0 (-24.0 to -16.0)")
    assert pets_ndcg.rows[0][2].text == "65.0"


def test_a_comparison_is_no_measurement(tmp_path: Path) -> None:
    compared = {"baseline": 80.0, "other": 70.0, "difference": -10.0, "low": -12.0, "high": -8.0, "p": 0.01}
    rows = [{**row("retrieval", 100, "queries pets", compared), "metric": "recall@1", "seeds": [1, 1], "test": "t"}]
    sources, colours = read(tmp_path, retrieval("a", 80.0), result("compare", "a", rows))
    (bars,) = retrieval_bars(sources, colours)
    assert [bar.label for bar in bars.groups[0][1]] == ["a"]
    assert len(retrieval_tables(sources)) == 2


def test_searches_by_other_labels_stand_apart(tmp_path: Path) -> None:
    made = [retrieval("a", recall, systems=("encoder", "bm25")) for recall in (80.0, 60.0)]
    for each, qrels in zip(made, ("test", "dev"), strict=True):
        for line in each["results"]:
            line["qrels"] = qrels
    sources, colours = read(tmp_path, *made)
    found = {bars.title: [bar.value for bar in bars.groups[0][1]] for bars in retrieval_bars(sources, colours)}
    assert found == {
        "Retrieval under noise: pets, test": [80.0, 81.0],
        "Retrieval under noise: pets, dev": [60.0, 61.0],
    }


def test_seeds_are_joined(tmp_path: Path) -> None:
    sources, colours = read(tmp_path, retrieval("a", 80.0), retrieval("b", 70.0), seeds=True)
    (bars,) = retrieval_bars(sources, colours)
    ((bar,), _) = (own for _, own in bars.groups)
    assert (bar.value, bar.low, bar.high) == (75.0, 70.0, 80.0)
    assert retrieval_tables(sources)[0].rows[0][1].detail == "± 7.1"


def test_a_model_on_two_collections_keeps_its_name(tmp_path: Path) -> None:
    sources, _ = read(tmp_path, retrieval("a", 80.0), retrieval("a", 70.0, data="cars"))
    assert [source.label for source in sources] == ["a", "a"]


def test_the_page_has_a_section_only_with_such_rows(tmp_path: Path) -> None:
    sources, _ = read(tmp_path, evaluate("a", 70.0), retrieval("b", 80.0, data=WILD))
    contents = make_contents(sources, examples=0)
    assert [section.id for section in contents.sections] == ["quality", "retrieval"]
    page = render_page(contents, title="t")
    assert "Retrieval under noise" in page
    assert "<script>hit()" not in page
    sources, _ = read(tmp_path / "more", evaluate("a", 70.0))
    assert "retrieval" not in [section.id for section in make_contents(sources, examples=0).sections]


def test_the_interval_of_a_recall_that_is_no_proportion_is_that_of_its_queries(tmp_path: Path) -> None:
    shares = [0.0, 1 / 3, 1 / 3, 0.5] * 10
    made = result("evaluate", "a", [row("retrieval", 40, "queries", {"recall@1": 100 * sum(shares) / 40}, data="pets")])
    names = ("mrr@10", "ndcg@10", "recall@1", "recall@10", "recall@100")
    made["results"][0]["items"] = dict.fromkeys(names, shares)
    sources, colours = read(tmp_path, made)
    ((bar,),) = (own for _, own in retrieval_bars(sources, colours)[0].groups)
    assert (bar.low, bar.high) == pytest.approx((23.8, 34.6), abs=1.0)  # Wilson's is 17.5 to 44.5
    assert "items" not in sources[0].rows[0]
