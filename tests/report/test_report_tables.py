"""Tables of a report: scores, intervals, which is best, and what files hold."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from small_results import (
    STS,
    attack,
    audit,
    audit_of_both_sides,
    compare,
    evaluate,
    finetune,
    reproduce,
    result,
    row,
    space,
    transfer,
    write,
)

from holdfast import report
from holdfast.report import tables
from holdfast.report.cards import audit_cards, hardening_table
from holdfast.report.contents import make_contents
from holdfast.report.elements import Table, TableCell
from holdfast.report.export import as_csv, as_latex, as_markdown
from holdfast.report.model_scores import Score, best_of, share_interval, spearman_interval
from holdfast.report.result_sources import ReportSource, read_sources


def read(folder: Path, *made: dict[str, object], seeds: bool = False) -> list[ReportSource]:
    words = [write(folder / f"{n}.json", value) for n, value in enumerate(made)]
    return read_sources([",".join(words)] if seeds else words)


def texts(table: Table | None) -> list[list[str]]:
    assert table is not None
    return [[cell.plain for cell in line] for line in table.rows]


@pytest.mark.parametrize(("share", "n"), [(0.0, 10), (37.5, 40), (100.0, 7), (82.7, 966)])
def test_interval_of_a_share(share: float, n: int) -> None:
    found = stats.binomtest(round(share * n / 100), n).proportion_ci(method="wilson")
    exact = round(share * n / 100) * 100 / n
    assert share_interval(exact, n) == pytest.approx((100 * found.low, 100 * found.high), abs=1e-9)


def test_interval_of_a_spearman_correlation_covers() -> None:
    rng = np.random.default_rng(0)
    truth = 100 * 6 / np.pi * np.arcsin(0.8 / 2)  # of a normal distribution with Pearson correlation 0.8
    hits = 0
    for _ in range(300):
        x, e = rng.normal(size=(2, 200))
        found = spearman_interval(100 * float(stats.spearmanr(x, 0.8 * x + 0.6 * e).statistic), 200)
        assert found is not None
        hits += found[0] < truth < found[1]
    assert 0.92 < hits / 300 < 0.98
    assert spearman_interval(80.0, 3) is None
    assert spearman_interval(100.0, 30) is None


def test_the_best_is_bold_by_what_is_shown() -> None:
    scores = {name: {"x": Score((value,))} for name, value in {"a": 1.001, "b": 1.004, "c": 0.99}.items()}
    assert best_of(scores, "x") == {"a", "b"}
    assert best_of(scores, "x", digits=3) == {"b"}
    assert best_of(scores, "x", lowest=True) == {"c"}
    assert best_of({"a": scores["a"]}, "x") == set(), "of one there is no best"


def test_similarity_with_average_interval_and_seeds(tmp_path: Path) -> None:
    words = [write(tmp_path / f"{n}.json", evaluate(f"m{n}", 60.0 + n)) for n in range(3)]
    sources = read_sources([words[0], f"{words[1]},{words[2]}"])
    table = tables.similarity_table(tables.similarity_scores(sources))
    assert table.columns == ("model", *STS, "average")
    one, two = texts(table)
    low, high = spearman_interval(60.0, 1000) or (0, 0)
    assert one[:2] == ["m0", f"60.00 {low:.1f}–{high:.1f}"]
    assert one[-1] == "63.00"
    assert two[:2] == ["m1 (2 seeds)", "61.50 ± 0.71"]
    assert two[-1] == "64.50 ± 0.71"
    assert [cell.best for cell in table.rows[1]] == [False, *[True] * 8]
    assert not any(cell.best for cell in table.rows[0])


def test_an_average_is_of_all_seven_or_not_there(tmp_path: Path) -> None:
    made = evaluate("a", 60)
    made["results"] = made["results"][:6]
    table = tables.similarity_table(tables.similarity_scores(read(tmp_path, made, evaluate("b", 50))))
    assert texts(table)[0][-2:] == ["–", "–"]


def test_transfer_and_classifiers(tmp_path: Path) -> None:
    sources = read(tmp_path, evaluate("a", 60), finetune())
    table = tables.transfer_table(tables.transfer_scores(sources))
    assert texts(table)[0][0] == "a"
    assert table.columns == ("model", "mr"), "one task of seven has no average; a fine-tuned model has no transfer"
    (own,) = tables.classifier_tables(sources)
    assert own.columns == ("model", "mr held-out")
    assert texts(own)[0][1].startswith("82.70 80.")


def test_attacks(tmp_path: Path) -> None:
    (line, _) = texts(tables.attack_table(read(tmp_path, attack("runs/a", 60.0))))
    assert line == ["mr", "pwws", "a", "60.0 50.0–70.0", "12.0", "110.0", "80.0", "20.0", "30", "10"]


def test_seeds_of_attacks_are_told_apart(tmp_path: Path) -> None:
    sources = read(tmp_path, attack("runs/a-1", 60.0), attack("runs/a-2", 50.0), seeds=True)
    names = [line[2] for line in texts(tables.attack_table(sources))]
    assert names == [*["a-1 (2 seeds) 0"] * 2, *["a-1 (2 seeds) 1"] * 2]


def test_attacks_on_splits_of_a_task_are_told_apart(tmp_path: Path) -> None:
    made = [attack("runs/a", rate, split=split) for rate, split in ((20.0, "test"), (60.0, "dev"))]
    rows = texts(tables.attack_table(read(tmp_path, *made)))
    assert [(line[0], line[1], line[3].split()[0]) for line in rows] == [
        *(("mr", "pwws", "20.0"), ("mr", "typos", "21.0"), ("mr dev", "pwws", "60.0"), ("mr dev", "typos", "61.0")),
    ]


def test_space_and_distances(tmp_path: Path) -> None:
    sources = read(tmp_path, evaluate("a", 60.0), evaluate("b", 66.0), space("c"))
    table = tables.space_table(sources)
    assert table is not None
    assert [[cell.best for cell in line[1:]] for line in table.rows] == [[True, False], [False, True]]
    assert texts(tables.distance_table(sources)) == [
        ["c", "typos", "6", "0.500", "1.200", "0.700", "0.400", "1.100", "0.700"]
    ]


def test_the_report_card(tmp_path: Path) -> None:
    (source,) = read(tmp_path, audit())
    (table,) = audit_cards(source)
    assert [(cells[0].text, cells[1].verdict, cells[2].plain) for cells in table.rows] == [
        ("adversarial-typos", "breaks", "90.0 75.0–100.0"),
        ("case.lower", "holds", "0.990 0.980–1.000"),
        ("synonyms", "absent", "–"),
    ]


def test_the_report_card_has_two_sides(tmp_path: Path) -> None:
    (source,) = read(tmp_path, audit_of_both_sides("a", 0.9, 0.4))
    hold, move = audit_cards(source)
    assert [cells[0].text for cells in hold.rows] == ["typing", "typos"]
    assert [(cells[0].text, cells[2].plain) for cells in move.rows] == [("meaning", "0.400 0.300–0.500")]
    assert hold.title.endswith("should hold")
    assert move.title.endswith("should move")
    assert hold.id != move.id


def test_before_and_after_a_hardening(tmp_path: Path) -> None:
    paired = {"difference": -20.4, "difference_low": -29.0, "difference_high": -12.25, "p": 0.00001}
    sides = {
        "before": 28.6,
        "before_low": 19.4,
        "before_high": 37.8,
        "after": 8.2,
        "after_low": 3.1,
        "after_high": 14.3,
    }
    typos = row("audit-adversarial-typos", 100, "all", {**sides, **paired})
    spread = row("audit-vectors", 100, "all", {"before": 0.0166, "after": 0.02})
    rows = [
        {**typos, "metric": "success_rate", "verdicts": ["bends", "holds"]},
        {**spread, "metric": "different_texts", "verdicts": ["holds", "holds"]},
        {**row("sts average", 900, "test", {"before": 78.87, "after": 79.36}), "metric": "spearman", "verdicts": []},
    ]
    (source,) = read(tmp_path, result("harden", "new", rows))
    assert texts(hardening_table(source)) == [
        [
            *("adversarial-typos", "success rate", "28.6 19.4–37.8", "8.2 3.1–14.3"),
            *("-20.4 -29.0 to -12.2", "<0.0001", "bends", "holds"),
        ],
        ["vectors", "different texts", "0.017", "0.020", "–", "–", "holds", "holds"],
        ["sts average", "spearman", "78.87", "79.36", "–", "–", "–", "–"],
    ]
    sections = {section.id: section for section in make_contents([source], examples=1).sections}
    assert [table.title for table in sections["comparison"].tables] == ["Hardening: new"]


def test_compared_transferred_reproduced_and_unknown(tmp_path: Path) -> None:
    unknown = result("masks", "lm", [row("masks", 34, "layer 0", {"weakened_tokens": 16.3})])
    compared, transferred, reproduced, other = read(tmp_path, compare(), transfer(), reproduce(), unknown)
    assert texts(tables.comparison_table(compared)) == [
        ["stsb", "spearman", "A model", "B model", "900", "70.00", "72.00", "+2.00 -0.50 to +4.50", "<0.0001"]
    ]
    message = tables.comparison_table(compared).note
    assert message.endswith(
        "of queries, more than 0. Not compared: mr, in one result alone. Paired seed by seed: stsb."
    )
    assert texts(tables.transferability_table(transferred)) == [["a", "100.0", "40.0"], ["b", "35.0", "100.0"]]
    table = tables.reproduced_table(reproduced)
    assert table.columns == ("encoder", "Acc.", "Typos")
    assert texts(table) == [["NP", "56.2 (90.0)", "– (80.0)"]], "the scale smoke has no differences"
    assert "Not run: no data" in table.note
    reproduced.rows[0]["metrics"].update(low=50.0, high=62.0)
    (value, *_) = tables.reproduced_table(reproduced).rows[0][1:]
    assert (value.text, value.detail) == ("56.2", "[50.0, 62.0] (90.0)")
    assert texts(tables.other_table(other)) == [["masks layer 0", "34", "16.300"]]


def test_the_outcomes_of_a_check(tmp_path: Path) -> None:
    rows = [
        {**row("typos", 1, "all", {"value": 0.813, "baseline": 0.861, "p": 0.001}), "condition": "c 1", "failed": True},
        {**row("typos", 1, "all", {"value": 1.2}), "condition": "typos.pull > 2", "failed": False},
        {**row("vectors", 1, "all", {}), "condition": "c 3", "failed": None},
    ]
    (source,) = read(tmp_path, result("check", "lm", rows))
    sections = {section.id: section for section in make_contents([source], examples=1).sections}
    (table,) = sections["more"].tables
    assert table.columns == ("condition", "outcome", "value", "baseline", "p")
    assert texts(table) == [
        ["c 1", "failed", "0.813", "0.861", "0.0010"],
        ["typos.pull > 2", "passed", "1.200", "–", "–"],
        ["c 3", "not comparable", "–", "–", "–"],
    ]


def test_results_of_attacks_on_one_model_are_lines_of_their_own() -> None:
    def made(recipe: str, path: str, rate: float) -> dict[str, Any]:
        return {"made_against": "a", "made_in": path, "recipe": recipe, "on": "b", "metrics": {"success_rate": rate}}

    rows = [made("pwws", "1.json", 10.0), made("typos", "2.json", 90.0)]
    assert tables.transfer_matrix(rows) == (["b"], [("a (pwws)", {"b": 10.0}), ("a (typos)", {"b": 90.0})])
    rows = [made("pwws", "1.json", 10.0), made("pwws", "2.json", 90.0)]
    assert tables.transfer_matrix(rows)[1] == [("a (1.json)", {"b": 10.0}), ("a (2.json)", {"b": 90.0})]


WILD = Table(
    "t",
    "A | title <b>",
    ("model", "=cmd|'/C calc'!A1"),
    (
        (TableCell('=HYPERLINK("http://x")'), TableCell("-2.00", "-0.5 to 4", best=True)),
        (TableCell('a,b\n"c" <i>|_x'), TableCell("50 %")),
    ),
)


def test_csv_keeps_cells_and_computes_nothing() -> None:
    lines = list(csv.reader(io.StringIO(as_csv(WILD))))
    assert lines == [
        ["model", "'=cmd|'/C calc'!A1"],
        ['\'=HYPERLINK("http://x")', "-2.00 -0.5 to 4"],
        ['a,b\n"c" <i>|_x', "50 %"],
    ]


@pytest.mark.parametrize("text", ["-1 +cmd|' /C calc'!A0", "+1+1", "@SUM(A1)", "-x"])
def test_what_only_begins_like_a_number_is_inert_too(text: str) -> None:
    assert f"'{text}" in as_csv(Table("t", "t", ("model",), ((TableCell(text),),)))


BLANKS = ("", " ", "\n", "\r\n ", "\xa0", "\ufeff", "\u2003")
FORMULAS = [*(f"{blank}{sign}1" for sign in "=+-@＝＋－＠" for blank in BLANKS), "\t=1", "\tx", "\nx", "\rx"]


@pytest.mark.parametrize("text", FORMULAS, ids=ascii)
def test_a_formula_behind_blanks_is_inert_in_both_downloads(text: str) -> None:
    if text not in ("+1", "-1"):  # those are numbers
        assert as_csv(Table("t", "t", (text,), ())) == f'"\'{text}"\n'
    script = (Path(report.__file__).parent / "page" / "script.js").read_text(encoding="utf-8")
    (pattern,) = re.findall(r"\(/\^(\S+)/\.test\(text\)", script)
    assert re.match(pattern, text), "the download of examples"
    assert not any(re.match(pattern, good) for good in ("a dog", "", "1 + 1", " 'a'", "né", "“x”"))


def test_a_cell_is_one_where_semicolons_end_cells_too() -> None:
    assert '"a;=1"' in as_csv(Table("t", "t", ("model",), ((TableCell("a;=1"),),)))


def test_markdown_is_a_table_without_markup_of_its_texts() -> None:
    text = as_markdown(WILD)
    assert text.splitlines()[0] == r"**A \| title \<b\>**"
    assert r'| a,b "c" \<i\>\|\_x | 50 % |' in text
    assert "**-2.00** -0.5 to 4" in text
    assert "| --- | ---: |" in text


def test_latex_is_escaped() -> None:
    text = as_latex(WILD)
    assert r"\textbf{-2.00} -0.5 to 4 \\" in text
    assert r"50 \% \\" in text
    assert r"\begin{tabular}{lr}" in text
    assert r"\textless{}i\textgreater{}\textbar{}\_x" in text, "in OT1 these three print as other signs"


def test_latex_rows_begin_no_argument_of_what_precedes_them() -> None:
    table = Table(
        "t", "t", ("*", "p"), ((TableCell("[cls]"), TableCell("<0.0001")), (TableCell("a"), TableCell("[x]")))
    )
    rows = [line for line in as_latex(table).splitlines() if line.endswith(r"\\")]
    assert rows == [r"{}* & p \\", r"{}[cls] & \textless{}0.0001 \\", r"a & [x] \\"]


def test_differences_of_a_reproduced_table(tmp_path: Path) -> None:
    plain = reproduce()
    labels = [{"encoder": "NP"}, {"encoder": "SimCSE"}]
    plain["results"] = [
        row(own["encoder"], 1, "Acc.", {"mean": 50.0}, labels=own, published=None, not_run=[], values=[50.0])
        for own in labels
    ]
    found = {"baseline": 50.0, "other": 48.0, "difference": -2.0, "low": -3.04, "high": 0.5, "p": 0.12}
    compared = [{"task": "SimCSE", "split": "Acc.", "labels": labels[1], "digits": 1, "n": 300, "metrics": found}]
    protocol = {**plain["protocol"], "against": "NP"}
    made = {
        **plain,
        "protocol": protocol,
        "differences": {"results": compared, "notes": ["A note."], "resamples": 2000},
    }
    (source,) = read(tmp_path, made)
    table = tables.differences_table(source)
    assert table is not None
    assert table.title == "Differences from NP, on the same items"
    assert table.columns == ("encoder", "Acc.")
    assert texts(table) == [["SimCSE", "−2.0 [−3.0, +0.5], p 0.1200"]]
    assert table.note.startswith("Each comparison has 300 items;")
    assert table.note.endswith("A note.")
    (section,) = (each for each in make_contents([source], examples=1).sections if each.id == "reproduced")
    assert [each.title for each in section.tables] == ["Small table", table.title]
    (bare,) = read(tmp_path, plain)
    assert tables.differences_table(bare) is None
    (none,) = read(tmp_path, {**made, "differences": {"results": [], "notes": [], "resamples": 2000}})
    assert tables.differences_table(none) is None


def test_tasks_of_mteb_have_a_table_of_their_own(tmp_path: Path) -> None:
    def scored(model: str, scores: dict[str, float], **more: Any) -> dict[str, Any]:
        own = {"accuracy": 0.5, "spearman": 0.4}  # mteb's names of measures, which are those of our own tables
        rows = [row(f"mteb:{task}", metrics={**own, "main_score": score}) for task, score in scores.items()]
        return result("evaluate", model, [*rows, row("mr", 500, "all", {"accuracy": 80.0})], **more)

    made = (scored("runs/a", {"STS12": 0.7, "BIOSSES": 0.5}), scored("runs/b", {"STS12": 0.75}))
    contents = make_contents(read(tmp_path, *made), examples=0)
    by_id = {table.id: table for table in contents.tables}
    table = by_id["mteb"]
    assert table.columns == ("model", "STS12", "BIOSSES", "average")
    assert texts(table) == [["a", "70.00", "50.00", "60.00"], ["b", "75.00", "–", "–"]]
    assert [cell.best for cell in (table.rows[0][1], table.rows[1][1])] == [False, True]
    assert by_id["transfer"].columns == ("model", "mr"), "mteb's accuracies are not x100, nor of the same protocol"
    assert "similarity" not in by_id


def test_a_task_of_mteb_counts_once_in_the_average(tmp_path: Path) -> None:
    splits = {"STS12": {"test": 0.9}, "STS22": {"test de": 0.3, "test fr": 0.3, "test es": 0.3}}
    rows = [
        row(f"mteb:{task}", split=split, metrics={"main_score": score})
        for task, own in splits.items()
        for split, score in own.items()
    ]
    table = tables.mteb_table(tables.mteb_scores(read(tmp_path, result("evaluate", "runs/a", rows))))
    assert texts(table)[0][-1] == "60.00"
    assert len(table.columns) == 6
