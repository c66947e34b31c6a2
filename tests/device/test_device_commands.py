"""Commands end in the same numbers on the second device as on the CPU; a broken-off run goes on on either."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.classifiers.defences import DEFENCES
from warm import WarmPython

SCRIPT = Path(__file__).with_name("commands_run.py")
COMMANDS = (
    *("train", "pretrain", "harden", "evaluate", "audit", "space", "masks", "whitening", "flow"),
    *("classifier", "pairs", "encoder", "neighbours", "scores"),
)
OPTIONS = {"adv": ("candidates=5", "clean_epochs=0.5", "min_similarity=-1")}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_computes_as_on_the_cpu(name: str, tmp_path: Path, warm: WarmPython) -> None:
    done = warm.run(SCRIPT, name, str(tmp_path), function="runs_alike")
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_pretraining_whose_steps_would_see_other_sentences_is_not_resumed(tmp_path: Path, warm: WarmPython) -> None:
    done = warm.run(SCRIPT, str(tmp_path), function="is_not_resumed_in_other_groups")
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("name", DEFENCES)
def test_a_defence_trains_as_on_the_cpu(name: str, tmp_path: Path, warm: WarmPython) -> None:
    done = warm.run(SCRIPT, name, str(tmp_path), *OPTIONS.get(name, ()), function="defends_alike")
    assert done.returncode == 0, done.stdout[-4000:]
