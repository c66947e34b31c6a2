"""Every objective trains on the second device as on the CPU, and goes on there from the other's checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from variants import VARIANTS

from holdfast.objectives import METHODS
from warm import WarmPython

SCRIPT = Path(__file__).with_name("objectives_run.py")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lm(make_masked_lm: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_masked_lm(tmp_path_factory.mktemp("lm"))


def test_every_method_is_tried() -> None:
    assert {variant.method for variant in VARIANTS.values()} == set(METHODS)
    assert set(METHODS) <= set(VARIANTS)


@pytest.mark.parametrize("name", VARIANTS)
def test_an_objective_trains_as_on_the_cpu(name: str, lm: Path, tmp_path: Path, warm: WarmPython) -> None:
    done = warm.run(SCRIPT, name, str(lm), str(lm), str(tmp_path), function="trains_alike")
    assert done.returncode == 0, done.stdout[-4000:]
