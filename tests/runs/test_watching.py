"""How a run stands, told from its folder: in every state, and while the files are being written."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserError
from holdfast.runs.run_process import this_process
from holdfast.runs.run_status import standing_of

RECORD = {
    "method": "robustembed",
    "options": {"radius": None, "fgsm_steps": 5, "fgsm_size": 0.001},
    "training": {"batch_size": 64, "accumulate": 2},
}
DEAD = {**this_process(), "pid": 2**22 + 12345}
START = 1_800_000_000.0


def training(step: int, **more: Any) -> dict[str, Any]:
    record = {"step": step, "time": START + step, "loss": 100 / step, "robust": 99 / step, "adversarial": 1 / step}
    return {**record, "learning_rate": 1e-5, "grad_norm": 0.5, "delta_norm": 0.0045, "attack_loss_rise": 0.02, **more}


def begun(step: int = 0, **more: Any) -> dict[str, Any]:
    return {"step": step, "time": START + step, "state": "begun", "max_steps": 200, "process": this_process(), **more}


def score(step: int, value: float) -> dict[str, Any]:
    return {"step": step, "time": START + step, "eval_stsb_dev_spearman": value}


LOG = [begun(), training(25), score(25, 70.0), training(50), score(50, 72.0), training(75), score(75, 71.0)]


def run(folder: Path, log: list[dict[str, Any]] | None = None, tail: str = "", **record: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({**RECORD, **record}), encoding="utf-8")
    text = "".join(json.dumps(one) + "\n" for one in (LOG if log is None else log))
    (folder / "metrics.jsonl").write_text(text + tail, encoding="utf-8")
    return folder


def test_a_run_that_trains(tmp_path: Path) -> None:
    standing = standing_of(run(tmp_path / "run", tail='{"step": 100, "lo'), now=START + 85)
    assert (standing.state, standing.what, standing.step, standing.steps) == ("running", "robustembed", 75, 200)
    assert standing.terms == ("robust", "adversarial")
    assert standing.values["robust"] == pytest.approx(99 / 75)
    assert standing.rate == pytest.approx(1.0)
    assert standing.speed == "128 sentences/s"
    assert standing.left == pytest.approx(125 - 10), "ten seconds have passed since the last record"
    assert standing.score == ("eval_stsb_dev_spearman", 71.0, 72.0, 50)
    assert standing.radius == pytest.approx(0.005), "RobustEmbed's, as far as its large steps lead"
    assert standing.curves["loss"] == [(25.0, 4.0), (50.0, 2.0), (75.0, pytest.approx(4 / 3))]
    assert {flag.what: flag.level for flag in standing.flags} == dict.fromkeys(
        ("loss", "gradients", "attack", "δ"), "good"
    )


def test_a_hardening_is_finished_when_it_has_measured(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", [*LOG, {"step": 200, "state": "trained"}], typo_vocabulary=0)
    result = {"kind": "train", "protocol": {"method": "anchored", "typo_vocabulary": 0}}
    (folder / "results.json").write_text(json.dumps(result))
    assert standing_of(folder).state == "measuring"
    (folder / "harden.json").write_text("{}")
    assert standing_of(folder).state == "finished"
    (folder / "harden.json").unlink()
    (folder / "run.json").write_text(json.dumps(RECORD))
    assert standing_of(folder).state == "finished", "a training has no further measurement"


@pytest.mark.parametrize(
    ("since", "holder", "state"),
    [(90, {}, "preparing"), (70, {}, "stopped"), (90, DEAD, "stopped"), (90, {"host": "elsewhere"}, "stopped")],
)
def test_a_run_that_is_resumed_is_not_stopped(tmp_path: Path, since: int, holder: dict[str, Any], state: str) -> None:
    folder = run(tmp_path / "run", [*LOG, {"step": 80, "time": START + 80, "state": "stopped"}])
    began = datetime.fromtimestamp(START + since, timezone.utc).isoformat(timespec="seconds")
    process = {name: value for name, value in {**this_process(), **holder}.items() if name != "started"}
    (folder / ".lock").write_text(json.dumps({**process, "since": began}))
    assert standing_of(folder).state == state


@pytest.mark.parametrize(
    ("log", "state", "message"),
    [
        ([*LOG, {"step": 80, "state": "stopped"}], "stopped", "stopped at step 80"),
        ([*LOG, {"step": 80, "state": "failed", "why": "the disk is full"}], "failed", "step 80: the disk is full"),
        ([*LOG, {"step": 200, "state": "trained"}], "measuring", "saving and measuring"),
        ([begun(process=DEAD), *LOG[1:]], "gone", "ended without a log record after step 75"),
        ([begun(process=DEAD), {"step": 200, "state": "trained"}], "gone", "before its result was written"),
        ([begun(process={**DEAD, "host": "elsewhere"}), *LOG[1:]], "unseen", "last log record 10 s ago"),
        (LOG[1:], "unseen", "cannot be seen from this machine"),
        ([*LOG, {"step": 80, "state": "stopped"}, begun(75), training(100)], "running", "running"),
        ([], "preparing", "nothing is logged yet"),
    ],
)
def test_how_a_run_stands(tmp_path: Path, log: list[dict[str, Any]], state: str, message: str) -> None:
    standing = standing_of(run(tmp_path / "run", log), now=START + 85)
    assert (standing.state, message in standing.message) == (state, True), standing.message


def test_a_run_that_is_not_there_yet_and_a_file(tmp_path: Path) -> None:
    assert standing_of(tmp_path / "later").state == "absent"
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="takes the folder of a run"):
        standing_of(tmp_path / "file")


def test_a_finished_run_is_one_with_its_own_result(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", [begun(process=DEAD), *LOG[1:]])
    beside = tmp_path / "run.json"
    beside.write_text(json.dumps({"kind": "evaluate"}), encoding="utf-8")
    assert standing_of(folder).state == "gone", "what was measured of the model is not the run's result"
    beside.write_text(json.dumps({"kind": "finetune"}), encoding="utf-8")
    assert standing_of(folder).state == "finished"
    beside.unlink()
    selected = {"step": 50, "steps": 75, "score": 72.0}
    (folder / "results.json").write_text(json.dumps({"kind": "train", "selected": selected}), encoding="utf-8")
    standing = standing_of(folder)
    assert (standing.state, standing.left) == ("finished", None)
    assert "step 50 of 75 was kept" in standing.flags[-1].message
    (folder / "results.json").write_text('{"kind": "tr', encoding="utf-8")
    assert standing_of(folder).state == "gone"


def test_the_rate_is_that_of_the_part_since_it_was_resumed(tmp_path: Path) -> None:
    later = [begun(75, time=START + 9000), training(100, time=START + 9050)]
    standing = standing_of(run(tmp_path / "run", [*LOG, *later]), now=START + 9050)
    assert standing.rate == pytest.approx(0.5)
    assert standing.left == pytest.approx(200)


def test_a_language_model_by_the_clock(tmp_path: Path) -> None:
    log = [begun(max_steps=10**9)]
    log += [{"step": n, "time": START + n, "loss": 5.0, "tokens_per_second": 12345.6, "elapsed": n} for n in (25, 50)]
    log.append({"step": 50, "time": START + 50, "eval_perplexity": 40.0, "eval_masked_accuracy": 33.0})
    folder = run(tmp_path / "run", log, mask_token="[MASK]", training={"hours": 1.0})
    (folder / "run.json").write_text(json.dumps({"mask_token": "[MASK]", "training": {"hours": 1.0}}), encoding="utf-8")
    standing = standing_of(folder, now=START + 60)
    assert (standing.what, standing.steps, standing.terms) == ("masked language model", None, ())
    assert (standing.speed, standing.left) == ("12,346 tokens/s", pytest.approx(3600 - 50 - 10))
    assert standing.values["eval_perplexity"] == 40.0
