"""`holdfast compare`: which items are paired, what is refused, and what is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compared_results import attack_row, mistake, mr, rows_of, sts, write
from compared_results import here as here
from scipy.stats import binomtest

from holdfast.cli import main
from holdfast.evaluation.sts import STS_TASKS
from holdfast.results import read_result


def test_two_encoders(capsys: pytest.CaptureFixture[str]) -> None:
    a = write("a.json", [mr([1, 1, 0, 0] * 10), *(sts(task, 3.0) for task in STS_TASKS), sts("sickr-full", 3.0)])
    b = write("b.json", [mr([1, 1, 1, 0] * 10), *(sts(task, 1.0, seed=1) for task in STS_TASKS)])
    assert main(["compare", a, b, "--output", "c.json", "--resamples", "500"]) == 0
    out = capsys.readouterr().out
    assert "sts average" in out
    assert "McNemar" in out
    assert "not in all of the results: sickr-full test" in out
    result = read_result(Path("c.json"))
    assert result["protocol"]["results"] == [["a.json"], ["b.json"]]
    assert result["protocol"]["resamples"] == 500
    rows = {row["task"]: row for row in result["results"]}
    assert list(rows) == ["mr", *STS_TASKS, "sts average"]
    metrics = rows["mr"]["metrics"]
    assert (metrics["baseline"], metrics["other"], metrics["difference"]) == (50.0, 75.0, 25.0)
    assert metrics["p"] == pytest.approx(binomtest(0, 10).pvalue)
    assert 5.0 < metrics["low"] < 25.0 < metrics["high"] < 45.0
    assert (rows["mr"]["test"], rows["mr"]["n"], rows["mr"]["seeds"]) == ("mcnemar", 40, [1, 1])
    average = rows["sts average"]
    assert average["n"] == 7 * 80
    own = [rows[task]["metrics"]["difference"] for task in STS_TASKS]
    assert average["metrics"]["difference"] == pytest.approx(np.mean(own))
    assert average["metrics"]["low"] > 0
    assert f"{average['metrics']['difference']:+.2f}" in out


@pytest.mark.parametrize("shared", [0, 80])
def test_pairs_that_several_sets_have_are_drawn_together_for_the_average(
    shared: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seven copies of one set say no more than one."""
    repeated = {"places": list(range(shared)), "ids": [f"pair {place}" for place in range(shared)]}
    for name, seed in (("a.json", 0), ("b.json", 1)):
        write(name, [sts(task, 2.0, seed=seed, repeated_pairs=repeated) for task in STS_TASKS])
    rows = {row["task"]: row["metrics"] for row in rows_of(capsys, "a.json", "b.json")}
    errors = [rows[task]["high"] - rows[task]["low"] for task in STS_TASKS]
    ratio = (rows["sts average"]["high"] - rows["sts average"]["low"]) / np.mean(errors)
    assert ratio == pytest.approx(1.0 if shared else 7**-0.5, rel=0.1)


def test_each_other_side_has_a_table_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    files = [write(f"{name}.json", [sts("stsb", noise)]) for name, noise in (("a", 3.0), ("b", 1.0), ("c", 3.0))]
    rows = rows_of(capsys, *files)
    assert [(row["against"], row["other"]) for row in rows] == [(1, "the model of b.json"), (2, "the model of c.json")]
    assert (rows[1]["metrics"]["difference"], rows[1]["metrics"]["p"]) == (0.0, 1.0)
    assert main(["compare", *files]) == 0
    out = capsys.readouterr().out
    assert out.count("A  the model of a.json (a.json)") == 2
    assert "B  the model of c.json (c.json)" in out


