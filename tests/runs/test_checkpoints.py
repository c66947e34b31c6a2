"""A checkpoint is used only when it is whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.runs.checkpoints import checkpoints, is_intact, keep_newest, latest_intact, seal, step_of


def make(folder: Path, step: int, *, sealed: bool = True) -> Path:
    checkpoint = folder / f"checkpoint-{step}"
    (checkpoint / "1_Pooling").mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(bytes(range(200)))
    (checkpoint / "1_Pooling" / "config.json").write_text("{}")
    if sealed:
        seal(checkpoint)
    return checkpoint


def test_the_newest_intact_one_is_found_and_order_is_by_number(tmp_path: Path) -> None:
    old, new = make(tmp_path, 900), make(tmp_path, 1000)
    make(tmp_path, 1100, sealed=False)
    assert [step_of(path) for path in checkpoints(tmp_path)] == [900, 1000, 1100]
    found, damaged = latest_intact(tmp_path)
    assert found == new
    assert [path.name for path in damaged] == ["checkpoint-1100"]
    (new / "model.safetensors").unlink()
    assert latest_intact(tmp_path)[0] == old


@pytest.mark.parametrize("damage", ["truncate", "flip", "remove", "seal"])
def test_every_damage_is_seen(tmp_path: Path, damage: str) -> None:
    checkpoint = make(tmp_path, 1)
    assert is_intact(checkpoint)
    weights = checkpoint / "model.safetensors"
    content = bytearray(weights.read_bytes())
    if damage == "truncate":
        weights.write_bytes(content[:-1])
    elif damage == "flip":
        content[100] ^= 1
        weights.write_bytes(content)
    elif damage == "remove":
        (checkpoint / "1_Pooling" / "config.json").unlink()
    else:
        (checkpoint / "sealed.json").write_text('{"model.safetensors": ')
    assert not is_intact(checkpoint)


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (2, 10, 9, 100):
        make(tmp_path, step)
    keep_newest(tmp_path, 2)
    assert [step_of(path) for path in checkpoints(tmp_path)] == [10, 100]


def test_nothing_there(tmp_path: Path) -> None:
    assert latest_intact(tmp_path / "absent") == (None, [])
