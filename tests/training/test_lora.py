"""Training of adapters: small checkpoints, resumption to the bit, and both forms of the finished model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from methods import OPTIONS
from safetensors import safe_open
from sentence_transformers import SentenceTransformer

from holdfast.adapters import Lora, add_lora
from holdfast.backbone_dropout import dropout_of
from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.files import sha256
from holdfast.models import load_sentence_transformer
from holdfast.results import read_result
from holdfast.training.train_config import TrainConfig
from holdfast.training.trainer import HoldfastTrainer
from holdfast.training.training_run import train
from warm import WarmPython


def config(tiny: Path, corpus: Path, output: Path, **changed: Any) -> TrainConfig:
    given = {"method": "simcse", "batch_size": 8, "selection": "last", "precision": "fp32", "report_sts": False}
    given |= {"max_steps": 6, "learning_rate": 1e-2, "save_steps": 3, "lora": "r=2"}
    return TrainConfig(model=str(tiny), corpus=str(corpus), output=output, **{**given, **changed})


def tensors_in(path: Path) -> list[str]:
    with safe_open(str(path), framework="pt") as file:
        return list(file.keys())


@pytest.mark.parametrize("method", ["simcse", "adcse", "ct", "anchored"])
def test_checkpoints_hold_adapters_and_a_resumed_run_ends_in_the_same_bits(
    method: str, tiny: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"method": method, "options": OPTIONS.get(method, {})}
    train(config(tiny, corpus, tmp_path / "unbroken", **given))
    last = tmp_path / "unbroken" / "checkpoint-6"
    assert not (last / "model.safetensors").exists()
    assert all(".lora_" in name for name in tensors_in(last / "adapter_model.safetensors"))
    own = tensors_in(last / "objective.safetensors")
    assert [name for name in own if "followed_model" in name or "second_encoder" in name or "original" in name] == [
        name for name in own if ".lora_" in name
    ]
    assert bool([name for name in own if ".lora_" in name]) == (method != "simcse"), "of a copy, the adapters"
    weights = ("adapter_model.safetensors", "objective.safetensors", "optimizer.pt")
    assert (last / weights[0]).stat().st_size < (tiny / "model.safetensors").stat().st_size / 2

    class Broken(Exception):
        pass

    step = HoldfastTrainer.training_step

    def breaking(self: Any, *given: Any) -> Any:
        if self.state.global_step == 4:
            raise Broken
        return step(self, *given)

    monkeypatch.setattr(HoldfastTrainer, "training_step", breaking)
    with pytest.raises(Broken):
        train(config(tiny, corpus, tmp_path / "broken", **given))
    monkeypatch.undo()
    train(config(tiny, corpus, tmp_path / "broken", **given), resume=True)
    for name in ("model.safetensors", f"{last.name}/{weights[0]}", f"{last.name}/{weights[1]}"):
        assert sha256(tmp_path / "broken" / name) == sha256(tmp_path / "unbroken" / name), name
    assert sha256(tmp_path / "unbroken" / "model.safetensors") != sha256(tiny / "model.safetensors")


def test_both_forms_load_in_plain_sentence_transformers_and_agree(
    tiny: Path, corpus: Path, labelled: Path, tmp_path: Path, sentences: list[str]
) -> None:
    """With a step that is kept by its score, and a hub of no name: the base is the folder."""
    given = {"selection": "stsb-dev", "data": labelled, "eval_steps": 2, "pooling": "mean"}
    for save in ("merged", "adapter"):
        result = train(config(tiny, corpus, tmp_path / save, lora=f"r=2,save={save}", **given))
        assert result["protocol"]["lora"]["save"] == save
        assert "adapters (LoRA): r=2, alpha=4.0" in (tmp_path / save / "README.md").read_text(encoding="utf-8")
    merged, adapter = tmp_path / "merged", tmp_path / "adapter"
    assert (merged / "model.safetensors").exists()
    assert not (merged / "adapter_config.json").exists()
    assert not (adapter / "model.safetensors").exists()
    vectors = [SentenceTransformer(str(folder), device="cpu").encode(sentences) for folder in (merged, adapter)]
    assert abs(vectors[0] - vectors[1]).max() < 1e-5
    before = load_sentence_transformer(str(tiny), pooling="mean", device="cpu").encode(sentences)
    assert abs(vectors[0] - before).max() > 1e-3
    best = tensors_in(tmp_path / "adapter" / "best" / "best.safetensors") if (adapter / "best").exists() else []
    assert all(".lora_" in name for name in best)
    (labelled / "stsb" / "test.tsv").write_bytes((labelled / "stsb" / "dev.tsv").read_bytes())
    assert main(["evaluate", str(adapter), "--tasks", "stsb", "--data", str(labelled)]) == 0


def test_a_finished_adapter_is_trained_on_as_its_merged_model(
    tiny: Path, corpus: Path, tmp_path: Path, sentences: list[str]
) -> None:
    train(config(tiny, corpus, tmp_path / "first", lora="r=2,save=adapter"))
    first = SentenceTransformer(str(tmp_path / "first"), device="cpu").encode(sentences)
    for output, lora in (("second", "r=2"), ("whole", None)):
        train(config(tmp_path / "first", corpus, tmp_path / output, lora=lora, learning_rate=1e-9))
        found = SentenceTransformer(str(tmp_path / output), device="cpu").encode(sentences)
        assert abs(found - first).max() < 1e-4, "trained on from there, and saved as a model that loads"
    with pytest.raises(UserError, match="is an adapter, and an adapter of one could not be loaded: use save=merged"):
        train(config(tmp_path / "first", corpus, tmp_path / "third", lora="r=2,save=adapter"))


def test_an_adapter_of_the_mean_of_two_layers_is_refused(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--pooling last-two needs a setting of the transformer"):
        train(config(tiny, corpus, tmp_path / "out", lora="r=2,save=adapter", pooling="last-two"))
    assert not (tmp_path / "out").exists()


def test_a_wrong_name_is_told_before_anything_is_loaded(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "simcse", "--model", "nowhere", "--corpus", str(corpus), "--output", str(tmp_path / "out")]
    assert main([*words, "--lora", "rank=16"]) == 2
    error = capsys.readouterr().err
    assert "--lora has no 'rank' (did you mean 'r'?)" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("method", ["anchored", "ct", "consert"])
def test_dropout_of_adapters_is_refused_where_the_encoder_trains_without(
    method: str, tiny: Path, corpus: Path, tmp_path: Path
) -> None:
    name = "encoder_dropout" if method == "consert" else "dropout"
    given = {"method": method, "lora": "r=2,dropout=0.5", "max_steps": 2}
    with pytest.raises(UserError, match=rf"{method} trains without dropout: --lora dropout=X .*--set {name}=true"):
        train(config(tiny, corpus, tmp_path / "out", **given))
    assert not (tmp_path / "out").exists()
    options = {**OPTIONS.get(method, {}), name: True}
    for lora in ("r=2,dropout=0.5", "r=2"):
        train(config(tiny, corpus, tmp_path / lora, **{**given, "lora": lora, "options": options}))
    trained = {sha256(tmp_path / lora / "model.safetensors") for lora in ("r=2,dropout=0.5", "r=2")}
    assert len(trained) == 2


def test_adapters_keep_their_own_dropout(tiny: Path) -> None:
    model = load_sentence_transformer(str(tiny), pooling="cls", device="cpu")
    add_lora(model, Lora.parse("r=2,dropout=0.3"), "base")

    def probabilities() -> dict[str, set[float]]:
        found: dict[str, set[float]] = {"adapters": set(), "encoder": set()}
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Dropout):
                found["adapters" if "lora_dropout" in name else "encoder"].add(module.p)
        return found

    before = probabilities()
    with dropout_of(model, 0.25):
        assert probabilities() == {"adapters": {0.3}, "encoder": {0.25}}
    assert probabilities() == before


def test_random_keys_do_not_go_with_adapters(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    options = {"key_start": "random", "key_head": "shared"}
    with pytest.raises(UserError, match="adcse: a copy of an encoder with adapters does not start from random weights"):
        train(config(tiny, corpus, tmp_path / "out", method="adcse", options=options))


def test_mini_batches_of_a_run(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    words = ["train", "simcse", "--model", str(tiny), "--corpus", str(corpus), "--output", str(output)]
    words += ["--batch-size", "8", "--max-steps", "2", "--mini-batch-size", "3", "--selection", "last"]
    assert main(words) == 0
    assert read_result(output / "results.json")["protocol"]["training"]["mini_batch_size"] == 3


def test_adapters_in_mini_batches_and_bf16(tiny: Path, corpus: Path, tmp_path: Path, sentences: list[str]) -> None:
    given = {"precision": "bf16", "lora": "r=2,save=adapter", "pooling": "mean"}
    given |= {"method": "anchored", "options": {**OPTIONS.get("anchored", {}), "dropout": False}}
    vectors = []
    for name, size in (("whole", None), ("mini", 3)):
        result = train(config(tiny, corpus, tmp_path / name, mini_batch_size=size, **given))
        assert result["protocol"]["training"]["precision"] == "bf16"
        vectors.append(SentenceTransformer(str(tmp_path / name), device="cpu").encode(sentences))
    before = load_sentence_transformer(str(tiny), pooling="mean", device="cpu").encode(sentences)
    moved = abs(vectors[0] - before).max()
    assert moved > 0.05
    assert abs(vectors[1] - vectors[0]).max() < 0.2 * moved, "the same training to the rounding of bf16"


@pytest.mark.slow
def test_adapters_are_trained_in_two_processes(
    tiny: Path, corpus: Path, tmp_path: Path, warm: WarmPython, sentences: list[str]
) -> None:
    """By the command, with a resumption: small checkpoints, and an adapter that plain sentence-transformers loads."""
    words = ["train", "simcse", "--model", str(tiny), "--corpus", str(corpus), "--batch-size", "8"]
    words += [
        "--precision",
        "fp32",
        "--selection",
        "last",
        "--learning-rate",
        "0.01",
        "--lora",
        "r=2,save=adapter",
        "--save-steps",
        "2",
    ]
    words += ["--mini-batch-size", "2", "--max-steps", "6", "--no-report-sts", "--resume", "--output"]
    command = Path(__file__).with_name("run_command.py")
    for output, killed_at in (("unbroken", 0), ("killed", 5), ("killed", 0)):
        finished = warm.run(command, str(killed_at), *words, str(tmp_path / output), processes=2)
        assert finished.returncode == (-9 if killed_at else 0), finished.stderr
    for name in ("adapter_model.safetensors", "checkpoint-6/adapter_model.safetensors"):
        assert sha256(tmp_path / "killed" / name) == sha256(tmp_path / "unbroken" / name), name
    for name in ("unbroken", "killed"):
        assert read_result(tmp_path / name / "results.json")["truncated"]["of"] == 6 * 8, "texts of both processes"
    last = tmp_path / "unbroken" / "checkpoint-6"
    assert not (last / "model.safetensors").exists()
    assert all(".lora_" in name for name in tensors_in(last / "adapter_model.safetensors"))
    vectors = SentenceTransformer(str(tmp_path / "unbroken"), device="cpu").encode(sentences)
    assert abs(vectors - load_sentence_transformer(str(tiny), device="cpu").encode(sentences)).max() > 1e-3


OWN = """
from typing import ClassVar

from holdfast.objectives import Objective


class Own(Objective):
    TITLE: ClassVar = "Own"
    IDEA: ClassVar = "an objective that passes by the encoder"
    CITATION: ClassVar = "none"

    def forward(self, sentence_features, labels=None):
        (sentences,) = sentence_features
        return {"size": self.model(dict(sentences))["sentence_embedding"].square().mean()}
"""


def test_mini_batches_of_an_objective_that_does_not_encode_with_its_encoder(
    tiny: Path, corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    given = {"method": f"{tmp_path / 'own.py'}:Own", "lora": None}
    train(config(tiny, corpus, tmp_path / "plain", **given))
    with pytest.raises(UserError, match=r"--mini-batch-size: Own does not encode with self\.encoder, which makes"):
        train(config(tiny, corpus, tmp_path / "mini", mini_batch_size=3, **given))
