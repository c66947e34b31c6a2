"""`holdfast compare`: which items are paired, what is refused, and what is told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from holdfast.cli import main
from holdfast.evaluation.sts import STS_TASKS
from holdfast.results import new_result, read_result, write_result


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, rows: list[dict[str, Any]], *, kind: str = "evaluate", **more: Any) -> str:
    identity = {"model_sha256": f"hash of {name}", "model_files": {}}
    protocol, seed = more.pop("protocol", {}), more.pop("seed", None)
    model = f"the model of {name}"
    result = new_result(kind, command=["holdfast"], model=model, identity=identity, protocol=protocol, seed=seed)
    write_result(Path(name), result | {"results": rows} | more)
    return name


def sts(task: str, noise: float, *, seed: int = 0, n: int = 80, **more: Any) -> dict[str, Any]:
    gold = np.random.default_rng(99).integers(0, 6, n)
    similarity = gold + noise * np.random.default_rng(seed).normal(size=n)
    items = {"gold": gold.tolist(), "similarity": similarity.tolist()}
    metrics = {"spearman": 50.0}
    return {"task": task, "split": "test", "n": n, "metrics": metrics, "items": items, "data_sha256": "d"} | more


def mr(correct: list[int], **more: Any) -> dict[str, Any]:
    metrics = {"accuracy": 100 * float(np.mean(correct))}
    row = {"task": "mr", "split": "all", "n": len(correct), "metrics": metrics, "data_sha256": "d"}
    return {**row, "items": {"correct": correct}} | more


def mistake(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["compare", *words]) == 2
    message = capsys.readouterr()
    assert message.out == ""
    (line,) = message.err.splitlines()
    return line


def rows_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["compare", *words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["kind"] == "compare"
    rows: list[dict[str, Any]] = result["results"]
    return rows


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
    assert "items and seeds" in out
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


# --- attacks -----------------------------------------------------------------------------------------------------


def attack_row(recipe: str = "pwws", **more: Any) -> dict[str, Any]:
    return {"task": "mr", "split": "all", "n": 3, "recipe": recipe, "metrics": {}, "skipped": {}} | more


def attack(
    name: str,
    outcomes: dict[str, str],
    *,
    recipe: str = "pwws",
    goal: str = "class",
    tries: int = 1,
    queries: Sequence[Any] = (),
    **more: Any,
) -> str:
    """A result whose example of text T has the outcome that ``outcomes[T]`` begins; and the queries, where given."""
    words = {"+": "succeeded", "-": "failed", ".": "skipped"}
    examples = [
        {"recipe": recipe, "original": text.rstrip("'"), "other": None, "outcome": words[outcome]}
        for text, outcome in outcomes.items()
    ]
    for example, number in zip(examples, queries, strict=False):
        example["queries"] = number
    recipes = {recipe: {"constants": {"tries": tries}}}
    protocol = {"goal": {"kind": goal, **more}, "recipes": recipes, "opened_resources": {"wordnet": "here"}}
    return write(name, [attack_row(recipe)], kind="attack", examples=examples, protocol=protocol)


def test_attacks_are_compared_on_the_texts_that_both_attacked(capsys: pytest.CaptureFixture[str]) -> None:
    # t is there twice, and its second time is told apart from its first.
    a = attack("a.json", {"p": "+", "q": "+", "r": "+", "s": ".", "t": "-", "t'": "+", "only a": "+"})
    b = attack("b.json", {"t": "+", "t'": "-", "r": "-", "q": "-", "p": ".", "s": "+", "only b": "-"})
    (row,) = rows_of(capsys, a, b)
    assert (row["recipe"], row["metric"], row["n"]) == ("pwws", "success_rate", 4)
    assert (row["metrics"]["baseline"], row["metrics"]["other"]) == (75.0, 25.0)
    assert row["metrics"]["p"] == pytest.approx(binomtest(1, 4).pvalue)
    assert main(["compare", a, b]) == 0
    assert "mr pwws" in capsys.readouterr().out


def test_the_queries_of_attacks_are_paired_on_the_texts_that_both_attacked(capsys: pytest.CaptureFixture[str]) -> None:
    counts = [[3 + i % 5 for i in range(40)], [4 + i % 7 for i in range(40)]]
    ours, theirs = (
        dict.fromkeys((f"text {i}" for i in range(40)), "+") | dict.fromkeys(left_out, ".")
        for left_out in (["text 0"], ["text 1"])
    )
    a = attack("a.json", {**ours, "only a": "-"}, queries=[*counts[0], 900])
    b = attack("b.json", {**theirs, "only b": "+"}, queries=[*counts[1], 1])
    success, queries = rows_of(capsys, a, b)
    assert (success["metric"], success["n"]) == ("success_rate", 38)
    assert (queries["recipe"], queries["metric"], queries["n"], queries["test"]) == ("pwws", "queries", 38, "bootstrap")
    # A skipped text has queries as well, of its prediction alone: they are not those of an attack.
    left = [[own[i] for i in range(2, 40)] for own in counts]
    found, more = queries["metrics"], np.subtract(left[1], left[0])
    assert (found["baseline"], found["other"]) == pytest.approx((np.mean(left[0]), np.mean(left[1])))
    assert found["difference"] == pytest.approx(more.mean())
    half = 1.96 * more.std() / 38**0.5
    assert (found["low"], found["high"]) == pytest.approx((more.mean() - half, more.mean() + half), abs=0.1)
    assert main(["compare", a, b]) == 0
    assert "queries" in capsys.readouterr().out


def test_attacks_without_numbers_of_queries_are_compared_by_their_success(capsys: pytest.CaptureFixture[str]) -> None:
    texts = dict.fromkeys("pqrs", "+")
    a, b = attack("a.json", texts, queries=[3, 4, 5, 6]), attack("b.json", texts)
    assert [row["metric"] for row in rows_of(capsys, a, b)] == ["success_rate"]
    broken = attack("broken.json", texts, queries=[3, 4, "5", 6])
    assert "broken.json: example 3: 'queries' is of the wrong type (str)" in mistake(capsys, a, broken)


def test_attacks_that_share_less_than_half_of_their_texts_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    a = attack("a.json", {**dict.fromkeys("pqrst", "+"), "skipped": "."})
    b = attack("b.json", {**dict.fromkeys("pquvwxyz", "-"), "skipped": "."})
    assert main(["compare", a, b]) == 0
    message = " ".join(capsys.readouterr().out.split())
    assert "few texts that all results attacked: mr all pwws, 2 of at least 5 in each" in message
    half = attack("half.json", dict.fromkeys("pquv", "-"))
    assert main(["compare", a, half]) == 0
    assert "few texts" not in capsys.readouterr().out


def test_attacks_that_differ_are_refused_or_told(capsys: pytest.CaptureFixture[str]) -> None:
    a = attack("a.json", {"p": "+", "q": "-"})
    message = mistake(capsys, a, attack("b.json", {"p": "+"}, tries=2))
    assert (
        "b.json: pwws has the constants {'tries': 2}, in a.json {'tries': 1}: use the same settings for both" in message
    )
    assert "the goal {'kind': 'drift'" in mistake(capsys, a, attack("b.json", {"p": "+"}, goal="drift"))
    assert "no text in common" in mistake(capsys, a, attack("b.json", {"z": "+", "p": "."}))
    assert "a.json holds mr all pwws; b.json holds mr all bae-r" in mistake(
        capsys, a, attack("b.json", {"p": "+"}, recipe="bae-r")
    )
    b = attack("b.json", {"p": "+", "q": "+"})
    Path(b).write_text(Path(b).read_text().replace('"here"', '"there"'))
    assert main(["compare", a, b]) == 0
    assert "the attacks used different resources" in capsys.readouterr().out


def test_ensembles_of_other_recipes_are_compared_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    def ensemble(name: str, **parts: int) -> str:
        made = Path(attack(name, {"p": "+", "q": "-"}, recipe="auto"))
        result = json.loads(made.read_text())
        recipe = result["protocol"]["recipes"]["auto"]
        recipe["parts"] = {part: {"constants": {"tries": tries}} for part, tries in parts.items()}
        made.write_text(json.dumps(result))
        return str(made)

    a = ensemble("a.json", typos=2, pwws=1)
    assert main(["compare", a, ensemble("b.json", typos=2, pwws=1)]) == 0
    assert "in some of the results only" not in capsys.readouterr().out
    assert main(["compare", a, ensemble("b.json", typos=2, pwws=1, adaptive=1)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "mr all auto has adaptive in some of the results only: each is its own worst case" in said
    assert main(["compare", a, ensemble("b.json", typos=3)]) == 2
    assert "auto runs typos with other constants than in a.json" in capsys.readouterr().err


def test_neighbours_are_lost_among_the_same_texts(capsys: pytest.CaptureFixture[str]) -> None:
    a = attack("a.json", {"p": "+", "q": "-", "r": "."}, goal="neighbours", k=5)
    b = attack("b.json", {"p": "+", "q": "+", "s": "-"}, goal="neighbours", k=5)
    message = mistake(capsys, a, b)
    assert (
        "b.json: pwws searched neighbours among other texts than in a.json: attack both with the same --search"
        in message
    )
    (row,) = rows_of(capsys, a, attack("b.json", {"p": ".", "q": "+", "r": "-"}, goal="neighbours", k=5))
    assert row["n"] == 1
    # What was searched is another matter than what was attacked; the results of today say what it was.
    c = attack("c.json", {"p": "+", "q": "-"}, goal="neighbours", k=5, searched={"source": "x", "sha256": "1"})
    d = attack("d.json", {"p": "+", "s": "-"}, goal="neighbours", k=5, searched={"source": "y", "sha256": "1"})
    assert rows_of(capsys, c, d)[0]["n"] == 1
    e = attack("e.json", {"p": "+", "q": "-"}, goal="neighbours", k=5, searched={"source": "x", "sha256": "2"})
    assert "attack both with the same --search" in mistake(capsys, c, e)


def test_a_threshold_that_was_given_is_of_the_goal(capsys: pytest.CaptureFixture[str]) -> None:
    def drift(name: str, threshold: float, chosen: str) -> str:
        return attack(name, {"p": "+", "q": "-"}, goal="drift", threshold=threshold, chosen=chosen)

    a, given = drift("a.json", 0.51, "half-way to other texts"), drift("c.json", 0.5, "given")
    assert rows_of(capsys, a, drift("b.json", 0.52, "half-way to other texts"))
    assert rows_of(capsys, given, drift("d.json", 0.5, "given"))
    for other in (a, drift("d.json", 0.9, "given")):
        assert "'threshold': 0.5}: use the same settings for both" in mistake(capsys, given, other)


def audited(name: str, *, seed: int = 42, sha256: str = "t", lost: float = 0.1, **opened: str) -> str:
    """An audit of texts 3 to 42, but that text 3 has no copy where ``lost`` is more than 0.1, and 4 is skipped."""
    texts = [number for number in range(3, 43) if number > 3 or lost <= 0.1]
    stability = [round(1 - lost - 0.001 * (number % 5), 5) for number in texts]
    gold = sts("audit-quality", lost * 10, seed=len(name)) | {"split": "dev", "headline": "spearman"}
    rows = [
        gold,
        audit_row("audit-typos", len(texts), "stability", {"text": texts, "stability": stability}),
        audit_row("audit-noise", len(texts), "found", {"text": texts, "correct": [int(n % 2) for n in texts]}),
        audit_row("audit-vectors", 40, "different_texts", None),
        audit_row("audit-adversarial-typos", 40, "success_rate", None) | {"recipe": "typos", "skipped": {}},
        audit_row("audit-neighbours", 40, "success_rate", None) | {"recipe": "typos", "skipped": {}},
    ]
    examples = [
        {
            "item": item,
            "number": n,
            "recipe": "typos",
            "original": f"text {n}",
            "outcome": "skipped" if n == 4 else "succeeded" if n % 10 < reach else "failed",
        }
        for item, reach in (("audit-adversarial-typos", 10 * lost), ("audit-neighbours", 5))
        for n in range(3, 43)
    ]
    protocol = {"texts": {"sha256": sha256}, "max_words": 64, "opened_resources": opened}
    return write(name, rows, kind="audit", protocol=protocol, examples=examples, seed=seed)


def audit_row(task: str, n: int, headline: str, items: Any) -> dict[str, Any]:
    found = {"task": task, "split": "all", "n": n, "metrics": {headline: 0.5}, "headline": headline}
    return found if items is None else found | {"items": items}


def test_audits_are_compared_item_by_item_on_the_same_texts(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = audited("a.json"), audited("bb.json", lost=0.3)
    found = {row["task"]: row for row in rows_of(capsys, a, b)}
    metrics = {task: row["metric"] for task, row in found.items()}
    assert metrics == {
        "audit-quality": "spearman",
        "audit-typos": "stability",
        "audit-noise": "found",
        "audit-adversarial-typos": "success_rate",
        "audit-neighbours": "success_rate",
    }
    assert [found[task]["n"] for task in ("audit-typos", "audit-adversarial-typos")] == [39, 39]
    typos = found["audit-typos"]["metrics"]
    assert typos["difference"] == pytest.approx(-0.2)
    assert typos["low"] == pytest.approx(-0.2)
    attacked = found["audit-adversarial-typos"]["metrics"]  # of 39 texts, those that end in 0, and in 0, 1 or 2
    assert (attacked["baseline"], attacked["other"]) == pytest.approx((100 * 4 / 39, 100 * 12 / 39))
    assert attacked["p"] == pytest.approx(binomtest(0, 8).pvalue)
    assert found["audit-neighbours"]["metrics"]["difference"] == 0.0
    assert main(["compare", a, b]) == 0
    message = capsys.readouterr().out
    assert "-0.200 to -0.200" in message
    assert "audit-" not in message  # its items are named as in the audit's own table
    assert re.search(r"adversarial-typos +39 ", message)


def poisoned(name: str, ranks: list[int] | None, *, kind: str, queries: str = "q") -> str:
    """Passages of which one reached its goal, whatever the queries find; and a text that is attacked in audits."""
    examples = [{"recipe": "hotflip", "original": f"passage {i}", "outcome": "succeeded"} for i in range(3)]
    task = "poison" if kind == "attack" else "audit-poisoning"
    row = {"task": task, "split": "all", "n": 40, "metrics": {"success_rate": 50.0}, "headline": "success_rate"}
    row |= {"recipe": "hotflip", "skipped": {}} | ({} if ranks is None else {"ranks": ranks})
    protocol: dict[str, Any] = {"texts": {"sha256": "t"}, "goal": {"kind": "poison", "searched": {"sha256": "s"}}}
    protocol["recipes"] = {"hotflip": {"constants": {}}}
    (protocol if kind == "attack" else row)["held_out_sha256"] = queries
    typos = audit_row("audit-typos", 40, "stability", {"text": list(range(40)), "stability": [0.9] * 40})
    rows = [row] if kind == "attack" else [row, typos]
    return write(name, rows, kind=kind, protocol=protocol, examples=examples, seed=42)


@pytest.mark.parametrize("kind", ["attack", "audit"])
def test_poisoning_is_compared_query_by_query(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    a = poisoned("a.json", [1, 10, 11, 500] * 10, kind=kind)
    b = poisoned("b.json", [1, 11, 11, 500] * 10, kind=kind)
    row = next(row for row in rows_of(capsys, a, b) if "poison" in row["task"])
    assert (row["n"], row["metric"]) == (40, "success_rate")
    assert (row["metrics"]["baseline"], row["metrics"]["other"]) == (50.0, 25.0)
    assert row["metrics"]["p"] == pytest.approx(binomtest(0, 10).pvalue)
    for other, reason in (
        (poisoned("c.json", None, kind=kind), "is of an earlier version, without a value of each query"),
        (poisoned("d.json", [1] * 40, kind=kind, queries="r"), "measured with other queries"),
    ):
        code = main(["compare", a, other])
        message = " ".join("".join(capsys.readouterr()).split())
        assert (code, reason in message) == (2 if kind == "attack" else 0, True), message


def test_both_kinds_of_a_labelled_sets_pairs_vary(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(4)

    def labelled(name: str, *, old: bool = False) -> str:
        nearer = rng.random((2, 60)).round(5)
        nearer[1] += nearer[0].mean() - nearer[1].mean()
        row = audit_row("audit-snli", 60, "p_entailed_nearer", {"text": list(range(60)), "nearer": nearer[0].tolist()})
        row |= {"entailed": 60} | ({} if old else {"entailed_nearer": nearer[1].tolist()})
        return write(name, [row], kind="audit", protocol={"texts": {"sha256": "t"}}, seed=42)

    (both,) = rows_of(capsys, labelled("a.json"), labelled("b.json"))
    (one,) = rows_of(capsys, "a.json", labelled("c.json", old=True))
    assert (both["n"], one["n"]) == (120, 60)
    widths = [row["metrics"]["high"] - row["metrics"]["low"] for row in (both, one)]
    assert widths[0] > 1.2 * widths[1]
    assert main(["compare", "a.json", "c.json"]) == 0
    assert "its interval is too narrow" in " ".join("".join(capsys.readouterr()).split())


def test_noise_of_other_misspellings_is_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    def noisy(name: str, misspellings: Any) -> str:
        rows = [sts("stsb", 0.5, split="test typing=0.1") | {"noise": "typing=0.1"}, sts("sts12", 0.5)]
        return write(name, rows, protocol={"misspellings": misspellings} if misspellings else {})

    a, b, c = noisy("a.json", None), noisy("b.json", {"sha256": "m"}), noisy("c.json", {"sha256": "m"})
    assert [row["task"] for row in rows_of(capsys, b, c)] == ["stsb", "sts12"]
    assert [row["task"] for row in rows_of(capsys, a, b)] == ["sts12"]
    assert main(["compare", a, b]) == 0
    assert "b.json has other --misspellings than a.json" in " ".join("".join(capsys.readouterr()).split())


def test_audits_of_other_texts_or_changes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    a = audited("a.json")
    for other in (audited("b.json", seed=7), audited("c.json", sha256="u")):
        assert "audit both with the same --texts, --seed and --max-words" in mistake(capsys, a, other)
    assert "an audit with an audit" in mistake(capsys, a, write("d.json", [sts("stsb", 1.0)]))
    assert main(["compare", a, audited("e.json", wordnet="another")]) == 0
    assert "used different resources" in capsys.readouterr().out


def test_audits_without_a_text_in_common_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    protocol = {"texts": {"sha256": "t"}, "max_words": 64}
    paths = [
        write(name, [audit_row("audit-typos", 1, "stability", {"text": [number], "stability": [0.5]})],
              kind="audit", protocol=protocol, seed=42)
        for number, name in enumerate(("a.json", "b.json"))
    ]  # fmt: skip
    assert "no text in common" in mistake(capsys, *paths)


def changed(path: str, *, constants: dict[str, Any] | None = None, **protocol: Any) -> str:
    """The audit with other constants of its recipes, and another protocol."""
    result = read_result(Path(path))
    rows = [{**row, "constants": constants} if "recipe" in row and constants else row for row in result["results"]]
    write_result(Path(path), {**result, "results": rows, "protocol": {**result["protocol"], **protocol}})
    return path


def test_an_item_of_an_audit_that_was_set_otherwise_is_left_out_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = audited("a.json"), audited("bb.json", lost=0.3)
    changed(a, constants={"tries": 1, "same_tag": True}, neighbours=5, random_synonyms="WordNet; inflected")
    changed(b, constants={"tries": 1, "same_tag": True}, neighbours=3, random_synonyms="WordNet; not inflected")
    assert main(["compare", a, b, "--output", "c.json"]) == 0
    out = capsys.readouterr().out
    line = (
        "different settings, so not compared: audit-neighbours all typos: bb.json has neighbours 3, a.json neighbours 5"
    )
    assert line in out
    assert "the audits used different resources (random_synonyms)" in out
    result = read_result(Path("c.json"))
    tasks = [row["task"] for row in result["results"]]
    assert "audit-adversarial-typos" in tasks
    assert "audit-neighbours" not in tasks
    assert line in result["protocol"]["notes"][0]
    changed(b, constants={"tries": 1, "same_tag": False}, neighbours=5)
    assert {row["task"] for row in rows_of(capsys, a, b)} == {"audit-quality", "audit-typos", "audit-noise"}
    assert main(["compare", a, b]) == 0
    assert "audit-adversarial-typos all typos: bb.json has same_tag False, a.json same_tag True" in (
        capsys.readouterr().out.replace("\n", " ")
    )


def test_scored_pairs_on_another_scale_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    def scored(name: str, pairs: int) -> str:
        row = audit_row("audit-advsts", 2, "success_rate", None) | {"recipe": "pwws", "split": "dev"}
        examples = [
            {"item": "audit-advsts", "recipe": "pwws", "original": text, "outcome": "succeeded"} for text in "pq"
        ]
        protocol = {"texts": {"sha256": "t"}, "max_words": 64}
        advsts = {"margin": 1.0, "scale": f"isotonic fit on {pairs} pairs of dev"}
        return write(name, [row], kind="audit", protocol={**protocol, "advsts": advsts}, examples=examples, seed=42)

    a = scored("a.json", 750)
    assert rows_of(capsys, a, scored("b.json", 750))
    message = mistake(capsys, a, scored("b.json", 5749))
    assert "all items that the audits share have different settings: audit-advsts dev pwws: b.json has scale" in message
    assert "a.json scale isotonic fit on 750 pairs of dev" in message


def test_the_average_is_of_test_splits_alone(capsys: pytest.CaptureFixture[str]) -> None:
    dev = {"split": "dev"}
    write("a.json", [*(sts(task, 3.0) for task in STS_TASKS), sts("stsb", 1.0, **dev)])
    write("b.json", [*(sts(task, 1.0, seed=1) for task in STS_TASKS), sts("stsb", 9.0, seed=1, **dev)])
    rows = {(row["task"], row["split"]): row for row in rows_of(capsys, "a.json", "b.json", "--resamples", "100")}
    assert rows["stsb", "dev"]["metrics"]["difference"] < 0.0
    own = [rows[task, "test"]["metrics"]["difference"] for task in STS_TASKS]
    assert rows["sts average", "test"]["metrics"]["difference"] == pytest.approx(np.mean(own))


@pytest.mark.parametrize(
    ("goal", "one", "other"), [("score", {"margin": 1.0}, {"margin": 0.5}), ("neighbours", {"k": 5}, {"k": 1})]
)
def test_goals_that_are_further_away_are_other_goals(
    goal: str, one: dict[str, Any], other: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (
        attack(name, {"p": "+", "q": "-"}, goal=goal, **given) for name, given in (("a.json", one), ("b.json", other))
    )
    assert "has the goal" in mistake(capsys, a, b)
