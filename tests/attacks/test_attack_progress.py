"""What a person sees of an attack while it runs, and the seconds that its result tells, by a clock of the tests."""

from __future__ import annotations

import io
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from small_attacks import sentence

from holdfast.attacks import attack_run as attack_run
from holdfast.attacks.attack_progress import AttackProgress, UnderWay, work_of
from holdfast.attacks.attack_run import attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.encoder_targets import DriftTarget
from holdfast.attacks.engine import Engine
from holdfast.attacks.examples import Attempt, Example, Outcome
from holdfast.attacks.recipes import RECIPES
from holdfast.results import read_result


class Clock:
    """Seconds that pass when they are told to, besides those that really do in ``attack``."""

    def __init__(self, *, real: bool = False) -> None:
        self.seconds, self._real = 1000.0, time.monotonic if real else lambda: 0.0

    def __call__(self) -> float:
        return self.seconds + self._real()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


def attempt(number: int, outcome: Outcome, queries: int = 0) -> Attempt:
    return Attempt(number, "pwws", outcome, "a dog", "a dog", queries=queries)


def numbers(line: str) -> dict[str, float]:
    """What a line tells: examples that are done and all of them, rates, success, and the seconds that are left."""
    found = {
        "done": r"(\d+)/\d+",
        "total": r"\d+/(\d+)",
        "examples/s": r"([\d.]+) examples/s",
        "queries/s": r"([\d.]+) queries/s",
        "success": r"([\d.]+) % success",
        "left": r"ETA\s+([\d.]+) s",
    }
    matches = {name: re.search(pattern, line) for name, pattern in found.items()}
    return {name: float(match[1]) for name, match in matches.items() if match}


def test_rates_success_and_the_time_that_is_left_are_told_now_and_then(clock: Clock) -> None:
    message = io.StringIO()
    console = Console(file=message, width=200)
    with AttackProgress(console, "pwws", 5) as progress:
        steps: list[tuple[float, int, Outcome]] = [
            (2.0, 10, "skipped"),  # too soon for a line
            (18.0, 190, "succeeded"),
            (1.0, 10, "failed"),  # too soon again
            (19.0, 190, "succeeded"),
        ]
        lines = []
        for number, (seconds, queries, outcome) in enumerate(steps):
            clock.seconds += seconds
            progress.add(attempt(number, outcome, queries))
            lines.append(message.getvalue().count("\n"))
        clock.seconds += 10.0
        progress.add(attempt(4, "failed", 100))
    assert lines == [0, 1, 1, 2]
    first, second, last = message.getvalue().splitlines()
    assert all(line.startswith("pwws") for line in (first, second, last))
    rates = {"examples/s": 0.1, "queries/s": 10.0}
    # 2 examples and 200 queries in 20 seconds, and so on; the example that was skipped was not attacked.
    assert numbers(first) == {"done": 2, "total": 5, "success": 100.0, "left": 30.0, **rates}
    assert numbers(second) == {"done": 4, "total": 5, "success": 66.7, "left": 10.0, **rates}
    assert numbers(last) == {"done": 5, "total": 5, "success": 50.0, "left": 0.0, **rates}


def test_a_terminal_shows_a_bar_with_the_same_numbers(clock: Clock) -> None:
    message = io.StringIO()
    console = Console(file=message, width=150, force_terminal=True, color_system=None, legacy_windows=False)
    with AttackProgress(console, "typos", 4) as progress:
        for number, outcome in enumerate(("succeeded", "failed", "skipped", "failed")):
            clock.seconds += 5.0
            progress.add(attempt(number, outcome, 40))  # type: ignore[arg-type]
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", message.getvalue()).rstrip().splitlines()[-1]
    assert "typos" in last
    assert numbers(last) == {"done": 4, "total": 4, "examples/s": 0.2, "queries/s": 8.0, "success": 33.3, "left": 0}


def test_the_words_of_a_long_text_are_told_before_any_is_finished(clock: Clock) -> None:
    message = io.StringIO()
    now = UnderWay(texts=1, tried=0, words=80, queries=80, parts=0.0)
    progress = AttackProgress(Console(file=message, width=200), "pwws", 2, lambda: now)
    clock.seconds += 8.0
    progress.print_line()
    now = UnderWay(texts=1, tried=20, words=80, queries=160, parts=0.25)
    clock.seconds += 8.0
    progress.print_line()
    # A quarter of one of two texts in 16 seconds: seven times as long is left.
    assert message.getvalue().splitlines() == [
        "pwws: 0/2 examples  0.00 examples/s  10 queries/s  0 of 80 words tried in 1 text  8 s so far",
        "pwws: 0/2 examples  0.00 examples/s  10 queries/s  20 of 80 words tried in 1 text  ETA 1.9 min",
    ]


