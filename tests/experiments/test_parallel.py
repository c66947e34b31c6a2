"""Cells side by side, in processes of their own: what they make, and how they end."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from small_table import TABLE, values

from holdfast.errors import UserError
from holdfast.experiments import parallel
from holdfast.experiments import reproduction as experiments
from holdfast.experiments.cell_job import MADE
from holdfast.experiments.cell_planning import Setting
from holdfast.experiments.cells import Cell, Store
from holdfast.experiments.parallel import make_in_parallel, ready
from holdfast.experiments.preparation import cells_of
from holdfast.experiments.render import markdown
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import reproduce
from warm import WarmPython

Settings = Callable[..., ReproduceSettings]


@pytest.mark.slow
def test_cells_side_by_side_are_the_same_cells(settings: Settings, made: list[str], tmp_path: Path) -> None:
    whole = reproduce(settings())
    made.clear()
    table = TABLE.replace("max_steps: 2, batch_size: 4", "max_steps: 2, batch_size: 400", 1)
    beside = tmp_path / "beside"
    assert values(reproduce(settings(output=beside, jobs=2))) == values(whole)
    assert made == []  # in other processes
    # A cell that fails takes with it what needs it, and nothing else. The second seed is new.
    message = io.StringIO()
    console = Console(file=message, width=200)
    failed = reproduce(settings(table, output=beside, jobs=2, seeds=2), console=console)["results"]
    lines = [line for line in message.getvalue().splitlines() if "more wait" in line]
    assert lines
    assert all(line.endswith(" left") for line in lines[:-1]), "by the cells of the first seed"
    (accuracy,) = (row for row in failed if (row["task"], row["split"]) == ("NP", "Acc."))
    assert len(accuracy["values"]) == 2
    assert accuracy["values"][0] == values(whole)["NP", "Acc."]
    assert all("400" in row["not_run"][0] for row in failed if row["task"] == "SimCSE" and row["cells"])


TIMED = (
    TABLE.partition("averages")[0] + "  Seconds: {classifier: *sst2, attack: *typos, measure: seconds_per_example}\n"
)
SHARED = "times were measured while up to"


def test_times_of_cells_that_shared_the_machine_are_told_as_such(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def side_by_side(todo: Any, store: Any, setting: Any, jobs: int, *, console: Any, command: Any) -> dict[str, str]:
        for cell in todo:
            assert parallel._make(cell, store, setting, command, jobs) == (MADE, "")
        return {}

    monkeypatch.setattr(experiments, "make_in_parallel", side_by_side)
    result = reproduce(settings(TIMED, only=["NP"], jobs=3))
    rows = {row["split"]: row for row in result["results"]}
    assert rows["Seconds"]["timed_among"] == 3
    assert not any("timed_among" in rows[name] for name in ("Acc.", "Typos", "Queries"))
    assert f"1 {SHARED} 3 jobs shared the machine" in " ".join(markdown(result).split())
    # The record stays with the cell, and what is made alone is told as nothing else.
    both = reproduce(settings(TIMED))
    seconds = {row["task"]: row.get("timed_among") for row in both["results"] if row["split"] == "Seconds"}
    assert seconds == {"NP": 3, "SimCSE": None}
    assert SHARED not in markdown(reproduce(settings(TIMED, only=["SimCSE"])))


@pytest.mark.slow
def test_a_cell_that_another_run_makes_waits_for_its_turn_and_keeps_no_process(
    settings: Settings, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "LATER", 0.5)
    message = io.StringIO()
    given = settings()
    store = Store(given.output / "cells")
    first = next(cell for cell in cells_of(given) if cell.kind == "classifier")
    alone = contextlib.ExitStack()
    alone.enter_context(store.alone(first))

    class Lines(io.StringIO):
        """Ends the other run as soon as a cell was made beside it."""

        def write(self, text: str) -> int:
            if "made (" in text:
                alone.close()
            return message.write(text)

    result = reproduce(settings(jobs=2), console=Console(file=Lines(), width=300))
    assert all(not row["not_run"] for row in result["results"])
    lines = [line for line in message.getvalue().splitlines() if line.startswith(("made", "left for later"))]
    assert sum(line.startswith("left for later") for line in lines) == 1
    assert lines[-1].startswith("made")


class _Deadly:
    """Ends the process that receives it, as the system does where memory runs out."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (9,)


def test_a_process_that_is_killed_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"encoder SimCSE, seed 7; the same command goes on .* smaller --jobs"):
        make_one(tmp_path, _Deadly())


class _DeadlyForOne:
    """Ends the second process that receives it, and keeps the first one busy."""

    def __init__(self, folder: Path) -> None:
        self.code = f"""
import os, pathlib, time
folder = pathlib.Path({str(folder)!r})
try:
    (folder / "taken").touch(exist_ok=False)
except FileExistsError:
    os._exit(9)
time.sleep(60)
(folder / "ended").touch()
"""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self.code,)


@pytest.mark.slow
def test_a_process_that_is_killed_is_known_before_the_others_have_made_their_cells(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"encoder SimCSE, seed 7, encoder SimCSE, seed 8; the same command goes on"):
        make_cells(tmp_path, _DeadlyForOne(tmp_path), 2, Console(quiet=True))
    assert not (tmp_path / "ended").exists()


