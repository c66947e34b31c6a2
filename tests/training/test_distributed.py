"""Two processes equal one: the same gradients on the joined batch, the same weights and state after every step.

So they do where each holds half of the weights, of the gradients and of the optimiser's state, where each encodes its
half of a batch in mini-batches, and where only adapters are trained.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.objectives import METHODS
from warm import WarmPython

SCRIPT = Path(__file__).with_name("two_processes.py")
HEADLESS = ("ct", "consert", "anchored")
WITH_ADAPTERS = ("simcse", "adcl", "adcse", "anchored")
"""Methods with no copy, with a copy that follows, and with the original, of a model with adapters."""


@pytest.fixture(scope="module")
def kept(
    tmp_path_factory: pytest.TempPathFactory,
    make_masked_lm: Callable[..., Path],
    write_corpus: Callable[[Path], Path],
    warm: WarmPython,
) -> dict[str, dict[str, Any]]:
    """What one process kept of every method, what two did, and what two with sharded weights or mini-batches did."""
    folder = tmp_path_factory.mktemp("processes")
    corpus = write_corpus(folder / "corpus.txt")
    # Each sentence three times: equal ones meet in a batch, in the same process or in two, and in a queue.
    corpus.write_text("".join(corpus.read_text(encoding="utf-8").splitlines(keepends=True)[:20] * 3), encoding="utf-8")
    given = [str(make_masked_lm(folder / "tiny")), str(corpus), str(folder)]
    runs = {}
    ways = [(1, "whole"), (2, "whole"), (2, "sharded"), (2, "mini-batches")]
    ways += [(1, "adapters"), (2, "adapters"), (2, "adapters-mini-batches")]
    for processes, way in ways:
        methods = WITH_ADAPTERS if way.startswith("adapters") else METHODS
        finished = warm.run(SCRIPT, *given, way, *methods, processes=processes)
        assert finished.returncode == 0, finished.stderr
        runs[f"{processes} {way}"] = torch.load(folder / f"kept-{processes}-{way}.pt", weights_only=True)
    return runs


@pytest.mark.slow
@pytest.mark.parametrize("way", ["2 whole", "2 sharded", "2 mini-batches"])
@pytest.mark.parametrize("method", METHODS)
def test_two_processes_equal_one(method: str, way: str, kept: dict[str, dict[str, Any]]) -> None:
    one, two = kept["1 whole"][method], kept[way][method]
    assert_equal_runs(method, one, two)
    if way == "2 sharded":  # where it is not measured
        assert two["shares"] == []
        return
    assert len(one["shares"]) == (0 if method == "simcse" else 3)
    assert two["shares"] == pytest.approx(one["shares"], rel=1e-5, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["2 adapters", "2 adapters-mini-batches"])
@pytest.mark.parametrize("method", WITH_ADAPTERS)
def test_two_processes_train_the_same_adapters_as_one(method: str, way: str, kept: dict[str, dict[str, Any]]) -> None:
    one = kept["1 adapters"][method]
    assert_equal_runs(method, one, kept[way][method])
    of_model = [name for name in one["gradients"][-1] if name.startswith("model.")]
    assert of_model
    assert all(".lora_" in name for name in of_model)


def assert_equal_runs(method: str, one: dict[str, Any], two: dict[str, Any]) -> None:
    """The same gradients of three steps, and the same state after them."""
    assert len(one["gradients"]) == len(two["gradients"]) == 3
    for single, double in zip(one["gradients"], two["gradients"], strict=True):
        assert any(name.startswith("head.") for name in single) or method in HEADLESS
        # Two processes give a parameter that the loss does not reach a gradient of zero, one process gives it none.
        assert all(double[name].abs().max() == 0 for name in set(double) - set(single))
        for name, gradient in single.items():
            torch.testing.assert_close(double[name], gradient, rtol=1e-7, atol=1e-10, msg=lambda m, n=name: f"{n}: {m}")
    # The last step: ADCL's first has an empty queue, hence no gradient.
    assert max(gradient.abs().max() for gradient in one["gradients"][-1].values()) > 1e-4
    assert one["state"].keys() == two["state"].keys()
    for name, value in one["state"].items():
        torch.testing.assert_close(two["state"][name], value, rtol=1e-6, atol=1e-9, msg=lambda m, n=name: f"{n}: {m}")
