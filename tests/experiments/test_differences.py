"""Rows of a table against one of them, on the same items."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_table import TABLE

from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.evaluation.pairing.compare_inputs import read_side
from holdfast.evaluation.pairing.rows import compare
from holdfast.evaluation.sts import STS_TASKS
from holdfast.experiments import cell_execution
from holdfast.experiments.baseline_values import baselines
from holdfast.experiments.differences import differences
from holdfast.experiments.plan import plan
from holdfast.experiments.render import differences_laid_out, differences_notes, markdown
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import reproduce
from holdfast.results import new_result, read_result

Settings = Callable[..., ReproduceSettings]

AXES = {f"{data} {method}": {"data": data, "method": method} for data in ("AG", "MR") for method in ("NP", "SimCSE")}


# --- which row with which ----------------------------------------------------------------------------------------


def baseline_rows(rows: dict[str, dict[str, str]], against: str) -> dict[str, str]:
    """The baseline row of each row, which is the same in every column."""
    found = baselines(rows, ["Acc.", "PWWS"], against)
    assert all(column == other for (_, column), (_, other) in found.items())
    assert {row for row, column in found if column == "Acc."} == {row for row, column in found if column == "PWWS"}
    return {row: partner for (row, _), (partner, _) in found.items()}


def test_a_row_is_compared_with_the_one_that_is_named() -> None:
    assert baseline_rows(AXES, "AG NP") == {"AG SimCSE": "AG NP", "MR NP": "AG NP", "MR SimCSE": "AG NP"}


def test_a_row_is_compared_with_the_one_that_is_the_same_but_for_an_axis() -> None:
    assert baseline_rows(AXES, "method=NP") == {"AG SimCSE": "AG NP", "MR SimCSE": "MR NP"}
    assert baseline_rows(AXES, "data=MR") == {"AG NP": "MR NP", "AG SimCSE": "MR SimCSE"}
    without = {name: labels for name, labels in AXES.items() if name != "MR NP"}
    assert baseline_rows(without, "method=NP") == {"AG SimCSE": "AG NP"}
    assert baseline_rows({"a=b": {"x": "a=b"}, "c": {"x": "c"}}, "a=b") == {"c": "a=b"}
    assert baseline_rows({"a=b": {"x": "a=b"}, "c": {"x": "c"}}, "x=a=b") == {"c": "a=b"}


def test_a_column_is_compared_with_the_one_that_is_named() -> None:
    rows = {"BERT": {"x": "BERT"}, "MPNet": {"x": "MPNet"}}
    assert baselines(rows, ["λ 0", "λ 1", "Avg."], "λ 0") == {
        (row, column): (row, "λ 0") for row in rows for column in ("λ 1", "Avg.")
    }
    assert baselines({"λ 0": {"x": "λ 0"}, "b": {"x": "b"}}, ["λ 0", "c"], "λ 0").keys() == {("b", "λ 0"), ("b", "c")}


@pytest.mark.parametrize(
    ("against", "line"),
    [
        (
            "SimCSE",
            r"'SimCSE' names no row or column.*; rows: AG NP, AG SimCSE, MR NP, MR SimCSE; or AXIS=LABEL, such as "
            r"data=AG; columns: Acc., PWWS$",
        ),
        ("method=NPP", r"'method=NPP' names no row or column \(did you mean 'method=NP'\?\); rows: AG NP, "),
        ("methods=NP", r"did you mean 'method=NP'"),
        ("Acc", r"did you mean 'Acc.'"),
    ],
)
def test_a_row_that_is_not_there_is_one_line_with_those_that_are(against: str, line: str) -> None:
    with pytest.raises(UserError, match=line):
        baselines(AXES, ["Acc.", "PWWS"], against)


# --- which values, and what is told of them ----------------------------------------------------------------------


def value(row: str, column: str, measure: str, *cells: str, **more: Any) -> dict[str, Any]:
    message = {"task": row, "split": column, "labels": {"x": row}, "digits": 1, "measure": measure}
    seeds = list(range(1, 1 + len(cells)))
    return {**message, "n": max(1, len(cells)), "made": list(cells), "seeds": seeds} | more


def scored(noise: float, *tasks: str, seed: int = 0, **more: Any) -> dict[str, Any]:
    """A result of an evaluation on scored pairs."""
    rows = []
    for number, task in enumerate(tasks):
        gold = np.random.default_rng(number).integers(0, 6, 60)
        similarity = gold + noise * np.random.default_rng([seed, number]).normal(size=60)
        items = {"gold": gold.tolist(), "similarity": similarity.tolist()}
        rows.append(
            {"task": task, "split": "test", "n": 60, "metrics": {"spearman": 50.0}, "items": items, "data_sha256": task}
        )
    return {**result_of("evaluate", rows), **more}


def attacked(outcomes: str, recipe: str = "pwws", tries: int = 1, queries: str = "") -> dict[str, Any]:
    """A result of an attack: of each text the outcome, and the number of queries, if given."""
    words = {"+": "succeeded", "-": "failed", ".": "skipped"}
    examples = [
        {"recipe": recipe, "original": f"text {number}", "other": None, "outcome": words[outcome]}
        for number, outcome in enumerate(outcomes)
    ]
    for example, number in zip(examples, map(int, queries), strict=False):
        example["queries"] = number
    row = {"task": "mr", "split": "test", "n": len(outcomes), "recipe": recipe, "metrics": {"success_rate": 1.0}}
    protocol = {"goal": {"kind": "class"}, "recipes": {recipe: {"constants": {"tries": tries}}}}
    return {**result_of("attack", [row]), "examples": examples, "protocol": protocol}


def result_of(kind: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    identity = {"model_sha256": "0", "model_files": {}}
    return new_result(kind, command=["x"], model="m", identity=identity, protocol={}, seed=1, results=rows)


def message(
    values: list[dict[str, Any]],
    results: dict[str, dict[str, Any]],
    averages: dict[str, list[str]] | None = None,
    against: str = "A",
) -> dict[str, Any]:
    """The differences of all rows from A, or from another row or column."""
    rows, columns = ({str(each[key]): {} for each in values} for key in ("task", "split"))
    partners = baselines(rows, list(columns), against)
    return differences(values, averages or {}, partners, results.__getitem__, resamples=200)


def test_attacks_are_compared_on_the_texts_that_both_attacked() -> None:
    results = {"a": attacked("++-+-+.+"), "b": attacked("-+----+.")}
    values = [value(row, "PWWS", "success_rate", cell) for row, cell in (("A", "a"), ("B", "b"))]
    values += [value(row, "Queries", "queries", cell) for row, cell in (("A", "a"), ("B", "b"))]
    (row,) = message(values, results)["results"]  # these results tell no numbers of queries
    assert (row["task"], row["split"], row["n"], row["metric"]) == ("B", "PWWS", 6, "success_rate")
    assert (row["baseline"], row["other"], row["seeds"], row["test"]) == ("A", "B", [1, 1], "mcnemar")
    assert row["metrics"]["difference"] == pytest.approx(100 * (1 - 4) / 6)
    assert row["metrics"]["low"] < row["metrics"]["difference"] < row["metrics"]["high"]


def test_the_queries_of_attacks_are_compared_with_their_p_in_the_family() -> None:
    results = {"a": attacked("++-+-+.+", queries="23452319"), "b": attacked("-+----+.", queries="34563491")}
    values = [value(row, "PWWS", "success_rate", cell) for row, cell in (("A", "a"), ("B", "b"))]
    values += [value(row, "Queries", "queries", cell) for row, cell in (("A", "a"), ("B", "b"))]
    success, queries = message(values, results)["results"]
    assert (success["metric"], queries["metric"], queries["n"]) == ("success_rate", "queries", 6)
    assert queries["metrics"]["baseline"] == pytest.approx((2 + 3 + 4 + 5 + 2 + 3) / 6)
    assert queries["metrics"]["difference"] == pytest.approx(1.0)  # one more for each of the six
    assert success["metrics"]["p_holm"] == pytest.approx(
        min(1.0, max(2 * queries["metrics"]["p"], success["metrics"]["p"]))
    )


def test_columns_are_compared_within_their_rows_where_they_measure_the_same() -> None:
    results = {"a": scored(3.0, "stsb"), "b": scored(1.0, "stsb", seed=1), "c": attacked("++-+-+.+")}
    values = [value("A", column, "stsb.spearman", cell) for column, cell in (("λ 0", "a"), ("λ 1", "b"), ("same", "a"))]
    values += [
        value("A", "PWWS", "success_rate", "c"),
        value("A", "Avg.", "mean"),
        value("B", "λ 0", "stsb.spearman", "b"),
    ]
    found = message(values, results, {"Avg.": ["λ 0", "λ 1"]}, against="λ 0")
    (row,) = found["results"]
    assert (row["task"], row["split"], row["baseline"], row["other"], row["n"]) == ("A", "λ 1", "λ 0", "λ 1", 60)
    assert row["metrics"]["difference"] == pytest.approx(row["metrics"]["other"] - row["metrics"]["baseline"])
    assert found["notes"] == []
    by_row = [value(name, "STS-B", "stsb.spearman", cell) for name, cell in (("A", "a"), ("B", "b"))]
    (other,) = message(by_row, results)["results"]
    assert other["metrics"] == row["metrics"]


def test_what_is_not_paired_is_told_with_its_places() -> None:
    results = {"a": attacked("++-+"), "b": attacked("-+--", tries=2), "c": attacked("----" + "+" * 5)}
    values = [value(row, "PWWS", "success_rate", row.lower()) for row in "ABC"]
    values += [value(row, "Queries", "queries", row.lower()) for row in "ABC"]
    found = message(values, results)
    assert [row["task"] for row in found["results"]] == ["C"]
    assert found["notes"] == [
        f"not compared: B, {column}: pwws has the constants {{'tries': 2}}, in A, {column} {{'tries': 1}}: "
        f"use the same settings for both (B: {column})"
        for column in ("PWWS", "Queries")
    ]


def test_what_was_not_run_or_is_the_same_work_is_not_compared() -> None:
    results = {"a": attacked("++-+"), "b": attacked("-+--")}
    values = [value("A", "PWWS", "success_rate", "a"), value("B", "PWWS", "success_rate", n=0)]
    assert message(values, results)["results"] == []
    values[1] = value("B", "PWWS", "success_rate", "a")
    assert message(values, results)["results"] == []


def test_one_evaluation_gives_every_column_its_difference_and_the_mean_its_own() -> None:
    tasks = (*STS_TASKS, "sickr-full")  # which is no part of the mean
    results = {"a": scored(3.0, *tasks), "b": scored(1.0, *tasks, seed=1)}
    columns = {task.upper(): f"{task}.spearman" for task in STS_TASKS} | {"STS": "sts", "n": "uniformity"}
    values = [
        value(row, column, what, cell) for row, cell in (("A", "a"), ("B", "b")) for column, what in columns.items()
    ]
    values += [value(row, "Avg.", "mean") for row in "AB"]
    found = message(values, results, {"Avg.": [task.upper() for task in STS_TASKS]})["results"]
    metrics = {row["split"]: row["metrics"] for row in found}
    assert list(metrics) == [*(task.upper() for task in STS_TASKS), "STS", "Avg."]
    assert metrics["STS"] == metrics["Avg."]
    assert metrics["Avg."]["difference"] == pytest.approx(
        np.mean([metrics[t.upper()]["difference"] for t in STS_TASKS])
    )
    assert metrics["Avg."]["high"] - metrics["Avg."]["low"] < metrics["STSB"]["high"] - metrics["STSB"]["low"]
    assert next(row for row in found if row["split"] == "Avg.")["n"] == 7 * 60


def attacks(outcomes: dict[str, str]) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]], dict[str, list[str]]]:
    """Values, results and averages of rows A and B: for "A pwws" the outcome of each text."""
    results = {cell: attacked(of_texts, cell.split()[1]) for cell, of_texts in outcomes.items()}
    values = [value(*cell.split(), "success_rate", cell) for cell in results]
    values += [value(row, "Attacks", "mean") for row in "AB"]
    return values, results, {"Attacks": [cell.split()[1] for cell in results if cell.startswith("A")]}


def test_the_mean_over_attacks_on_the_same_texts_is_of_those_that_all_attacked() -> None:
    found = message(*attacks({"A pwws": "++-+.", "A typos": "+--++", "B pwws": "-+--+", "B typos": "+-.-+"}))
    rows = {row["split"]: row for row in found["results"]}
    assert list(rows) == ["pwws", "typos", "Attacks"]
    assert (rows["Attacks"]["n"], rows["Attacks"]["test"]) == (3, "t")  # texts 0, 1 and 3
    metrics = rows["Attacks"]["metrics"]
    assert (metrics["baseline"], metrics["other"]) == (pytest.approx(500 / 6), pytest.approx(200 / 6))
    assert metrics["difference"] == pytest.approx(-50.0)


def test_attacks_on_the_same_texts_are_drawn_together() -> None:
    """Drawn apart, as texts of their own, they would make the mean seem surer than it is."""
    alike = {f"{row} {recipe}": outcomes * 10 for recipe in ("pwws", "typos") for row, outcomes in
             (("A", "++-+-+"), ("B", "-+--+-"))}  # fmt: skip
    rows = {row["split"]: row["metrics"] for row in message(*attacks(alike))["results"]}
    width = {split: metrics["high"] - metrics["low"] for split, metrics in rows.items()}
    assert rows["Attacks"]["difference"] == pytest.approx(rows["pwws"]["difference"])
    assert width["Attacks"] == pytest.approx(width["pwws"], rel=0.15)  # the second attack tells nothing new


def test_a_mean_over_attacks_that_attacked_no_text_in_common_has_no_difference() -> None:
    found = message(*attacks({"A pwws": "++..", "A typos": "..++", "B pwws": "++..", "B typos": "..++"}))
    assert [row["split"] for row in found["results"]] == ["pwws", "typos"]


def test_a_mean_over_two_attacks_on_one_split_and_one_on_another_has_no_difference() -> None:
    values, results, averages = attacks({f"{row} {recipe}": "+-" for row in "AB" for recipe in ("pwws", "typos")})
    for row in "AB":
        results[f"{row} cr"] = attacked("+-")
        results[f"{row} cr"]["results"][0]["task"] = "cr"
        values.insert(0, value(row, "CR", "success_rate", f"{row} cr"))
    found = message(values, results, {"Attacks": [*averages["Attacks"], "CR"]})
    assert [row["split"] for row in found["results"]] == ["CR", "pwws", "typos"]


def test_a_mean_over_columns_of_which_one_is_missing_has_no_difference() -> None:
    results = {"a": scored(3.0, "stsb", "sickr"), "b": scored(1.0, "stsb")}
    values = [value(row, task, f"{task}.spearman", row.lower()) for row in "AB" for task in ("stsb", "sickr")]
    values += [value(row, "Avg.", "mean") for row in "AB"]
    found = message(values, results, {"Avg.": ["stsb", "sickr"]})
    assert [row["split"] for row in found["results"]] == ["stsb"]
    assert found["notes"] == ["not in all of the results: sickr test (B: stsb)"]


def test_a_column_of_other_texts_than_the_others_row_has_is_told_and_left_out() -> None:
    results = {"a": scored(3.0, "stsb", "sickr"), "b": scored(1.0, "stsb", "sickr")}
    for name, result in results.items():
        result["results"][1]["items_sha256"] = name
    values = [value(row, task, f"{task}.spearman", row.lower()) for row in "AB" for task in ("stsb", "sickr")]
    found = message(values, results)
    assert [row["split"] for row in found["results"]] == ["stsb"]
    (note,) = found["notes"]
    assert note.startswith("not compared: B, stsb: sickr test has other texts than in A, stsb")


def test_seeds_of_a_row_are_a_side_also_against_a_row_without() -> None:
    results = {"a": scored(3.0, "stsb")} | {f"b{seed}": scored(1.0, "stsb", seed=seed) for seed in (1, 2, 3)}
    values = [value("A", "STS-B", "stsb.spearman", "a"), value("B", "STS-B", "stsb.spearman", "b1", "b2", "b3")]
    (row,) = message(values, results)["results"]
    assert (row["seeds"], row["n"]) == ([1, 3], 60)
    assert "other_std" in row["metrics"]
    assert "baseline_std" not in row["metrics"]


def test_a_row_of_which_a_seed_is_missing_is_compared_by_those_that_it_has() -> None:
    results = {"a": attacked("++-+")} | {f"b{seed}": attacked("-+-+") for seed in (1, 3)}
    results["b3"]["protocol"] = {"goal": {"kind": "score"}, "recipes": {}}
    values = [value("A", "PWWS", "success_rate", "a"), value("B", "PWWS", "success_rate", "b1", "b3", seeds=[1, 3])]
    assert "B, PWWS, seed 3: pwws has" in message(values, results)["notes"][0]
    results["b3"] = attacked("-+-+")
    (row,) = message(values, results)["results"]
    assert (row["seeds"], row["metrics"]["difference"]) == ([1, 2], -25.0)


def test_a_mean_over_columns_of_other_seeds_has_no_difference() -> None:
    """The seeds of a row are drawn, and one that is drawn counts in all columns."""
    results = {"a": scored(3.0, "stsb", "sickr"), "b": scored(1.0, "stsb", "sickr"), "c": scored(1.0, "stsb", "sickr")}
    for other, splits in (([2], ["stsb", "sickr"]), ([1], ["stsb", "sickr", "Avg."])):
        values = [value("A", task, f"{task}.spearman", "a") for task in ("stsb", "sickr")]
        values += [value("B", "stsb", "stsb.spearman", "b"), value("B", "sickr", "sickr.spearman", "c", seeds=other)]
        values += [value(row, "Avg.", "mean") for row in "AB"]
        assert [row["split"] for row in message(values, results, {"Avg.": ["stsb", "sickr"]})["results"]] == splits


# --- a table -----------------------------------------------------------------------------------------------------


def test_a_reproduction_tells_the_differences_that_compare_tells(settings: Settings) -> None:
    result = reproduce(settings(against="NP"))
    assert read_result(settings().result_file) == result
    assert result["protocol"]["against"] == "NP"
    found = {row["split"]: row for row in result["differences"]["results"]}
    assert {row["task"] for row in found.values()} == {"SimCSE"}
    assert {"Acc.", "Queries"} <= set(found) <= {"Acc.", "Typos", "Queries"}, "a mean over the same texts is not"
    values = {(row["task"], row["split"]): row for row in result["results"]}
    keys = [values[name, "Acc."]["cells"][0] for name in ("NP", "SimCSE")]
    files = [settings().output / "cells" / f"classifier-{key[:12]}" / "model" / "results.json" for key in keys]
    rows, _ = compare(read_side(str(files[0])), read_side(str(files[1])))
    (expected,) = (row for row in rows if row["split"] == "test")
    corrected = found["Acc."]["metrics"]["p_holm"]
    assert found["Acc."]["metrics"] == {**expected["metrics"], "p_holm": corrected}
    assert (found["Acc."]["n"], found["Acc."]["test"]) == (16, "mcnemar")
    text = markdown(result)
    assert "## Differences from NP, on the same items" in text
    header, lines = differences_laid_out(result)
    assert header == ["encoder", *found]
    metrics = found["Acc."]["metrics"]
    ends = f"[{metrics['low']:+.1f}, {metrics['high']:+.1f}]"
    cell = f"{metrics['difference']:+.1f} {ends}, p {metrics['p']:.4f} (Holm {corrected:.4f})"
    assert lines[0][:2] == ["SimCSE", cell.replace("-", "−")]
    assert f"| SimCSE | {lines[0][1]} |" in text
    assert "of this comparison alone" in text
    assert "differences" not in reproduce(settings())


def test_a_table_says_what_its_rows_are_compared_with(settings: Settings) -> None:
    table = f"{TABLE}against: encoder=SimCSE\n"
    result = reproduce(settings(table))
    assert {row["task"] for row in result["differences"]["results"]} == {"NP"}
    assert "Differences from encoder=SimCSE" in markdown(result)
    other = reproduce(settings(table, against="NP"))
    assert {row["task"] for row in other["differences"]["results"]} == {"SimCSE"}
    alone = reproduce(settings(table, only=["NP"]))  # the row that they would be compared with is not made
    assert "differences" not in alone
    assert "Differences" not in markdown(alone)


def test_a_row_that_is_not_in_the_table_is_told_before_anything_is_made(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_execution, "do", lambda *_: pytest.fail("nothing is made"))
    line = (
        r"^--against 'NPP' names no row or column \(did you mean 'NP'\?\); rows: NP, SimCSE; or AXIS=LABEL, such as "
        r"encoder=NP; columns: Acc\., Typos, Queries, Mean$"
    )
    for call in (reproduce, lambda given: plan([given])):
        with pytest.raises(UserError, match=line):
            call(settings(against="NPP"))
    with pytest.raises(UserError, match="--against 'SimCSE' names no row or column; rows: NP; or"):
        reproduce(settings(against="SimCSE", only=["NP"]))


def test_values_without_items_are_told_to_have_no_differences(settings: Settings) -> None:
    result = reproduce(settings(against="NP"))
    result["differences"]["results"] = []
    assert differences_notes(result)[0] == "No differences from NP: no value was measured on items that both have."
    assert "## Differences" not in markdown(result)
    assert "No differences from NP" in markdown(result)


def test_the_command_prints_the_differences(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    given = settings()
    words = ["reproduce", given.table, "--scale", "paper", "--output", given.output, "--model", given.model]
    words += ["--corpus", given.corpus, "--data", given.data, "--masked-lm", given.model, "--similarity", given.model]
    assert main([*map(str, words), "--against", "NP"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Differences from NP, on the same items" in out
    assert "of this comparison alone" in out
    assert main(["reproduce", "adcl", "--against", "NP"]) == 2
    assert "--against is a row of one table" in capsys.readouterr().err


def test_a_file_that_compares_with_no_row_is_told_with_its_line(tmp_path: Path, settings: Settings) -> None:
    lines = f"{TABLE}against: NPP\n".splitlines()
    with pytest.raises(UserError, match=rf"small.yaml:{len(lines)}: 'against': 'NPP' names no row.*rows: NP, SimCSE"):
        reproduce(settings(f"{TABLE}against: NPP\n"))
    with pytest.raises(UserError, match="'against' takes text, not 3"):
        reproduce(settings(f"{TABLE}against: 3\n"))


def test_equal_seeds_of_two_rows_are_paired() -> None:
    """They train on the same sentences in the same order: what both owe to these is no part of their difference."""
    results = {f"{row}{seed}": scored(noise * seed, "stsb", seed=seed) for seed in (1, 2, 3) for row, noise in
               (("a", 1.0), ("b", 1.1))}  # fmt: skip
    values = [value(row, "STS-B", "stsb.spearman", *(f"{row.lower()}{seed}" for seed in (1, 2, 3))) for row in "AB"]
    (together,) = message(values, results)["results"]
    assert (together["paired_seeds"], together["seeds"], together["test"]) == (True, [3, 3], "t")
    (apart,) = message([values[0], {**values[1], "seeds": [4, 5, 6]}], results)["results"]
    assert not apart["paired_seeds"]
    assert together["metrics"]["error"] < 0.5 * apart["metrics"]["error"]


def test_a_row_with_more_seeds_is_compared_on_those_that_both_have() -> None:
    results = {f"{row}{seed}": scored(noise * seed, "stsb", seed=seed) for seed in (1, 2, 3, 4) for row, noise in
               (("a", 1.0), ("b", 1.1))}  # fmt: skip
    four = value("A", "STS-B", "stsb.spearman", "a1", "a2", "a3", "a4")
    three = value("B", "STS-B", "stsb.spearman", "b1", "b2", "b3")
    (found,) = message([four, three], results)["results"]
    (expected,) = message([value("A", "STS-B", "stsb.spearman", "a1", "a2", "a3"), three], results)["results"]
    assert (found["paired_seeds"], found["seeds"]) == (True, [3, 3])
    assert found["metrics"] == expected["metrics"]
    of_no_seed = value("A", "STS-B", "stsb.spearman", "a1", seeds=[1, 2, 3, 4])
    (found,) = message([of_no_seed, three], results)["results"]
    assert (found["paired_seeds"], found["seeds"]) == (False, [1, 3])