class _Long:
    """Keeps the process that receives it busy for a minute, once it has written its number to a file."""

    def __init__(self, folder: Path) -> None:
        self.code = f"""
import os, pathlib, time
pathlib.Path({str(folder)!r}, "new").write_text(str(os.getpid()))
pathlib.Path({str(folder)!r}, "new").rename(pathlib.Path({str(folder)!r}, "began"))
time.sleep(60)
pathlib.Path({str(folder)!r}, "ended").touch()
"""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self.code,)


def make_one(folder: Path, sent: object) -> None:
    """Have a process make a cell, and send it something that does not let it."""
    make_cells(folder, sent, 1, Console(quiet=True))


def make_cells(folder: Path, sent: object, count: int, console: Console) -> None:
    """Have each of ``count`` processes make a cell, and send it something that does not let it."""
    cells = [Cell("encoder", {"n": n}, label=f"SimCSE, seed {n}") for n in range(7, 7 + count)]
    setting, command = Setting(model=None, corpus=None, data=None), [sent]
    make_in_parallel(cells, Store(folder), setting, count, console=console, command=command)  # type: ignore[arg-type]


def signalled_when_it_began(folder: Path, number: int) -> None:
    """Have this process get a signal as soon as the other one is busy."""

    def send() -> None:
        while not (folder / "began").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    threading.Thread(target=send, daemon=True).start()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C is heard: what a script starts in the background is told to ignore it, and its Python does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_whoever_is_stopped_stops_what_it_started(tmp_path: Path) -> None:
    signalled_when_it_began(tmp_path, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        make_one(tmp_path, _Long(tmp_path))
    assert not is_alive(int((tmp_path / "began").read_text()))
    assert not (tmp_path / "ended").exists()


STEPS = {"short": 0, "middle": 2, "long": 30}
"""Seconds that the steps of three trainings take."""


class _Step:
    """A training in the process that receives it, one of `STEPS`, whose first signal waits for the end of its step."""

    def __init__(self, folder: Path) -> None:
        self.code = f"""
import os, pathlib, signal, time
from holdfast.stopping import DeferredStop
folder = pathlib.Path({str(folder)!r})
for which, seconds in {STEPS}.items():
    try:
        (folder / f"taken-{{which}}").touch(exist_ok=False)
    except FileExistsError:
        continue
    break
stop = DeferredStop(lambda: None)
with stop.waiting():
    os.kill(os.getpid(), signal.SIGINT)  # as a terminal does with all processes: the first one has to answer
    if stop.requested is not None:
        (folder / "heard").touch()
    (folder / f"new-{{which}}").write_text(str(os.getpid()))
    (folder / f"new-{{which}}").rename(folder / f"began-{{which}}")
    while stop.requested is None:
        time.sleep(0.02)
    time.sleep(seconds)
    (folder / f"checkpoint-{{which}}").touch()
    stop.end()
"""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (self.code,)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_each_training_ends_its_step_before_it_stops_and_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    numbers, over = dict[str, int](), threading.Event()

    def wait_for(name: str) -> None:
        while not (tmp_path / name).exists() and not over.wait(0.05):
            pass

    def interrupt() -> None:
        for which in STEPS:
            wait_for(f"began-{which}")
            numbers[which] = int((tmp_path / f"began-{which}").read_text())
        os.kill(os.getpid(), signal.SIGINT)
        wait_for("checkpoint-short")
        for which in ("middle", "long"):  # as the pool does, if it sees that a process has ended
            os.kill(numbers[which], signal.SIGTERM)
        wait_for("checkpoint-middle")
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    printed = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        make_cells(tmp_path, _Step(tmp_path), len(STEPS), Console(file=printed, width=200))
    over.set()
    assert not (tmp_path / "heard").exists()
    assert parallel.STOPPING in printed.getvalue()
    assert not any(map(is_alive, numbers.values()))
    written = {which for which in STEPS if (tmp_path / f"checkpoint-{which}").exists()}
    assert written == {"short", "middle"}


def killed_while_another_is_busy(folder: str) -> None:
    signalled_when_it_began(Path(folder), signal.SIGKILL)
    make_one(Path(folder), _Long(Path(folder)))


@pytest.mark.slow
def test_no_process_outlives_one_that_is_killed(tmp_path: Path, warm: WarmPython) -> None:
    run = warm.run(Path(__file__), str(tmp_path), function="killed_while_another_is_busy")
    assert run.returncode == -signal.SIGKILL, run.stderr
    number = int((tmp_path / "began").read_text())
    while is_alive(number):
        assert not (tmp_path / "ended").exists()
        time.sleep(0.05)
    assert not (tmp_path / "ended").exists()


def is_alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_which_cells_are_ready() -> None:
    start = Cell("model", {}, where={"path": "/x"})
    encoder = Cell("encoder", {"n": 1}, {"start": start})
    classifier = Cell("classifier", {}, {"encoder": encoder})
    other = Cell("encoder", {"n": 2}, {"start": start})
    attack = Cell("attack", {}, {"victim": classifier})
    waiting = [encoder, classifier, other, attack]
    assert ready(waiting, [], {}) == [encoder, other]
    waiting.remove(encoder)
    assert ready(waiting, [encoder], {}) == [other]
    failed = {encoder.key: "why"}
    assert ready(waiting, [], failed) == [other]
    assert waiting == [other]
    assert failed == {encoder.key: "why", classifier.key: "why", attack.key: "why"}
