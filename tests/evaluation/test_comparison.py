"""Paired statistics against SciPy, values known by hand, and simulated coverage."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import norm, spearmanr, ttest_rel

from holdfast.audit.labelled_items import placements
from holdfast.errors import UserError
from holdfast.evaluation import comparison, samples
from holdfast.evaluation.comparison import FEW, Difference, contrast, difference, resample
from holdfast.evaluation.samples import Correlations, Means, Sample, SeedBySeed, Shares, TwoGroups, resampled_together


def compared(*samples: Sample, baselines: int = 1, seed: int = 1, resamples: int = 1000) -> Difference:
    drawn = [resample(sample, seed=seed, name=f"task {i}", resamples=resamples) for i, sample in enumerate(samples)]
    return difference(drawn, baselines)


def graded(n: int, *noises: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gold scores with ties, and similarities that follow them, some of them tied too."""
    rng = np.random.default_rng(seed)
    gold = np.round(rng.uniform(0, 5, n), 1)
    values = np.stack([gold + noise * rng.normal(size=n) for noise in noises])
    values[0] = np.round(values[0], 1)
    return gold, values


# --- scores and resamples ----------------------------------------------------------------------------------------


def test_correlations_are_scipys_ties_and_all() -> None:
    gold, values = graded(400, 1.0, 3.0)
    sample = Correlations(gold, values)
    expected = [100 * spearmanr(gold, row).statistic for row in values]
    assert sample.scores() == pytest.approx(expected, abs=1e-9)
    assert len(np.unique(gold)) < 60
    assert len(np.unique(values[0])) < 400 == len(np.unique(values[1]))


