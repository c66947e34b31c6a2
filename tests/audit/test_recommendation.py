"""What an audit recommends is what the command line and the hardening accept."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path
from typing import Any

import pytest

from holdfast.audit.recommendation import EDITS, METHOD, advice
from holdfast.cli import main
from holdfast.edits.noise import NOISE
from holdfast.edits.random_edits import RandomEdits
from holdfast.hardening import harden_settings
from holdfast.hardening.harden_settings import HardenSettings
from holdfast.training.method_options import method_options


def result(*items: tuple[str, str, str], model: str = "my encoder", **protocol: Any) -> dict[str, Any]:
    rows = []
    for name, side, verdict in items:
        task, _, split = name.partition(".")
        rows.append({"task": f"audit-{task}", "split": split or "all", "side": side, "verdict": verdict})
    return {"model": model, "results": rows, "protocol": protocol}


def accepted(line: str, monkeypatch: pytest.MonkeyPatch) -> HardenSettings:
    """Give a recommended line to the command line, and return the settings that a hardening gets."""
    taken: list[HardenSettings] = []

    def harden(settings: HardenSettings, **_: Any) -> dict[str, Any]:
        taken.append(settings)
        return {}

    monkeypatch.setattr("holdfast.hardening.hardening_run.harden", harden)
    program, *words = shlex.split(line.partition(": ")[2])
    assert program == "holdfast"
    assert main(words) == 0
    return taken[0]


@pytest.mark.parametrize(
    ("found", "edits"),
    [
        (("typos",), None),
        (("adversarial-typos", "neighbours", "synonyms"), None),
        (("noise", "retrieval.typos"), None),
        (("typing", "case.lower"), ["typing", "case.lower"]),
        (("retrieval.speech", "speech"), None),
        (tuple(name for name in NOISE if name != "typos"), [name for name in NOISE if name != "typos"]),
    ],
)
def test_the_recommended_command_is_accepted_and_learns_what_was_found(
    found: tuple[str, ...], edits: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (line,) = advice(result(*((name, "hold", "breaks") for name in found)))
    settings = accepted(line, monkeypatch)
    assert settings.model == "my encoder"
    options = settings.options
    method_options(METHOD, None, options)
    assert ("edits" in options) == (edits is not None)  # else it is the hardening's own
    names = str(options.get("edits", ",".join(EDITS))).split(",")
    assert names == [*(edit for edit in edits or [] if edit not in EDITS), *EDITS]
    monkeypatch.setattr("holdfast.edits.random_edits.noise_edits", lambda *_, **__: ())  # without their libraries
    RandomEdits(tuple(names), 0.1)


def test_the_method_and_the_noise_are_those_of_the_verb() -> None:
    assert METHOD == harden_settings.METHOD
    assert EDITS == harden_settings.EDITS


def test_texts_of_another_language_are_not_trained_on_english_speech(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = advice(result(("case.upper", "hold", "breaks"), language={"code": "de"}))
    assert accepted(line, monkeypatch).options == {"edits": "case.upper,typing"}


def test_pooling_and_prompts_of_the_audit_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = {"query_prompt": "ask: it's", "document_prompt_name": "passage"}
    (line,) = advice(result(("typos", "hold", "bends"), pooling="mean", prompt_options=prompts))
    settings = accepted(line, monkeypatch)
    assert (settings.pooling, settings.prompt_settings) == ("mean", prompts)
    (line,) = advice(result(("typos", "hold", "bends"), prompt_options={"no_prompt": True}))
    assert accepted(line, monkeypatch).no_prompt


def test_what_a_hardening_does_not_mend_is_said() -> None:
    weak = (
        ("typos", "hold"),
        ("retrieval.clean", "hold"),
        ("bidi.reversed", "hold"),
        ("voice", "hold"),
        ("roles", "move"),
    )
    lines = advice(result(*((name, side, "breaks") for name, side in weak)))
    assert lines[0].startswith("to harden it: holdfast harden 'my encoder' --corpus")
    assert lines[1:] == [
        "against bidi.reversed: normalise texts before encoding (holdfast.edits.normalising.normalise)",
        "hardening does not mend retrieval.clean, voice",
        "hardening does not make these move: roles",
    ]
    assert advice(result(("roles", "move", "breaks"))) == ["hardening does not make these move: roles"]


def test_the_command_that_normalises_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Any] = []
    monkeypatch.setattr("holdfast.baselines.construction.make_baseline", lambda settings, **_: taken.append(settings))
    (line,) = advice(result(("confusables", "hold", "bends")))
    with contextlib.suppress(Exception):  # there is no result to print
        main(shlex.split(line.partition(": ")[2])[1:])
    assert (taken[0].name, taken[0].model, taken[0].output) == ("normalised", "my encoder", Path("normalised"))
    (line,) = advice(result(("confusables", "hold", "bends"), pooling="mean"))
    with contextlib.suppress(Exception):
        main(shlex.split(line.partition(": ")[2])[1:])
    assert taken[1].pooling == "mean"
    (line,) = advice(result(("confusables", "hold", "bends"), pooling="max"))
    assert "takes no --pooling max: save the model with it first" in line


def test_what_no_tokeniser_undoes_is_undone_before_encoding() -> None:
    first, second = advice(result(("bidi.reversed", "hold", "bends"), ("bidi", "hold", "bends")))
    assert first.startswith("against bidi: holdfast baseline normalised")
    assert second == "against bidi.reversed: normalise texts before encoding (holdfast.edits.normalising.normalise)"


@pytest.mark.parametrize(
    ("protocol", "then"),
    [
        ({"left_out": ["typos: 5 of 9 texts"]}, "; some was left out for time: raise --max-seconds"),
        ({"left_out": [], "texts": {"source": "mine.txt"}}, ""),
        ({"texts": {"source": "STS-B dev"}}, "; next, audit the model on your own texts: --texts FILE"),
    ],
)
def test_the_next_audit_depends_on_the_texts_and_the_time(protocol: dict[str, Any], then: str) -> None:
    assert advice(result(("typos", "hold", "holds"), **protocol)) == [f"every measured item holds{then}"]


def test_functions_and_models_that_hold() -> None:
    (line,) = advice(result(("typos", "hold", "bends"), model="call:a:b"))
    assert "harden the model behind it" in line
    (line,) = advice(result(("typos", "hold", "holds")))
    assert line.startswith("every measured item holds; next")


def test_too_few_texts_are_told_with_the_option_that_gives_more() -> None:
    lines = advice(result(("typos", "hold", "too few"), ("roles", "move", "holds")))
    assert lines == [
        "too few texts for a verdict on typos: audit with more of them (--texts-per-item, --texts)",
        "nothing else bends or breaks; next, audit the model on your own texts: --texts FILE",
    ]
