"""The estimate of an attack and an audit before the work: its numbers, its line, and that nothing else is done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_attacks import ATTACK

from holdfast.attacks.examples import Example
from holdfast.attacks.journal import journals
from holdfast.attacks.targets import ClassifierTarget
from holdfast.attacks.work_estimate import WorkEstimate, attack_estimate, queries_of
from holdfast.cli import main


def test_the_line_and_the_numbers() -> None:
    found = WorkEstimate(100, 2400, 600, 0.01)
    assert (found.seconds, found.calls) == (pytest.approx(30.0), None)
    work = "at most 2,400 texts to encode and about 600 queries of attacks"
    assert found.line() == f"estimate: 100 texts, {work}: about 30 s at 10 ms a text"
    called = WorkEstimate(100, 2401, 600, 1.0, call_batch=256, limit=480.0)
    assert called.calls == 10 + 3
    assert "600 queries of attacks in 13 calls or more: about 50.0 min at 1e+03 ms a text" in called.line()
    assert called.line().endswith(", ended after 8.0 min (--max-seconds)")
    assert not WorkEstimate(1, 1, 0, 1.0, limit=480.0).line().endswith("(--max-seconds)")
    assert "nothing to encode: about 0 s" in WorkEstimate(1, 0, 0, 1.0).line()
    assert queries_of(["one two three", "four"], 2) == 6 * 2 * 4


def test_an_attack_tells_its_work_first(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*ATTACK, "--output", "r.json"]
    assert main([*words, "--estimate", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["estimate"]
    assert (found["texts"], found["encodings"], found["calls"]) == (40, 0, None)
    assert found["queries"] > 40
    assert found["seconds"] == pytest.approx(found["queries"] * found["seconds_per_text"])
    assert found["seconds_per_text"] > 0.0
    assert not Path("r.json").exists()
    assert not list(journals(Path("r.json")))
    assert main([*words, "--estimate"]) == 0
    (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("estimate: "))
    assert line.startswith(f"estimate: 40 texts, about {found['queries']:,} queries of attacks: about ")


def test_examples_that_will_be_skipped_are_not_queried(
    target: ClassifierTarget, pairs: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target.classifier, "takes_pairs", False)
    monkeypatch.setattr(target, "outputs", lambda *_, **__: pytest.fail("it was queried"))
    assert attack_estimate(target, pairs, 1, None).seconds_per_text == 0.0
