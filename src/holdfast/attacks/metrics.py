"""Metrics of attacks: success rates with intervals, replaced words, queries."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy import stats

from holdfast.attacks.examples import Attempt
from holdfast.evaluation.intervals import mean_interval, rate_interval


def summarise(attempts: Sequence[Attempt], *, has_classes: bool, seed: int = 0) -> dict[str, float]:
    """Compute the metrics of one recipe on one task.

    Args:
        attempts: the attempts on all examples.
        has_classes: whether there are gold classes, and so an accuracy.
        seed: random seed of the bootstrap.

    Returns:
        ``examples``, ``attacked``, ``succeeded``, ``skipped``: counts. Over attacked examples (those that the model
        predicts correctly and that have a word that may be changed): ``success_rate`` ×100 and ``queries``, the mean
        number of queries. Over successes: ``replaced``, the mean share of changed words ×100, and ``similarity``, the
        mean cosine of original and adversarial text, if measured. With classes: ``accuracy`` and
        ``accuracy_under_attack`` ×100 over all examples that the model was queried for; an example that cannot be
        changed keeps its prediction. Each of these six has a 95 % bootstrap interval, ``…_low`` and ``…_high``, except
        the mean of identical numbers. A metric without examples is left out.
    """
    attacked = [attempt for attempt in attempts if attempt.outcome != "skipped"]
    succeeded = [attempt for attempt in attacked if attempt.outcome == "succeeded"]
    metrics: dict[str, float] = {
        "examples": len(attempts),
        "attacked": len(attacked),
        "succeeded": len(succeeded),
        "skipped": len(attempts) - len(attacked),
    }
    if attacked:
        metrics |= rate("success_rate", [attempt.outcome == "succeeded" for attempt in attacked], seed)
        metrics |= _mean("queries", [attempt.queries for attempt in attacked], seed)
    if succeeded:
        metrics |= _mean("replaced", [100.0 * len(a.changed) / a.words for a in succeeded], seed)
        if similarities := [a.similarity for a in succeeded if a.similarity is not None]:
            metrics |= _mean("similarity", similarities, seed)
    queried = [attempt for attempt in attempts if attempt.before]
    if has_classes and queried:
        right = [attempt.correct_before and attempt.outcome != "succeeded" for attempt in queried]
        metrics |= rate("accuracy", [attempt.correct_before for attempt in queried], seed)
        metrics |= rate("accuracy_under_attack", right, seed)
    return metrics


def rate(name: str, outcomes: Sequence[bool], seed: int) -> dict[str, float]:
    """Return the share of True, ×100, and its 95 % interval, ``NAME_low`` and ``NAME_high``."""
    low, high = rate_interval(outcomes, seed=seed)
    return {name: 100.0 * statistics.mean(outcomes), f"{name}_low": 100.0 * low, f"{name}_high": 100.0 * high}


def _mean(name: str, values: Sequence[float], seed: int) -> dict[str, float]:
    """Return a mean with its interval; identical numbers have no interval, as every resample is the same."""
    found = {name: float(statistics.mean(values))}
    if len(set(values)) > 1:
        found[f"{name}_low"], found[f"{name}_high"] = mean_interval(values, seed=seed)
    return found


def correlations(attempts: Sequence[Attempt]) -> dict[str, float]:
    """Return Spearman and Pearson ×100 of cosine and gold score, before and after an attack on scored pairs.

    A pair that was not attacked, or on which the attack failed, counts with the last text of the attack.
    """
    rows = [attempt for attempt in attempts if attempt.before]
    if len(rows) < 2:
        return {}
    gold = [float(attempt.label or 0.0) for attempt in rows]
    found: dict[str, float] = {}
    for when in ("before", "after"):
        cosines = [getattr(attempt, when)["value"] for attempt in rows]
        for name, function in (("spearman", stats.spearmanr), ("pearson", stats.pearsonr)):
            value = float(function(cosines, gold).statistic)
            if np.isfinite(value):  # undefined for constant values
                found[f"{name}_{when}"] = 100.0 * value
    return found


def skip_reasons(attempts: Sequence[Attempt]) -> dict[str, int]:
    """Count the skipped examples by reason, the most frequent reason first."""
    return dict(Counter(attempt.reason for attempt in attempts if attempt.reason is not None).most_common())
