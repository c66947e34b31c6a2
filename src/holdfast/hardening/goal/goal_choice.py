"""The choice of a hardening's weights by its goal: measured during the training, and on interpolations at its end."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.attacks.encoder_targets import characters_read
from holdfast.edits.noise import Noise
from holdfast.edits.tagging import Tagger
from holdfast.edits.text_language import language_of_corpus
from holdfast.encoding import Progress
from holdfast.hardening.goal.choice_rule import RULE, Candidate, judge, kept
from holdfast.hardening.goal.goal_evaluator import SCORE, GoalEvaluator
from holdfast.hardening.goal.goal_queries import GoalTexts, goal_texts, usable_noise
from holdfast.hardening.goal.goal_rows import old_index_rows
from holdfast.hardening.goal.interpolation import WEIGHTS, Weights, interpolated, weights_of
from holdfast.hardening.goal.meaning_pairs import meaning_pairs
from holdfast.hardening.goal.measured_goal import Goal
from holdfast.hardening.goal.mixed_texts import Held
from holdfast.hardening.goal.old_index import OldIndex
from holdfast.hardening.plain_vocabulary import PlainVocabulary
from holdfast.input_limits import limited_to
from holdfast.precision import ResolvedPrecision
from holdfast.progress import Stage, stage

if TYPE_CHECKING:
    from rich.console import Console
    from sentence_transformers import SentenceTransformer

    from holdfast.data.beir import Collection
    from holdfast.evaluation.sts_dev import StsDev
    from holdfast.runs.best_weights import KeepBest

EVALUATIONS = 5
"""Evaluations of a run, unless their number is given."""
PAIRS = 500
"""Pairs of changed texts that choose, and that report."""
SEED = 0
"""Seed of all that is drawn for the goal, whatever the training's seed: runs with different seeds can be compared."""

System = Callable[[str], str] | None


