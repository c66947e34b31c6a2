"""What is done on a device whatever is trained there: random numbers, number formats, encoding, translation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.evaluation.positive_controls.registry import CONTROLS
from warm import WarmPython

SCRIPT = Path(__file__).with_name("parts_run.py")

pytestmark = pytest.mark.slow


@pytest.fixture
def lm(make_masked_lm: Callable[..., Path], tmp_path: Path) -> str:
    return str(make_masked_lm(tmp_path / "lm"))


@pytest.mark.parametrize("name", ["an_attack_leaves_no_random_trace", "passes_share_dropout", "translates_alike"])
def test_with_a_model(name: str, lm: str, warm: WarmPython) -> None:
    done = warm.run(SCRIPT, lm, function=name)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("name", ["a_flow_leaves_no_random_trace", "autocast_is_the_devices"])
def test_without_a_model(name: str, warm: WarmPython) -> None:
    done = warm.run(SCRIPT, function=name)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("kind", ["plain", "default prompt", "truncated", "prompt", "static"])
def test_sentences_are_encoded_as_on_the_cpu(kind: str, lm: str, warm: WarmPython) -> None:
    done = warm.run(SCRIPT, kind, lm, function="encodes_alike")
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("method", [control.method for control in CONTROLS])
def test_a_positive_control_measures_as_on_the_cpu(method: str, lm: str, warm: WarmPython) -> None:
    done = warm.run(SCRIPT, method, lm, function="measures_alike")
    assert done.returncode == 0, done.stdout[-4000:]
