"""Semantic textual similarity: correlation of the cosine of two sentence vectors with human similarity scores.

The protocol is that of SimCSE (Gao et al. 2021, "all" setting), which all reproduced papers follow: the subsets of a
year are joined and one Spearman correlation is computed over all their pairs; no regressor is trained; papers compare
the mean of the seven test sets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdfast.encoding import Progress, Vectors
from holdfast.errors import UserError, did_you_mean
from holdfast.evaluation.vectors import Encode, score_tasks
from holdfast.forms import plain_rows
from holdfast.precision import ResolvedPrecision

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from holdfast.data.registry import ScoredPairs

STS_TASKS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
# sickr-full is SICK's train, trial and test pairs together; all-MiniLM's published figure is on these.
ALL_STS_TASKS = (*STS_TASKS, "sickr-full")
_SPLITS = {"sickr-full": "all"}
# Cosines of float32 vectors that differ by less than this differ by rounding only.
_ROUNDING = 1e-6
_IDS = "pair_ids"
# Decimals of the cosines in a row's items: enough not to make ties, which would change Spearman's correlation.
_DECIMALS = 12


@dataclass(frozen=True)
class StsTask:
    """The data of one task, for `score`."""

    pairs: ScoredPairs

    @property
    def name(self) -> str:
        """The task's id."""
        return self.pairs.task

    @property
    def sentences(self) -> Iterator[str]:
        """All sentences whose vectors are needed; some occur more than once."""
        yield from self.pairs.sentences1
        yield from self.pairs.sentences2

    def score(self, encode: Encode) -> dict[str, Any]:
        """Return the task's row of results, with its items; see `evaluate_sts`."""
        row = score_pairs(self.pairs, encode(self.pairs.sentences1), encode(self.pairs.sentences2), items=True)
        pairs = zip(self.pairs.sentences1, self.pairs.sentences2, strict=True)
        return {**row, _IDS: [_pair_id(*pair) for pair in pairs]}


def measured_split(task: str) -> str:
    """Return the split on which a similarity task is measured."""
    return _SPLITS.get(task, "test")


def load_sts(task: str, *, data: Path | None = None, text: str = "raw") -> StsTask:
    """Load the data of a similarity task.

    Args:
        task: one of `ALL_STS_TASKS`.
        data: the folder with the data sets, as for ``--data``; ``None`` takes ``HOLDFAST_DATA``, then the hub.
        text: ``"raw"``, or ``"senteval"`` for the text as SentEval tokenises and lower-cases it (all tasks but SICK).

    Raises:
        UserError: the task is unknown, or data is missing or damaged.
    """
    if task not in ALL_STS_TASKS:
        hint = did_you_mean(task, ALL_STS_TASKS)
        raise UserError(f"unknown STS task {task!r}{hint}: the tasks are {', '.join(ALL_STS_TASKS)}")
    from holdfast.data.registry import load_pairs
    from holdfast.data.tasks import task_named

    split = measured_split(task)
    own = "senteval" if text == "senteval" and task_named(task).split(split).senteval else "raw"
    return StsTask(load_pairs(task, split, data=data, text=own))


