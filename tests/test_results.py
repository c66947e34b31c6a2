"""A result file says what, how and where; anything else is refused in one line."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from holdfast.errors import UserError
from holdfast.evaluation.score_tables import sts_table, transfer_table
from holdfast.evaluation.sts import STS_TASKS
from holdfast.model_lookup import model_identity
from holdfast.results import (
    SCHEMA,
    new_result,
    percent_shown,
    read_result,
    read_with_state,
    to_json,
    write_result,
)


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.0, "0 %"), (0.00123, "0.12 %"), (0.0994, "9.9 %"), (0.0996, "10 %"), (0.997, "100 %"), (1.37, "137 %")],
)
def test_shares_are_shown_in_percent_without_powers_of_ten(share: float, shown: str) -> None:
    assert percent_shown(share) == shown


def row(task: str = "stsb", split: str = "test", spearman: float = 82.03) -> dict[str, Any]:
    return {"task": task, "split": split, "n": 1379, "metrics": {"spearman": spearman, "pearson": 80.0}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The files of a model, as far as its identity goes."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def result(folder: Path) -> dict[str, Any]:
    return new_result(
        "evaluate",
        command=["holdfast", "evaluate", "my model", "--tasks", "sts"],
        model="my model",
        path=folder,
        protocol={"precision": "fp32"},
        seed=None,
        timing={"encode_s": 1.5},
        results=[row()],
    )


def test_what_is_written_is_read_again(result: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "out" / "result.json"
    write_result(path, result)
    assert read_result(path) == result
    assert [file.name for file in path.parent.iterdir()] == ["result.json"]


def test_a_result_says_where_it_comes_from(result: dict[str, Any], folder: Path) -> None:
    import torch

    assert result["schema"] == SCHEMA == "holdfast.results/1"
    assert result["model"] == "my model"
    assert result["model_sha256"] == model_identity(folder)["model_sha256"]
    assert shlex.split(result["command"]) == ["holdfast", "evaluate", "my model", "--tasks", "sts"]
    assert datetime.fromisoformat(result["created"]).utcoffset() is not None
    environment = result["environment"]
    assert environment["threads"] == torch.get_num_threads()
    assert environment["packages"]["torch"] == torch.__version__
    assert {"holdfast", "transformers", "sentence-transformers"} <= environment["packages"].keys()
    assert {"python", "platform", "cpu", "device"} <= environment.keys()


def test_the_command_is_this_process_own_by_default(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/some/where/bin/holdfast", "evaluate", "a b"])
    result = new_result("evaluate", model="a b", path=folder, protocol={}, seed=3)
    assert result["command"] == "holdfast evaluate 'a b'"


def without(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda result: {name: value for name, value in result.items() if name != key}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda r: r | {"schema": "holdfast.results/2"},
            "its schema is 'holdfast.results/2'.*reads 'holdfast.results/1'",
        ),
        (without("schema"), "not a holdfast result"),
        (lambda r: [r], "not a holdfast result"),
        (without("model_sha256"), "'model_sha256' missing"),
        (without("protocol"), "'protocol' missing"),
        (lambda r: r | {"model": ["m"]}, r"'model' is of the wrong type \(list\)"),
        (lambda r: r | {"seed": True}, "'seed' is of the wrong type"),
        (lambda r: r | {"results": [row(), 3]}, "row 2 of results is not an object"),
        (lambda r: r | {"results": [without("split")(row())]}, "row 1 of results.*'split' missing"),
        (lambda r: r | {"results": [row() | {"n": "9"}]}, "'n' is of the wrong type"),
        (lambda r: r | {"results": [row(spearman=float("nan"))]}, "the metric 'spearman' is nan, not a finite number"),
        (lambda r: r | {"results": [row() | {"metrics": {"accuracy": "high"}}]}, "'accuracy' is 'high'"),
    ],
)
def test_a_changed_result_is_refused(
    result: dict[str, Any], tmp_path: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(change(result)))
    with pytest.raises(UserError, match=rf"result\.json: .*{message}"):
        read_result(path)


ITEMS = [
    ({"correct": [1, 0, 1]}, None),
    ({"gold": [0.5, 3, 2.0], "similarity": [0.1, -0.25, 1]}, None),
    ({"gold": [0.5, 3, 2.0], "prediction": [0.1, 4.5, 1]}, None),
    ({"text": [7, 8, 12], "stability": [0.5, 1, -0.1]}, None),
    ({"text": [7, 8, 12], "correct": [0, 1, 1]}, None),
    ({"text": [7, 8, 12]}, "its items are not one of"),
    ([1, 0, 1], "its items are not one of correct or gold, similarity or gold, prediction"),
    ({"similarity": [1, 2, 3]}, "its items are not one of"),
    ({"correct": [1, 0]}, "items.correct is not a list of its 3 items"),
    ({"correct": "101"}, "items.correct is not a list"),
    ({"correct": [1, 0, 2]}, r"items.correct\[2\] is 2, not 0 or 1"),
    ({"correct": [1, 0, True]}, r"items.correct\[2\] is True"),
    ({"gold": [1, 2, None], "similarity": [1, 2, 3]}, r"items.gold\[2\] is None, not a finite number"),
    ({"gold": [1, 2, 3], "similarity": [1, float("inf"), 3]}, r"items.similarity\[1\] is inf"),
]


@pytest.mark.parametrize(("items", "message"), ITEMS)
def test_items_are_a_number_for_each_of_n(
    result: dict[str, Any], tmp_path: Path, items: Any, message: str | None
) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result | {"results": [row() | {"n": 3, "items": items}]}))
    if message is None:
        assert read_result(path)["results"][0]["items"] == items
    else:
        with pytest.raises(UserError, match=rf"result\.json: row 1 of results: {message}"):
            read_result(path)


def test_items_stand_in_one_line_each(result: dict[str, Any], tmp_path: Path) -> None:
    items = {"gold": [0.5, 3.0, 2.0], "similarity": [0.123456789012, -0.25, 1.0]}
    result["results"] = [
        row(),
        row("sickr") | {"n": 3, "items": items},
        row("mr") | {"n": 2, "items": {"correct": [1, 0]}},
    ]
    path = tmp_path / "result.json"
    write_result(path, result)
    lines = path.read_text().splitlines()
    assert any(line.strip() == '"similarity": [0.123456789012, -0.25, 1.0]' for line in lines)
    assert any(line.strip() == '"correct": [1, 0]' for line in lines)
    assert read_result(path) == result
    assert result["results"][1]["items"] is items


def test_a_result_that_could_not_be_read_again_is_not_written(result: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with pytest.raises(UserError, match="'n' is of the wrong type"):
        write_result(path, result | {"results": [row() | {"n": "many"}]})
    assert not path.exists()


def test_files_that_are_not_json(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with pytest.raises(UserError, match="cannot read the result file"):
        read_result(path)
    path.write_text('{\n  "schema": \n}')
    with pytest.raises(UserError, match=r"result\.json:3: not JSON"):
        read_result(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not UTF-8"):
        read_result(path)


def printed(rows: list[dict[str, Any]]) -> list[str]:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(sts_table(rows))
    return capture.get().splitlines()


def test_the_table_shows_each_task_and_the_average_of_the_seven_within_80_columns() -> None:
    rows = [row(task, spearman=70.0 + i) for i, task in enumerate(STS_TASKS)]
    text = printed([*rows, row("sickr-full", "all", 99.99)])
    assert all(len(line) <= 80 for line in text)
    header = next(line for line in text if "sts12" in line)
    assert header.split() == [*STS_TASKS, "sickr-full", "Avg."]
    scores = next(line for line in text if "70.00" in line)
    assert scores.split()[-2:] == ["99.99", "73.00"]
    assert "…" not in "".join(text)


def test_the_table_shows_no_average_of_fewer_than_seven_and_names_other_splits() -> None:
    text = "\n".join(printed([row(), row("stsb", "dev", 85.5)]))
    assert "Avg." not in text
    assert "stsb dev" in text
    assert "85.50" in text


def test_the_transfer_table_fits_80_columns_and_averages_all_seven() -> None:
    from holdfast.evaluation.transfer import TRANSFER_TASKS

    rows = [
        {"task": task, "split": "test", "n": 10662, "metrics": {"accuracy": 70.0 + i}, "selection": {}}
        for i, task in enumerate(TRANSFER_TASKS)
    ]
    rows[-1]["metrics"]["f1"] = 81.25
    console = Console(width=80)
    with console.capture() as capture:
        console.print(transfer_table([*rows, row()]))
    text = capture.get().splitlines()
    assert next(line for line in text if "mrpc" in line).split() == [*TRANSFER_TASKS, "Avg."]
    assert next(line for line in text if "accuracy" in line).split()[-2:] == ["76.00", "73.00"]
    assert next(line for line in text if "F1" in line).split() == ["F1", "81.25"]
    assert "…" not in "".join(text)
    with console.capture() as capture:
        console.print(transfer_table(rows[:1]))
    assert "Avg." not in capture.get()
    assert "F1" not in capture.get()


def test_a_number_that_is_not_finite_does_not_lose_the_result(result: dict[str, Any], tmp_path: Path) -> None:
    infinity, nothing = float("inf"), float("nan")
    result["protocol"] = {"limit": infinity, "scores": (1.0, nothing), "names": {"a": -infinity}}
    items = {"gold": [0.5, 3.0], "similarity": [nothing, 1.0]}
    result["results"] = [row(), row("sickr", spearman=nothing) | {"n": 2, "items": items, "took": infinity}]
    write_result(tmp_path / "result.json", result)
    text = (tmp_path / "result.json").read_text()
    assert "NaN" not in text + to_json(result)
    assert "Infinity" not in text + to_json(result)
    read, state = read_with_state(tmp_path / "result.json")
    assert state == "as written"
    assert read["protocol"] == {"limit": None, "scores": [1.0, None], "names": {"a": None}}
    assert read["results"][0] == row()
    message = {"task": "sickr", "split": "test", "n": 2, "metrics": {"pearson": 80.0}, "took": None}
    assert read["results"][1] == {**message, "undefined": ["spearman", "items"]}
