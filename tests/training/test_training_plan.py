"""The plan of a training: what is measured on a few sentences holds for larger batches, and what is advised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.cli import main
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS
from holdfast.training.step_memory import LiveTensors, StepMemory, measured_step
from holdfast.training.training_plan import TrainingPlan, memory_of

STEP = StepMemory(1e9, 1e8, 1e6, 5e7, 1e12, 1.3e12, 2.0)


def plan(**changed: Any) -> TrainingPlan:
    given = {"batch": 1024, "length": 128, "precision": "fp32", "mini_batch": None, "weights": 10**9}
    return TrainingPlan(**{**given, "trained": 10**8, "memory": 24e9, "step": STEP, **changed})


def test_live_tensors_are_counted_from_birth_to_end() -> None:
    kept = torch.zeros(10)
    with LiveTensors() as memory:
        first = torch.ones(1000)
        second = first + 1
        view = second[:5]
        assert memory.live == 8000
        del first
        assert memory.live == 4000
        del second
        assert memory.live == 4000, "a view keeps what it shows"
        del view
        product = kept[:, None] @ kept[None]
    assert memory.peak == 8000
    assert memory.flops == 2 * 10 * 10
    assert product.shape == (10, 10)


@pytest.mark.parametrize("method", ["simcse", "robustembed"])
def test_a_large_step_costs_what_a_few_sentences_say(method: str, tiny: Path) -> None:
    """Larger widths than the usual tiny model's, so that activations, not words, are what counts."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=26,
        hidden_size=32,
        num_hidden_layers=6,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(tiny)
    model = load_sentence_transformer(str(tiny), device="cpu")
    encoder = Encoder(model)
    objective = METHODS[method](model).train()
    objective.followed_by_trainer = True
    objective.length_groups = 1
    texts = [
        f"the {n % 2 * 'big '}{(1 - n % 2) * 'old '}dog runs in the park and a cat sleeps on it" for n in range(24)
    ]

    def batch(sentences: int) -> list[dict[str, Any]]:
        features = dict(encoder.tokenise(texts))
        return [{name: value[:sentences] if torch.is_tensor(value) else value for name, value in features.items()}]

    found = StepMemory.of(objective, batch)
    assert objective.mini_batch_size is None
    plain = measured_step(objective, batch(24))
    assert 0.95 * plain.peak < found.peak(24) < 1.15 * plain.peak
    assert found.flops * 24 == pytest.approx(plain.flops, rel=0.02)
    objective.use_mini_batches(8)
    in_parts = measured_step(objective, batch(24))
    assert in_parts.peak < 0.6 * plain.peak
    assert 0.95 * in_parts.peak < found.peak(24, 8) < 1.35 * in_parts.peak
    assert found.flops_again * 24 == pytest.approx(in_parts.flops, rel=0.02)
    assert 1.2 < in_parts.flops / plain.flops < 1.6


def test_the_arithmetic_of_a_plan() -> None:
    made = plan()
    assert made.fixed == 1e9 + 8e8
    similarities = 4 * 6 * 2 * 1024**2
    assert made.total(None) == pytest.approx(1.8e9 + 1e9 + 1024e8 + similarities)
    assert made.total(64) == pytest.approx(1.8e9 + 1e9 + 1024e6 + 64 * 5e7 + similarities)
    assert made.usable == pytest.approx(24e9 * 0.95 - 0.8e9)
    assert made.fitting() == 256
    told = "24.0 GB: it does not fit in one pass; --mini-batch-size 256 does, in 16.7 GB, or any smaller one"
    assert made.lines()[-1] == told
    assert plan(batch=64).lines()[-1] == "24.0 GB: it fits in one pass"
    assert "it does not fit, not even in mini-batches of one row" in plan(memory=2e9).lines()[-1]
    assert made.record()["fitting_mini_batch"] == 256
    assert made.record()["fits_in_one_pass"] is False


@pytest.mark.parametrize(("text", "size"), [("24GB", 24e9), ("80 GiB", 80 * 2**30), ("8", 8e9), ("512MB", 512e6)])
def test_memory_from_text(text: str, size: float) -> None:
    assert memory_of(text) == size