def test_resampled_correlations_are_those_of_the_drawn_items(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, values = graded(60, 1.0, 3.0)
    monkeypatch.setattr(samples, "_NUMBERS_AT_ONCE", 60 * 7)  # blocks of 7, the last one smaller
    found = Correlations(gold, values).resampled(np.random.default_rng(5), 17)
    rng = np.random.default_rng(5)
    rows = np.concatenate([rng.integers(60, size=(count, 60)) for count in (7, 7, 3)])
    expected = [[100 * spearmanr(gold[row], v[row]).statistic for v in values] for row in rows]
    assert found == pytest.approx(np.array(expected), abs=1e-9)


def test_resampled_shares_vary_and_go_together_as_those_of_drawn_items_do() -> None:
    rng = np.random.default_rng(0)
    first = rng.random(500) < 0.7
    right = np.stack([first, np.where(rng.random(500) < 0.8, first, ~first)])
    found = Shares(right).resampled(np.random.default_rng(1), 20_000)
    rows = rng.integers(500, size=(4000, 500))
    slow = np.stack([100 * side[rows].mean(axis=1) for side in right], axis=1)
    assert found.mean(axis=0) == pytest.approx(100 * right.mean(axis=1), abs=0.06)
    assert np.cov(found.T) == pytest.approx(np.cov(slow.T), rel=0.1)
    assert np.cov(found.T) == pytest.approx(1e4 * np.cov(right.astype(float), ddof=0) / 500, rel=0.05)


def test_resampled_means_are_those_of_the_drawn_items(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=(2, 60))
    monkeypatch.setattr(samples, "_NUMBERS_AT_ONCE", 60 * 7)  # blocks of 7, the last one smaller
    found = Means(values).resampled(np.random.default_rng(5), 17)
    rng = np.random.default_rng(5)
    rows = np.concatenate([rng.integers(60, size=(count, 60)) for count in (7, 7, 3)])
    assert found == pytest.approx(np.array([[v[row].mean() for v in values] for row in rows]), abs=1e-12)
    assert Means(values).scores() == pytest.approx(values.mean(axis=1))
    assert Means(values).count == 60


def test_shared_items_are_drawn_together() -> None:
    """Two tasks with half of their items in common, against draws of the distinct items."""
    rng = np.random.default_rng(0)
    gold, values = rng.normal(size=90), rng.normal(size=(2, 90))
    values[0] += gold
    rows = [np.arange(60), np.arange(30, 90)]
    tasks = [Correlations(gold[own], values[:, own]) for own in rows]
    ids = [[f"{row}" if 30 <= row < 60 else None for row in own] for own in rows]
    together = resampled_together(tasks, ids, np.random.default_rng(1), 6000)
    apart = resampled_together(tasks, [[None] * 60] * 2, np.random.default_rng(1), 6000)
    for task, own, other in zip(tasks, together, apart, strict=True):
        alone = task.resampled(np.random.default_rng(2), 6000)
        for found in (own, other):
            assert found.mean(axis=0) == pytest.approx(alone.mean(axis=0), abs=0.6)
            assert found.std(axis=0) == pytest.approx(alone.std(axis=0), rel=0.06)
    correlated = [np.corrcoef(pair[0][:, 1], pair[1][:, 1])[0, 1] for pair in (together, apart)]
    assert correlated[0] > 0.3
    assert abs(correlated[1]) < 0.05
    same = resampled_together([tasks[0]] * 2, [[str(row) for row in range(60)]] * 2, np.random.default_rng(1), 50)
    assert np.array_equal(*same)


def test_pairs_of_two_groups_vary_as_if_both_were_drawn() -> None:
    """Against a bootstrap of both groups that computes each area under the curve anew."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(2, 120))
    entailed, contradicted = (shared[kind] + rng.normal(size=(2, 120)) + shift for kind, shift in ((0, 0.7), (1, 0.0)))
    first = [placements(e, c) for e, c in zip(entailed, contradicted, strict=True)]
    second = [placements(-c, -e) for e, c in zip(entailed, contradicted, strict=True)]
    sample = TwoGroups(first, second)
    assert sample.count == 240
    assert sample.scores() == pytest.approx(np.mean(second, axis=1))
    found = sample.resampled(np.random.default_rng(1), 4000)
    slow = []
    for _ in range(1500):
        rows = rng.integers(120, size=(2, 120))
        slow.append([placements(e[rows[0]], c[rows[1]]).mean() for e, c in zip(entailed, contradicted, strict=True)])
    assert found.mean(axis=0) == pytest.approx(sample.scores(), abs=0.003)
    assert np.cov(found.T) == pytest.approx(np.cov(np.array(slow).T), rel=0.15)
    alone = Means(first).resampled(np.random.default_rng(1), 4000)
    assert (alone.std(axis=0) < 0.8 * found.std(axis=0)).all(), "one group alone varies too little"


@pytest.mark.parametrize("count", [1, 2, 41, 2000])
def test_percentiles_are_interpolated_between_neighbours(count: int) -> None:
    drawn = np.random.default_rng(count).normal(size=count)
    assert comparison.percentile_interval(drawn) == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])))


def test_a_difference_of_means_has_the_normal_interval() -> None:
    values = np.random.default_rng(1).normal(size=(2, 800))
    values[1] += values[0] + 0.1
    found = compared(Means(values), resamples=4000)
    apart = values[1] - values[0]
    assert found.difference == pytest.approx(apart.mean())
    half = 1.96 * apart.std(ddof=1) / 800**0.5
    assert (found.low, found.high) == pytest.approx((apart.mean() - half, apart.mean() + half), abs=0.1 * half)
    assert found.test == "bootstrap"


def test_mcnemar_by_hand() -> None:
    right = np.zeros((2, 40), dtype=int)
    right[0, :2], right[1, 2:12], right[:, 12:30] = 1, 1, 1  # 2 for the one alone, 10 for the other
    assert Shares(right).mcnemar() == pytest.approx(2 * (1 + 12 + 66) / 2**12)
    assert Shares(right[:, 12:]).mcnemar() == 1.0


# --- differences -------------------------------------------------------------------------------------------------


def test_identical_models_do_not_differ() -> None:
    right = np.random.default_rng(0).integers(2, size=200)
    gold, (values, _) = graded(200, 1.0, 1.0)
    for sample in (Shares([right, right]), Correlations(gold, [values, values])):
        found = compared(sample)
        assert (found.difference, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)
        assert (found.baseline_std, found.other_std) == (None, None)
    # The same ranks by other numbers: rounding is no difference either.
    assert compared(Correlations(gold, [values, 3.0 * values + 0.1])).p == 1.0
    # The mean of six equal scores is not quite the score, and that is no difference either.
    found = compared(Correlations(gold, [values] * 7), baselines=6)
    assert (found.low, found.high, found.p) == (0.0, 0.0, 1.0)


def test_a_model_that_is_better_everywhere_is_better() -> None:
    found = compared(Shares([np.zeros(50), np.ones(50)]))
    assert (found.difference, found.low, found.high) == (100.0, 100.0, 100.0)
    assert (found.p, found.test) == (pytest.approx(2 / 2**50), "mcnemar")
    gold, values = graded(300, 8.0, 0.2)
    found = compared(Correlations(gold, values))
    assert 20.0 < found.low < found.difference < found.high
    assert (found.p < 2 / 1001, found.test) == (True, "bootstrap")
    worse = compared(Correlations(gold, values[::-1]))
    assert (worse.difference, worse.p) == (-found.difference, pytest.approx(found.p))
    assert (worse.low, worse.high) == pytest.approx((-found.high, -found.low))


def test_the_order_of_the_items_changes_nothing_but_the_draw() -> None:
    gold, values = graded(300, 1.0, 1.2)
    right = (values > 2.5).astype(int)
    order = np.random.default_rng(3).permutation(300)
    a, b = compared(Correlations(gold, values)), compared(Correlations(gold[order], values[:, order]))
    assert a.difference == pytest.approx(b.difference, abs=1e-9)
    assert (a.low, a.high) == pytest.approx((b.low, b.high), abs=1.0)
    assert (a.low, a.high) != (b.low, b.high)
    assert compared(Shares(right)) == compared(Shares(right[:, order])), "patterns of right and wrong have no order"


def test_the_seed_decides_the_draws_and_other_tasks_do_not() -> None:
    sample = Correlations(*graded(200, 1.0, 1.2))
    assert compared(sample) == compared(sample)
    assert compared(sample).low != compared(sample, seed=2).low
    one, two = (resample(sample, seed=1, name=name, resamples=200) for name in ("stsb", "sickr"))
    assert not np.array_equal(one.drawn, two.drawn)


def test_an_average_is_resampled_within_each_task() -> None:
    samples = [Correlations(*graded(150, 1.0, 1.3, seed=i)) for i in range(7)]
    each = [resample(sample, seed=1, name=f"task {i}", resamples=2000) for i, sample in enumerate(samples)]
    found = difference(each, 1)
    assert found.difference == pytest.approx(np.mean([difference([task], 1).difference for task in each]))
    spreads = [np.var(task.drawn[:, 1] - task.drawn[:, 0]) for task in each]
    assert found.high - found.low == pytest.approx(2 * 1.96 * np.sqrt(np.sum(spreads)) / 7, rel=0.1)


def test_several_seeds_have_a_spread_and_are_resampled_with_the_items() -> None:
    rng = np.random.default_rng(0)
    shares = (0.5, 0.7, 0.6, 0.6)  # two seeds a side; so many items that only the seeds vary
    right = [rng.permutation(np.arange(40_000) < 40_000 * share) for share in shares]
    found = compared(Shares(right), baselines=2, resamples=4000)
    assert (found.baseline, found.other, found.difference) == pytest.approx((60.0, 60.0, 0.0))
    assert found.baseline_std == pytest.approx(np.std([50.0, 70.0], ddof=1))
    assert found.other_std == pytest.approx(0.0, abs=1e-9)
    # Of two seeds, 20 apart, the standard error of the mean is 10 with one degree of freedom: t is 12.7.
    assert found.error == pytest.approx(10.0, rel=0.01)
    assert (found.low, found.high) == pytest.approx((-127.0, 127.0), rel=0.02)
    assert (found.test, found.p) == ("t", pytest.approx(1.0))
    assert compared(Shares(right[2:]), resamples=4000).high < 1.0


@pytest.mark.parametrize(("items", "p"), [(1, 1.0), (3, 0.25), (12, 2.0**-11)])
def test_several_seeds_that_all_differ_by_the_same_tell_no_more_than_their_items(items: int, p: float) -> None:
    ones, zeros = np.ones(items), np.zeros(items)
    found = compared(Shares([ones, ones, zeros, zeros]), baselines=2)
    assert (found.difference, found.test, found.p) == (-100.0, "t", p)
    assert compared(Shares([ones, zeros])).p == pytest.approx(p, rel=0.01)  # McNemar's test of one seed a side


def test_a_difference_from_rounding_is_none() -> None:
    values = np.linspace(50.0, 60.0, 20)
    for made in (compared(Means([values, values + 1e-8])), compared(Means([values] + 2 * [values + 1e-8]))):
        assert (made.difference, made.p) == (0.0, 1.0)
    task = resample(Means([values, values + 1e-8]), seed=1, name="task", resamples=200)
    assert contrast(task, [-1.0, 1.0])["p"] == 1.0
    assert compared(Means([values, values + 1e-3])).p < 1e-4


def test_a_drawn_seed_counts_with_all_of_its_tasks() -> None:
    ones, zeros = np.ones(30), np.zeros(30)
    # Seed 1 is right on one task, seed 2 on the other: whichever is drawn, the average is a half.
    found = compared(Shares([ones, zeros, ones]), Shares([zeros, ones, zeros]), baselines=2)
    assert (found.low, found.high, found.difference) == (0.0, 0.0, 0.0)
    # Were a seed good at both, the average would depend on it.
    found = compared(Shares([ones, zeros, ones]), Shares([ones, zeros, ones]), baselines=2)
    assert (found.error, found.difference) == (pytest.approx(50.0), 50.0)


def test_seeds_with_items_of_their_own_are_resampled_each_within_its_items() -> None:
    samples = [Correlations(*graded(n, 1.0, 1.5, seed=n)) for n in (40, 60, 50)]
    both = SeedBySeed(samples)
    assert both.count == 150
    scores = np.array([sample.scores() for sample in samples])
    assert both.scores().reshape(2, 3) == pytest.approx(scores.T)
    drawn = both.resampled(np.random.default_rng(5), 17)
    rng = np.random.default_rng(5)
    expected = np.stack([sample.resampled(rng, 17) for sample in samples])
    assert drawn.reshape(17, 2, 3) == pytest.approx(np.moveaxis(expected, 0, 2))


def test_seeds_with_items_of_their_own_are_drawn_for_both_sides_together() -> None:
    # Seed 1 has easy items, seed 2 hard ones; on both the other model has 2,000 of 40,000 more right.
    right = [[np.arange(40_000) < 40_000 * share for share in pair] for pair in ((0.9, 0.95), (0.1, 0.15))]
    found = compared(SeedBySeed([Shares(pair) for pair in right]), baselines=2)
    assert (found.baseline, found.other, found.difference) == pytest.approx((50.0, 55.0, 5.0))
    assert found.baseline_std == found.other_std == pytest.approx(np.std([10.0, 90.0], ddof=1))
    assert 4.5 < found.low < 5.0 < found.high < 5.5
    assert found.test == "t"
    # Where the seeds disagree by 10 of 100, that is in the error: 5 of a mean of two.
    found = compared(SeedBySeed([Shares(right[0]), Shares(right[1][::-1])]), baselines=2)
    assert found.error == pytest.approx(5.0, rel=0.02)


def test_seeds_that_belong_together_are_compared_one_with_the_other() -> None:
    """A seed that is lucky on both sides, by its data, says nothing against the difference."""
    rng = np.random.default_rng(0)
    right = [rng.permutation(np.arange(40_000) < 40_000 * share) for share in (0.5, 0.7, 0.55, 0.75)]
    assert compared(Shares(right), baselines=2).error == pytest.approx(200**0.5, rel=0.01)
    task = resample(Shares(right), seed=1, name="x")
    assert difference([task], 2, paired_seeds=True).error < 0.5


def test_no_resample_beyond_zero_leaves_p_to_the_normal_tail() -> None:
    values = np.random.default_rng(1).normal(size=(2, 400))
    values[1] += values[0] + 0.4  # eight standard errors
    found = compared(Means(values), resamples=200)
    assert found.p == pytest.approx(2 * norm.sf(found.difference / found.error))
    assert found.p < 1e-6 < 2 / 201
    slight = compared(Means(values - np.array([[0.0], [0.2]])), resamples=200)  # two of them
    assert slight.p * 201 / 2 == pytest.approx(round(slight.p * 201 / 2)), "a share of the resamples"


def test_too_few_items_are_told() -> None:
    with pytest.raises(UserError, match="too few different items"):
        compared(Correlations([1.0, 2.0], [[1.0, 2.0], [2.0, 1.0]]))


# --- coverage ----------------------------------------------------------------------------------------------------


def accuracies(rng: np.random.Generator) -> tuple[Sample, float]:
    """Two classifiers, right on 70 and 76 % of all texts, often on the same ones."""
    ease = rng.random(150)
    return Shares([ease < 0.70, np.where(rng.random(150) < 0.7, ease < 0.76, rng.random(150) < 0.76)]), 6.0


def similarities(rng: np.random.Generator) -> tuple[Sample, float]:
    """Two encoders with normal errors, whose Spearman correlation has a closed form."""
    gold, shared = rng.normal(size=(2, 120))
    values = [0.8 * gold + 0.6 * shared, 0.6 * gold + 0.8 * rng.normal(size=120)]
    first, second = (100 * 6 / np.pi * np.arcsin(rho / 2) for rho in (0.8, 0.6))
    return Correlations(gold, values), second - first


@pytest.mark.parametrize("draw", [accuracies, similarities])
def test_intervals_hold_the_truth_about_as_often_as_they_say(
    draw: Callable[[np.random.Generator], tuple[Sample, float]],
) -> None:
    rng = np.random.default_rng(7)
    held = 0
    for i in range(300):
        sample, truth = draw(rng)
        found = compared(sample, seed=i, resamples=400)
        held += found.low <= truth <= found.high
    assert 0.91 < held / 300 < 0.98  # 300 draws of 95 %: a standard deviation is 1.3 %


def test_a_mean_of_few_items_is_tested_by_t_and_one_item_by_nothing() -> None:
    values = np.random.default_rng(3).normal(size=(2, 6)) + np.array([[0.0], [0.7]])
    found = compared(Means(values), resamples=2000)
    exact = ttest_rel(values[1], values[0])
    low, high = exact.confidence_interval()
    assert found.test == "t"
    assert (found.p, found.low, found.high) == pytest.approx((exact.pvalue, low, high), rel=0.1, abs=0.02)
    one = compared(Means(np.array([[10.0], [12.0]])))
    assert (one.difference, one.p) == (2.0, 1.0)
    assert compared(Means(np.random.default_rng(3).normal(size=(2, FEW)))).test == "bootstrap"


@pytest.mark.parametrize("exact", [True, False])
def test_equal_models_are_rarely_told_apart(exact: bool) -> None:
    rng = np.random.default_rng(8)
    small = []
    for i in range(300):
        if exact:
            sample: Sample = Shares(rng.random((2, 100)) < 0.7)
        else:
            gold = rng.normal(size=100)
            sample = Correlations(gold, gold + rng.normal(size=(2, 100)))
        small.append(compared(sample, seed=i, resamples=400).p < 0.05)
    assert 0.01 < np.mean(small) < 0.09
