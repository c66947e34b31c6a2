"""Parts of a training that a verb may replace: the texts, and the choice of the weights that are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.evaluation import BaseEvaluator

    from holdfast.data.corpus import SpooledCorpus
    from holdfast.precision import ResolvedPrecision
    from holdfast.runs.best_weights import KeepBest


class WeightChoice(Protocol):
    """Measures the model during a training, and chooses the weights that are kept.

    Attributes:
        metric: name of the metric by which the best step so far is kept, as it is logged.
        evaluations: number of evaluations of a run.
        protocol: how the weights are chosen, for the result and the model card.
    """

    metric: str
    evaluations: int
    protocol: str

    def record(self) -> Mapping[str, Any]:
        """Return what it measures, for ``run.json``: a resumed run must agree with it."""

    def prepare(
        self,
        model: SentenceTransformer,
        *,
        precision: ResolvedPrecision,
        max_seq_length: int | None,
        console: Console | None,
    ) -> BaseEvaluator:
        """Return the evaluator of a training that begins with ``model``; its random state is left as it was.

        Args:
            model: the model before the first step. Only the first process of a run calls the evaluator.
            precision: precision of the evaluations.
            max_seq_length: length limit of the evaluations, in tokens; None: the model's.
            console: console for progress; None: no output.
        """

    def shown(self, metrics: Mapping[str, float]) -> str:
        """Return the scores among the metrics of an evaluation, as text."""

    def choose(self, model: SentenceTransformer, best: KeepBest, last: int) -> dict[str, Any]:
        """Put the weights to keep into ``model``, and return entries for the result.

        Args:
            model: the model after the last step, with its own length limit; only in the first process.
            best: the best weights of the evaluations.
            last: the last step.

        Returns:
            ``selected``, with ``step`` (0: the model before the first step) and ``line``, a sentence on the choice;
            and further entries.
        """


class TrainingTexts(Protocol):
    """The texts of a training, and what is held out of them."""

    def record(self) -> Mapping[str, Any]:
        """Return the settings that decide on the texts, for ``run.json``."""

    def goal(self) -> Mapping[str, Any]:
        """Return the record of the choice of the weights, if there is one: known before anything is read."""

    def read(self, progress: Callable[[int], None]) -> dict[str, Any]:
        """Read all sources, and return facts for `open`; called in one process of each machine.

        Raises:
            UserError: a source is missing or damaged, or holds too few texts.
        """

    def open(self, facts: Mapping[str, Any]) -> SpooledCorpus:
        """Open the texts to train on, in every process."""

    def prepare_model(self, model: SentenceTransformer, corpus: SpooledCorpus) -> Mapping[str, Any]:
        """Change the model before the training, as by new entries of its vocabulary; return facts for ``run.json``.

        It is called after `open` in every process, also of a resumed run, and must do the same each time.
        """

    def choice(self) -> tuple[WeightChoice | None, str]:
        """Return the choice of the weights, and a line for people; None: the last step is kept. After `open`."""
