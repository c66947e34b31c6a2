"""An evaluation by two processes is, to the last bit, that by one."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from holdfast.cli import main
from holdfast.distributed import own_device
from holdfast.encoding import encode_batches, tokenise
from holdfast.models import load_sentence_transformer

WORDS = "the a man woman child dog cat runs sleeps eats plays sings on under in park house bed red big old".split()


@pytest.fixture
def sentences() -> list[str]:
    """400 sentences of 2 to 14 words, which make several batches."""
    draw = random.Random(3)
    return [" ".join(draw.choices(WORDS, k=draw.randint(2, 14))) for _ in range(400)]


def test_shares_are_the_batches_of_one_process(masked_lm: Path, sentences: list[str]) -> None:
    model = load_sentence_transformer(str(masked_lm), device="cpu")
    whole = list(tokenise(model, sentences))
    shares = [list(tokenise(model, sentences, share=(rank, 3))) for rank in range(3)]
    assert len(whole) >= 3
    assert [batch.rows for batch in whole[1::3]] == [batch.rows for batch in shares[1]]
    parts = [encode_batches(model, share, len(sentences)) for share in shares]
    assert np.array_equal(sum(parts), encode_batches(model, whole, len(sentences)))


def test_a_process_without_a_batch_adds_nothing(masked_lm: Path) -> None:
    model = load_sentence_transformer(str(masked_lm), device="cpu")
    vectors = encode_batches(model, tokenise(model, ["a dog runs"], share=(1, 2)), 1)
    assert np.array_equal(vectors, np.zeros((1, 16), np.float32))


def test_each_process_of_several_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    kind: list[torch.device | None] = [torch.device("cuda")]
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: kind[0])
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 4)
    assert own_device() is None, "one process: the library's choice"
    monkeypatch.setenv("WORLD_SIZE", "16")
    monkeypatch.setenv("RANK", "11")
    assert own_device() == "cuda:3"
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert own_device() == "cuda:2"
    kind[0] = torch.device("xpu")
    assert own_device() == "xpu:2"
    kind[0] = None
    assert own_device() is None


@pytest.mark.slow
def test_two_processes_give_the_result_of_one(masked_lm: Path, sentences: list[str], tmp_path: Path) -> None:
    draw = random.Random(4)
    for task, rows in (("stsb", sentences[:300]), ("sickr", sentences[200:])):
        (tmp_path / "data" / task).mkdir(parents=True)
        pairs = [f"{a}\t{b}\t{draw.randint(10, 50) / 10}" for a, b in zip(rows[::2], rows[1::2], strict=True)]
        text = "\n".join(["sentence1\tsentence2\tscore", *pairs]) + "\n"
        (tmp_path / "data" / task / "test.tsv").write_text(text, encoding="utf-8")
    given = ["evaluate", str(masked_lm), "--tasks", "stsb,sickr", "--data", str(tmp_path / "data"), "--output"]
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    assert main([*given, str(one)]) == 0
    assert not dist.is_initialized()
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m", "holdfast"]
    done = subprocess.run(
        [*launcher, *given, str(two), "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    first, second = (json.loads(path.read_text(encoding="utf-8"))["results"] for path in (one, two))
    assert first == second
    assert first[0]["n"] == 150
    assert json.loads(done.stdout)["results"] == second, "one of them prints, and it alone"
