"""The report card: two sides, the worst first, on one screen; and the names of items."""

from __future__ import annotations

import io
from typing import Any

import pytest

from holdfast.audit.card import absent_by_reason, column_of, noise_line, worst_first
from holdfast.audit.item_names import item_name, task_and_split
from holdfast.audit.verdicts import of_nearer, thresholds
from holdfast.cli.audit import card
from holdfast.cli.diff import marked, one_line
from holdfast.edits.text_language import Language, language_of


def row(task: str, verdict: str, value: float | None = None, headline: str | None = "stability", **more: Any) -> Any:
    metrics = {} if value is None else {str(headline): value}
    return {
        "task": f"audit-{task}",
        "split": "all",
        "verdict": verdict,
        "headline": headline,
        "n": 40,
        "metrics": metrics,
        "told": f"of {task}",
        **more,
    }


ROWS = [
    row("vectors", "holds", 0.02, "different_texts"),
    row("typos", "bends", 0.8, group="synthetic noise"),
    row("typing", "bends", 0.7, group="human noise"),
    row("neighbours", "breaks", 60.0, "success_rate"),
    row("negation", "breaks", 0.5, "p_hold_nearer", side="move"),
    row("roles", "breaks", 0.1, "p_hold_nearer", side="move"),
    row("snli", "bends", 0.8, "p_entailed_nearer", side="move"),
    row("speech", "absent", None, None),
    row("name", "absent", None, None, side="move", told="of speech"),
]


def test_each_side_begins_with_the_worst() -> None:
    assert [item_name(each) for each in worst_first(ROWS, "hold")] == ["neighbours", "typing", "typos", "vectors"]
    assert [item_name(each) for each in worst_first(ROWS, "move")] == ["roles", "negation", "snli"]
    assert column_of({"task": "audit-case", "split": "lower"}) == "hold", "rows of earlier versions"
    assert absent_by_reason(ROWS) == {"of speech": ["speech", "name"]}
    assert noise_line(ROWS) == "stability under people's noise: typing 0.700; under random typing errors: typos 0.800"
    assert noise_line(ROWS[:2]) is None


def printed(table: Any, width: int) -> list[str]:
    from rich.console import Console

    console = Console(width=width, file=io.StringIO())
    console.print(table)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_the_sides_stand_beside_each_other_where_there_is_room() -> None:
    wide = printed(card({"results": ROWS}, wide=True), 140)
    assert sum("neighbours" in line and "roles" in line for line in wide) == 1
    assert "found@1" not in wide[1], "nothing is searched"
    narrow = printed(card({"results": ROWS}, wide=False), 80)
    assert not any("neighbours" in line and "roles" in line for line in narrow)
    assert any("60.0 %" in line for line in narrow)


def test_many_items_fit_one_screen() -> None:
    many = [row(f"item{n}", "bends" if n < 30 else "holds", 0.5) for n in range(40)]
    lines = printed(card({"results": many}, wide=True), 140)
    assert len(lines) <= 28
    assert any("and 8 more" in line and "bends" in line for line in lines)
    assert any("and 10 more" in line and "holds" in line for line in lines)


def test_names_of_items() -> None:
    for task, split, name in (
        ("audit-case", "lower", "case.lower"),
        ("audit-typos", "all", "typos"),
        ("audit-snli", "dev", "snli"),
        ("audit-breaking-nli", "test", "breaking-nli"),
        ("sts-average", "test", "sts-average"),
    ):
        assert item_name({"task": task, "split": split}) == name
    assert task_and_split("case.lower") == ("audit-case", "lower")
    assert task_and_split("negation") == ("audit-negation", "all")


def test_verdicts_of_changed_meanings_begin_where_they_say() -> None:
    assert [of_nearer(p) for p in (1.0, 0.9, 0.89, 0.61, 0.6, 0.5, 0.0)] == [
        *("holds", "holds", "bends", "bends", "breaks", "breaks", "breaks")
    ]
    assert (thresholds()["nearer_holds"], thresholds()["nearer_breaks"]) == (0.9, 0.6)


EXAMPLE = {
    "item": "audit-negation",
    "recipe": "negation",
    "number": 3,
    "outcome": "succeeded",
    "original": "A dog is riding a board.",
    "adversarial": "A dog is not riding a board.",
    "before": {"value": 1.0},
    "after": {"value": 0.9},
    "changed": [],
    "words": 6,
    "queries": 1,
    "spans": [[8, 8, " not"]],
    "hold": {"edit": "typos", "text": "A dgo is riding a board.", "value": 0.6, "spans": [[2, 5, "dgo"]]},
}


def test_an_example_shows_both_edits() -> None:
    line = "negation  A dog is{+ not+} riding a board.  1.000 -> 0.900, beside (typos) 0.600"
    assert one_line(EXAMPLE).plain == line
    shown = marked(EXAMPLE).plain
    assert "A dog is{+ not+} riding a board." in shown
    assert "beside (typos): A [-dog-]{+dgo+} is riding a board. 0.600" in shown
    long = {**EXAMPLE, "original": "x" * 300 + " is", "spans": [[303, 303, " not"]]}
    assert one_line(long).plain.startswith(f"negation  … {'x' * 37} is{{+ not+}}  1.000")


# --- language ----------------------------------------------------------------------------------------------------


def test_the_language_is_that_of_most_of_the_sample() -> None:
    pytest.importorskip("py3langid")
    german = [f"Der Hund Nummer {n} läuft durch den großen Park und bellt die schwarze Katze an." for n in range(60)]
    english = [f"The dog number {n} runs through the big park and barks at the black cat." for n in range(20)]
    found = language_of(german + english, None)
    assert found.code == "de"
    assert found.confidence is not None
    assert 0.6 < found.confidence < 0.9
    assert "the texts are in de (7" in str(found.line())
    assert language_of(english, None) == Language("en", 1.0, "py3langid")
    assert language_of(english, None).line() is None
    given = language_of(german, "EN")
    assert given.is_english
    assert given.line() is None
    assert language_of(["kurz"], None).source == "assumed: too little text to detect it"


def test_without_the_library_english_is_assumed_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = language_of(["Der Hund läuft durch den Park. " * 9], None)
    assert found.is_english
    assert "pip install 'holdfast[attacks]'" in str(found.line())
