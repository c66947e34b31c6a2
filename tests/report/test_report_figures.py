"""Figures of a report as values, and as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from small_results import attack, audit, audit_of_both_sides, evaluate, everything, result, space, train, write

from holdfast.errors import UserError
from holdfast.report.audit_figures import noise_bars, sides_chart
from holdfast.report.axes import around, decimals_of, linear, logarithmic, tick_labels
from holdfast.report.contents import make_contents
from holdfast.report.elements import Bar, Bars, Chart, Table
from holdfast.report.figures import (
    audit_bars,
    pairs_charts,
    queries_charts,
    seconds_per_step,
    shades_of,
    space_chart,
    step_bars,
    success_bars,
)
from holdfast.report.result_sources import ReportSource, models_of, read_sources
from holdfast.report.svg import draw, tag
from holdfast.report.tables import similarity_scores, space_scores


def read(folder: Path, *made: dict[str, object]) -> tuple[list[ReportSource], dict[str, str]]:
    sources = read_sources([write(folder / f"{n}.json", value) for n, value in enumerate(made)])
    return sources, {label: f"c{n}" for n, label in enumerate(models_of(sources))}


def test_success_by_recipe_and_model(tmp_path: Path) -> None:
    sources, colours = read(tmp_path, attack("a", 60.0), attack("b", 30.0))
    (bars,) = success_bars(sources, colours)
    assert bars.title == "Attack success on mr"
    assert [name for name, _ in bars.groups] == ["pwws", "typos"]
    first = bars.groups[0][1]
    assert [(bar.label, bar.value, bar.low, bar.high) for bar in first] == [("a", 60, 50, 70), ("b", 30, 20, 40)]
    assert first[0].colour != first[1].colour
    assert len(bars.data.rows) == 4


def test_success_of_seeds_is_their_mean_between_the_lowest_and_the_highest(tmp_path: Path) -> None:
    words = [write(tmp_path / f"{n}.json", attack(f"a-{n}", 40.0 + 10 * n)) for n in (1, 2)]
    sources = read_sources([",".join(words)])
    (bars,) = success_bars(sources, {"a-1 (2 seeds)": "c0"})
    ((bar,), _) = (own for _, own in bars.groups)
    assert (bar.value, bar.low, bar.high) == (55.0, 50.0, 60.0)


def test_an_attack_on_no_text_has_no_figure(tmp_path: Path) -> None:
    made = attack("a", 60.0)
    for line in made["results"]:
        line["metrics"].pop("success_rate")
    assert success_bars(*read(tmp_path, made)) == []


def test_a_negative_value_is_a_bar_to_the_left_of_zero() -> None:
    bars = (Bar("a", 0.5, None, None, "c0", ""), Bar("b", -0.3, -0.5, -0.1, "c1", ""))
    figure = Bars("f", "t", "n", "stability", (("typos", bars),), Table("d", "t", (), ()))
    drawn = ET.fromstring(str(draw(figure)))
    (_, right, middle_1), (_, left, middle_2) = (
        (float(one.get("y") or 0), float(one.get("x") or 0), float(one.get("x") or 0) + float(one.get("width") or 0))
        for one in drawn.iter("rect")
        if "fill" in (one.get("class") or "")
    )
    assert left < middle_2 == pytest.approx(right), "it ends where the other begins, at 0"
    assert (middle_1 - right) / (middle_2 - left) == pytest.approx(0.5 / 0.3, rel=1e-3)


def test_splits_of_a_task_are_no_seeds_of_one_attack(tmp_path: Path) -> None:
    sources, colours = read(tmp_path, attack("a", 20.0, split="test"), attack("a", 60.0, split="dev"))
    bars = success_bars(sources, colours)
    assert [figure.title for figure in bars] == ["Attack success on mr", "Attack success on mr dev"]
    assert [figure.groups[0][1][0].value for figure in bars] == [20.0, 60.0]
    assert not any("seeds" in figure.note for figure in bars)
    charts = queries_charts(sources, colours)
    assert [chart.title for chart in charts] == [
        f"Queries against the drop of accuracy on {on}" for on in ("mr", "mr dev")
    ]
    assert [len(chart.marks) for chart in charts] == [2, 2]


def test_queries_against_the_drop_join_recipes(tmp_path: Path) -> None:
    sources, colours = read(tmp_path, attack("a", 60.0), attack("b", 30.0))
    (chart,) = queries_charts(sources, colours)
    places = {(mark.x, mark.y, mark.colour, mark.shape) for mark in chart.marks}
    assert (110.0, 60.0, "c0", "circle") in places
    assert (80.0, 30.0, "c1", "circle") in places
    assert len(places) == 4
    assert [line.points for line in chart.lines] == [((80.0, 30.0), (110.0, 60.0)), ((90.0, 30.0), (120.0, 60.0))]


def test_attacks_without_right_answers_have_no_drop(tmp_path: Path) -> None:
    made = attack("a", 60.0)
    for line in made["results"]:
        del line["metrics"]["accuracy"]
    sources, colours = read(tmp_path, made)
    assert queries_charts(sources, colours) == []


def test_alignment_and_uniformity_in_shades_of_the_average(tmp_path: Path) -> None:
    sources, colours = read(tmp_path, evaluate("a", 60.0), evaluate("b", 63.0))
    chart = space_chart(space_scores(sources), similarity_scores(sources), colours)
    assert chart is not None
    assert [(m.x, m.y, m.colour, m.shape) for m in chart.marks] == [
        (-2.0, 0.2, "q0", "circle"),
        (-2.1, 0.21, "q4", "diamond"),
    ]
    assert len(chart.legend) == 5
    assert shades_of({"a": 1.0, "b": 1.5, "c": 2.0}) == {"a": "q0", "b": "q2", "c": "q4"}


def test_pairs_are_joined_and_coloured_by_class(tmp_path: Path) -> None:
    sources, _ = read(tmp_path, space())
    (chart,) = pairs_charts(sources)
    assert chart.bare
    assert len(chart.lines) == 6
    assert chart.lines[1].points == ((1 / 6, 0.5), (1 / 6 + 0.05, 0.5))
    assert {mark.colour for mark in chart.marks} == {"c0", "c1"}
    assert [mark.hollow for mark in chart.marks[:2]] == [True, False]
    assert len(chart.legend) == 4
    scored, _ = read(tmp_path, space(labels=(1.5, 2.5)))
    (chart,) = pairs_charts(scored)
    assert [key.name for key in chart.legend] == ["clean", "adversarial"]


@pytest.mark.parametrize("points", [None, [], [{"pair": 0, "kind": "clean", "x": 0, "y": 0, "text": "a"}], ["x"]])
def test_coordinates_that_are_none_are_refused(tmp_path: Path, points: object) -> None:
    sources, _ = read(tmp_path, result("space", coordinates={"points": points}))
    with pytest.raises(UserError, match="coordinates"):
        pairs_charts(sources)


def test_audits_are_drawn_with_hold_against_move_and_peoples_noise_beside_synthetic(tmp_path: Path) -> None:
    sources, colours = read(tmp_path, audit_of_both_sides("a", 0.9, 0.4), audit_of_both_sides("b", 0.7, 0.8))
    chart = sides_chart(sources, colours)
    assert chart is not None
    assert [(mark.label, round(mark.x, 3), mark.y) for mark in chart.marks] == [("a", 0.8, 0.4), ("b", 0.6, 0.8)]
    assert ((0.0, 0.5), (1.0, 0.5)) in [line.points for line in chart.lines]
    bars = noise_bars(sources, colours)
    assert bars is not None
    assert [(name, [bar.value for bar in own]) for name, own in bars.groups] == [
        ("typing (human noise)", [pytest.approx(0.7), pytest.approx(0.5)]),
        ("typos (synthetic noise)", [0.9, 0.7]),
    ]
    old, colours = read(tmp_path / "old", audit())
    assert sides_chart(old, colours) is None, "no move edits"
    assert noise_bars(old, colours) is None


def test_audits_are_compared_by_the_items_that_all_have(tmp_path: Path) -> None:
    less = audit_of_both_sides("b", 0.7, 0.8)
    less["results"] = [row for row in less["results"] if row["task"] != "audit-typing"]
    sources, colours = read(tmp_path, audit_of_both_sides("a", 0.9, 0.4), less)
    chart = sides_chart(sources, colours)
    assert chart is not None
    assert [(mark.label, round(mark.x, 3)) for mark in chart.marks] == [("a", 0.9), ("b", 0.7)]
    assert "the one hold item that all audits have" in chart.note


def test_audits_of_seeds_are_drawn_once_by_their_mean(tmp_path: Path) -> None:
    both = [audit_of_both_sides(f"a-{n}", *values) for n, values in enumerate(((0.9, 0.4), (0.7, 0.8)), start=1)]
    words = [write(tmp_path / f"{n}.json", value) for n, value in enumerate(both)]
    sources, colours = read_sources([",".join(words)]), {"a-1 (2 seeds)": "c0"}
    chart, bars = sides_chart(sources, colours), noise_bars(sources, colours)
    assert chart is not None
    assert bars is not None
    (mark,) = chart.marks
    assert (mark.x, mark.y) == pytest.approx((0.7, 0.6))
    assert [len(own) for _, own in bars.groups] == [1, 1]
    (bar,) = bars.groups[1][1]
    assert (bar.value, bar.low, bar.high) == pytest.approx((0.8, 0.7, 0.9))
    attacked = [write(tmp_path / f"attacked-{n}.json", {**audit(), "model": f"b-{n}"}) for n in (1, 2)]
    success = audit_bars(read_sources([",".join(attacked)]), {"b-1 (2 seeds)": "c0"})
    assert success is not None
    assert [len(own) for _, own in success.groups] == [1]


def test_audits_and_step_costs(tmp_path: Path) -> None:
    sources, colours = read(tmp_path, audit())
    bars = audit_bars(sources, colours)
    assert bars is not None
    assert [(name, own[0].value) for name, own in bars.groups] == [("adversarial-typos", 90.0)]
    (run,) = read_sources([train(tmp_path / "run")])
    assert seconds_per_step(run) == pytest.approx((81.0 - 3 * 2.0) / 75)
    steps = step_bars([run], {"run": "c0"})
    assert steps is not None
    assert steps.groups[0][0] == "batch 64, bf16, cpu"


def test_a_bar_and_its_table_have_the_digits_that_tell_its_number(tmp_path: Path) -> None:
    words = [
        train(tmp_path / name, timing={"train_seconds": 6.0 + 75 * s}) for name, s in (("x", 0.004), ("y", 0.0003))
    ]
    bars = step_bars(read_sources(words), {"x": "c0", "y": "c1"})
    assert bars is not None
    texts = [one.text for one in ET.fromstring(str(draw(bars))).iter("text") if one.get("class") == "value"]
    assert texts == ["0.0040", "0.00030"]
    assert [line[2].text for line in bars.data.rows] == ["0.00400", "0.00030"]
    assert [bar.message for bar in bars.groups[0][1]] == ["0.0040 s a step", "0.00030 s a step"]
    assert [decimals_of(value) for value in (0.0, 0.0999, 0.5, 9.9, 10.0, 60.0)] == [2, 2, 2, 2, 1, 1]


@pytest.mark.parametrize(
    ("values", "ticks"),
    [([0.0, 1.0], (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)), ([3.0, 3.0], (1.0, 2.0, 3.0, 4.0, 5.0)), ([-0.3, 0.1], None)],
)
def test_ticks_are_round_and_hold_the_values(values: list[float], ticks: tuple[float, ...] | None) -> None:
    scale = linear(values)
    assert scale.low <= min(values) < max(values) + 1e-9 <= scale.high + 1e-9 or scale.low < scale.high
    if ticks:
        assert scale.ticks == ticks
    assert all(abs(tick * 1000 - round(tick * 1000)) < 1e-9 for tick in scale.ticks)


def test_axes() -> None:
    scale = around([10.0, 20.0])
    assert (scale.low, scale.high) == (9.5, 20.5)
    assert [name for _, name in tick_labels(scale)] == ["10", "12", "14", "16", "18", "20"]
    assert tick_labels(linear([-0.25, 0.5], about=4))[0][1].startswith("−")
    assert around([5.0, 10.0], zero=True).low == 0.0
    log = logarithmic([0.002, 3.0])
    assert (log.low, log.high) == (0.001, 10.0)
    assert log.share(0.1) == pytest.approx(0.5)


def test_every_figure_is_well_formed_and_holds_every_point(tmp_path: Path) -> None:
    contents = make_contents(read_sources(everything(tmp_path)), examples=10)
    kinds = {figure.id.rstrip("0123456789-") for figure in contents.figures}
    assert kinds == {
        *(
            "alignment-uniformity",
            "pairs",
            "success",
            "queries",
            "audit-success",
            "hold-move",
            "noise",
            "dev",
            "loss",
            "rise",
            "step-cost",
        ),
    }
    for figure in contents.figures:
        tree = ET.fromstring(str(draw(figure)))
        drawn = [one for one in tree.iter() if one.tag in ("rect", "circle", "polygon")]
        if isinstance(figure, Chart):
            assert len(drawn) == len(figure.marks)
            assert len(list(tree.iter("polyline"))) == len(figure.lines)
        else:
            assert len(drawn) == sum(len(own) for _, own in figure.groups)
        numbers = [float(one.get(key) or 0) for one in drawn for key in ("x", "y", "cx", "cy", "width") if one.get(key)]
        assert all(-1 <= number <= 700 for number in numbers)
        assert tree.find("title") is not None
        assert tree.get("role") == "img"


def test_svg_escapes_content_and_attributes() -> None:
    wild = "\"><script>alert(1)</script>&'"
    made = str(tag("text", wild, tag("title", wild), x=1.0, class_=wild))
    tree = ET.fromstring(made)
    assert tree.text == wild
    assert tree.get("class") == wild
    assert tree.get("x") == "1"
    assert [one.tag for one in tree.iter()] == ["text", "title"]
