"""A full disk inside the writers in Rust and C++: one line, exit code 2, the last checkpoint intact, and on again."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from small_world import World, jobs, make_world
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from holdfast.cli import main
from holdfast.errors import EndsRun
from holdfast.files import append_line, one_line_write_errors, sha256
from holdfast.runs import resumable
from holdfast.runs.checkpoints import checkpoints, is_intact


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file of this process grows beyond a size: as real an error as a full disk, and to be had without one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


WRITERS: dict[str, Callable[[Path], Any]] = {
    "safetensors": lambda path: save_file({"a": torch.zeros(5000)}, path),
    "torch": lambda path: torch.save({"a": torch.zeros(5000)}, path),
    "torch at its end": lambda path: torch.save({str(n): torch.zeros(1) for n in range(400)}, path),
    "tokenizers": lambda path: Tokenizer(WordLevel({f"word {n}": n for n in range(3000)}, "word 0")).save(str(path)),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_each_writer_is_told_in_a_line(writer: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    message = pytest.raises(EndsRun, match=f"cannot write {path}: .*(File too large|ulimit)")
    with message, files_of_at_most(3000), one_line_write_errors(path):
        WRITERS[writer](path)


def test_what_is_no_write_error_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="size mismatch"), one_line_write_errors(tmp_path / "file"):
        raise RuntimeError("size mismatch")


def test_a_line_is_appended_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append_line(path, "x" * 90)
    with pytest.raises(EndsRun, match=f"cannot write {path}: File too large"), files_of_at_most(100):
        append_line(path, "y" * 90)
    append_line(path, "z")
    assert path.read_text() == "x" * 90 + "\nz\n"


def test_a_full_disk_that_only_rust_tells_of_is_a_line_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing says what was being written."""

    def full(*_: Any, **__: Any) -> None:
        raise Exception(f"{os.strerror(errno.ENOSPC)} (os error {errno.ENOSPC})")

    monkeypatch.setattr("holdfast.training.training_run.train", full)
    assert main(["train", "simcse", "--model", "m", "--corpus", "c.txt", "--output", "out"]) == 2
    assert capsys.readouterr().err == "holdfast: no space left on the disk: free some space and run again\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


# The sizes lie within what each trainer saves: best weights, tokeniser, optimiser's state.
@pytest.mark.parametrize(
    ("verb", "size", "what"),
    [
        ("train", 9000, "best/model.safetensors: "),
        ("train", 30_000, "checkpoint-6: "),
        ("finetune", 30_000, "checkpoint-6: "),
        ("pretrain", 30_000, "checkpoint-6: "),
    ],
)
def test_a_checkpoint_that_does_not_fit(
    verb: str,
    size: int,
    what: str,
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    words = jobs(world)[verb]
    whole, limits = resumable.seal, contextlib.ExitStack()

    def seal(checkpoint: Path) -> None:
        whole(checkpoint)
        limits.enter_context(files_of_at_most(size))  # the disk is full from the first checkpoint on

    with limits, monkeypatch.context() as patch:
        patch.setattr(resumable, "seal", seal)
        assert main(words) == 2
    message = capsys.readouterr().err
    (line,) = [line for line in message.splitlines() if line.startswith("holdfast: ")]
    assert line.startswith(f"holdfast: cannot write out/{what}")
    assert line.endswith("; last good checkpoint: out/checkpoint-3; continue with --resume")
    assert "Traceback" not in message
    (left,) = checkpoints(Path("out"))
    assert is_intact(left)
    assert main([*words, "--resume"]) == 0
    assert "resuming from checkpoint-3" in capsys.readouterr().err
    assert main([*words[:-1], "unbroken"]) == 0
    assert sha256(Path("out/model.safetensors")) == sha256(Path("unbroken/model.safetensors"))
