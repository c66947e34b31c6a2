"""Weights shared out over processes: what launchers ask for, and a run that is killed and goes on."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env
from safetensors.torch import load_file

from holdfast.errors import UserError
from holdfast.files import sha256
from holdfast.training.sharding import sharding_requested
from warm import WarmPython

CONFIGS = Path(__file__).parents[2] / "configs" / "accelerate"
DIE = Path(__file__).with_name("die.py")
ON = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}


@pytest.fixture
def message(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``message(NAME=value, ...)``: what a launcher says, to the first of two processes."""
    for name in [name for name in os.environ if name.startswith(("FSDP_", "ACCELERATE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WORLD_SIZE", "2")

    def tell(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return tell


def test_it_is_asked_for_by_the_launcher_and_kept_from_the_libraries(message: Callable[..., None]) -> None:
    with sharding_requested() as shard:
        assert not shard
    message(**ON)
    with sharding_requested() as shard:
        assert shard
        assert os.environ["ACCELERATE_USE_FSDP"] == "false"
    assert os.environ["ACCELERATE_USE_FSDP"] == "true"


def test_one_process_has_nobody_to_share_with(message: Callable[..., None]) -> None:
    message(**ON, WORLD_SIZE="1")
    with sharding_requested() as shard:
        assert not shard


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({"FSDP_VERSION": "1"}, "set fsdp_version: 2"),
        ({"FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP"}, "TRANSFORMER_BASED_WRAP is not supported.*NO_WRAP"),
        ({"FSDP_OFFLOAD_PARAMS": "true"}, "fsdp_offload_params is not supported"),
        ({"FSDP_ACTIVATION_CHECKPOINTING": "true"}, "fsdp_activation_checkpointing is not supported"),
        ({"ACCELERATE_USE_DEEPSPEED": "true"}, "DeepSpeed owns the backward pass.*fsdp2.yaml"),
    ],
)
def test_what_is_not_there_is_refused(variables: dict[str, str], line: str, message: Callable[..., None]) -> None:
    message(**{**ON, **variables})
    with pytest.raises(UserError, match=line), sharding_requested():
        pass


@pytest.mark.parametrize(
    ("name", "processes", "shard"), [("ddp", 8, False), ("ddp_8_machines", 64, False), ("fsdp2", 8, True)]
)
def test_the_shipped_configurations(name: str, processes: int, shard: bool, message: Callable[..., None]) -> None:
    """As far as a machine without GPUs goes: what the launcher makes of them, and what is made of that."""
    words = ["--config_file", str(CONFIGS / f"{name}.yaml"), "-m", "holdfast", "train"]
    arguments, *_ = _validate_launch_command(launch_command_parser().parse_args(words))
    assert int(arguments.num_processes) == processes
    assert arguments.mixed_precision == "no", "the precision is --precision"
    message(**{name: value for name, value in prepare_multi_gpu_env(arguments).items() if name not in os.environ})
    with sharding_requested() as asked:
        assert asked is shard


@pytest.mark.slow
def test_a_sharded_run_that_is_killed_ends_in_the_same_bits(
    tiny: Path, corpus: Path, labelled: Path, tmp_path: Path, warm: WarmPython, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ON.items():
        monkeypatch.setenv(name, value)

    def run(output: str, point: str) -> subprocess.CompletedProcess[str]:
        given = [str(tiny), str(corpus), str(labelled), str(tmp_path / output), "adcse", point]
        return warm.run(DIE, *given, processes=2)

    unbroken, killed = run("unbroken", "never"), run("killed", "step-11")
    assert unbroken.returncode == 0, unbroken.stderr
    assert killed.returncode != 0
    assert not (tmp_path / "killed" / "modules.json").exists()
    resumed = run("killed", "never")
    assert resumed.returncode == 0, resumed.stderr
    last = "checkpoint-20"
    for name in ("model.safetensors", f"{last}/model.safetensors", f"{last}/objective.safetensors"):
        assert sha256(tmp_path / "unbroken" / name) == sha256(tmp_path / "killed" / name), name
    selected = [
        json.loads((tmp_path / name / "results.json").read_text())["selected"] for name in ("unbroken", "killed")
    ]
    assert selected[0] == selected[1]
    # Checkpoints are those of any run: whole weights, and the whole state of the optimiser.
    weights = load_file(tmp_path / "unbroken" / last / "model.safetensors")
    assert weights["embeddings.word_embeddings.weight"].shape == (26, 16)
    state = torch.load(tmp_path / "unbroken" / last / "optimizer.pt", weights_only=True)["state"]
    assert any(held["exp_avg"].shape == (26, 16) for held in state.values())
