"""The time budget: what fits, what is stopped, and that everything left out is said."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from audited import by_task, run, some_texts

from holdfast.attacks.attack_progress import UnderWay
from holdfast.attacks.examples import Example
from holdfast.audit import adversarial_items, audit_run
from holdfast.audit.shared_vectors import SharedVectors
from holdfast.audit.time_budget import TimeBudget, TimeIsUp, stopped_at
from holdfast.encoding import encode_sentences
from holdfast.user_functions import VectorFunction


def test_what_fits_is_counted_from_the_measured_time() -> None:
    budget = TimeBudget(100.0)
    assert budget.fitting(1000, 0.01, share=0.25, least=20) == 1000
    assert budget.fitting(1000, 0.1, share=0.25, least=20) == pytest.approx(250, abs=2)
    assert budget.fitting(1000, 10.0, share=0.25, least=20) == 20
    assert budget.fitting(7, 10.0, share=0.25, least=20) == 7
    spent = TimeBudget(100.0, time.monotonic() - 200)
    assert spent.left == 0.0
    assert spent.fitting(1000, 0.01, share=1.0, least=20) == 20
    unlimited = TimeBudget(0)
    assert unlimited.fitting(1000, 1e9, share=0.1, least=1) == 1000
    assert unlimited.deadline() == float("inf")


def test_a_model_is_stopped_at_the_deadline_and_not_after(make_encoder_model: Callable[..., Any]) -> None:
    model = make_encoder_model("bert")
    with pytest.raises(TimeIsUp), stopped_at(model, time.monotonic() - 1):
        encode_sentences(model, ["a dog"])
    assert encode_sentences(model, ["a dog"]).shape[0] == 1, "the hook is gone"
    with stopped_at(model, time.monotonic() + 60):
        assert encode_sentences(model, ["a dog"]).shape[0] == 1
    function = VectorFunction(lambda texts: np.ones((len(texts), 2)), name="f", call_batch=1)
    with pytest.raises(TimeIsUp), stopped_at(function, time.monotonic() - 1):
        function.vectors(["a"])
    assert function.vectors(["a", "b"]).shape == (2, 2)


def test_a_portion_that_begins_too_late_is_not_encoded() -> None:
    calls: list[int] = []

    def embed(texts: list[str]) -> np.ndarray:
        calls.append(len(texts))
        return np.ones((len(texts), 2))

    vectors = SharedVectors(VectorFunction(embed, name="f"))
    assert vectors.add(["a", "b", "a"])
    assert vectors.add(["a", "b"]), "known texts are not encoded again"
    assert calls == [2]
    assert not vectors.add(["c", "d"], deadline=time.monotonic() - 1)
    assert "c" not in vectors
    done: list[tuple[int, int]] = []
    assert vectors.add(list("cdefg"), lambda *counts: done.append(counts), portion=2)
    assert done == [(2, 5), (4, 5), (5, 5)]
    assert vectors.units(["g", "a"]).shape == (2, 2)


def test_the_time_of_a_text_is_measured_without_the_first_call() -> None:
    times = iter((0.5, 0.02))

    def embed(texts: list[str]) -> np.ndarray:
        time.sleep(next(times))
        return np.ones((len(texts), 2))

    vectors = SharedVectors(VectorFunction(embed, name="f"))
    vectors.add(["a"])
    assert vectors.seconds_per_text == 0.0
    vectors.add(["b", "c"])
    assert 0.01 <= vectors.seconds_per_text < 0.2


def test_each_distinct_text_of_an_audit_is_encoded_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("noting.py").write_text(
        "import numpy as np, collections\n"
        "seen = collections.Counter()\n"
        "def embed(texts):\n"
        "    seen.update(texts)\n"
        "    return np.array([[len(t), len(set(t)), t.count('a') + 1.0] for t in texts])\n"
    )
    monkeypatch.syspath_prepend(str(here))
    monkeypatch.setattr("holdfast.audit.audit_steps.ATTACKS", ())
    monkeypatch.setattr("holdfast.audit.vector_items._batch_sensitivity", lambda model, texts: 0.0)
    run("call:noting:embed")
    seen = sys.modules["noting"].seen
    assert len(seen) > 200
    assert set(seen.values()) == {1}


# --- attacks -----------------------------------------------------------------------------------------------------


def attacking(monkeypatch: pytest.MonkeyPatch, slow_from: int, seconds: float, enough: bool) -> tuple[list[int], int]:
    """Attack ten examples with an engine for which those from ``slow_from`` on end after the deadline."""
    asked: dict[str, Any] = {}

    class Engine:
        def __init__(self, target: Any, resources: Any, *, side_by_side: int, **_: Any) -> None:
            asked["side_by_side"] = side_by_side
            self.under_way = UnderWay

        def run(self, recipe: Any, examples: Any) -> Any:
            for example in examples:
                if example.number == slow_from:
                    if asked["side_by_side"] == 1:
                        raise TimeIsUp
                    continue
                if example.number > slow_from + 2:
                    raise TimeIsUp
                yield SimpleNamespace(number=example.number, outcome="succeeded", queries=1, original=example.text)

    monkeypatch.setattr(adversarial_items, "Engine", Engine)
    space = SimpleNamespace(texts=["a dog runs"] * 10, numbers=list(range(10)))
    context: Any = SimpleNamespace(
        settings=SimpleNamespace(precision="fp32", seed=1),
        linguistics=SimpleNamespace(resources=None),
        model=VectorFunction(lambda texts: np.ones((len(texts), 2)), name="f"),
        progress=SimpleNamespace(console=None, label=""),
        deadline=time.monotonic() + seconds,
        journal=SimpleNamespace(attempts=lambda _: {}, add_attempt=lambda *_: None),
        space=space,
        seconds_of=lambda texts: 0.001 if enough else 100.0,
    )
    examples = [Example(number, ("a dog runs",)) for number in range(10)]
    attempts = adversarial_items._attempts(context, "item", None, None, examples)  # type: ignore[arg-type]
    return [attempt.number for attempt in attempts], asked["side_by_side"]


def test_short_of_time_examples_are_attacked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert attacking(monkeypatch, 4, 60.0, enough=False) == ([0, 1, 2, 3], 1)


def test_of_attacks_side_by_side_those_before_the_first_unfinished_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that end first are the successes: to count them all would exaggerate their rate."""
    numbers, side_by_side = attacking(monkeypatch, 4, 60.0, enough=True)
    assert side_by_side > 1
    assert numbers == [0, 1, 2, 3], "5 and 6 ended, too"


