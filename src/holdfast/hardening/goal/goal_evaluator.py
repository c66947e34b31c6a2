"""The evaluator with which a hardening's trainer measures the goal; STS-B dev is logged beside it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sentence_transformers.base.evaluation import BaseEvaluator

from holdfast.errors import UserError
from holdfast.hardening.goal.choice_rule import Candidate, judge
from holdfast.hardening.goal.measured_goal import Goal

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from holdfast.evaluation.sts_dev import StsDev

SCORE = "goal_score"
"""Name of the metric by which the best step so far is kept: the percentage recovered, or that minus `INADMISSIBLE`."""
INADMISSIBLE = 1e6
"""Subtracted from the score of weights that may not be kept, so that they rank below all others."""


class GoalEvaluator(BaseEvaluator):
    """Evaluator of the goal, for ``SentenceTransformerTrainer(evaluator=...)``; it draws no random number.

    Args:
        goal: the measure; None in a process that is never asked.
        sts_dev: the evaluator of STS-B dev, a guard that is logged; None: it is not at hand.

    Attributes:
        judged: the encoders that were measured, by their step.
    """

    def __init__(self, goal: Goal | None, sts_dev: StsDev | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.goal, self.sts_dev = goal, sts_dev
        self.judged: dict[int, Candidate] = {}
        self.primary_metric = SCORE

    def __call__(  # type: ignore[override]  # the base class takes all kinds of models, this class only encoders
        self,
        model: SentenceTransformer,
        output_path: str | None = None,
        epoch: int = -1,
        steps: int = -1,
    ) -> dict[str, float]:
        """Return the metrics of ``model``: see `metrics_of`."""
        assert self.goal is not None
        found = judge(self.goal.original_outcomes, self.goal.measure(model), step=steps)
        self.judged[steps] = found
        metrics = metrics_of(found)
        if self.sts_dev is not None:
            with contextlib.suppress(UserError):  # vectors without a score: the goal can be measured all the same
                metrics |= self.sts_dev(model)
        return metrics


def metrics_of(found: Candidate) -> dict[str, float]:
    """Return the metrics to log: the score, the percentage recovered, recall@1 by version, and changes in points."""
    recovered = {} if found.recovered is None else {"goal_recovered": found.recovered}
    metrics = {SCORE: (found.recovered or 0.0) - (0.0 if found.admissible else INADMISSIBLE), **recovered}
    metrics |= {f"goal_{name.replace(' ', '_')}": value for name, value in found.recall.items()}
    metrics["goal_clean_change"] = found.clean.difference
    if found.hold_move is not None:
        metrics["goal_hold_move_change"] = found.hold_move.difference
    return metrics
