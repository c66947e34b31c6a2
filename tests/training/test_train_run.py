"""A run of `holdfast train`: what it refuses, what it says, how often it logs, and what a resumed one takes over."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from holdfast.cli.train import _rows
from holdfast.data.registry import load_pairs
from holdfast.errors import UserError
from holdfast.evaluation.sts_dev import StsDev
from holdfast.files import sha256
from holdfast.models import load_sentence_transformer
from holdfast.objectives import SimCSE
from holdfast.runs.run_log import METRICS_FILE, read_log
from holdfast.runs.run_record import differences
from holdfast.runs.training_progress import MetricsFile
from holdfast.training import training_record
from holdfast.training.train_config import TrainConfig
from holdfast.training.training_record import settings_record
from holdfast.training.training_run import train


def config(tiny: Path, corpus: Path, output: Path, **changed: Any) -> TrainConfig:
    given = {"method": "simcse", "batch_size": 8, "selection": "last", "precision": "fp32", "report_sts": False}
    return TrainConfig(model=str(tiny), corpus=str(corpus), output=output, **{**given, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": -1}, "--seed must be from 0 to 4294967295, got -1"),
        ({"seed": 2**32}, "--seed must be from 0 to 4294967295, got 4294967296"),
        ({"max_grad_norm": float("nan")}, "--max-grad-norm must be from 0 to 1000000000, got nan"),
        ({"max_grad_norm": float("inf")}, "--max-grad-norm must be from 0 to 1000000000, got inf"),
        ({"max_grad_norm": -1.0}, "--max-grad-norm must be from 0 to 1000000000, got -1.0"),
    ],
)
def test_numbers_that_make_no_sense(tiny: Path, corpus: Path, tmp_path: Path, changed: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        train(config(tiny, corpus, tmp_path / "out", max_steps=1, **changed))
    assert str(error.value) == message
    assert not (tmp_path / "out").exists()


def test_a_training_on_stored_vectors_is_another_run(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    stored, own = (
        settings_record(config(tiny, corpus, tmp_path / "out", method="anchored", vectors=folder), {})
        for folder in (tmp_path / "vectors", None)
    )
    assert [difference[0] for difference in differences(own, stored)] == ["vectors"]
    moved = settings_record(config(tiny, corpus, tmp_path / "out", method="anchored", vectors=tmp_path / "moved"), {})
    assert list(differences(stored, moved)) == []


def test_another_teacher_in_the_same_folder_is_another_run(
    tiny: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = tmp_path / "teacher"
    shutil.copytree(tiny, teacher)
    asked = {"method": "rankcse", "options": {"teacher": str(teacher)}, "max_steps": 1}
    run = config(tiny, corpus, tmp_path / "out", **asked)
    made = train(run)
    assert train(run, resume=True) == made
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["option_contents"] == {"teacher": sha256(teacher / "model.safetensors")}
    model = load_sentence_transformer(str(teacher), device="cpu")
    next(model.parameters()).data.add_(1.0)
    shutil.rmtree(teacher)
    model.save_pretrained(str(teacher))
    with pytest.raises(UserError, match=r"cannot resume .*: option_contents teacher was"):
        train(run, resume=True)
    earlier = config(tiny, corpus, tmp_path / "earlier", **asked)
    with monkeypatch.context() as patched:
        patched.setattr(training_record, "option_contents", lambda *_: {})
        made = train(earlier)
    assert train(earlier, resume=True) == made, "a finished run of a version without the entry is finished"


def test_the_largest_seed_and_no_clipping_train(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    result = train(config(tiny, corpus, tmp_path / "out", max_steps=1, seed=2**32 - 1, max_grad_norm=0.0))
    assert result["selected"]["steps"] == 1


def test_a_default_prompt_is_trained_with_and_one_that_was_not_chosen_is_refused(
    tiny: Path, corpus: Path, tmp_path: Path
) -> None:
    model = load_sentence_transformer(str(tiny), pooling="mean")
    model.prompts, model.default_prompt_name = {"query": "the dog "}, "query"
    model.save_pretrained(str(tmp_path / "prompted"))
    message = Console(file=io.StringIO(), width=400)
    result = train(config(tmp_path / "prompted", corpus, tmp_path / "out", max_steps=1), console=message)
    assert "training puts the prompt 'the dog ' before every sentence" in message.file.getvalue()  # type: ignore[attr-defined]
    assert result["protocol"]["prompt"] == "the dog "

    model.default_prompt_name = None
    model.save_pretrained(str(tmp_path / "named"))
    with pytest.raises(UserError, match="named has prompts and no default: query 'the dog '; choose"):
        train(config(tmp_path / "named", corpus, tmp_path / "named-out", method="anchored", max_steps=1))
    assert not (tmp_path / "named-out").exists()


def test_a_resumed_run_saves_as_often_as_it_is_told_now(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    output, again = tmp_path / "out", tmp_path / "again"
    given: dict[str, Any] = {"max_steps": 8, "keep_checkpoints": 9}
    train(config(tiny, corpus, output, save_steps=4, **given))
    again.mkdir()
    shutil.copy(output / "run.json", again)
    shutil.copytree(output / "checkpoint-4", again / "checkpoint-4")
    train(config(tiny, corpus, again, save_steps=3, **given), resume=True)
    assert sorted(path.name for path in again.glob("checkpoint-*")) == ["checkpoint-4", "checkpoint-6", "checkpoint-8"]


@pytest.mark.parametrize("share", [None, 0.0, 0.3])
def test_the_learning_rate_rises_in_the_warm_up(tiny: Path, corpus: Path, tmp_path: Path, share: float | None) -> None:
    """Ten steps, of which the first three rise: the rate of step k is the one after k - 1 updates."""
    settings = config(tiny, corpus, tmp_path / "out", max_steps=10, learning_rate=1e-3, warmup_share=share)
    train(settings)
    log = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    rates = [record["learning_rate"] * 1e3 for record in log if "learning_rate" in record and "loss" in record]
    falling = [(10 - k) / 10 for k in range(10)] if not share else [k / 3 for k in range(3)]
    falling += [] if not share else [(10 - k) / 7 for k in range(3, 10)]
    assert rates == pytest.approx(falling)
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["training"].get("warmup_share", "left out") == ("left out" if share is None else share)


def test_a_share_of_the_warm_up_out_of_range(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    for share in (-0.1, 1.0, float("nan")):
        with pytest.raises(UserError, match="--warmup-share must be from 0 to below 1"):
            train(config(tiny, corpus, tmp_path / "out", max_steps=1, warmup_share=share))


@pytest.mark.parametrize(("epochs", "accumulate", "steps"), [(1.0, 1, 7), (4.0, 1, 28), (2.0, 2, 8)])
def test_a_short_run_by_epochs_has_a_curve(
    tiny: Path, corpus: Path, tmp_path: Path, epochs: float, accumulate: int, steps: int
) -> None:
    """60 sentences in batches of 8 are 7 batches, and 4 steps of two."""
    result = train(config(tiny, corpus, tmp_path / "out", epochs=epochs, accumulate=accumulate))
    assert result["selected"]["steps"] == steps
    records = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    every = max(1, steps // 10)
    assert [record["step"] for record in records if "loss" in record] == list(range(every, steps + 1, every))


def test_the_table_tells_what_a_step_sees(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    result = train(config(tiny, corpus, tmp_path / "out", max_steps=1, accumulate=3))
    assert _rows(result)["steps"] == "1 of 3 × 8 sentences"


def test_training_cuts_sentences_and_the_selection_does_not(
    tiny: Path, corpus: Path, labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    widths: list[int] = []
    limits: list[int | None] = []
    forward, tokenised = SimCSE.forward, StsDev._tokenised

    def watched(self: SimCSE, sentence_features: Any, labels: Any = None) -> Any:
        columns = list(sentence_features)
        widths.append(columns[0]["input_ids"].shape[1])
        return forward(self, columns, labels)

    monkeypatch.setattr(SimCSE, "forward", watched)
    monkeypatch.setattr(
        StsDev, "_tokenised", lambda *given: limits.append(given[1].max_seq_length) or tokenised(*given)
    )
    given: dict[str, Any] = {"selection": "stsb-dev", "data": labelled, "eval_steps": 1, "max_length": 5}
    train(config(tiny, corpus, tmp_path / "out", max_steps=2, **given))
    assert widths == [5, 5], "the corpus has sentences of fourteen words"
    assert limits == [64, 64, 64], "the model's own limit, before training and after each step"


def test_the_result_tells_the_strength_of_the_attack(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    result = train(config(tiny, corpus, tmp_path / "out", method="robustembed", max_steps=3))
    lines = (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()
    shares = [json.loads(line).get("attack_loss_share") for line in lines]
    logged = [share for share in shares if share is not None]
    assert len(logged) >= 1
    assert all(0 < share < 1 for share in logged)
    assert result["attack"] == {"loss_share": statistics.median(logged)}
    assert _rows(result)["attack"] == f"{100 * statistics.median(logged):.2g} % of its loss (median)"
    plain = train(config(tiny, corpus, tmp_path / "plain", max_steps=1))
    assert "attack" not in plain
    assert "attack" not in _rows(plain)


def test_an_encoder_that_is_worse_than_its_start_is_told(
    tiny: Path, corpus: Path, labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"selection": "stsb-dev", "data": labelled, "eval_steps": 1, "max_steps": 2}
    result = train(config(tiny, corpus, tmp_path / "out", **given))
    evaluator = StsDev(load_pairs("stsb", "dev", data=labelled))
    expected = evaluator(load_sentence_transformer(str(tiny)))["stsb_dev_spearman"]
    assert result["selected"]["start"] == pytest.approx(expected, abs=1e-9)
    assert f"; {expected:.2f} before training)" in _rows(result)["step kept"]

    scores = iter((50.0, 20.0, 30.0))
    monkeypatch.setattr(StsDev, "__call__", lambda *given, **more: {"stsb_dev_spearman": next(scores)})
    console = Console(file=io.StringIO(), width=200)
    result = train(config(tiny, corpus, tmp_path / "worse", **given), console=console)
    assert (result["selected"]["start"], result["selected"]["score"]) == (50.0, 30.0)
    line = "the training made the encoder worse: its dev score is 30.00, and was 50.00 before"
    assert line in console.file.getvalue()  # type: ignore[attr-defined]


def test_without_all_seven_sets_no_sts_is_measured(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "sts12"
    folder.mkdir(parents=True)
    (folder / "test.tsv").write_text("sentence1\tsentence2\tscore\na dog runs\ta cat runs\t2.5\n")
    given = config(tiny, corpus, tmp_path / "out", max_steps=1, report_sts=True, data=tmp_path / "data")
    assert train(given)["results"] == []


@pytest.mark.parametrize("steps", [4, 6])  # stopped after the last step, and before it
def test_a_resumed_run_has_the_seconds_of_all_its_parts(
    steps: int, tiny: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Any, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 3:
            time.sleep(1.6)
            os.kill(os.getpid(), signal.SIGINT)

    given = config(tiny, corpus, tmp_path / "out", max_steps=steps)
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore Ctrl-C
    try:
        with monkeypatch.context() as patched:
            patched.setattr(MetricsFile, "on_step_begin", stop)
            with pytest.raises(KeyboardInterrupt):
                train(given)
    finally:
        signal.signal(signal.SIGINT, usual)
    log = read_log(tmp_path / "out" / METRICS_FILE)
    first = log[-1]["time"] - log[0]["time"]
    assert first >= 1.5
    began = time.monotonic()
    found = train(given, resume=True)["timing"]["train_seconds"]
    assert first < found < first + time.monotonic() - began


def test_the_learning_rate_falls_linearly_to_nothing(tiny: Path, corpus: Path, tmp_path: Path) -> None:
    train(config(tiny, corpus, tmp_path / "out", max_steps=5, learning_rate=1e-3))
    records = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    rates = [record["learning_rate"] for record in records if "learning_rate" in record]
    assert rates == pytest.approx([1e-3, 8e-4, 6e-4, 4e-4, 2e-4])