@dataclass
class GoalChoice:
    """Chooses the step and the weight of the interpolation with the original encoder by the goal.

    Args:
        held: what is held out of the training; None in a process that measures nothing.
        noise: kinds of noise.
        retrieval: folder of a labelled collection that is measured too, for the record.
        collection: the content of ``retrieval``.
        tagger: returns a part-of-speech tagger for changes of the meaning, or raises a `UserError`.
        evaluations: evaluations of the run.
        language: the language of the held-out texts; None: detect it.
        systems: returns functions of a query's text, by name, with which both encoders are measured at the end.
        sts_dev: returns the evaluator of STS-B dev, which is logged and chooses nothing; None: it is not at hand.
        weights: weights of the interpolations with the original.
        plain: the vocabulary of the original encoder, if entries were added to the model's; then the original weights
            with these entries may be kept too, as step 0.

    Attributes:
        metric: as in `holdfast.training.training_texts.WeightChoice`, like ``protocol``.
    """

    held: Held | None
    noise: Sequence[Noise]
    retrieval: Path | None = None
    collection: Collection | None = None
    tagger: Callable[[], Tagger] | None = None
    evaluations: int = EVALUATIONS
    language: str | None = None
    systems: Callable[[], Mapping[str, System]] = dict
    sts_dev: Callable[[int | None, ResolvedPrecision], StsDev] | None = None
    weights: Sequence[float] = WEIGHTS
    plain: PlainVocabulary | None = None
    metric: str = f"eval_{SCORE}"
    protocol: str = RULE

    def record(self) -> dict[str, Any]:
        """Return what is measured."""
        return {
            "noise": [str(each) for each in self.noise],
            "evaluations": self.evaluations,
            **({} if self.retrieval is None else {"retrieval": str(self.retrieval)}),
        }

    def prepare(
        self,
        model: SentenceTransformer,
        *,
        precision: ResolvedPrecision,
        max_seq_length: int | None,
        console: Console | None,
    ) -> GoalEvaluator:
        """Encode the old index and the queries with the original encoder, and return the evaluator."""
        self._precision, self._limit, self._console = precision, max_seq_length, console
        sts_dev = self.sts_dev(max_seq_length, precision) if self.sts_dev is not None else None
        if self.held is None:
            return GoalEvaluator(None)
        self._original = weights_of(model)
        self._parameters = [name for name, _ in model.named_parameters(remove_duplicate=False)]
        self._language = language_of_corpus(self.held.documents, self.language)
        self._noise, reasons = usable_noise(self.noise, english=self._language.is_english)
        for kind, reason in reasons.items():
            self._print(f"{kind} noise is not measured: {reason}")
        encoding = stage(console, "encoding the old index", unit="texts")
        with limited_to(model, max_seq_length), self._as_original(model), encoding as shown:
            index = OldIndex.of(model, self.held.documents, precision=precision, progress=_update(shown))
        self._index = index
        with stage(console, "measuring the original encoder on the hold-out", unit="texts") as shown:
            self._goal = self._measure_of(model, 0, self.collection, _update(shown))
        self._evaluator = GoalEvaluator(self._goal, sts_dev)
        return self._evaluator

    def shown(self, metrics: Mapping[str, float]) -> str:
        """Return the scores among the metrics of an evaluation, as text."""
        recovered = metrics.get("eval_goal_recovered")
        text = "noise costs nothing" if recovered is None else f"recovered {recovered:.0f} %"
        return f"{text}, clean {metrics['eval_goal_clean_change']:+.2f}"

    def choose(self, model: SentenceTransformer, best: KeepBest, last: int) -> dict[str, Any]:
        """Measure interpolations of the last and the best step with the original, and keep the best admissible ones.

        Returns:
            ``selected`` (the step, the weight, ``curve``, all that was measured, and ``typo_entries`` if the choice
            took the misspellings out of the vocabulary) and ``old_index``, rows for the result, measured on held-out
            texts that chose nothing.
        """
        trained = {last: weights_of(model)}
        if best.step is not None and best.step != last:
            best.restore(model)
            trained[best.step] = weights_of(model)
        candidates = self._measured(model, trained)
        chosen = kept(candidates)
        step, weight = (0, 0.0) if chosen is None else (chosen.step, chosen.weight)
        self._load(model, self._mixed(trained[step], weight) if step else self._original)
        line = _line(chosen, candidates)
        self._print(line)
        curve = [each.record() for each in sorted(candidates, key=lambda each: (each.step, each.weight))]
        selected = {"step": step, "weight": weight, "line": line, "curve": curve}
        if chosen is not None:
            selected |= {"recovered": chosen.recovered, "clean_change": chosen.clean.difference}
        rows = self._reported(model, chosen is None)
        if self.plain is not None and chosen is None:
            self.plain.restore(model)
            selected["typo_entries"] = 0
        return {"selected": selected, "old_index": rows}

    # --- parts ------------------------------------------------------------------------------------------------------

    def _measure_of(
        self, model: SentenceTransformer, half: int, collection: Collection | None, progress: Progress | None
    ) -> Goal:
        """Return the measure on one half of the hold-out, 0 or 1; ``model`` has the original weights."""
        held = self.held
        assert held is not None
        places, queries = (held.reporting, held.reporting_queries) if half else (held.choosing, held.choosing_queries)
        pairs = []
        if self.tagger is not None and self._language.is_english:
            with limited_to(model, self._limit), self._as_original(model):
                read = functools.partial(characters_read, model, role="document")
                pairs = meaning_pairs(held.documents, places, self.tagger, most=PAIRS, seed=SEED, read=read)
        texts = goal_texts(
            held.documents, places, queries, self._noise, seed=SEED, pairs=pairs, collection=collection, half=half
        )
        with self._as_original(model):
            goal = Goal(model, self._index, texts, self._precision, self._limit, progress)
        for line in goal.left_out:
            self._print(f"{'measuring the result' if half else 'choosing the weights'}: {line}")
        return goal

    def _as_original(self, model: SentenceTransformer) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the model has the original's vocabulary."""
        return contextlib.nullcontext() if self.plain is None else self.plain.used(model)

    def _measured(self, model: SentenceTransformer, trained: Mapping[int, Weights]) -> list[Candidate]:
        candidates = []
        if self.plain is not None:
            self._load(model, self._original)
            candidates.append(judge(self._goal.original_outcomes, self._goal.measure(model), step=0, weight=0.0))
        total = len(trained) * len(self.weights)
        with stage(self._console, "measuring interpolations with the original", unit="encoders", total=total) as shown:
            for step, own in trained.items():
                for weight in self.weights:
                    candidates.append(self._candidate(model, own, step, weight))
                    shown.update(len(candidates))
        return candidates

    def _candidate(self, model: SentenceTransformer, trained: Weights, step: int, weight: float) -> Candidate:
        if weight == 1.0 and step in self._evaluator.judged:  # measured by this process in the training
            return self._evaluator.judged[step]
        self._load(model, self._mixed(trained, weight))
        return judge(self._goal.original_outcomes, self._goal.measure(model), step=step, weight=weight)

    def _mixed(self, trained: Weights, weight: float) -> Weights:
        return interpolated(self._original, trained, weight, self._parameters)

    def _load(self, model: SentenceTransformer, weights: Weights) -> None:
        model.load_state_dict(weights)

    def _reported(self, model: SentenceTransformer, original_kept: bool) -> list[dict[str, Any]]:
        """Return the rows of the old index for the weights in ``model``, which stay as they are."""
        new, of_both = weights_of(model), ("the original encoder", "the kept encoder")
        self._load(model, self._original)
        with self._measuring(of_both[0]) as shown:
            goal = self._measure_of(model, 1, self.collection, _update(shown))
        systems, plain = self._corrections(goal.texts), {}
        for name, correct in systems.items():
            with self._as_original(model), self._measuring(of_both[0], name) as shown:
                plain[name] = goal.measure(model, correct, _update(shown))
        self._load(model, new)
        vocabulary = self._as_original(model) if original_kept else contextlib.nullcontext()
        with vocabulary, self._measuring(of_both[1]) as shown:
            rows = old_index_rows(goal.original_outcomes, goal.measure(model, None, _update(shown)), seed=SEED)
        for name, correct in systems.items():
            after = plain[name]
            if not original_kept:
                with self._measuring(of_both[1], name) as shown:
                    after = goal.measure(model, correct, _update(shown))
            rows += old_index_rows(plain[name], after, system=name, seed=SEED)
        return rows

    def _measuring(self, encoder: str, system: str = "") -> contextlib.AbstractContextManager[Stage]:
        """Return the stage of a measurement on the half of the hold-out that reports."""
        behind = f" behind {system}" if system else ""
        return stage(self._console, f"measuring {encoder}{behind} on the rest of the hold-out", unit="texts")

    def _corrections(self, texts: GoalTexts) -> dict[str, System]:
        """Return the systems, each of which corrects each query once: both encoders are asked the same ones."""
        with stage(self._console, "preparing what is put before the encoders", announce=False):
            systems: dict[str, System] = {
                name: correct and functools.cache(correct) for name, correct in self.systems().items()
            }
        queries = texts.query_texts()
        for name, correct in systems.items():
            if correct is not None:
                with stage(self._console, f"{name}: correcting the queries", unit="texts", total=len(queries)) as shown:
                    for number, text in enumerate(queries, 1):
                        correct(text)
                        shown.update(number)
        return systems

    def _print(self, line: str) -> None:
        if self._console is not None:
            self._console.print(line, highlight=False, markup=False)


