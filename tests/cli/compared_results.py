"""Results for `holdfast compare`, written by hand, and what it makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.cli import main
from holdfast.results import new_result, write_result


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


def attack_row(recipe: str = "pwws", **more: Any) -> dict[str, Any]:
    return {"task": "mr", "split": "all", "n": 3, "recipe": recipe, "metrics": {}, "skipped": {}} | more
