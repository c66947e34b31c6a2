"""The same command, twice: the same bytes of weights and metrics, but for the times that `kills.MAY_DIFFER` names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kills
import pytest
from small_world import World, jobs, make_world

from holdfast.cli import main


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