def test_a_long_text_is_more_of_the_work_than_a_short_one(clock: Clock) -> None:
    short, long = "a dog", " ".join(["dog"] * 40)
    now = UnderWay()
    progress = AttackProgress(None, "pwws", 5, lambda: now, work=sum(map(work_of, [short, short, short, long, long])))
    for number in range(3):
        clock.seconds += 1.0
        progress.add(attempt(number, "failed"))
    assert progress.remaining() is None, "three short texts of 4, of 3,212, tell nothing"
    assert progress.share == 12 / 3212
    assert progress._left() == "3 s so far"
    now = UnderWay(texts=2, tried=20, words=80, parts=0.5, work=0.5 * 40 * 40)
    clock.seconds += 97.0
    share, left = progress.remaining() or (0.0, 0.0)
    assert share == pytest.approx(812 / 3212)
    assert left == pytest.approx(100.0 * 2400 / 812)
    assert work_of(" ".join(["dog"] * 1000)) == 1000 * 256  # a model reads no more of it


def test_the_engine_tells_what_is_under_way(encoder: Any, resources: Any) -> None:
    target = DriftTarget(encoder, source="small", threshold=-2.0)  # out of reach: every word is tried
    engine = Engine(target, resources)
    seen: list[UnderWay] = []
    real = engine._answer

    def watched(running: Any) -> None:
        seen.append(engine.under_way())
        real(running)

    engine._answer = watched  # type: ignore[method-assign]
    text = "the old man sleeps on the big red bed"
    recipe = RECIPES["typos"](max_share=1.0)
    list(engine.run(recipe, [Example(0, (text,)), Example(1, ("a dog runs",))]))
    words = {(now.texts, now.words) for now in seen}
    assert words == {(2, 8), (1, 6), (0, 0)}  # old man sleeps big red bed; dog runs
    assert [now.tried for now in seen if now.texts == 2][:2] == [0, 2]
    assert max(now.parts for now in seen) <= 2.0
    (half,) = {now.work for now in seen if now.texts == 2 and now.tried == 2}
    assert half in (2 / 6 * work_of(text), 1 / 6 * work_of(text) + 1 / 2 * work_of("a dog runs"))


@pytest.mark.parametrize("ends", ["quiet", "nothing to do", "an error"])
def test_nothing_is_told_where_nobody_listens_or_nothing_was_finished(ends: str, clock: Clock) -> None:
    message = io.StringIO()
    console = None if ends == "quiet" else Console(file=message, width=200)
    total = 0 if ends == "nothing to do" else 2
    try:
        with AttackProgress(console, "pwws", total) as progress:
            if total:
                clock.seconds += 1.0
                progress.add(attempt(0, "skipped"))
            if ends == "an error":
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert message.getvalue() == ""


def test_seconds_per_example_are_those_of_the_attack_alone_also_of_a_run_that_was_killed(
    tmp_path: Path, classifier: Any, classifier_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With each example a hundred seconds pass; and a thousand while data or model are loaded, or rows are made."""
    rng = random.Random(9)
    texts = [sentence(rng) for _ in range(12)]
    labels = [classifier.classes[label] for label in classifier.logits([(text,) for text in texts]).argmax(axis=1)]
    path = tmp_path / "mine.tsv"
    rows = [("sentence", "label"), *zip(texts, labels, strict=True)]
    path.write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    clock, real_run = Clock(real=True), Engine.run
    monkeypatch.setattr(time, "monotonic", clock)

    def slow(module: Any, name: str) -> None:
        real = getattr(module, name)

        def slower(*args: Any, **kwargs: Any) -> Any:
            clock.seconds += 1000.0
            return real(*args, **kwargs)

        monkeypatch.setattr(module, name, slower)

    for name in ("load_inputs", "load_attacked_model", "_result"):
        slow(attack_run, name)
    finished = 0

    def run(self: Engine, *given: Any) -> Iterator[Attempt]:
        nonlocal finished
        for each in real_run(self, *given):
            if finished == 5:
                raise KeyboardInterrupt
            finished += 1
            clock.seconds += 100.0
            yield each

    monkeypatch.setattr(Engine, "run", run)
    settings = AttackSettings(
        str(classifier_folder), ["typos"], task=str(path), precision="fp32", output=tmp_path / "r.json", device="cpu"
    )
    with pytest.raises(KeyboardInterrupt):
        attack(settings)
    finished = -100
    attack(settings, resume=True)
    result = read_result(tmp_path / "r.json")
    timing = result["timing"]
    assert len(result["examples"]) == 12
    assert timing["attack_seconds"] == pytest.approx(1200.0, rel=0.05)
    assert timing["seconds_per_example"] == pytest.approx(100.0, rel=0.05)
    assert timing["recipes"]["typos"]["seconds_per_example"] == pytest.approx(100.0, rel=0.05)
