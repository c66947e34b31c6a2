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
COMMANDS = Path(__file__).with_name("commands_run.py")

pytestmark = pytest.mark.slow

WAITS = {
    # The encoder asks once for each batch whether all rows begin with a token, which lets the last layer be shortened;
    # and transformers asks once in every pass whether the mask can be left out.
    **dict.fromkeys(("simcse", "consert"), 2),
    "v-advcse": 3,  # its noise is drawn on the CPU, so that it is the same on every device
    "adcse": 4,  # two encoders
    "rankcse": 4,  # the teacher's pass
    "simcse-plus": 4,  # the pass without dropout
    "diffcse": 12,  # the generator's pass, whose places are counted, and the discriminator's
    "ct": 6,  # two encoders, and negatives that are drawn on the CPU
    "l2p-csr": 6,  # masks are learned in passes of their own
    "robustembed": 8,  # so is the perturbation, five steps of it
    "combined": 15,  # both, and V-advCSE's noise
    # Words are chosen and exchanged as texts: what is asked of the model for that comes back to the CPU each time.
    "anchored": 24,
    "adcl": 110,
}
"""The most waits of a step of eight sentences, with the reason for each."""

STEPS = {
    # The trainer asks once whether the loss is finite, before it reaches the weights; transformers asks once in every
    # pass whether the mask can be left out.
    "none": 1 + 1,
    "pgd": 1 + 4,  # three steps of the perturbation
    "freelb": 1 + 3,  # three passes, the losses of all of which are asked about together
    "smart": 1 + 5,  # what it must stay near, the attack, the pass, the perturbed pass, the teacher
    "robustembed": 1 + 7,  # five steps of the perturbation
    "adv": 130,  # texts, as adcl's
    "pretrain": 1 + 4,  # four groups, of which those with padding have a mask
}
"""The most waits of a step of fine-tuning with a defence, or of pretraining."""


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


@pytest.mark.parametrize("name", STEPS)
def test_a_trainers_step_waits_no_more_than_it_must(name: str, tmp_path: Path, warm: WarmPython) -> None:
    options = ["clean_epochs=0"] if name == "adv" else []
    done = warm.run(COMMANDS, name, str(tmp_path), *options, function="waits_of_a_step")
    assert done.returncode == 0, done.stdout[-4000:]
    found = re.search(r"^total (\d+)$", done.stdout, re.MULTILINE)
    assert found is not None
    assert 0 < int(found[1]) <= STEPS[name], done.stdout
