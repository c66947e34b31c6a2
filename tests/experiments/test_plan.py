"""What would be made, told without making it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_table import TABLE

from holdfast.cli import main
from holdfast.experiments import cell_execution
from holdfast.experiments.cells import CELL_FILE, Cell, Store
from holdfast.experiments.durations import Durations, time_left
from holdfast.experiments.plan import Planned, plan
from holdfast.experiments.preparation import cells_of
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import reproduce

Settings = Callable[..., ReproduceSettings]


def test_a_plan_counts_what_is_left_and_takes_its_time_from_what_is_finished(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(cell_execution, "do", lambda *_: pytest.fail("a plan makes nothing"))
        assert plan([settings(), settings()]).sorts == [
            Planned("classifier", "sst2, none", 2, 0, None),
            Planned("attack", "typos, sst2", 2, 0, None),
            Planned("encoder", "simcse", 1, 0, None),
        ]
    assert not settings().output.exists()
    reproduce(settings(only=["NP"]))
    for path, seconds in (("classifier", 30.0), ("attack", 8.0)):
        (file,) = settings().output.glob(f"cells/{path}-*/{CELL_FILE}")
        file.write_text(json.dumps({**json.loads(file.read_text()), "seconds_of_last_run": seconds}))
    (settings().output / "cells" / "attack-damaged").mkdir()
    (settings().output / "cells" / "attack-damaged" / CELL_FILE).write_text('{"kind": "attack"}')
    # Of encoders none is finished, so that nothing is known of them.
    classifier, encoder = Planned("classifier", "sst2, none", 2, 1, 30.0), Planned("encoder", "simcse", 1, 0, None)
    assert plan([settings()]).sorts == [classifier, Planned("attack", "typos, sst2", 2, 1, 8.0), encoder]
    # Half as many examples take half the time, and an attack by other characters as long as one by typing errors.
    fewer = settings(TABLE.replace("examples: 4", "examples: 2"))
    assert plan([fewer]).sorts == [classifier, Planned("attack", "typos, sst2", 2, 0, 4.0 + 4.0), encoder]
    other = settings(TABLE.replace("recipe: typos", "recipe: evasion"))
    assert plan([other]).sorts == [classifier, Planned("attack", "evasion, sst2", 2, 0, 8.0 + 8.0), encoder]
    assert plan([settings(only=["NP"])]).sorts[0] == Planned("classifier", "sst2, none", 1, 1, 0.0)
    store = Store(settings().output / "cells")
    classifiers, encoders = ([c for c in cells_of(settings()) if c.kind == kind] for kind in ("classifier", "encoder"))
    assert time_left(classifiers, store) == ", about 60 s left"
    assert time_left(classifiers, store, jobs=4) == ", about 15 s left"
    assert time_left([*classifiers, *encoders], store) == time_left([], store) == ""


def test_the_plan_is_told(
    settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = settings()
    monkeypatch.chdir(tmp_path)
    words: list[Any] = ["reproduce", given.table, "--plan", "--scale", "paper", "--model", given.model]
    words += ["--corpus", given.corpus, "--data", given.data, "--output", given.output, "--resources", "light"]
    words += ["--masked-lm", given.model, "--similarity", given.model]
    assert main([*map(str, words)]) == 0
    message = capsys.readouterr().out
    assert "encoder" in message
    assert "the time is not known: 5 cells of kinds without a finished cell in this --output" in message
    assert "0 s" not in message
    assert main([*map(str, words), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tables"] == [{"table": "small", "not_made": [], "changes": {}, "overruled": {}}]
    assert found["cells"][0] == {"kind": "classifier", "what": "sst2, none", "cells": 2, "finished": 0, "seconds": None}
    assert not given.output.exists()


def test_what_was_measured_in_another_unit_tells_nothing() -> None:
    def record(seconds: float, kind: str = "encoder", **settings: Any) -> dict[str, Any]:
        return {
            "kind": kind,
            "settings": {"method": "simcse", "corpus": "c", **settings},
            "seconds_of_last_run": seconds,
        }

    def seconds(kind: str, *records: dict[str, Any], **settings: Any) -> float | None:
        cell = Cell(kind, {"method": "simcse", "corpus": "c", **settings}, {}, label="")
        return Durations(records).of([cell])

    steps = {"max_steps": 10, "batch_size": 64, "accumulate": 1}
    assert seconds("encoder", record(8.0, **steps), **{**steps, "max_steps": 20}) == pytest.approx(16.0)
    assert seconds("encoder", record(8.0, **steps), **{**steps, "accumulate": 2}) == pytest.approx(16.0)
    assert seconds("encoder", record(8.0, **steps), epochs=1.0) is None
    assert seconds("encoder", record(600.0, epochs=1.0), **steps) is None
    assert seconds("encoder", record(600.0, epochs=1.0), epochs=3.0) == pytest.approx(1800.0)
    assert seconds("encoder", record(600.0, epochs=1.0), epochs=3.0, corpus="d") is None
    attack = {"recipe": "pwws", "task": "mr"}
    assert seconds("attack", record(20.0, "attack", **attack, examples=10), **attack) is None
    assert seconds("attack", record(20.0, "attack", **attack, examples=10), **attack, examples=5) == pytest.approx(10.0)
    own = {"task": "mr", "defence": "none", "epochs": 2.0}
    assert seconds("classifier", record(9.0, "classifier", **own, examples=300), **own) is None
    assert seconds("classifier", record(9.0, "classifier", **own), **{**own, "epochs": 4.0}) == pytest.approx(18.0)
    tasks = {"tasks": ["stsb"]}
    assert seconds("evaluation", record(3.0, "evaluation", **tasks, limit=40), **tasks) is None