# --- the whole audit ---------------------------------------------------------------------------------------------

SLOW = """
import time
import numpy as np

def embed(texts):
    time.sleep(0.004 * len(texts))
    return np.array([[len(t), len(set(t)), t.count('a') + 1.0, t.count('e')] for t in texts])
"""


def test_an_audit_stays_within_its_budget_and_says_what_it_left_out(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("slow_service.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(here))
    Path("mine.txt").write_text("\n".join(some_texts(600)) + "\n")
    monkeypatch.setattr(audit_run, "_LEAST_TEXTS", 40)
    began = time.monotonic()
    result = run("call:slow_service:embed", examples=None, max_seconds=8.0, call_batch=8)
    assert time.monotonic() - began < 14.0
    drawn = result["protocol"]["drawn"]
    assert 40 <= drawn["texts"] < 600
    assert drawn["texts_per_item"] < drawn["texts"]
    left_out = " ".join(result["protocol"]["left_out"])
    assert f"{drawn['texts']:,} of 600 texts" in left_out
    assert "texts per item" in left_out
    items = by_task(result)
    assert items["audit-typos"]["n"] <= drawn["texts_per_item"]
    assert items["audit-vectors"]["n"] == drawn["texts"]
    short = [row for row in result["results"] if row.get("left_out")]
    for row in short:
        if row["task"] in ("audit-adversarial-typos", "audit-neighbours"):
            assert row["n"] + row["left_out"] == 100 or row["n"] + row["left_out"] == drawn["texts"]


def test_texts_that_could_not_be_changed_in_time_are_told(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("slow_service.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(here))
    monkeypatch.setattr("holdfast.audit.audit_steps._EDITING_SHARE", 0.0)
    result = run("call:slow_service:embed", examples=1, max_seconds=60.0)
    items = by_task(result)
    assert items["audit-typos"]["verdict"] == items["audit-negation"]["verdict"] == "absent"
    assert items["audit-typos"]["told"].endswith("before the end of the time budget (--max-seconds)")
    (line,) = [line for line in result["protocol"]["left_out"] if line.startswith("fewer texts changed for ")]
    assert {"typos", "noise", "negation"} <= set(line.removeprefix("fewer texts changed for ").split(", "))


def test_given_numbers_are_exact_whatever_the_time(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("slow_service.py").write_text(SLOW)
    monkeypatch.syspath_prepend(str(here))
    result = run("call:slow_service:embed", examples=2, texts_per_item=7, max_seconds=0.01)
    items = by_task(result)
    assert items["audit-typos"]["n"] == items["audit-case-upper"]["n"] == 7
    assert items["audit-adversarial-typos"]["n"] == 2
    assert result["protocol"]["left_out"] == []
    assert result["protocol"]["drawn"] == {"texts": 40, "texts_per_item": 7}
