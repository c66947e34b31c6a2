"""A model's card: its headline numbers, over its seeds and by split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_results import attack, audit, evaluate, example, result, row, train, write

from holdfast.report.contents import make_contents
from holdfast.report.examples import _outcome
from holdfast.report.result_sources import read_sources
from holdfast.report.tables import attack_table


def facts(folder: Path, *made: dict[str, Any] | str, seeds: bool = False) -> dict[str, str]:
    """Of the one model of these results."""
    words = [one if isinstance(one, str) else write(folder / f"{n}.json", one) for n, one in enumerate(made)]
    (card,) = make_contents(read_sources([",".join(words)] if seeds else words), examples=1).cards
    return dict(card.facts)


def finetuned(model: str, **accuracies: float) -> dict[str, Any]:
    rows = [row("anli", 100, split, {"accuracy": value}) for split, value in accuracies.items()]
    return result("finetune", model, rows)


def test_accuracy_of_seeds_is_their_mean(tmp_path: Path) -> None:
    made = [finetuned("s1", test=90.0), finetuned("s2", test=70.0)]
    assert facts(tmp_path, *made, seeds=True) == {"anli accuracy": "80.0 ± 14.1"}


def test_each_split_has_its_own_accuracy(tmp_path: Path) -> None:
    assert facts(tmp_path, finetuned("s", test_r1=60.0, test_r3=40.0)) == {
        "anli test_r1 accuracy": "60.0",
        "anli test_r3 accuracy": "40.0",
    }


def test_the_space_of_seeds_is_their_mean(tmp_path: Path) -> None:
    found = facts(tmp_path, evaluate("s1", 60.0), evaluate("s2", 66.0), seeds=True)
    assert found["alignment"] == "0.210 ± 0.014"
    assert found["uniformity"] == "-2.100 ± 0.141"
    assert found["STS average"] == "66.00 ± 4.24"


def test_the_dev_score_of_seeds_is_their_mean(tmp_path: Path) -> None:
    words = [train(tmp_path / f"s{n}", selected={"score": score, "steps": 75}) for n, score in ((1, 72.0), (2, 74.0))]
    assert facts(tmp_path, *words, seeds=True) == {"method": "robustembed", "dev score": "73.00 ± 1.41"}


def test_an_audit_of_seeds_counts_the_mean_and_its_parts_add_up(tmp_path: Path) -> None:
    one, other = audit("s1"), audit("s2")
    other["results"][0]["verdict"] = "breaks"
    assert facts(tmp_path, one) == {"audit": "1 hold, 1 break, 1 could not be measured"}
    assert facts(tmp_path, one, other, seeds=True) == {
        "audit": "0.5 ± 0.7 hold, 1.5 ± 0.7 break, 1.0 ± 0.0 could not be measured"
    }
    parts = [audit("s1"), audit("s1")]
    parts[0]["results"], parts[1]["results"] = one["results"][:1], one["results"][1:]
    assert facts(tmp_path, *parts) == facts(tmp_path, one)


def test_attack_success_by_split_over_recipes_and_seeds(tmp_path: Path) -> None:
    name = "attack success on mr"
    splits = [attack("a", 20.0, split="test", recipes=("pwws",)), attack("a", 60.0, split="dev", recipes=("pwws",))]
    assert facts(tmp_path, *splits) == {name: "20.0\u00a0%", f"{name} dev": "60.0\u00a0%"}
    seeds = [attack("s1", 40.0), attack("s2", 50.0)]
    assert facts(tmp_path, *seeds, seeds=True) == {f"{name}, mean of 2 recipes": "45.5 ± 7.1\u00a0%"}
    seeds[1]["results"].pop()
    assert facts(tmp_path, *seeds, seeds=True) == {
        f"{name}, pwws": "45.0 ± 7.1\u00a0%",
        f"{name}, typos": "41.0\u00a0%",
    }


def test_the_worst_case_over_recipes_is_the_figure_of_a_card(tmp_path: Path) -> None:
    found = facts(tmp_path, attack("a", 20.0, recipes=("pwws", "auto")))
    assert found == {"attack success on mr, worst case of all recipes": "21.0\u00a0%"}


def test_the_table_says_which_recipes_broke_texts_and_what_to_quote(tmp_path: Path) -> None:
    made = attack("a", 20.0, recipes=("auto",))
    made["results"][0]["won_by"] = {"typos": 7, "typos + pwws": 2}
    table = attack_table(read_sources([write(tmp_path / "a.json", made)]))
    assert table is not None
    assert (table.rows[0][1].text, table.rows[0][1].detail) == ("auto", "typos 7, typos + pwws 2")
    assert "A claim of robustness quotes auto" in table.note
    other = attack_table(read_sources([write(tmp_path / "b.json", attack("a", 20.0))]))
    assert other is not None
    assert "auto" not in other.note
    assert _outcome(example(0, "auto", changed_by=["typos", "pwws", "typos"])).endswith("by typos + pwws")


@pytest.mark.parametrize(("split", "task"), [("all", "mr"), ("test", "mr"), ("dev", "mr dev")])
def test_examples_can_be_filtered_by_split(tmp_path: Path, split: str, task: str) -> None:
    sources = read_sources([write(tmp_path / "a.json", attack("a", 60.0, split=split))])
    assert make_contents(sources, examples=9).examples.options()["task"] == [task]
