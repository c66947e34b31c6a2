"""The flow is invertible, its likelihood is a likelihood, training raises it, and `Dense` modules compute the same."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import numpy.typing as npt
import pytest
import torch
from sentence_transformers.sentence_transformer.modules import Dense
from torch import Tensor

from holdfast.baselines.flow import ActNorm, Coupling, Flow
from holdfast.baselines.flow_training import FlowOptions, fit_flow
from holdfast.baselines.native_flow import native_modules
from holdfast.errors import UserError

COUPLINGS = get_args(Coupling)


def data(n: int = 600, d: int = 10, seed: int = 0) -> npt.NDArray[np.float32]:
    """Correlated and curved, far from the origin."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((n, d)) @ draw.standard_normal((d, d))
    x[:, 0] = np.tanh(2 * x[:, 1]) + 0.2 * x[:, 0]
    return (2 * x + 3).astype(np.float32)


def used_flow(d: int, coupling: Coupling, levels: int = 3, *, double: bool = False) -> Flow:
    """A flow with its normalisations set and every parameter moved away from where it starts."""
    torch.manual_seed(0)
    flow = Flow(d, levels=levels, depth=2, width=6, coupling=coupling)
    flow = flow.double() if double else flow
    x = torch.from_numpy(data(200, d))
    with torch.no_grad():
        flow(x.double() if double else x)
        for name, parameter in flow.named_parameters():
            # The hidden layers' normalisations multiply by some 20: more here would grow from step to step.
            gentle = "log_scale" in name or name.endswith(("first.weight", "second.weight"))
            parameter += (0.02 if gentle else 0.15) * torch.randn_like(parameter)
    return flow


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("d", [8, 13])  # an odd number is halved to unequal halves
def test_the_inverse_gives_back_what_went_in(coupling: Coupling, d: int) -> None:
    flow = used_flow(d, coupling, double=True)
    for x in (torch.from_numpy(data(200, d)), torch.from_numpy(data(50, d, seed=1))):  # known, and strange
        with torch.no_grad():
            z, _ = flow(x.double())
            assert z.shape == x.shape
            assert (z - x).abs().mean() > 0.5
            torch.testing.assert_close(flow.inverse(z), x.double(), atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_the_log_determinant_is_that_of_the_jacobian(coupling: Coupling) -> None:
    flow = used_flow(9, coupling, double=True)
    rows = torch.from_numpy(data(4, 9, seed=1)).double()
    found = flow(rows)[1].detach()

    def z_of(row: Tensor) -> Tensor:
        z: Tensor = flow(row[None])[0][0]
        return z

    for row, log_determinant in zip(rows, found, strict=True):
        jacobian = torch.autograd.functional.jacobian(z_of, row)
        assert torch.linalg.slogdet(jacobian)[1].item() == pytest.approx(log_determinant.item(), abs=1e-9)
    # An additive coupling moves volumes nowhere; an affine one does, differently at each row.
    assert (float(found.std()) < 1e-9) == (coupling == "additive")


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_the_density_integrates_to_one(coupling: Coupling) -> None:
    flow = used_flow(2, coupling, levels=1, double=True)
    with torch.no_grad():
        centre = flow.inverse(torch.zeros(1, 2, dtype=torch.float64))[0]
        reach, number = 30.0, 801
        line = torch.linspace(-reach, reach, number, dtype=torch.float64)
        grid = centre + torch.cartesian_prod(line, line)
        mass = flow.log_probability(grid).exp().sum() * (2 * reach / (number - 1)) ** 2
    assert float(mass) == pytest.approx(1.0, abs=2e-3)


def test_an_untouched_flow_has_the_normal_density_of_its_scaling() -> None:
    flow = Flow(4, levels=2, depth=1, width=3)
    for module in flow.modules():
        if isinstance(module, ActNorm):
            module.initialised = True  # as if set, by data that needs no change
    x = torch.randn(5, 4)
    expected = -0.5 * x.square().sum(dim=1) - 2 * math.log(2 * math.pi)
    torch.testing.assert_close(flow.log_probability(x), expected)


def test_the_first_batch_sets_the_normalisation_and_later_ones_do_not() -> None:
    norm = ActNorm(3)
    first = torch.randn(400, 3) * torch.tensor([0.5, 4.0, 1.0]) + 7
    y = norm(first)
    torch.testing.assert_close(y.mean(dim=0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.std(dim=0, correction=0), torch.ones(3), atol=1e-5, rtol=0)
    before = norm.bias.detach().clone()
    norm(torch.randn(400, 3))
    assert torch.equal(norm.bias, before)


def test_a_coordinate_that_never_varies_is_not_blown_up() -> None:
    norm = ActNorm(2)
    x = torch.stack([torch.randn(100), torch.full((100,), 3.0)], dim=1)
    norm(x)
    typical = x.std(dim=0, correction=0).square().mean().sqrt()
    assert float(norm.scale[1].detach() * typical) == pytest.approx(1000, rel=1e-3)


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize(("d", "levels"), [(12, 3), (13, 3), (2, 1)])
def test_native_modules_compute_the_flow(coupling: Coupling, d: int, levels: int) -> None:
    flow = used_flow(d, coupling, levels)
    x = torch.from_numpy(data(40, d, seed=2))
    modules = native_modules(flow)
    assert all(type(module) is Dense for module in modules)
    assert modules[-1].get_embedding_dimension() == d
    features = {"sentence_embedding": x}
    with torch.no_grad():
        for module in modules:
            features = module(features)
        torch.testing.assert_close(features["sentence_embedding"], flow(x)[0], atol=1e-4, rtol=1e-5)


def test_flows_too_deep_for_their_width_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be halved for 3 levels"):
        Flow(7, levels=3)
    with pytest.raises(ValueError, match="at least 1"):
        Flow(8, depth=0)


# --- training -------------------------------------------------------------------------------------------------------

QUICK = {"levels": 2, "depth": 2, "width": 8, "epochs": 4.0, "batch_size": 32}


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_training_raises_the_likelihood_of_vectors_that_were_held_out(coupling: Coupling) -> None:
    message: list[tuple[int, int, float]] = []
    flow, fit = fit_flow(
        data(),
        FlowOptions(coupling=coupling, **QUICK),  # type: ignore[arg-type]
        seed=1,
        progress=lambda *update: message.append(update),
    )
    assert (fit.trained_on, fit.held_out, fit.steps) == (570, 30, 4 * (570 // 32))
    assert fit.after > fit.before + 0.1
    assert [step for step, _, _ in message] == list(range(1, fit.steps + 1))
    held_out = torch.from_numpy(data()[570:])
    with torch.no_grad():
        assert float(flow.log_probability(held_out).mean()) / 10 == pytest.approx(fit.after, abs=1e-5)
        # Trained, it is well enough conditioned to be inverted in fp32.
        torch.testing.assert_close(flow.inverse(flow(held_out)[0]), held_out, atol=1e-5, rtol=1e-5)


def test_the_seed_decides_the_flow_and_the_global_state_is_left_alone() -> None:
    options = FlowOptions(**{**QUICK, "epochs": 0.5})  # type: ignore[arg-type]
    found = []
    for outside, seed in ((5, 1), (6, 1), (5, 2)):  # the state of the global generator, and the seed given
        torch.manual_seed(outside)
        before = torch.random.get_rng_state()
        found.append(fit_flow(data(), options, seed=seed)[0].state_dict())
        assert torch.equal(torch.random.get_rng_state(), before)
    one, two, other = found
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["levels.0.0.net.first.weight"], other["levels.0.0.net.first.weight"])


def test_held_out_vectors_have_no_part_in_the_flow() -> None:
    options = FlowOptions(**{**QUICK, "epochs": 0.5})  # type: ignore[arg-type]
    others = data()
    others[570:] *= 50
    one, two = (fit_flow(vectors, options, seed=1)[0].state_dict() for vectors in (data(), others))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(UserError, match="at least 67 sentences"):
        fit_flow(data(60), FlowOptions(), seed=0)
    with pytest.raises(UserError, match="at least 67 sentences"):
        fit_flow(data(66), FlowOptions(), seed=0)
    fit_flow(data(67), FlowOptions(**QUICK), seed=0)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="cannot be halved for 5 levels: set fewer levels"):
        fit_flow(data(), FlowOptions(levels=5), seed=0)
    with pytest.raises(UserError, match=r"the loss is (nan|inf) in step 1"):
        fit_flow(np.full((600, 10), 1e30, dtype=np.float32) * data(), FlowOptions(), seed=0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"level": "2"}, "'levels'"),
        ({"coupling": "afine"}, "'affine'"),
        ({"depth": "0"}, "more than 0"),
        ({"depth": "1.5"}, "a whole number"),
        ({"learning_rate": "inf"}, "more than 0"),
    ],
)
def test_options_are_checked(given: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        FlowOptions.of(given)


def test_options_are_read_as_text() -> None:
    options = FlowOptions.of({"levels": "2", "learning_rate": "3e-4", "coupling": "affine"})
    assert options == FlowOptions(levels=2, learning_rate=3e-4, coupling="affine")


def test_scales_are_learnt_in_thirds_of_their_logarithms() -> None:
    norm = ActNorm(2)
    with torch.no_grad():
        norm.log_scale.fill_(0.1)
    torch.testing.assert_close(norm.scale, torch.full((2,), math.exp(0.3)))


def test_the_learning_rate_is_the_one_that_was_asked_for() -> None:
    options = FlowOptions(**{**QUICK, "learning_rate": 1e-12})  # type: ignore[arg-type]
    fit = fit_flow(data(), options, seed=1)[1]
    assert fit.after == pytest.approx(fit.before, abs=1e-4)
