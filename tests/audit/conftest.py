"""The folder that audits are made in."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from audited import some_texts


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory, make_masked_lm: Callable[..., Path]) -> Path:
    return make_masked_lm(tmp_path_factory.mktemp("audited") / "lm")


@pytest.fixture
def here(tmp_path: Path, lm: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a model `lm`, texts, and a data folder with STS-B dev and a small WordNet."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lm").symlink_to(lm)
    (tmp_path / "mine.txt").write_text("\n".join(some_texts(40)) + "\n", encoding="utf-8")
    (tmp_path / "data" / "stsb").mkdir(parents=True)
    pairs = some_texts(60, seed=1)
    table = [f"{a}\t{b}\t{i % 6}\n" for i, (a, b) in enumerate(zip(pairs[:30], pairs[30:], strict=True))]
    (tmp_path / "data" / "stsb" / "dev.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(table))
    (tmp_path / "data" / "wordnet").mkdir()
    synsets = [
        "n\tman|woman|child",
        "n\tdog|cat",
        "v\trun|sleep|eat",
        "v\tplay|sing",
        "n\tpark|house|bed",
        "a\tred|big",
    ]
    (tmp_path / "data" / "wordnet" / "synsets.tsv").write_text("pos\tlemmas\n" + "\n".join(synsets) + "\n")
    (tmp_path / "data" / "wordnet" / "exceptions.tsv").write_text("pos\tinflected\tlemmas\n")
    return tmp_path


@pytest.fixture
def nothing_here(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same without data, and on a machine without WordNet."""
    shutil.rmtree(here / "data")
    monkeypatch.setattr("holdfast.attacks.resources._wordnet_places", lambda data: iter(()))
    return here
