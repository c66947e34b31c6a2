"""The heads: batch normalisation against torch's own, views, handed-on statistics, and two processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from holdfast.objectives.heads import BatchNorm, BatchNormHead, Head, make_head
from warm import WarmPython

WIDTH = 6


def draw(seed: int, rows: int = 8) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64) * 2 + 1


def head_of_seed(seed: int = 0) -> BatchNormHead:
    """A head in fp64 whose every parameter is random, in training mode."""
    torch.manual_seed(seed)
    head = BatchNormHead(WIDTH).double()
    for parameter in head.parameters():
        nn.init.normal_(parameter)
    return head


def torch_head(head: BatchNormHead) -> nn.Sequential:
    """The same head out of torch's own modules."""
    wide, narrow = nn.Linear(WIDTH, 2 * WIDTH, bias=False), nn.Linear(2 * WIDTH, WIDTH, bias=False)
    norm, last = nn.BatchNorm1d(2 * WIDTH), nn.BatchNorm1d(WIDTH, affine=False)
    theirs = nn.Sequential(wide, norm, nn.ReLU(), narrow, last).double()
    wide.load_state_dict(head.wide.state_dict())
    narrow.load_state_dict(head.narrow.state_dict())
    norm.load_state_dict(head.wide_norm.state_dict(), strict=False)
    return theirs


def assert_same(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def assert_same_running_statistics(head: BatchNormHead, theirs: nn.Sequential) -> None:
    for mine, other in ((head.wide_norm, theirs[1]), (head.narrow_norm, theirs[4])):
        assert_same(mine.running_mean, other.running_mean)
        assert_same(mine.running_var, other.running_var)


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_is_torchs(affine: bool) -> None:
    ours, theirs = BatchNorm(WIDTH, affine=affine).double(), nn.BatchNorm1d(WIDTH, affine=affine).double()
    if affine:
        nn.init.normal_(theirs.weight)
        nn.init.normal_(theirs.bias)
        ours.load_state_dict(theirs.state_dict(), strict=False)
    for seed in range(3):
        rows = [draw(seed).requires_grad_() for _ in range(2)]
        weights = draw(seed + 10)
        outputs = [ours(rows[0][None])[0][0], theirs(rows[1])]
        assert_same(*outputs)
        for output in outputs:
            (output * weights).sum().backward()
        assert_same(rows[0].grad, rows[1].grad)
        assert_same(ours.running_mean, theirs.running_mean)
        assert_same(ours.running_var, theirs.running_var)
    assert_same([p.grad for p in ours.parameters()], [p.grad for p in theirs.parameters()])
    assert_same(ours.eval()(draw(9)[None])[0][0], theirs.eval()(draw(9)))


def test_the_head_is_the_papers_stack() -> None:
    head = head_of_seed()
    theirs = torch_head(head)
    for seed in range(2):
        ours_in, theirs_in = draw(seed).requires_grad_(), draw(seed).requires_grad_()
        ours, other = head(ours_in), theirs(theirs_in)
        assert_same(ours, other)
        (ours * draw(5)).sum().backward()
        (other * draw(5)).sum().backward()
        assert_same(ours_in.grad, theirs_in.grad)
    pairs = zip(head.parameters(), theirs.parameters(), strict=True)
    for mine, their in pairs:
        assert_same(mine.grad, their.grad)
    assert_same_running_statistics(head, theirs)
    assert_same(head.eval()(draw(7)), theirs.eval()(draw(7)))


def test_each_view_is_a_batch_and_the_running_statistics_move_once_by_their_average() -> None:
    head = head_of_seed()
    first, second = draw(1), draw(2) * 3
    alone = [torch_head(head), torch_head(head)]
    expected = torch.cat([alone[0](first), alone[1](second)])
    assert_same(head(torch.cat([first, second]), views=2), expected)
    for mine, position in ((head.wide_norm, 1), (head.narrow_norm, 4)):
        for name in ("running_mean", "running_var"):
            each = [getattr(theirs[position], name) for theirs in alone]
            assert_same(getattr(mine, name), (each[0] + each[1]) / 2)


def test_given_statistics_make_rows_independent_and_move_nothing() -> None:
    head = head_of_seed()
    both = torch.cat([draw(1), draw(2) * 3])
    clean, (first, second) = head.with_statistics(both, views=2)
    before = {name: value.clone() for name, value in head.state_dict().items()}
    assert_same(head(both[:8], statistics=first), clean[:8])
    assert_same(head(both[8:], statistics=second), clean[8:])
    moved = both[:8].clone()
    moved[3] += 5.0
    perturbed = head(moved, statistics=first)
    others = [0, 1, 2, 4, 5, 6, 7]
    assert_same(perturbed[others], clean[others])
    assert (perturbed[3] - clean[3]).abs().max() > 0.1
    assert_same(head(both[2:3], statistics=first), clean[2:3])  # even a batch of one
    assert_same(head.state_dict(), before)


def test_statistics_carry_the_gradient_of_the_rows_they_are_of() -> None:
    head = head_of_seed()
    source = draw(1).requires_grad_()
    _, (statistics,) = head.with_statistics(source)
    (gradient,) = torch.autograd.grad(head(draw(2), statistics=statistics).square().sum(), source)
    assert (gradient.abs().amax(dim=1) > 1e-6).all()


def test_evaluation_mode_normalises_by_the_running_statistics_and_hands_them_on() -> None:
    head = head_of_seed()
    head(draw(1))
    head.eval()
    before = {name: value.clone() for name, value in head.state_dict().items()}
    expected = torch_head(head).eval()
    for mine, position in ((head.wide_norm, 1), (head.narrow_norm, 4)):
        expected[position].load_state_dict(mine.state_dict(), strict=False)
    both = torch.cat([draw(2), draw(3)])
    z, (first, second) = head.with_statistics(both, views=2)
    assert_same(z, expected(both))
    assert_same(head(draw(4), statistics=first), expected(draw(4)))
    assert_same(head(draw(4), statistics=second), expected(draw(4)))
    assert_same(head.state_dict(), before)


def test_running_statistics_stay_without_gradients_and_where_told() -> None:
    head = head_of_seed()
    before = {name: value.clone() for name, value in head.state_dict().items()}
    expected = torch_head(head)(draw(1))
    with torch.no_grad():
        assert_same(head(draw(1)), expected)  # normalised by the batch all the same
    with head.unmoved():
        assert_same(head(draw(1)), expected)
    assert_same(head.state_dict(), before)
    head(draw(1))
    assert not torch.equal(head.narrow_norm.running_var, before["narrow_norm.running_var"])


def test_weights_start_as_the_paper_says() -> None:
    torch.manual_seed(0)
    head = BatchNormHead(200)
    assert head.wide.bias is None
    assert head.narrow.bias is None
    assert [tuple(p.shape) for p in (head.wide.weight, head.narrow.weight)] == [(400, 200), (200, 400)]
    for linear in (head.wide, head.narrow):
        assert linear.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert (head.wide_norm.weight == 1).all()
    assert (head.wide_norm.bias == 0).all()
    assert head.narrow_norm.weight is None
    assert head.narrow_norm.bias is None


@pytest.mark.parametrize("kind", ["tanh", "none", "bn"])
def test_heads_compute_in_fp32_under_autocast(kind: Any) -> None:
    head = make_head(WIDTH, kind)
    rows = draw(0).float()
    expected = head(rows)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(head(rows), expected, rtol=0, atol=0)
        assert head(rows.bfloat16()).dtype == torch.float32


@pytest.mark.parametrize("kind", ["tanh", "none"])
def test_heads_without_batch_statistics_take_views_and_statistics_too(kind: Any) -> None:
    head = make_head(WIDTH, kind).double()
    both = draw(0)
    z, statistics = head.with_statistics(both, views=2)
    assert statistics == [(), ()]
    assert torch.equal(z, head(both))
    assert torch.equal(head(both, views=2, statistics=()), z)


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(ValueError, match="head must be one of tanh, none, bn, got 'relu'"):
        make_head(WIDTH, "relu")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="head must be one of tanh, none, got 'bn'"):
        Head(WIDTH, "bn")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least two sentences"):
        BatchNormHead(WIDTH).double()(draw(0)[:1])


