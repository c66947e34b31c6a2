"""Small labelled tasks, all made here: a text is of class 1 if it has a dog in it, and of class 0 if it has a cat."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from classifier_rows import rows, write

from holdfast.classifiers import FinetuneSettings


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with sst2 (train, dev, test), mr (all), mrpc (train, test) and the attack set of mr."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    folder = tmp_path / "data"
    for number, (split, count) in enumerate({"train": 240, "dev": 40, "test": 60}.items()):
        write(folder / "sst2" / f"{split}.tsv", rows(count, number))
    everything = rows(200, 10)
    write(folder / "mr" / "all.tsv", everything)
    write(folder / "textfooler" / "mr.tsv", [(f"{text.upper()} .", label) for text, label in everything[:30]])
    for number, (split, count) in enumerate({"train": 480, "test": 60}.items(), start=20):
        write(folder / "mrpc" / f"{split}.tsv", rows(count, number, pairs=True))
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, make_masked_lm: Callable[..., Path]) -> Path:
    """A random masked LM."""
    return make_masked_lm(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def settings(tiny: Path, data: Path, tmp_path: Path) -> Callable[..., FinetuneSettings]:
    """``settings(**changes)``: a short run that learns the task."""

    def make(**changes: Any) -> FinetuneSettings:
        given: dict[str, Any] = {
            "model": str(tiny),
            "task": "sst2",
            "output": tmp_path / "out",
            "precision": "fp32",
            "data": data,
        }
        if not changes.get("frozen"):
            given |= {"epochs": 3.0, "batch_size": 16, "learning_rate": 5e-3}
        return FinetuneSettings(**{**given, **changes})

    return make
