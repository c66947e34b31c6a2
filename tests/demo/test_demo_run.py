"""The demo from end to end with a small random encoder: its JSON, its words, and what a resumed demo keeps."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from holdfast.cli import main
from holdfast.cli.demo_summary import _card_table, summary
from holdfast.demo import demo_run
from holdfast.demo.before_and_after import LOWER_IS_BETTER, card_row, paired, remark, retrieval_row
from holdfast.demo.demo_run import run_demo
from holdfast.demo.demo_settings import HARDENED, DemoSettings
from holdfast.demo.demo_texts import load_town
from holdfast.demo.retrieval_probe import CLEAN, NOISES, SEEDS, RetrievalProbe, _changed_span, name_of
from holdfast.edits.words import spanned_pieces
from holdfast.errors import UserError
from holdfast.results import examples_of, read_result

PROSE = [f"The {kind} of a {place} is open." for kind in ("door", "window", "gate") for place in ("bank", "school")]
QUERIES = [CLEAN, "typing", "typing=0.2"]


@pytest.fixture
def small(encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DemoSettings:
    """A demo of two steps."""
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    return DemoSettings(str(encoder), tmp_path / "demo", prose=PROSE, steps=2, batch_size=8, audited=2)


@pytest.mark.slow
def test_the_demo_from_end_to_end(small: DemoSettings, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_demo(small)
    assert result == read_result(small.file("demo.json"))
    _check_json(result)
    _check_page(small, result)
    _check_message(result)

    # A finished demo is not run again into its folder; one that was stopped goes on, and nothing is made twice.
    assert main(["demo", "--output", str(small.output), "--model", str(small.model)]) == 2
    assert "is finished" in capsys.readouterr().err
    made = [small.file(HARDENED) / name for name in ("model.safetensors", "audit-before.json", "audit-after.json")]
    before = [path.stat().st_mtime_ns for path in made]
    small.file("report.html").unlink()
    again = run_demo(small)
    assert [path.stat().st_mtime_ns for path in made] == before
    assert (again["retrieval"], again["card"], again["examples"]) == (
        result["retrieval"],
        result["card"],
        result["examples"],
    )
    assert small.file("report.html").is_file()


def _check_json(result: dict[str, Any]) -> None:
    assert [row["queries"] for row in result["retrieval"]] == QUERIES
    for row in result["retrieval"]:
        assert row["n"] == len(load_town().questions)
        assert 0 <= min(row["before"], row["after"]) <= max(row["before"], row["after"]) <= 100
        assert row["difference"] == pytest.approx(row["after"] - row["before"])
        assert row["low"] <= row["difference"] <= row["high"]
        assert row["copies"] == (1 if row["queries"] == CLEAN else SEEDS)
    card = {(row["side"], row["item"]): row for row in result["card"]}
    assert {("hold", "typing"), ("hold", "typos"), ("move", "written meaning"), ("move", "written negation")} <= set(
        card
    )
    assert card["move", "written meaning"]["n"] == sum(
        row["n"] for (_, item), row in card.items() if item.startswith("written ") and item != "written meaning"
    )
    for row in (*result["retrieval"], *result["card"]):
        assert row["remark"], row
    assert not any(item == "vectors" for _, item in card)
    assert len(result["results"]) == len(result["retrieval"]) + len(result["card"])
    assert {name: len(verdicts) > 8 for name, verdicts in result["audits"].items()} == {"before": True, "after": True}
    assert {
        "demo_seconds",
        "retrieval_before_seconds",
        "harden_seconds",
        "retrieval_after_seconds",
        "train_seconds",
    } <= set(result["timing"])
    assert examples_of(result, Path("demo.json")) == result["examples"]
    assert result["kept"] in ("trained weights", "new entries of the vocabulary")


def _check_page(settings: DemoSettings, result: dict[str, Any]) -> None:
    page = settings.file("report.html").read_text(encoding="utf-8")
    for wanted in (
        "The holdfast demo",
        "Before and after",
        "what should hold",
        "what should move",
        "Loss and its terms",
    ):
        assert wanted in page, wanted
    for row in (*result["retrieval"], *result["card"]):
        assert row["remark"] in page
    assert "demo-retrieval-1" in page
    assert "Other measurements" not in page


def _check_message(result: dict[str, Any]) -> None:
    console = Console(width=160, file=io.StringIO())
    tables, text = summary(result)
    for table in tables:
        console.print(table)
    message = console.file.getvalue()  # type: ignore[attr-defined]
    for row in result["retrieval"]:
        assert f"{row['before']:.1f}" in message
        assert row["remark"] in message
    assert "should move" in message
    assert "no longer do" in text
    assert text.endswith(str(result["report"])), "the report's path comes last"


def test_the_items_that_held_worst_are_on_the_card_whatever_their_metric() -> None:
    def row(item: str, metric: str, before: float) -> dict[str, Any]:
        return {"side": "hold", "item": item, "metric": metric, "before": before, "after": before, "remark": ""}

    fine = [row(f"fine-{n}", "stability", 0.99) for n in range(7)]
    worst = [row("attacked", "success_rate", 90.0), row("few found", "found", 20.0), row("bent", "stability", 0.3)]
    harmless = [row("not attacked", "success_rate", 0.0), row("all found", "found", 100.0)]
    table = _card_table([*fine, *harmless, *worst])
    shown = [str(cell).partition(" (")[0] for cell in table.columns[1].cells]
    assert shown[:3] == ["attacked", "few found", "bent"]
    assert not {"not attacked", "all found"} & set(shown)


def test_a_stopped_demo_goes_on_after_its_hardening(small: DemoSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise UserError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(demo_run, "_result", stop)
        with pytest.raises(UserError, match="stopped"):
            run_demo(small)
    trained = small.file(HARDENED) / "model.safetensors"
    before = trained.stat().st_mtime_ns
    assert not small.file("demo.json").exists()
    assert run_demo(small)["retrieval"]
    assert trained.stat().st_mtime_ns == before


def test_a_masked_lm_is_refused_with_the_path_that_takes_it(lm: Path, small: DemoSettings) -> None:
    with pytest.raises(UserError, match=r"masked language model, .* holdfast demo --methods --model"):
        run_demo(replace(small, model=str(lm)))
    assert not small.output.exists()


def test_the_models_to_start_from() -> None:
    assert DemoSettings().start == "bundled"
    assert DemoSettings(methods=True).start == "bundled-mlm"
    assert DemoSettings("mine", methods=True).start == "mine"


def test_methods_is_the_path_of_the_methods(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = []

    def run(settings: Any, console: Any) -> None:
        started.append(settings)
        raise UserError("enough")

    monkeypatch.setattr("holdfast.demo.methods_run.run_methods_demo", run)
    monkeypatch.setattr("holdfast.demo.demo_run.run_demo", lambda *_: pytest.fail("the other path"))
    assert main(["demo", "--methods", "--output", str(tmp_path / "demo")]) == 2
    (settings,) = started
    assert (settings.model, settings.output) == ("bundled-mlm", tmp_path / "demo")


def test_json_is_the_whole_result(
    small: DemoSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_run, "run_demo", lambda settings, console: {"retrieval": [], "audits": {}})
    assert main(["demo", "--json", "--output", str(small.output)]) == 0
    assert json.loads(capsys.readouterr().out) == {"retrieval": [], "audits": {}}


def test_a_demo_that_kept_the_original_says_so(small: DemoSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    harden = demo_run.harden_encoder
    monkeypatch.setattr(demo_run, "harden_encoder", lambda *given: {**harden(*given), "selected": {"step": 0}})
    result = run_demo(small)
    assert result["kept"] == "the original"
    assert {row["remark"] for row in (*result["retrieval"], *result["card"])} == {"the original was kept"}
    _, text = summary(result)
    assert "kept the original encoder" in text
    _, text = summary({**result, "kept": "new entries of the vocabulary"})
    assert "misspellings as new entries of its vocabulary" in text


@pytest.mark.parametrize(
    ("selected", "kept"),
    [
        ({"step": 0}, "the original"),
        ({"step": 0, "recovered": 12}, "new entries of the vocabulary"),
        ({"step": 20}, "trained weights"),
        ({"steps": 2}, "trained weights"),
        ({}, "trained weights"),
    ],
)
def test_a_hardening_may_keep_the_original(small: DemoSettings, selected: dict[str, int], kept: str) -> None:
    small.file(HARDENED).mkdir(parents=True)
    (small.file(HARDENED) / "results.json").write_text("{}")
    assert demo_run.kept_weights(small, {"selected": selected or {"steps": 1}}) == kept


# --- the probe ---------------------------------------------------------------------------------------------------


def test_the_questions_are_asked_in_several_mistyped_copies() -> None:
    town = load_town()
    probe = RetrievalProbe.make(town, 42)
    texts = [question.text for question in town.questions]
    assert probe.asked[CLEAN] == [texts]
    assert [len(copies) for copies in probe.asked.values()] == [1, SEEDS, SEEDS]
    assert [name_of(noise) for noise in NOISES] == QUERIES[1:]
    changed = {
        name: sum(t != c for copy in probe.asked[name] for t, c in zip(texts, copy, strict=True)) for name in QUERIES
    }
    assert 0 == changed[CLEAN] < changed["typing"] < changed["typing=0.2"]
    assert len({tuple(copy) for copy in probe.asked["typing"]}) == SEEDS, "each copy has errors of its own"
    assert probe.asked == RetrievalProbe.make(town, 42).asked
    assert probe.asked["typing"] != RetrievalProbe.make(town, 43).asked["typing"]


def found_of(probe: RetrievalProbe, wrong: Callable[[str, int, int], bool]) -> dict[str, Any]:
    """What is found if the questions for which ``wrong(name, copy, number)`` holds find the next passage."""
    return {
        name: np.array(
            [
                [
                    (gold + wrong(name, copy, number)) % len(probe.town.passages)
                    for number, gold in enumerate(probe.gold)
                ]
                for copy in range(len(copies))
            ]
        )
        for name, copies in probe.asked.items()
    }


def test_recall_and_the_texts_that_broke_and_hold_now() -> None:
    probe = RetrievalProbe.make(load_town(), 42)
    before = found_of(probe, lambda name, copy, number: (name != CLEAN and number < 6 and copy == 1) or number == 2)
    after = found_of(probe, lambda name, copy, number: name == "typing" and number == 7)
    recall = probe.recall(before, "typing")
    assert recall[:3].tolist() == [1 - 1 / SEEDS, 1 - 1 / SEEDS, 0]
    assert recall[6:].tolist() == [1.0] * (len(recall) - 6)
    examples, counts = probe.examples(before, after)
    assert [row["number"] for row in examples] == [0, 1, 3], "2 did not hold before its typing errors"
    assert {row["recipe"] for row in examples} == {"typing"}, "fewer errors first"
    assert counts["repaired"] == 2 * (5 + SEEDS)
    assert counts["broken"] == SEEDS
    first = examples[0]
    assert first["adversarial"] == probe.asked["typing"][1][0]
    assert first["after"]["found"] == probe.town.passages[probe.gold[0]]
    assert first["before"]["found"] == probe.town.passages[probe.gold[0] + 1]


@pytest.mark.parametrize(
    ("original", "changed"),
    [("open the door", "opne the dor"), ("same", "same"), ("aaa", "aa"), ("a", "ab"), ("", "x"), ("abab", "ab")],
)
def test_one_span_makes_the_change(original: str, changed: str) -> None:
    begin, end, new = _changed_span(original, changed)
    assert original[:begin] + new + original[end:] == changed
    pieces = spanned_pieces(original, [(begin, end, new)])
    assert "".join(piece if isinstance(piece, str) else piece[0] for piece in pieces) == original


# --- the words ---------------------------------------------------------------------------------------------------


def row(before: float, after: float, low: float, high: float) -> dict[str, Any]:
    return {"n": 150, "before": before, "after": after, "difference": after - before, "low": low, "high": high}


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ((70, 75, 2, 8), {"aimed": True}, "better"),
        ((70, 71, -1, 3), {"aimed": True}, "no significant change on 150 texts"),
        ((70, 65, -8, -2), {"aimed": True}, "worse: the price of the other rows"),
        ((70, 65, -8, -2), {"aimed": False}, "worse: hardening does not aim at this"),
        ((70, 71, -1, 3), {"aimed": False}, "hardening does not aim at this"),
        ((70, 71, -1, 3), {"aimed": False, "meant_to_stay": True}, "meant to stay: no significant change on 150 texts"),
        ((70, 65, -8, -2), {"aimed": False, "meant_to_stay": True}, "worse: the price of the other rows"),
        ((30, 20, -14, -6), {"aimed": True, "lower_is_better": True, "best": 0.0}, "better"),
        ((30, 40, 6, 14), {"aimed": True, "lower_is_better": True, "best": 0.0}, "worse: the price of the other rows"),
        ((0, 0, 0, 0), {"aimed": True, "lower_is_better": True, "best": 0.0}, "cannot be better"),
        ((100, 100, 0, 0), {"aimed": True}, "cannot be better"),
        ((99.99, 99.98, -0.1, 0.1), {"aimed": False}, "cannot be better"),
        ((99.9, 99.9, -0.1, 0.1), {"aimed": False}, "hardening does not aim at this"),
    ],
)
def test_a_row_improves_or_says_why_not(
    values: tuple[float, float, float, float], options: dict[str, Any], message: str
) -> None:
    assert remark(row(*values), **{"best": 100.0, **options}) == message


def test_a_row_without_a_pairing_says_what_can_be_said() -> None:
    unpaired = {"n": 20, "before": 0.5, "after": 0.6}
    assert remark(unpaired, aimed=True, best=1.0) == "no significant change on 20 texts"


def test_a_row_of_the_card_is_read_in_its_direction() -> None:
    metrics = {"before": 40.0, "after": 10.0, "difference": -30.0, "difference_low": -40.0, "difference_high": -20.0}
    made = {"metric": "success_rate", "n": 40, "metrics": metrics, "verdicts": ["bends", "holds"]}
    assert card_row(made, "hold", "adversarial-typos")["remark"] == "better"
    assert card_row({**made, "metric": "stability"}, "hold", "typing")["remark"].startswith("worse")
    assert "success_rate" in LOWER_IS_BETTER


def test_the_interval_is_paired() -> None:
    draw = np.random.default_rng(0)
    before = draw.normal(0, 10, 200)
    made = paired(before, before + 1 + draw.normal(0, 0.1, 200), seed=1, name="x")
    assert 0.9 < made["low"] < made["difference"] < made["high"] < 1.1
    made = retrieval_row(
        "typing", (np.array([0.0, 0.5] * 50), np.array([1.0, 0.5] * 50)), clean=False, copies=8, seed=1
    )
    assert (made["before"], made["after"], made["difference"], made["n"]) == (25.0, 75.0, 50.0, 100)
    assert made["remark"] == "better"