def sts_dev_of(data: Path | None) -> Callable[[int | None, ResolvedPrecision], StsDev]:
    """Return a function that makes the evaluator of STS-B dev."""
    from holdfast.data.registry import load_pairs
    from holdfast.evaluation.sts_dev import StsDev

    def make(max_seq_length: int | None, precision: ResolvedPrecision) -> StsDev:
        pairs = load_pairs("stsb", "dev", data=data)
        return StsDev(pairs, max_seq_length=max_seq_length, precision=precision)

    return make


def _update(shown: Stage) -> Progress:
    def update(done: int, total: int) -> None:
        shown.total = total
        shown.update(done)

    return update


def _line(chosen: Candidate | None, candidates: Sequence[Candidate]) -> str:
    """Return a sentence on the choice."""
    if chosen is not None:
        if chosen.step == 0:
            of = " with misspellings in its vocabulary"
        else:
            of = f" at weight {chosen.weight:g} beside the original" if chosen.weight < 1.0 else ""
        return (
            f"step {chosen.step}{of}: recovers {chosen.recovered:.0f} % of what noise costs on the hold-out, clean "
            f"recall {chosen.clean.difference:+.2f} points"
        )
    if all(each.recovered is None for each in candidates):
        why = "noise costs the original less than a point of recall on the hold-out"
    elif any(each.admissible for each in candidates):
        why = "no weights recover anything of what noise costs on the hold-out"
    else:
        meanings = any(each.hold_move is not None for each in candidates)
        why = f"all weights would cost clean recall{' or the difference between meanings' * meanings} on the hold-out"
    return f"the original encoder is kept, unchanged: {why}"
