"""The second device itself, and how often a training step makes the CPU wait for its device."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.objectives import METHODS
from warm import WarmPython

HARNESS = Path(__file__).with_name("waits_run.py")
OBJECTIVES = Path(__file__).with_name("objectives_run.py")

WAITS = {
    # Every pass through the encoder asks once whether all rows begin with a token, which lets the last layer be
    # shortened; and transformers asks once in every pass whether the mask can be left out.
    **dict.fromkeys(("simcse", "consert", "v-advcse"), 2),
    "adcse": 4,  # two encoders
    "ct": 6,  # two encoders, and negatives that are drawn on the CPU
    "l2p-csr": 6,  # masks are learned in passes of their own
    "robustembed": 8,  # so is the perturbation, five steps of it
    "combined": 14,  # both
    # Words are chosen and exchanged as texts: what is asked of the model for that comes back to the CPU each time.
    "anchored": 45,
    "adcl": 170,
}
"""The most waits of a step of eight sentences, with the reason for each."""


@pytest.mark.parametrize("name", ["mixing_is_refused", "a_model_moves_there", "waits_are_counted", "nothing_is_left"])
def test_the_second_device_does_as_a_gpu(name: str, warm: WarmPython) -> None:
    done = warm.run(HARNESS, function=name)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("method", METHODS)
def test_a_step_waits_no_more_than_it_must(
    method: str, make_masked_lm: Callable[..., Path], tmp_path: Path, warm: WarmPython
) -> None:
    lm = str(make_masked_lm(tmp_path))
    done = warm.run(OBJECTIVES, method, lm, lm, function="waits_of_a_step")
    assert done.returncode == 0, done.stdout[-4000:]
    found = re.search(r"^total (\d+)$", done.stdout, re.MULTILINE)
    assert found is not None
    assert int(found[1]) <= WAITS[method], done.stdout
