"""A run from sentences to a model that others load: it learns, continues, and tells what it was told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForMaskedLM, AutoTokenizer, TrainerCallback

from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer
from holdfast.precision import Precision
from holdfast.pretraining import PretrainSettings, pretrain, pretraining_run
from holdfast.pretraining.pretrain_trainer import Clock, PretrainTrainer
from holdfast.results import read_result
from holdfast.settings import read_settings

SHAPE: dict[str, Any] = {"layers": 1, "hidden": 32, "heads": 2, "vocabulary": 120, "max_length": 32}
SHORT: dict[str, Any] = {"batch_tokens": 1024, "precision": "fp32", "learning_rate": 1e-2, "dropout": 0.0}


@pytest.fixture
def held_out(tmp_path: Path, write_lines: Callable[[Path, int, int], Path]) -> Path:
    return write_lines(tmp_path / "held-out.txt", 60, 1)


def test_it_learns_and_what_it_made_loads_anywhere(corpus: Path, held_out: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    settings = PretrainSettings(
        corpus=str(corpus), held_out=str(held_out), output=output, **SHAPE, **SHORT, max_steps=150, eval_steps=30,
        export="fp16", attribution="made up here, CC0", prompts=("The dog [MASK] near the harbour.",),
    )  # fmt: skip
    result = pretrain(settings)
    message = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    accuracy = [record["eval_masked_accuracy"] for record in message if "eval_masked_accuracy" in record]
    assert len(accuracy) == 5
    assert accuracy[-1] > accuracy[0] + 15, "it learns"
    (row,) = result["results"]
    assert row["metrics"]["masked_accuracy"] == pytest.approx(accuracy[-1], abs=1.5), (
        "what is stored is what was trained"
    )
    assert result["prompts"][0]["top"][0][0] in ("barks", "purrs", "gallops", "chirps", "kneads", "rows")
    assert read_result(output / "results.json") == result
    assert (output / "model.safetensors").stat().st_size == pytest.approx(2 * result["made"]["parameters"], rel=0.25)
    model = AutoModelForMaskedLM.from_pretrained(output)
    assert model.dtype == torch.float16
    assert model.config.hidden_dropout_prob == 0.1, "the dropout of the run is not that of the model"
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert len(AutoTokenizer.from_pretrained(output)) == 120
    assert load_sentence_transformer(str(output)).encode("A dog.").shape == (32,)
    card = (output / "README.md").read_text()
    for fact in (
        f"{row['metrics']['perplexity']:.2f}",
        "made up here, CC0",
        "| The dog [MASK] near the harbour. |",
        f"{row['n']:,} masked places",
    ):
        assert fact in card
    assert not list(output.glob("checkpoint-*"))
    losses = [record["loss"] for record in message if "loss" in record]
    assert 2 < losses[0] < 5.5, "the mean over places: a model that knows nothing has ln 120 = 4.8"
    assert losses[-1] < losses[0] - 1
    rates = [record["learning_rate"] for record in message if "loss" in record]
    assert rates[0] > rates[-1] > 0
    assert [record["state"] for record in message if "state" in record] == ["begun", "trained"]
    epochs = [record["epoch"] for record in message if "epoch" in record]
    assert epochs[-1] == round(result["made"]["epochs"], 4) > 5


def test_what_is_held_out_is_not_trained_on_and_the_masks_are_those_asked_for(corpus: Path, tmp_path: Path) -> None:
    lines = corpus.read_text().splitlines()
    held_out = tmp_path / "held-out.txt"
    held_out.write_text("\n".join(lines[:40]) + "\n")
    given: dict[str, Any] = {"corpus": str(corpus), "held_out": str(held_out), "output": tmp_path / "out", **SHAPE}
    settings = PretrainSettings(**given, mask_share=0.4, whole_words=True).completed()
    material = pretraining_run._material(settings, None, Console(quiet=True))
    assert material.held_out is not None
    theirs = {material.held_out.sentence(row).tobytes() for row in range(len(material.held_out))}
    ours = {material.corpus.sentence(row).tobytes() for row in range(len(material.corpus))}
    assert ours
    assert not ours & theirs
    assert material.corpus.removed >= 40
    assert (material.masking.share, material.masking.whole_words) == (0.4, True)


def test_the_seed_decides_the_weights_and_the_order(corpus: Path, tmp_path: Path) -> None:
    weights, orders = [], []
    for seed in (1, 2):
        output = tmp_path / f"out{seed}"
        settings = PretrainSettings(
            corpus=str(corpus), output=output, **SHAPE, **{**SHORT, "learning_rate": 1e-12}, max_steps=1, seed=seed
        )
        pretrain(settings)
        weights.append(AutoModelForMaskedLM.from_pretrained(output).get_input_embeddings().weight)
        made = pretraining_run._material(settings.completed(), None, Console(quiet=True)).corpus
        orders.append([group.tolist() for group in pretraining_run._order(settings, made, True).groups(0)])
    assert (weights[0] - weights[1]).abs().max() > 1e-2
    assert orders[0] != orders[1]


def test_mistakes_about_a_given_model_are_found_before_the_corpus_is_read(
    corpus: Path, tmp_path: Path, make_masked_lm: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = str(make_masked_lm(tmp_path / "base"))
    monkeypatch.setattr(pretraining_run, "spool_corpus", lambda *_, **__: pytest.fail("the corpus was read"))
    for changed, says in (
        ({"model": model, "prompts": ("a b",)}, "has 0 masks"),
        ({"model": model, "max_length": 4000}, "tokens at most"),
        ({"tokenizer": model, "prompts": ("a b",)}, "has 0 masks"),
    ):
        settings = PretrainSettings(corpus=str(corpus), output=tmp_path / "out", **{**SHORT, **changed})
        with pytest.raises(UserError, match=says):
            pretrain(settings)


def test_a_model_is_continued_with_its_own_tokeniser(
    corpus: Path, tmp_path: Path, make_masked_lm: Callable[..., Path]
) -> None:
    base = make_masked_lm(tmp_path / "base")
    text = tmp_path / "dogs.txt"
    text.write_text("the dog runs in the park\nthe old man sleeps on the bed\n" * 20)
    run = PretrainSettings(
        corpus=str(text), output=tmp_path / "out", model=str(base), max_length=16, max_steps=3, **SHORT
    )
    result = pretrain(run)
    assert result["protocol"]["base_model"] == str(base)
    assert result["results"] == []
    before, after = (AutoModelForMaskedLM.from_pretrained(folder) for folder in (base, tmp_path / "out"))
    difference = (
        before.bert.encoder.layer[0].output.dense.weight - after.bert.encoder.layer[0].output.dense.weight
    ).abs()
    assert 0 < difference.max() < 0.1, "it began where the other ended"
    assert after.config.num_hidden_layers == 2
    assert (
        AutoTokenizer.from_pretrained(tmp_path / "out").get_vocab() == AutoTokenizer.from_pretrained(base).get_vocab()
    )
    assert pretrain(run, resume=True) == result, "a finished run is told again"
    with pytest.raises(UserError, match=r"cannot resume .*: training seed was .* and is now 99"):
        pretrain(replace(run, seed=99), resume=True)
    other: Precision = "fp32" if result["protocol"]["training"]["precision"] == "bf16" else "bf16"
    with pytest.raises(UserError, match=r"cannot resume .*: training precision was"):
        pretrain(replace(run, precision=other), resume=True)


def test_a_run_by_the_clock_ends_in_time(corpus: Path, tmp_path: Path) -> None:
    settings = PretrainSettings(corpus=str(corpus), output=tmp_path / "out", **SHAPE, **SHORT, hours=2 / 3600)
    result = pretrain(settings)
    assert 2 <= result["made"]["train_seconds"] < 10
    assert 1 <= result["made"]["steps"] < 10_000
    message = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    losses = [record for record in message if "loss" in record]
    assert all(record["elapsed"] > 0 for record in losses)


def test_a_stopped_run_by_the_clock_has_the_rest_of_its_time(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out"
    settings = PretrainSettings(corpus=str(corpus), output=output, **SHAPE, **SHORT, hours=2 / 3600, save_steps=5)

    class Stop(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 12:
                raise KeyboardInterrupt

    original = PretrainTrainer.__init__

    def stopping(self: Any, **kwargs: Any) -> None:
        original(self, **kwargs)
        self.add_callback(Stop())

    monkeypatch.setattr(PretrainTrainer, "__init__", stopping)
    with pytest.raises(KeyboardInterrupt):
        pretrain(settings)
    monkeypatch.setattr(PretrainTrainer, "__init__", original)
    before = json.loads((output / "checkpoint-10" / "clock.json").read_text())["elapsed"]
    assert 0 < before < 2
    went_on: list[float] = []
    set_clock = Clock.set
    monkeypatch.setattr(Clock, "set", lambda clock, elapsed: (went_on.append(elapsed), set_clock(clock, elapsed)))
    result = pretrain(settings, resume=True)
    assert went_on == [before]
    assert result["made"]["steps"] > 12
    assert result["made"]["train_seconds"] >= 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"heads": 3}, "--hidden 32 cannot be divided over --heads 3"),
        ({"model": "m"}, "--layers is for a new model"),
        ({"tokenizer": "t"}, "--vocabulary and --tokenizer exclude each other"),
        ({"max_steps": 3, "hours": 1.0}, "--max-steps and --hours exclude each other"),
        ({"mask_share": 1.0}, "--mask-share must lie between 0 and 1"),
        ({"learning_rate": float("nan")}, "--learning-rate must be more than 0"),
        ({"max_length": 2}, "--max-length must be from 3"),
        ({"seed": -1}, "--seed must be from 0 to 4294967295, got -1"),
        ({"prompts": ("No place.",)}, "has 0 masks"),
        ({"vocabulary": 10}, "--vocabulary 10 is too small"),
        ({"vocabulary": 99_999}, "--vocabulary 99,999 is too large"),
    ],
)
def test_mistakes_are_told_in_a_line(corpus: Path, tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        pretrain(PretrainSettings(corpus=str(corpus), output=tmp_path / "out", **{**SHAPE, **given}))
    assert not (tmp_path / "out").exists(), "nothing is left behind"


def test_an_empty_corpus_and_held_out_words_that_are_unknown_are_told(corpus: Path, tmp_path: Path) -> None:
    empty, foreign = tmp_path / "empty.txt", tmp_path / "foreign.txt"
    empty.write_text("\n\n")
    foreign.write_text("Ω Ψ\n")
    with pytest.raises(UserError, match="holds no sentences"):
        pretrain(PretrainSettings(corpus=str(empty), output=tmp_path / "out", **SHAPE))
    with pytest.raises(UserError, match="hold no word of the vocabulary"):
        pretrain(PretrainSettings(corpus=str(corpus), held_out=str(foreign), output=tmp_path / "out", **SHAPE))


def test_a_loss_that_is_not_finite_stops_the_run(
    corpus: Path, tmp_path: Path, make_masked_lm: Callable[..., Path]
) -> None:
    base = make_masked_lm(tmp_path / "base")
    model = AutoModelForMaskedLM.from_pretrained(base)
    model.cls.predictions.bias.detach()[7] = float("inf")
    model.save_pretrained(base)
    with pytest.raises(UserError, match="the loss became nan at step 1; no checkpoint was written yet"):
        pretrain(PretrainSettings(corpus=str(corpus), output=tmp_path / "out", model=str(base), max_length=16, **SHORT))
    assert not (tmp_path / "out").exists()


def test_another_run_is_not_continued(corpus: Path, tmp_path: Path) -> None:
    settings = {"corpus": str(corpus), "output": tmp_path / "out", **SHAPE, **SHORT}
    pretrain(PretrainSettings(**settings, max_steps=2))
    with pytest.raises(UserError, match="holds another run: continue it with --resume"):
        pretrain(PretrainSettings(**settings, max_steps=2))
    for changed, name in (({"hidden": 16}, "asked hidden was 32"), ({"held_out": str(corpus)}, "held_out was None")):
        with pytest.raises(UserError, match=f"cannot resume .*: {name}"):
            pretrain(PretrainSettings(**{**settings, **changed}, max_steps=2), resume=True)
    (tmp_path / "out" / "results.json").unlink()
    with pytest.raises(UserError, match=r"cannot resume .*: training seed was 42 and is now 1"):
        pretrain(PretrainSettings(**settings, max_steps=2, seed=1), resume=True)


def test_a_resumed_run_saves_and_measures_as_often_as_it_is_told_now(
    corpus: Path, held_out: Path, tmp_path: Path
) -> None:
    output, again = tmp_path / "out", tmp_path / "again"
    given = {"corpus": str(corpus), "held_out": str(held_out), "max_steps": 8, "keep_checkpoints": 9, **SHAPE, **SHORT}
    pretrain(PretrainSettings(output=output, save_steps=4, eval_steps=4, **given))
    again.mkdir()
    shutil.copy(output / "run.json", again)
    shutil.copytree(output / "checkpoint-4", again / "checkpoint-4")
    pretrain(PretrainSettings(output=again, save_steps=3, eval_steps=2, **given), resume=True)
    assert sorted(path.name for path in again.glob("checkpoint-*")) == ["checkpoint-4", "checkpoint-6", "checkpoint-8"]
    message = [json.loads(line) for line in (again / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in message if "eval_loss" in record] == [6, 8]


def test_the_recipe_is_what_is_given_before_it(tmp_path: Path) -> None:
    settings = read_settings(
        PretrainSettings, {"output": "out", "hours": 2, "export": "fp32"}, PretrainSettings.find_config("small")
    )
    assert (settings.hours, settings.epochs, settings.export) == (2.0, None, "fp32")
    done = read_settings(PretrainSettings, {"output": "out"}, PretrainSettings.find_config("small")).completed()
    assert done.held_out == "wiki-dev"
    assert done.corpus.startswith("unlabelled/wiki_train_")
    assert len(done.prompts) == 6
    with pytest.raises(UserError, match=r"no configuration file and no recipe is called 'smal' \(did you mean 'small'"):
        PretrainSettings.find_config("smal")
    bad = tmp_path / "bad.yaml"
    bad.write_text("corpus: c\nlayer: 3\n")
    with pytest.raises(UserError, match=r"bad.yaml:2: unknown key 'layer' \(did you mean 'layers'"):
        read_settings(PretrainSettings, {}, bad)


def test_the_weights_of_the_recipe_fit_the_package() -> None:
    from holdfast.pretraining.model import new_model

    class Tokenizer:
        pad_token_id = 0

        def get_vocab(self) -> dict[str, int]:
            return {str(number): number for number in range(12_000)}

    settings = read_settings(PretrainSettings, {"output": "out"}, PretrainSettings.find_config("small")).completed()
    weights = sum(weight.numel() for weight in new_model(settings, Tokenizer()).parameters())
    assert weights == 6_343_136
    assert 2 * weights < 14e6, "in fp16"


def test_a_held_out_corpus_that_is_not_there_is_told_before_the_corpus_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def spooled(source: str, **_: Any) -> None:
        read.append(source)
        raise UserError("not here")

    monkeypatch.setattr("holdfast.pretraining.pretraining_run.spool_corpus", spooled)
    with pytest.raises(UserError, match="not here"):
        pretrain(PretrainSettings(corpus="huge.txt", held_out="few.txt", output=tmp_path / "lm", max_steps=1))
    assert read == ["few.txt"]
