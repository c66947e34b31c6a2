"""A hardening whose weights are chosen by what is held out of its corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from holdfast.cli import main
from holdfast.hardening import HardenSettings, harden
from holdfast.hardening.goal.choice_rule import RULE
from holdfast.results import read_result
from holdfast.runs.run_log import read_log

SMALL = ["--batch-size", "16", "--texts", "mine.txt", "--examples", "3", "--precision", "fp32", "--noise", "typing=0.3"]


def words(output: str, *more: str) -> list[str]:
    return ["harden", "old", "--corpus", "mine.txt", "--output", output, *SMALL, *more]


def same_weights(first: Path, second: Path) -> bool:
    one, other = (load_file(folder / "model.safetensors") for folder in (first, second))
    return one.keys() == other.keys() and all(bool((one[name] == other[name]).all()) for name in one)


def test_the_whole_command(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words("new", "--queries", "asked.txt", "--max-steps", "40", "--learning-rate", "1e-3")) == 0
    printed = capsys.readouterr()
    result = read_result(here / "new" / "harden.json")
    protocol, selected = result["protocol"], result["selected"]
    assert protocol["selection"] == "goal"
    assert protocol["corpus"]["source"] == "mine.txt + asked.txt"
    assert protocol["corpus"]["sentences"] == 40 * 16
    assert protocol["goal"]["noise"] == ["typing=0.3"]
    assert selected["protocol"] == RULE
    old_index = [row for row in result["results"] if row["task"] == "old index"]
    assert result["results"][: len(old_index)] == old_index
    assert [row["split"] for row in old_index][:2] == ["clean", "typing"]
    assert "old index.clean" in printed.out
    assert "held out: 500 texts and 150 queries" in printed.err
