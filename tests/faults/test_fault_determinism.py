"""The same command, twice: the same bytes of weights and metrics, but for the times that `kills.MAY_DIFFER` names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kills
import pytest
from small_world import World, jobs, make_world

from holdfast.cli import main
from holdfast.models import load_sentence_transformer
from holdfast.training.export import export


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize("verb", ["train", "finetune", "pretrain", "attack", "evaluate"])
def test_the_same_command_gives_the_same_bytes(
    verb: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    found: list[dict[str, Any]] = []
    for name in ("first", "second"):  # the second one with what libraries have left in the process
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("HOLDFAST_CACHE", str(folder / ".cache"))
        assert main(jobs(world)[verb]) == 0
        found.append(kills.content(folder))
    assert len(found[0]) > (8 if "--save-steps" in jobs(world)[verb] else 0)
    assert found[0] == found[1]


def test_what_was_encoded_last_is_not_exported(world: World, tmp_path: Path) -> None:
    """A tokeniser remembers how it cut and padded; a resumed run may have encoded something else before its end."""
    model = load_sentence_transformer(str(world.model), device="cpu")
    exported = []
    for length in (5, 9):
        model.tokenizer(["the dog runs", "a cat"], truncation=True, max_length=length, padding="max_length")
        before = model.tokenizer.backend_tokenizer.truncation, model.tokenizer.backend_tokenizer.padding
        export(model, tmp_path / str(length), "a card")
        assert (model.tokenizer.backend_tokenizer.truncation, model.tokenizer.backend_tokenizer.padding) == before
        assert before[0]["max_length"] == before[1]["length"] == length
        exported.append(kills.content(tmp_path / str(length)))
    assert exported[0] == exported[1]