@pytest.mark.parametrize("text", ["", "x", "24TBs", "-1GB", "0", "1e9"])
def test_what_is_no_memory(text: str) -> None:
    with pytest.raises(UserError, match="--plan-memory takes the memory of a GPU, such as 24GB"):
        memory_of(text)


@pytest.mark.parametrize("method", ["simcse", "ct"])
def test_the_command_writes_nothing(
    method: str, tiny: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    words = ["train", method, "--model", str(tiny), "--corpus", str(corpus), "--output", str(output)]
    words += ["--batch-size", "512", "--plan", "--plan-memory", "1GB"]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["plan"]
    assert found["batch"] == 512
    assert found["one_pass"] > found["fixed"] > 0
    assert not output.exists()
    assert main([*words, "--plan-memory", "much"]) == 2
    assert "--plan-memory takes the memory of a GPU" in capsys.readouterr().err
    corpus.write_text(f"{'a dog runs ' * 2000}\n" + corpus.read_text())
    assert main(words) == 2
    assert "raise --max-chars" in capsys.readouterr().err
    assert main([*words, "--max-chars", "30000"]) == 0
    capsys.readouterr()
    assert main([word for word in words if word != "--plan"]) == 2
    assert "--plan-memory is for --plan: give both, or leave it out" in capsys.readouterr().err
    assert not output.exists()


def test_a_plan_with_the_vectors_of_a_folder_has_no_teacher(
    tiny: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "anchored", "--model", str(tiny), "--corpus", str(corpus), "--output", str(tmp_path / "out")]
    words += ["--batch-size", "64", "--plan", "--json", "--set", "bank=1000"]
    fixed = []
    for more in ([], ["--vectors", str(tmp_path / "vectors")]):
        assert main([*words, *more]) == 0
        fixed.append(json.loads(capsys.readouterr().out)["plan"]["fixed"])
    weights = sum(each.numel() for each in load_sentence_transformer(str(tiny), device="cpu").parameters()) * 4
    assert fixed[0] - fixed[1] == pytest.approx(weights, rel=0.1)
    assert not (tmp_path / "vectors").exists()
    assert main(["train", "simcse", *words[2:-2], "--vectors", str(tmp_path / "vectors")]) == 2
    assert "--vectors: SimCSE learns no vectors of a teacher" in capsys.readouterr().err


def test_a_plan_counts_the_bank(tiny: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "anchored", "--model", str(tiny), "--corpus", str(corpus), "--output", str(tmp_path / "out")]
    passes = []
    for bank in (2, 20_000):
        assert main([*words, "--batch-size", "64", "--plan", "--json", "--set", f"bank={bank}"]) == 0
        passes.append(json.loads(capsys.readouterr().out)["plan"]["one_pass"])
    assert passes[1] - passes[0] > 64 * 20_000 * 4, "the similarities of a batch with the bank are in memory"


def test_a_plan_reads_the_column_of_positives(tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("sentence\tother\n" + "a dog runs\ta dog is running\n" * 8)
    words = ["train", "simcse", "--model", str(tiny), "--corpus", str(pairs), "--output", str(tmp_path / "out")]
    words += ["--batch-size", "8", "--plan"]
    assert main([*words, "--positive-column", "others"]) == 2
    assert f"{pairs}:1" in (message := capsys.readouterr().err)
    assert "'others'" in message
    assert main([*words, "--positive-column", "other"]) == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--dropout", "0"], "simcse: the two views of a sentence differ by dropout"),
        (["--matryoshka", "64"], "--matryoshka 64: the model's vectors have 16 dimensions"),
        (["--lora", "targets=querry"], "--lora targets=querry: the layers have no linear map of this name"),
    ],
)
def test_a_plan_refuses_what_the_training_would(
    given: list[str], message: str, tiny: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "simcse", "--model", str(tiny), "--corpus", str(corpus), "--output", str(tmp_path / "out")]
    words += ["--batch-size", "8"]
    for more in (["--plan"], ["--max-steps", "1", "--selection", "last"]):
        assert main([*words, *given, *more]) == 2
        assert message in capsys.readouterr().err
