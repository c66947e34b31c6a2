"""The grammar of the gate's conditions, and the direction of each metric."""

from __future__ import annotations

import pytest

from holdfast.audit.gate.checks import parse_conditions
from holdfast.audit.gate.conditions import Condition, parse_condition
from holdfast.audit.gate.directions import better, is_worse
from holdfast.audit.gate.measurements import measured, value_of
from holdfast.errors import UserError


@pytest.mark.parametrize(
    ("text", "item", "metric", "operator", "number"),
    [
        ("typos.stability < 0.85", "typos", "stability", "<", 0.85),
        ("  typos.stability<=.85 ", "typos", "stability", "<=", 0.85),
        ("case.lower.pull > 1e-3", "case.lower", "pull", ">", 0.001),
        ("stsb.spearman >= -2", "stsb", "spearman", ">=", -2.0),
        ("retrieval.queries-keyboard.recall@1 < 80", "retrieval.queries-keyboard", "recall@1", "<", 80.0),
        ("textfooler/mr.pwws.success_rate > 60", "textfooler/mr.pwws", "success_rate", ">", 60.0),
        ("negation.p_hold_nearer worse than baseline", "negation", "p_hold_nearer", None, 0.01),
        ("negation.p_hold_nearer  worse than  baseline ,p<0.05", "negation", "p_hold_nearer", None, 0.05),
    ],
)
def test_conditions_are_read(text: str, item: str, metric: str, operator: str | None, number: float) -> None:
    found = parse_condition(text)
    assert (found.item, found.metric, found.operator, found.number) == (item, metric, operator, number)
    assert found.text == text.strip()
    assert found.against_baseline == (operator is None)
    assert text[found.column - 1 :].startswith(metric)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "the end where ITEM.METRIC"),
        ("   ", 4, "the end where ITEM.METRIC"),
        ("typos < 0.85", 1, "'typos' is not ITEM.METRIC"),
        ("typos. < 0.85", 1, "'typos.' is not ITEM.METRIC"),
        (".stability < 0.85", 1, "'.stability' is not ITEM.METRIC"),
        ("< 0.85", 1, "'<' where ITEM.METRIC"),
        ("typos.stability", 16, "the end where <, <=, >, >= or 'worse than baseline' is expected"),
        ("typos.stability == 0.85", 17, "'==' is not one of <, <=, >, >="),
        ("typos.stability =< 0.85", 17, "'=<' is not one of"),
        ("typos.stability != 0.85", 17, "'!=' is not one of"),
        ("typos.stability <", 18, "the end where a number is expected"),
        ("typos.stability < 0,85", 20, "',85' after the end"),
        ("typos.stability < much", 19, "'much' is not a number"),
        ("typos.stability < nan", 19, "'nan' is not a number"),
        ("typos.stability < inf", 19, "'inf' is not a number"),
        ("typos.stability < 1_0", 19, "'1_0' is not a number"),
        ("typos.stability < 85 %", 22, "'%' after the end"),
        ("typos.stability < 0.85 and noise.found < 9", 24, "'and noise.found < 9' after the end"),
        ("typos.stability < __import__('os')", 19, "is not a number"),
        ("typos.stability better than baseline", 17, "'better' where 'worse'"),
        ("typos.stability worse as baseline", 23, "'as' where 'than'"),
        ("typos.stability worse than before", 28, "'before' where 'baseline'"),
        ("typos.stability worse than", 27, "the end where"),
        ("typos.stability worse than baseline p < 0.01", 37, "'p' where ', p < NUMBER' or the end"),
        ("typos.stability worse than baseline,", 37, "the end where p < NUMBER"),
        ("typos.stability worse than baseline, q < 0.01", 38, "'q' where 'p'"),
        ("typos.stability worse than baseline, p > 0.01", 40, "'>' where '<'"),
        ("typos.stability worse than baseline, p < 1", 42, "p < 1: a p-value is between 0 and 1"),
        ("typos.stability worse than baseline, p < 0", 42, "p < 0: a p-value is between 0 and 1"),
        ("typos.stability worse than baseline, p < 0.01 !", 47, "'!' after the end"),
    ],
)
def test_a_fault_is_told_with_its_column(text: str, column: int, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_condition(text)
    said = str(caught.value)
    assert f"column {column}: " in said
    assert message in said
    assert "a condition is ITEM.METRIC < NUMBER" in said


def test_operators() -> None:
    holds = {
        symbol: [Condition("", "a", "b", 1, symbol, 0.5).holds(value) for value in (0.4, 0.5, 0.6)]
        for symbol in ("<", "<=", ">", ">=")
    }
    assert holds == {
        "<": [True, False, False],
        "<=": [True, True, False],
        ">": [False, False, True],
        ">=": [False, True, True],
    }


def test_a_baseline_and_items_are_checked_before_anything_is_measured(tmp_path) -> None:
    with pytest.raises(UserError, match="needs a baseline: --against"):
        parse_conditions(["typos.stability worse than baseline"], None)
    with pytest.raises(UserError, match=r"column 1: there is no item 'typo' \(did you mean 'typos'\?\)"):
        parse_conditions(["typo.stability < 1"], None, ["typos", "noise"])
    assert len(parse_conditions(["typos.stability worse than baseline", "noise.found < 9"], tmp_path)) == 2


ROWS = [
    {"task": "audit-typos", "split": "all", "metrics": {"stability": 0.9, "pull": 1.5}, "headline": "stability"},
    {"task": "audit-case", "split": "lower", "metrics": {"stability": 0.8}, "headline": "stability"},
    {"task": "audit-quality", "split": "dev", "metrics": {}, "headline": None, "told": "needs STS-B"},
    {"task": "stsb", "split": "test", "metrics": {"pearson": 79.0, "spearman": 80.0}},
    {"task": "retrieval", "split": "queries-keyboard", "metrics": {"recall@1": 70.0}},
    {"task": "sst2", "split": "dev", "recipe": "pwws", "metrics": {"success_rate": 60.0}},
    {"task": "stsb", "split": "test", "form": "int8", "metrics": {}, "undefined": ["spearman"]},
]


def test_rows_have_the_names_of_the_card() -> None:
    rows = measured({"results": ROWS})
    names = ["typos", "case.lower", "quality", "stsb", "retrieval.queries-keyboard", "sst2.pwws", "stsb.int8"]
    assert list(rows) == names
    headlines = ["stability", "stability", None, "spearman", "recall@1", "success_rate", None]
    assert [row.headline for row in rows.values()] == headlines
    assert value_of(parse_condition("typos.pull < 1"), rows) == 1.5
    assert value_of(parse_condition("quality.spearman < 1"), rows) is None
    assert value_of(parse_condition("stsb.int8.spearman < 1"), rows) is None
    with pytest.raises(UserError, match=r"column 7: typos has no metric 'stabilty' \(did you mean 'stability'\?\)"):
        value_of(parse_condition("typos.stabilty < 1"), rows)
    with pytest.raises(UserError, match=r"there is no item 'case.small'.*items: typos, case.lower"):
        value_of(parse_condition("case.small.stability < 1"), rows)
    with pytest.raises(UserError, match="holds no rows"):
        measured({"results": []})


def test_every_metric_of_the_audit_has_a_direction() -> None:
    assert all(better(name) == "higher" for name in ("spearman", "stability", "found", "recall@100", "ndcg@10"))
    assert all(better(name) == "lower" for name in ("success_rate", "pull", "neighbour_changed", "different_texts"))
    assert better("examples") is None
    assert is_worse("stability", -0.1)
    assert is_worse("success_rate", 0.1)
    assert not is_worse("stability", 0.1)
    assert not is_worse("stability", 0.0)
    assert not is_worse("success_rate", -0.1)