def test_a_task_gives_the_same_with_other_tasks_and_by_the_same_seed(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write("a.json", [sts("stsb", 3.0)]), write("b.json", [sts("stsb", 1.0), sts("sickr", 2.0)])
    more = write("more.json", [sts("sickr", 3.0), sts("stsb", 3.0)])
    (alone,), among = rows_of(capsys, a, b), rows_of(capsys, more, b)
    assert next(row for row in among if row["task"] == "stsb")["metrics"] == alone["metrics"]
    assert rows_of(capsys, a, b, "--seed", "7")[0]["metrics"]["low"] != alone["metrics"]["low"]


def test_several_seeds_of_a_side(capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (1, 2, 3):
        write(f"a-{seed}.json", [sts("stsb", 3.0, seed=seed)])
        write(f"b-{seed}.json", [sts("stsb", 1.0, seed=seed)])
    alone = [rows_of(capsys, f"a-{seed}.json", "b-1.json")[0]["metrics"]["baseline"] for seed in (1, 2, 3)]
    (row,) = rows_of(capsys, "a-1.json,a-2.json,a-3.json", "b-1.json,b-2.json")
    assert row["seeds"] == [3, 2]
    assert row["metrics"]["baseline"] == pytest.approx(np.mean(alone))
    assert row["metrics"]["baseline_std"] == pytest.approx(np.std(alone, ddof=1))
    assert main(["compare", "a-1.json,a-2.json,a-3.json", "b-1.json"]) == 0
    out = capsys.readouterr().out
    assert f"{np.mean(alone):.2f} ± {np.std(alone, ddof=1):.2f}" in out
    assert "the model of a-1.json and 2 more (a-1.json, a-2.json, a-3.json)" in out
    assert "95 % and p of several seeds: t, with the variance between seeds" in out
    assert "percentiles" not in out, "no row has a bootstrap's interval"
    assert "a-1.json and a-1.json hold the same model" in mistake(capsys, "a-1.json,a-1.json", "b-1.json")


def test_rows_of_finetune_are_compared_like_those_of_evaluate(capsys: pytest.CaptureFixture[str]) -> None:
    stsb = sts("stsb", 1.0)
    predicted = {"gold": stsb["items"]["gold"], "prediction": stsb["items"]["similarity"]}
    a = write("a.json", [mr([1, 0] * 20), stsb | {"items": predicted}], kind="finetune")
    b = write("b.json", [mr([0, 1] * 20), stsb])
    rows = rows_of(capsys, a, b)
    assert [(row["metric"], row["metrics"]["difference"]) for row in rows] == [("accuracy", 0.0), ("spearman", 0.0)]
    assert rows[0]["metrics"]["low"] < 0.0 < rows[0]["metrics"]["high"]


def space() -> dict[str, Any]:
    return {"task": "space", "split": "dev", "n": 9, "metrics": {"alignment": 0.2}}


def without_items(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "items"}


WRONG: list[tuple[Callable[[], list[str]], str]] = [
    (
        lambda: [write("a.json", [mr([1, 0])]), write("b.json", [mr([1, 0], data_sha256="e")])],
        "b.json: mr all has other data than in a.json (data_sha256): measure both on the same files",
    ),
    (
        lambda: [write("a.json", [mr([1, 0])]), write("b.json", [mr([1, 0, 1])])],
        "b.json: mr all has other data than in a.json",
    ),
    (
        lambda: [write("a.json", [sts("sts12", 1.0), sts("stsb", 1.0)]), write("b.json", [mr([1, 0])])],
        "no task in common: a.json holds sts12 test, stsb test; b.json holds mr all",
    ),
    (
        lambda: [write("a.json", [mr([1, 0]), space()]), write("b.json", [without_items(mr([1, 0])), space()])],
        "b.json (a result of evaluate, of mr, space) holds no items to compare: give results of `holdfast evaluate`",
    ),
    (
        lambda: [write("a.json", [mr([1, 0])]), write("b.json", [attack_row()], kind="attack", examples=[])],
        "a.json is a result of evaluate, b.json of attack",
    ),
    (
        lambda: [write("a.json", [mr([1, 0])]), write("b.json", [mr([1, 0])], schema="holdfast.results/1") + ".gone"],
        "cannot read the result file b.json.gone",
    ),
    (lambda: [write("a.json", [mr([1, 0])]), ","], "a result file is missing"),
]


@pytest.mark.parametrize(("files", "message"), WRONG)
def test_what_cannot_be_compared_is_told_in_one_line(
    files: Callable[[], list[str]], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in mistake(capsys, *files())


def test_another_schema_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    a = write("a.json", [mr([1, 0])])
    Path("b.json").write_text(Path(a).read_text().replace("holdfast.results/1", "holdfast.results/9"))
    assert "b.json: its schema is 'holdfast.results/9'" in mistake(capsys, a, "b.json")


def test_rows_without_items_are_left_out_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (write(name, [mr([1, 0] * 9), space()]) for name in ("a.json", "b.json"))
    assert main(["compare", a, b]) == 0
    assert "without items, so not compared: space dev" in capsys.readouterr().out


# --- parts of a split --------------------------------------------------------------------------------------------


def held_out(name: str, seed: int, correct: list[int], *, items: str | None = None, **more: Any) -> str:
    """A classifier's result on texts of MR that the hash ``items`` tells; None: as earlier versions wrote it."""
    row = mr(correct, split="held-out") | more
    return write(name, [row if items is None else row | {"items_sha256": items}], kind="finetune", seed=seed)


def test_texts_that_different_seeds_drew_are_not_paired(capsys: pytest.CaptureFixture[str]) -> None:
    a = held_out("a.json", 1, [1, 0] * 20, items="of 1")
    message = mistake(capsys, a, held_out("b.json", 2, [1, 1] * 20, items="of 2"))
    assert message.endswith(
        "b.json: mr held-out has other texts than in a.json (drawn by seed 2, there drawn by seed 1): give both the "
        "same --seed, or measure both on a fixed test split"
    )
    message = mistake(capsys, a, held_out("b.json", 1, [1, 1] * 20, items="others"))
    assert "the same split (items_sha256): measure both with the same --data, --train-split and" in message
    (row,) = rows_of(capsys, a, held_out("b.json", 1, [1, 1] * 20, items="of 1"))
    assert (row["metrics"]["difference"], row["test"], "seed_by_seed" in row) == (50.0, "mcnemar", False)


def test_a_fixed_test_split_is_compared_beside_texts_that_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed in (("a.json", 1), ("b.json", 2), ("c.json", 3)):
        rows = [mr([1, 0] * 20, split="held-out", items_sha256=f"of {seed}"), mr([1, 1] * 20, split="test")]
        write(name, rows, kind="finetune", seed=seed)
    for other in ("b.json", "b.json,c.json"):
        (row,) = rows_of(capsys, "a.json", other)
        assert (row["split"], row["n"]) == ("test", 40)
        assert main(["compare", "a.json", other]) == 0
        assert "not compared: " in capsys.readouterr().out


DRAWN: list[dict[str, Any]] = [
    {"split": "held-out"},
    {"split": "held-out-test"},
    {"split": "test", "sample": {"of": 900}},
]


@pytest.mark.parametrize("drawn", DRAWN)
def test_of_results_that_do_not_name_their_texts_the_seeds_have_to_be_the_same(
    drawn: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    a, same = (held_out(name, 1, [1, 0] * 20, **drawn) for name in ("a.json", "b.json"))
    assert rows_of(capsys, a, same)
    assert rows_of(capsys, a, held_out("c.json", 1, [1, 0] * 20, items="of 1", **drawn))
    assert "(drawn by seed 2, there drawn by seed 1)" in mistake(capsys, a, held_out("d.json", 2, [1, 0] * 20, **drawn))


def test_a_sample_of_evaluate_is_the_same_for_every_model_and_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    looked = {"split": "test", "sample": {"of": 900, "seed": 0}}
    a, b = (write(name, [mr([1, 0] * 20, **looked)], seed=seed) for name, seed in (("a.json", None), ("b.json", 7)))
    assert rows_of(capsys, a, b)
    drawn = held_out("c.json", 0, [1, 0] * 20, split="test", sample={"of": 900})
    assert "(drawn by seed 0, there drawn by the fixed seed 0)" in mistake(capsys, a, drawn)
    whole = write("d.json", [mr([1, 0] * 20, split="test")])
    assert "(the whole split, there drawn by the fixed seed 0)" in mistake(capsys, a, whole)


@pytest.mark.parametrize("named", [True, False])
def test_seeds_with_texts_of_their_own_are_paired_seed_by_seed(named: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Every text of seed 1 is easy, every one of seed 2 hard, and both models know it: they differ in no resample."""
    right = {1: [1] * 40, 2: [0] * 30}
    for side in "ab":
        for seed, correct in right.items():
            held_out(f"{side}-{seed}.json", seed, correct, items=f"of {seed}" if named else None)
    words = ["a-1.json,a-2.json", "b-2.json,b-1.json"]  # whatever their order
    (row,) = rows_of(capsys, *words)
    assert (row["n"], row["seeds"], row["seed_by_seed"], row["test"]) == (70, [2, 2], True, "t")
    assert [row["metrics"][name] for name in ("baseline", "other", "low", "high")] == [50.0, 50.0, 0.0, 0.0]
    assert main(["compare", *words, "--output", "c.json"]) == 0
    note = "paired seed by seed, as each seed has its own texts: mr held-out"
    assert note in capsys.readouterr().out
    assert read_result(Path("c.json"))["protocol"]["notes"] == [[note]]


def test_seeds_with_texts_of_their_own_need_a_partner_each(capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed in (("a-1", 1), ("a-2", 2), ("b-1", 1), ("b-3", 3), ("c-1", 1), ("c-2", 2)):
        held_out(f"{name}.json", seed, [1, 0] * 20, items=f"of {seed}")
    message = mistake(capsys, "a-1.json,a-2.json", "b-1.json,b-3.json")
    assert "mr held-out has other texts for each seed" in message
    assert (
        "for the texts of a-2.json the other side has no results, not one: give both sides the same --seed" in message
    )
    assert "of a-2.json the other side has no" in mistake(capsys, "a-1.json,a-2.json", "b-1.json")
    assert "of a-1.json the other side has 2" in mistake(capsys, "a-1.json,a-2.json", "b-1.json,c-1.json,c-2.json")


def test_noise_of_other_misspellings_is_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    def noisy(name: str, misspellings: Any) -> str:
        rows = [sts("stsb", 0.5, split="test typing=0.1") | {"noise": "typing=0.1"}, sts("sts12", 0.5)]
        return write(name, rows, protocol={"misspellings": misspellings} if misspellings else {})

    a, b, c = noisy("a.json", None), noisy("b.json", {"sha256": "m"}), noisy("c.json", {"sha256": "m"})
    assert [row["task"] for row in rows_of(capsys, b, c)] == ["stsb", "sts12"]
    assert [row["task"] for row in rows_of(capsys, a, b)] == ["sts12"]
    assert main(["compare", a, b]) == 0
    assert "b.json has other --misspellings than a.json" in " ".join("".join(capsys.readouterr()).split())


def test_the_average_is_of_test_splits_alone(capsys: pytest.CaptureFixture[str]) -> None:
    dev = {"split": "dev"}
    write("a.json", [*(sts(task, 3.0) for task in STS_TASKS), sts("stsb", 1.0, **dev)])
    write("b.json", [*(sts(task, 1.0, seed=1) for task in STS_TASKS), sts("stsb", 9.0, seed=1, **dev)])
    rows = {(row["task"], row["split"]): row for row in rows_of(capsys, "a.json", "b.json", "--resamples", "100")}
    assert rows["stsb", "dev"]["metrics"]["difference"] < 0.0
    own = [rows[task, "test"]["metrics"]["difference"] for task in STS_TASKS]
    assert rows["sts average", "test"]["metrics"]["difference"] == pytest.approx(np.mean(own))
