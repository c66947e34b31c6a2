"""`holdfast compare` of forms of vectors: within one result, across results, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compared_results import here as here
from compared_results import mistake, rows_of, sts, write

from holdfast.cli import main
from holdfast.evaluation.sts import STS_TASKS


def formed(name: str, noises: dict[str | None, float], **more: Any) -> str:
    """Write a result whose rows of all seven tasks have so much noise in each form."""
    rows = []
    for form, noise in noises.items():
        of_form = {} if form is None else {"form": form}
        rows += [sts(task, noise, seed=place, **of_form, **more) for place, task in enumerate(STS_TASKS)]
    return write(name, rows)


def test_the_forms_of_one_result_are_compared_with_its_plain_vectors(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = formed("a.json", {None: 0.5, "int8": 0.5, "binary": 4.0})
    rows = rows_of(capsys, result)
    assert [(row["task"], row["other"]) for row in rows] == [
        (task, f"the model of a.json as {form}") for form in ("int8", "binary") for task in (*STS_TASKS, "sts average")
    ]
    assert all(row["baseline"] == "the model of a.json" for row in rows)
    assert all(row["metrics"]["difference"] == 0.0 for row in rows[:8])
    assert all(row["metrics"]["high"] < 0.0 for row in rows[8:])
    assert rows_of(capsys, result, "--as", "binary") == [{**row, "against": 1} for row in rows[8:]]


def test_the_same_forms_of_two_results_are_paired(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = formed("a.json", {None: 0.5, "int8": 4.0}), formed("b.json", {None: 4.0, "int8": 0.5, "binary": 1})
    rows = {(row["task"], row.get("form")): row for row in rows_of(capsys, first, second)}
    assert list(rows) == [
        *((task, form) for form in (None, "int8") for task in STS_TASKS),
        ("sts average", None),
        ("sts average", "int8"),
    ]
    assert rows["sts average", None]["metrics"]["high"] < 0.0 < rows["sts average", "int8"]["metrics"]["low"]
    assert main(["compare", first, second]) == 0
    printed = capsys.readouterr().out
    assert "sts average as int8" in printed
    assert "not in all of the results: sts12 test as binary" in printed


def test_a_form_of_another_result_is_compared_with_the_plain_baseline(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = formed("a.json", {None: 0.5, "int8": 4.0}), formed("b.json", {None: 4.0, "int8": 0.5})
    rows = rows_of(capsys, first, second, "--as", "int8")
    assert {row["other"] for row in rows} == {"the model of b.json as int8"}
    assert all(row["metrics"]["difference"] == 0.0 for row in rows)


def test_forms_that_are_not_there_are_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, result = formed("p.json", {None: 1.0}), formed("a.json", {None: 1.0, "int8": 1.0})
    assert "or one whose vectors were measured in several forms (--as)" in mistake(capsys, plain)
    assert "a.json has no rows as binary; its forms are float32, int8" in mistake(capsys, result, "--as", "binary")
    assert "p.json has no rows in other forms of the vectors" in mistake(capsys, plain, "--as", "int8")
    assert "does not take 'int4' (did you mean 'int8'?)" in mistake(capsys, result, "--as", "int4")
