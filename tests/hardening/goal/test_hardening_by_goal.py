"""A hardening whose weights are chosen by what is held out of its corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_up import made_up_texts
from safetensors.torch import load_file

from holdfast.cli import main
from holdfast.data.corpus import open_spooled
from holdfast.errors import UserError
from holdfast.hardening import HardenSettings, harden
from holdfast.hardening.goal import goal_queries
from holdfast.hardening.goal.choice_rule import RULE
from holdfast.hardening.goal.goal_evaluator import GoalEvaluator
from holdfast.results import read_result
from holdfast.runs.run_log import read_log

SMALL = "--batch-size 16 --precision fp32 --noise typing=0.3 --hold-out 200 --evaluations 2".split()


def words(output: str, *more: str) -> list[str]:
    return ["harden", "old", "--corpus", "mine.txt", "--output", output, *SMALL, *more]


def settings(output: str, **changed: Any) -> HardenSettings:
    given = {"batch_size": 16, "max_steps": 6, "precision": "fp32", "noise": "typing=0.3", "hold_out": 200}
    given |= {"evaluations": 2, "audited": False, "learning_rate": 1e-3, "queries": "asked.txt", **changed}
    return HardenSettings("old", "mine.txt", Path(output), **given)


def weights(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = load_file(folder / "model.safetensors")
    return found


def same_weights(first: Path, second: Path) -> bool:
    one, other = weights(first), weights(second)
    return one.keys() == other.keys() and all(bool((one[name] == other[name]).all()) for name in one)


@pytest.mark.slow
def test_the_whole_command(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--queries", "asked.txt", "--max-steps", "6", "--texts", "mine.txt", "--examples", "3"]
    assert main(words("new", *more)) == 0
    printed = capsys.readouterr()
    result = read_result(here / "new" / "harden.json")
    protocol, selected = result["protocol"], result["selected"]
    assert protocol["selection"] == "goal"
    assert protocol["corpus"]["source"] == "mine.txt + asked.txt"
    assert protocol["corpus"]["sentences"] == 6 * 16
    assert protocol["goal"] == {"noise": ["typing=0.3"], "evaluations": 2}
    assert (protocol["queries"], protocol["query_share"], protocol["held_out"]) == ("asked.txt", 0.5, [200, 100])
    assert selected["protocol"] == RULE
    assert {each["step"] for each in selected["curve"]} <= {0, 3, 6}  # 0: the misspellings alone
    assert {each["weight"] for each in selected["curve"]} == {0.0, 0.25, 0.5, 0.75, 1.0}
    old_index = [row for row in result["results"] if row["task"] == "old index"]
    assert result["results"][: len(old_index)] == old_index
    assert [row["split"] for row in old_index][:4] == ["clean", "typing", "queries typing", "hold/move"]
    assert [row["split"] for row in old_index][4:] == [
        f"{split}, spelling" for split in ("clean", "typing", "queries typing")
    ]
    assert (here / "new" / "spelling" / "spelling.json").is_file()
    # Two of 75 queries have ten documents that are about as near.
    assert [row["n"] for row in old_index][:3] == [200, 200, 73]
    assert any(row["task"] == "audit-typos" for row in result["results"])
    assert "old index.clean" in printed.out
    assert selected["line"] in " ".join(printed.out.split())
    same = old_index[0]["metrics"]["same_top1"]
    assert f"the same first document for {same:.1f} %" in " ".join(printed.out.split())
    assert "held out: 400 texts and 150 queries" in printed.err
    assert selected["line"] in " ".join(printed.err.split())
    assert selected["line"] in (here / "new" / "README.md").read_text(encoding="utf-8")
    evaluations = [record for record in read_log(here / "new" / "metrics.jsonl") if "eval_goal_score" in record]
    assert [record["step"] for record in evaluations] == [3, 6]
    for record, each in zip(evaluations, [e for e in selected["curve"] if e["weight"] == 1.0][-1:], strict=False):
        assert record["eval_goal_recovered"] == pytest.approx(each["recovered"]) or record["step"] != each["step"]
    # The same once more: nothing is trained or measured again.
    changed = {path.name: path.stat().st_mtime_ns for path in (here / "new").iterdir() if path.name != "harden.json"}
    assert main([*words("new", *more), "--resume"]) == 0
    again = {path.name: path.stat().st_mtime_ns for path in (here / "new").iterdir() if path.name != "harden.json"}
    assert again == changed
    resumed = read_result(here / "new" / "harden.json")
    assert (resumed["results"], resumed["selected"]) == (result["results"], selected)


def test_a_training_that_destroys_the_encoder_keeps_the_original(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--max-steps", "6", "--learning-rate", "3", "--no-audit", "--typo-vocabulary", "0"]
    assert main(words("new", *more)) == 0
    assert "the original encoder is kept, unchanged" in " ".join(capsys.readouterr().err.split())
    result = read_result(here / "new" / "harden.json")
    assert (result["selected"]["step"], result["selected"]["weight"]) == (0, 0.0)
    assert same_weights(here / "new", here / "old")
    assert not any(each["admissible"] for each in result["selected"]["curve"] if each["weight"] == 1.0)
    for row in result["results"]:
        assert (row["task"], row["metrics"]["difference"]) == ("old index", 0.0)


def test_a_stopped_run_ends_like_an_unbroken_one(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = harden(settings("whole"))
    asked = GoalEvaluator.__call__

    def stops(self: GoalEvaluator, model: Any, *given: Any, **named: Any) -> dict[str, float]:
        if named["steps"] == 6:
            raise KeyboardInterrupt
        return asked(self, model, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(GoalEvaluator, "__call__", stops)
        with pytest.raises(KeyboardInterrupt):
            harden(settings("stopped", save_steps=4))
    assert (here / "stopped" / "checkpoint-4").exists()
    resumed = harden(settings("stopped", save_steps=4), resume=True)
    assert resumed["selected"] == whole["selected"]
    assert resumed["results"] == whole["results"]
    assert same_weights(here / "stopped", here / "whole")


def test_a_labelled_collection_is_measured_and_kept_out_of_the_training(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = made_up_texts(300, 8, 2)
    asked = (here / "asked.txt").read_text(encoding="utf-8").splitlines()[:200]  # the training would have them
    folder = here / "beir"
    (folder / "qrels").mkdir(parents=True)
    rows = {"corpus": documents, "queries": asked, "queries-keyboard": [text[:-1] for text in asked]}
    for name, texts in rows.items():
        lines = [json.dumps({"_id": f"{number}", "text": text}) for number, text in enumerate(texts)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    qrels = [f"{number}\t{number}\t1" for number in range(len(asked))]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *qrels]) + "\n")
    read = []
    once = goal_queries.labelled_collection
    monkeypatch.setattr(goal_queries, "labelled_collection", lambda folder: read.append(folder) or once(folder))
    result = harden(settings("new", retrieval=folder, hold_out=200))
    assert read == [folder]
    assert result["protocol"]["goal"]["retrieval"] == str(folder)
    splits = [row["split"] for row in result["results"] if row["task"] == "old index"]
    assert {"collection keyboard", "collection typing"} <= {split.partition(",")[0] for split in splits}, splits
    # Half of the training texts are queries: the 400 others without 200 held out, each as often as that takes.
    trained = open_spooled({**result["protocol"]["corpus"], "skipped_blank": 0, "source": ""}).dataset["sentence"]
    assert set(trained) & set(made_up_texts(600, 5, 1))
    assert not set(trained) & set(asked)


def test_other_texts_are_another_run(here: Path) -> None:
    harden(settings("new", save_steps=3))
    others = ({"queries": None}, {"noise": "typing=0.2"}, {"hold_out": 250}, {"evaluations": 3})
    for changed in (*others, {"precision": "bf16"}):
        with pytest.raises(UserError, match="cannot resume new"):
            harden(settings("new", save_steps=3, **changed), resume=True)
    (here / "new" / "results.json").unlink()
    for changed in others:
        with pytest.raises(UserError, match="cannot resume new"):
            harden(settings("new", save_steps=3, **changed), resume=True)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"queries": "none.txt"}, "none.txt"),
        ({"noise": "tipping"}, "did you mean 'typing'"),
        ({"retrieval": Path("nowhere")}, "nowhere"),
        ({"query_share": 1.5}, "--query-share must be more than 0 and at most 1, got 1.5"),
        ({"hold_out": -1}, "--hold-out must be from 0 to 1000000, got -1"),
        ({"evaluations": 0}, "--evaluations must be from 1 to 1000000, got 0"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(here: Path, changed: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        harden(settings("new", **changed))
    assert not (here / "new").exists()


def test_without_audits_nothing_is_held_out_or_checked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["harden", "old", "--corpus", "mine.txt", "--output", "new", "--max-steps", "1", "--no-audit"]) == 0
    assert "the last step is kept, and nothing is checked" in " ".join(capsys.readouterr().err.split())
    result = read_result(here / "new" / "harden.json")
    assert result["protocol"]["selection"] == "last"
    assert result["protocol"]["corpus"]["sentences"] == 64  # one step's
    assert result["results"] == []