def evaluate_sts(
    model: SentenceTransformer,
    *,
    tasks: Sequence[str] = STS_TASKS,
    data: Path | None = None,
    text: str = "raw",
    precision: ResolvedPrecision = "fp32",
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Return Spearman and Pearson correlations of cosine similarity with the gold scores, one row per task.

    Each distinct sentence of all the tasks together is encoded once.

    Args:
        model: any SentenceTransformer.
        tasks: any of `ALL_STS_TASKS`.
        data: the folder with the data sets, as for ``--data``; ``None`` takes ``HOLDFAST_DATA``, then the hub.
        text: see `load_sts`.
        precision: ``"fp32"`` or ``"bf16"``.
        progress: called with (sentences done, distinct sentences).

    Returns:
        For each task ``{task, split, n, metrics: {spearman, pearson}, subsets, data_sha256, source, items: {gold,
        similarity}, truncated: {texts, of, tokens, lost_percent}}``; correlations are x100; ``subsets`` holds ``{name:
        {n, spearman, pearson}}`` for the years that have subsets; ``items`` are the pairs' scores and cosines, in the
        data's order; of several tasks, ``repeated_pairs`` as in `with_repeated_pairs`; ``truncated`` counts the
        distinct sentences that exceed the model's length limit.

    Raises:
        UserError: a task is unknown, data is missing or damaged, or the correlation is undefined (vectors that are not
            finite, zero, or all the same).
    """
    # Load all data first, so that a missing file is reported before minutes of encoding.
    loaded = [load_sts(task, data=data, text=text) for task in dict.fromkeys(tasks)]
    return with_repeated_pairs(score_tasks(model, loaded, precision=precision, progress=progress))


def with_repeated_pairs(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of `StsTask.score`, those of several tasks with the pairs that another task has, too, but for noise.

    The row has ``repeated_pairs: {places, ids}``: places in the data's order, and an id of each of these pairs, equal
    in all rows. So can an average over tasks draw them together. Other rows stay the same.
    """
    tasks_with: dict[str, set[str]] = {}
    clean = [row for row in rows if _IDS in row and "noise" not in row]
    for row in clean:
        for each in row[_IDS]:
            tasks_with.setdefault(each, set()).add(row["task"])
    several = len({row["task"] for row in clean}) > 1
    made = []
    for row in rows:
        ids = row.get(_IDS, ()) if several and "noise" not in row else ()
        places = [place for place, each in enumerate(ids) if len(tasks_with[each]) > 1]
        repeated = {"repeated_pairs": {"places": places, "ids": [ids[place] for place in places]}} if ids else {}
        made.append({**{name: value for name, value in row.items() if name != _IDS}, **repeated})
    return made


def _pair_id(first: str, second: str) -> str:
    """Return a hash of a pair in either order, whatever its case and blanks."""
    texts = sorted(" ".join(text.lower().split()) for text in (first, second))
    return hashlib.sha256("\t".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:12]


def score_pairs(pairs: ScoredPairs, vectors1: Vectors, vectors2: Vectors, *, items: bool = False) -> dict[str, Any]:
    """Compute one result row from the vectors (n, d) of both sides of ``pairs``; with each pair's numbers if ``items``.

    Raises:
        UserError: the correlation is undefined; the message names the task.
    """
    gold = np.asarray(pairs.scores, dtype=np.float64)
    name = f"{pairs.task} ({pairs.split})"
    similarity = _cosines(vectors1, vectors2, name)
    row = {
        "task": pairs.task,
        "split": pairs.split,
        "n": len(gold),
        "metrics": _correlations(similarity, gold, name),
        "subsets": _subset_scores(pairs.subsets, similarity, gold),
        "data_sha256": pairs.sha256,
        "source": pairs.source,
    }
    if items:
        row["items"] = {"gold": gold.tolist(), "similarity": similarity.tolist()}
    return row


def average(rows: Iterable[dict[str, Any]]) -> float | None:
    """Return the mean test Spearman x100 of the seven tasks in the plain form; ``None`` unless all seven are there."""
    found = {row["task"]: float(row["metrics"]["spearman"]) for row in plain_rows(rows) if row["split"] == "test"}
    if not all(task in found for task in STS_TASKS):
        return None
    return sum(found[task] for task in STS_TASKS) / len(STS_TASKS)


def _cosines(vectors1: Vectors, vectors2: Vectors, name: str) -> npt.NDArray[np.float64]:
    """Return the cosine of each row of two (n, d) arrays, in fp64 so that the computation adds no ties.

    They are rounded as the items are, so that pairs of equal sentences tie, and the score is that of the items.
    """
    a, b = vectors1.astype(np.float64), vectors2.astype(np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise UserError(f"{name}: the model gives vectors that are not finite (NaN or infinity), so there is no score")
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    if not norms.all():
        raise UserError(f"{name}: the model gives a zero vector, whose cosine is undefined, so there is no score")
    cosines: npt.NDArray[np.float64] = np.round((a * b).sum(axis=1) / norms, _DECIMALS)
    return cosines


def _correlations(similarity: npt.NDArray[np.float64], gold: npt.NDArray[np.float64], name: str) -> dict[str, float]:
    from scipy.stats import pearsonr, spearmanr

    if not _varies(gold):
        raise UserError(f"{name}: fewer than two different gold scores, so there is no correlation")
    if not _varies(similarity):
        raise UserError(f"{name}: the model finds every pair equally similar (collapsed?), so there is no correlation")
    return {
        "spearman": 100 * float(spearmanr(similarity, gold).statistic),
        "pearson": 100 * float(pearsonr(similarity, gold).statistic),
    }


def _varies(values: npt.NDArray[np.float64]) -> bool:
    return len(values) > 1 and float(np.ptp(values)) > _ROUNDING


def _subset_scores(
    subsets: Sequence[str], similarity: npt.NDArray[np.float64], gold: npt.NDArray[np.float64]
) -> dict[str, dict[str, float]]:
    """Return the scores of each subset; a subset whose scores or cosines do not vary has only its size."""
    scores: dict[str, dict[str, float]] = {}
    for subset in dict.fromkeys(name for name in subsets if name):
        chosen = np.array([name == subset for name in subsets])
        scores[subset] = {"n": int(chosen.sum())}
        if _varies(similarity[chosen]) and _varies(gold[chosen]):
            scores[subset] |= _correlations(similarity[chosen], gold[chosen], subset)
    return scores