def on_one_of_two(folder: str) -> None:
    """What one process makes of its half of each view."""
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    head = head_of_seed()
    mine = slice(4 * rank, 4 * rank + 4)
    rows = torch.cat([draw(1)[mine], draw(2)[mine] * 3]).requires_grad_()
    z, (statistics, _) = head.with_statistics(rows, views=2)
    perturbed = head(draw(3)[mine], statistics=statistics)
    ((z * draw(4)[mine].repeat(2, 1)).sum() + (perturbed * draw(5)[mine]).sum()).backward()
    found = {"z": z, "perturbed": perturbed, "rows": rows.grad, "state": head.state_dict()}
    found["gradients"] = {name: parameter.grad for name, parameter in head.named_parameters()}
    torch.save(found, f"{folder}/rank-{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_share_statistics_and_gradients(tmp_path: Path, warm: WarmPython) -> None:
    done = warm.run(Path(__file__), str(tmp_path), processes=2, function="on_one_of_two")
    assert done.returncode == 0, done.stderr
    ranks = [torch.load(tmp_path / f"rank-{rank}.pt", weights_only=True) for rank in range(2)]
    head = head_of_seed()
    rows = torch.cat([draw(1), draw(2) * 3]).requires_grad_()
    z, (statistics, _) = head.with_statistics(rows, views=2)
    perturbed = head(draw(3), statistics=statistics)
    ((z * draw(4).repeat(2, 1)).sum() + (perturbed * draw(5)).sum()).backward()

    def joined(name: str, views: int) -> torch.Tensor:
        parts = [rank[name].unflatten(0, (views, 4)) for rank in ranks]
        return torch.cat(parts, dim=1).flatten(0, 1)

    torch.testing.assert_close(joined("z", 2), z, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(joined("perturbed", 1), perturbed, rtol=1e-10, atol=1e-11)
    torch.testing.assert_close(joined("rows", 2), rows.grad, rtol=1e-10, atol=1e-11)
    for name, parameter in head.named_parameters():
        total = ranks[0]["gradients"][name] + ranks[1]["gradients"][name]
        torch.testing.assert_close(total, parameter.grad, rtol=1e-10, atol=1e-10)
    for name, value in head.state_dict().items():
        assert torch.equal(ranks[0]["state"][name], ranks[1]["state"][name])
        torch.testing.assert_close(ranks[0]["state"][name], value, rtol=1e-12, atol=1e-12)


def test_simcses_head_starts_like_berts_pooler() -> None:
    torch.manual_seed(0)
    head = Head(200)
    assert head.dense is not None
    assert head.dense.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert (head.dense.bias == 0).all()
