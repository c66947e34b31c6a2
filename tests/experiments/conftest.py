"""A table of a few seconds: small random models, and texts that are of class 1 if there is a dog in them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_table import TABLE

from holdfast.attacks.resource_names import ResourceNames
from holdfast.experiments import cell_execution
from holdfast.experiments.reproduce_settings import ReproduceSettings

OTHERS = "the a man woman child runs sleeps eats plays sings on under in park house bed red big old".split()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with sst2."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    draw = random.Random(0)
    (tmp_path / "data" / "sst2").mkdir(parents=True)
    for split, count in {"train": 64, "dev": 16, "test": 16}.items():
        lines = ["sentence\tlabel"]
        for number in range(count):
            words = [*draw.choices(OTHERS, k=6), *[("cat", "dog")[number % 2]] * 2]
            draw.shuffle(words)
            lines.append(f"{' '.join(words)}\t{number % 2}")
        (tmp_path / "data" / "sst2" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path / "data"


@pytest.fixture
def stsb(data: Path, sentences: list[str]) -> Path:
    """The data folder with STS-B's dev pairs besides."""
    (data / "stsb").mkdir()
    lines = [f"{a}\t{b}\t{(len(a) * len(b)) % 51 / 10}" for a in sentences for b in sentences if a != b]
    (data / "stsb" / "dev.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *lines]) + "\n")
    return data


@pytest.fixture
def settings(
    tmp_path: Path, data: Path, make_masked_lm: Callable[..., Path], sentences: list[str]
) -> Callable[..., ReproduceSettings]:
    """``settings(table=TABLE, **changes)``: the small table, or another one in its place."""
    model = make_masked_lm(tmp_path / "tiny")
    (tmp_path / "corpus.txt").write_text("\n".join(sentences) + "\n")

    def make(table: str = TABLE, **changes: object) -> ReproduceSettings:
        path = tmp_path / "small.yaml"
        path.write_text(table)
        given: dict[str, object] = {
            "table": str(path),
            "scale": "paper",
            "output": tmp_path / "out",
            "model": str(model),
            "corpus": str(tmp_path / "corpus.txt"),
            "data": data,
            "resources": ResourceNames("none", "none", "none", str(model), str(model)),
        }
        return ReproduceSettings(**{**given, **changes})  # type: ignore[arg-type]

    return make


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The labels of the cells that were made, in order."""
    labels: list[str] = []
    real = cell_execution.do

    def do(cell: Any, *rest: Any) -> None:
        labels.append(f"{cell.kind}: {cell.label}")
        real(cell, *rest)

    monkeypatch.setattr(cell_execution, "do", do)
    return labels
