"""The seven transfer tasks: prediction of a sentence's class from its vector by logistic regression.

SentEval's protocol (Conneau and Kiela 2018) with its scikit-learn classifier: the encoder is frozen, and the strength
of the penalty is chosen on training data only. MR, CR, SUBJ and MPQA have no split: 10-fold cross-validation inside
each of 10 folds. TREC and MRPC: 10-fold cross-validation on the training part, then the test part. SST2: selection on
its dev part. The folds are the same as SentEval's, row by row: they have its seed, and its order of the rows, by length
and class. Lengths are in tokens, and MRPC was released untokenised: its order, and so its folds, are SentEval's only
with the text ``senteval``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdfast.data.registry import Labelled, load_labelled
from holdfast.data.tasks import task_named
from holdfast.encoding import Progress, Vectors
from holdfast.errors import UserError, did_you_mean
from holdfast.evaluation.vectors import Encode, score_tasks
from holdfast.forms import plain_rows
from holdfast.precision import ResolvedPrecision

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from holdfast.evaluation.logistic import Regressions

TRANSFER_TASKS = ("mr", "cr", "subj", "mpqa", "sst2", "trec", "mrpc")
FOLDS = 10
SEED = 1111
STRENGTHS = tuple(2.0**t for t in range(-2, 4))
"""SentEval's values of scikit-learn's C inside nested folds and with a dev part (``2**t for t in range(-2, 4)``)."""
STRENGTHS_ACROSS = tuple(2.0**t for t in range(-1, 6))
"""SentEval's values of C if a training part is cross-validated (``range(-1, 6)``)."""

_ACROSS = ("trec", "mrpc")
_WITH_DEV = ("sst2",)
_WITH_F1 = ("mrpc",)

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TransferTask:
    """The data of one task; its parts are ``all``, or ``train`` and ``test``, and for SST2 ``dev``.

    ``tested`` are other texts, row by row, to predict the classes of; None: those of the part ``test`` or ``all``.
    """

    name: str
    parts: dict[str, Labelled]
    tested: Labelled | None = None

    @property
    def clean_tested(self) -> Labelled:
        """The part whose classes are predicted."""
        return self.parts["all" if "all" in self.parts else "test"]

    @property
    def sentences(self) -> Iterator[str]:
        """All sentences whose vectors are needed; some occur more than once."""
        for part in (*self.parts.values(), *([self.tested] if self.tested is not None else [])):
            yield from part.sentences1
            yield from part.sentences2 or ()

    def score(self, encode: Encode) -> dict[str, Any]:
        """Return the task's row of results.

        Raises:
            UserError: vectors are not finite, or a class has fewer than `FOLDS` training rows (none, where a dev part
                chooses the penalty).
        """
        parts = {name: _Part.of(part, encode) for name, part in self.parts.items()}
        clean = self.clean_tested
        own = parts["all" if "all" in parts else "test"]
        tested = own if self.tested is None else replace(own, features=_features(self.tested, encode)[own.order])
        for name, part in (*parts.items(), (clean.split, tested)):
            if not np.isfinite(part.features).all():
                where = f"{self.name} ({name})"
                raise UserError(f"{where}: the model gives vectors that are not finite, so there is no score")
        _check_classes(self.parts["train" if "train" in parts else "all"], folds="dev" not in parts)
        if "all" in parts:
            chosen = _nested(own, tested)
        elif "dev" in parts:
            chosen = _with_dev(parts["train"], parts["dev"], tested)
        else:
            chosen = _across(parts["train"], tested)
        return self._row(clean, chosen)

    def _row(self, tested: Labelled, chosen: _Chosen) -> dict[str, Any]:
        labels = np.asarray(tested.labels)
        correct = chosen.predicted == labels
        metrics = {"accuracy": 100 * float(correct.mean())}
        if self.name in _WITH_F1:
            from sklearn.metrics import f1_score

            metrics["f1"] = 100 * float(f1_score(labels, chosen.predicted, zero_division=0.0))
        row = {
            "task": self.name,
            "split": tested.split,
            "n": len(labels),
            "metrics": metrics,
            "dev_accuracy": float(np.mean(chosen.dev_accuracies)),
            "selection": {"C": chosen.strengths, "dev_accuracy": chosen.dev_accuracies},
            "items": {"correct": correct.astype(int).tolist()},
            "data_sha256": tested.sha256,
            "source": tested.source,
        }
        if "train" in self.parts:
            row["trained_on"] = {
                name: {"n": len(part.labels), "data_sha256": part.sha256, "source": part.source}
                for name, part in self.parts.items()
                if name != "test"
            }
        return row


def needed_splits(task: str) -> tuple[str, ...]:
    """Return the splits that the evaluation of a transfer task reads."""
    return ("train", "dev", "test") if task in _WITH_DEV else ("train", "test") if task in _ACROSS else ("all",)


def load_transfer(task: str, *, data: Path | None = None, text: str = "raw") -> TransferTask:
    """Load the data of a transfer task.

    Args:
        task: one of `TRANSFER_TASKS`.
        data: the folder with the data sets; ``None`` takes ``HOLDFAST_DATA``, then the hub.
        text: ``"raw"``, or ``"senteval"`` for MRPC as SentEval tokenises it (the other tasks have one text only).

    Raises:
        UserError: the task is unknown, or data is missing or damaged.
    """
    if task not in TRANSFER_TASKS:
        hint = did_you_mean(task, TRANSFER_TASKS)
        raise UserError(f"unknown transfer task {task!r}{hint}: the tasks are {', '.join(TRANSFER_TASKS)}")
    known = task_named(task)
    parts = {}
    for name in needed_splits(task):
        own = "senteval" if text == "senteval" and known.split(name).senteval else "raw"
        parts[name] = load_labelled(task, name, data=data, text=own)
    return TransferTask(task, parts)


def evaluate_transfer(
    model: SentenceTransformer,
    *,
    tasks: Sequence[str] = TRANSFER_TASKS,
    data: Path | None = None,
    text: str = "raw",
    precision: ResolvedPrecision = "fp32",
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Return the accuracy of a logistic regression (in fp64) on the vectors, one row per task.

    Each distinct sentence of all tasks together is encoded once; an empty sentence is encoded like any other. The
    arguments are as for `holdfast.evaluation.sts.evaluate_sts`.

    Returns:
        For each task ``{task, split, n, metrics: {accuracy[, f1]}, dev_accuracy, selection: {C, dev_accuracy}, items:
        {correct}, data_sha256, source, truncated}``; accuracies and F1 (of MRPC's class 1) are x100. ``accuracy`` is
        over all rows; with folds, each row is predicted by the model of the fold that holds it out. ``selection`` has
        a value for each outer fold, or one value. ``items`` is in the data's order. ``trained_on`` names the parts
        besides the test part. ``truncated`` is as in `holdfast.evaluation.sts.evaluate_sts`.

    Raises:
        UserError: a task is unknown, data is missing or damaged, vectors are not finite, or there are too few rows.
    """
    loaded = [load_transfer(task, data=data, text=text) for task in dict.fromkeys(tasks)]
    return score_tasks(model, loaded, precision=precision, progress=progress)


def transfer_average(rows: Iterable[dict[str, Any]]) -> float | None:
    """Return the mean accuracy x100 of the seven tasks in the plain form; ``None`` unless all seven are there."""
    found = {
        row["task"]: float(row["metrics"]["accuracy"])
        for row in plain_rows(rows)
        if row["split"] in ("test", "all") and "selection" in row
    }
    if not all(task in found for task in TRANSFER_TASKS):
        return None
    return sum(found[task] for task in TRANSFER_TASKS) / len(TRANSFER_TASKS)


# --- the protocol ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """Features (n, d) and labels of a part in SentEval's order; row i here is row ``order[i]`` of the data."""

    features: Vectors
    labels: Numbers
    classes: int
    order: Numbers

    @classmethod
    def of(cls, part: Labelled, encode: Encode) -> _Part:
        order = _senteval_order(part)
        return cls(_features(part, encode)[order], np.asarray(part.labels)[order], len(part.classes), order)

    def regressions(self) -> Regressions:
        from holdfast.evaluation.logistic import Regressions

        return Regressions(self.features, self.labels, self.classes)

    def in_the_datas_order(self, predicted: Numbers) -> Numbers:
        restored = np.empty_like(predicted)
        restored[self.order] = predicted
        return restored


@dataclass(frozen=True)
class _Chosen:
    """Strengths, their dev accuracies x100, and the predicted classes in the data's order."""

    strengths: list[float]
    dev_accuracies: list[float]
    predicted: Numbers


def _features(part: Labelled, encode: Encode) -> Vectors:
    """Return the vectors of a part's texts, or SentEval's features of its pairs, in the data's order."""
    features = encode(part.sentences1)
    if part.sentences2 is None:
        return features
    other = encode(part.sentences2)
    return np.concatenate([np.abs(features - other), features * other], axis=1)


def _senteval_order(part: Labelled) -> Numbers:
    """Return SentEval's order of the rows: it sorts them by number of tokens and label before it makes folds.

    The tokens are those of the text that is measured, so that no other file can change a score.
    """
    tokens = [[len(text.split()) for text in side] for side in (part.sentences1, part.sentences2) if side is not None]
    names = [part.classes[label] for label in part.labels]  # SentEval numbers TREC's classes alphabetically
    return np.array(sorted(range(len(names)), key=lambda i: (*(side[i] for side in tokens), names[i])), dtype=np.int64)


def _check_classes(part: Labelled, *, folds: bool) -> None:
    """Refuse training rows of which a class has none, or too few for ``folds``."""
    counts = np.bincount(part.labels, minlength=len(part.classes))
    rare, count = part.classes[int(counts.argmin())], int(counts.min())
    if folds and count < FOLDS:
        raise UserError(f"{part.source}: {count} rows of class {rare!r}; {FOLDS} folds need at least {FOLDS} of each")
    if not count:
        raise UserError(f"{part.source}: no row of class {rare!r}")


def _nested(part: _Part, tested: _Part) -> _Chosen:
    """Predict each row with a model that was neither trained nor selected on it (SentEval's InnerKFoldClassifier).

    ``tested`` has the features to predict from, row by row; the part itself unless other texts are tested.
    """
    regressions, outer = part.regressions(), _folds(part.labels)
    chosen = []
    for train, _ in outer:
        inner = [(train[rest], train[held]) for rest, held in _folds(part.labels[train])]
        chosen.append(_best_across(regressions, part, inner, STRENGTHS))
    strengths = [strength for strength, _ in chosen]
    fitted = regressions.fit(_masks([train for train, _ in outer], len(part.labels)), strengths)
    everywhere = fitted.predict(tested.features)
    predicted = np.empty_like(part.labels)
    for number, (_, held) in enumerate(outer):
        predicted[held] = everywhere[number, held]
    return _Chosen(strengths, [accuracy for _, accuracy in chosen], part.in_the_datas_order(predicted))


def _across(train: _Part, test: _Part) -> _Chosen:
    """Select by cross-validation of the training part, as SentEval's KFoldClassifier does."""
    regressions = train.regressions()
    strength, accuracy = _best_across(regressions, train, _folds(train.labels), STRENGTHS_ACROSS)
    fitted = regressions.fit(np.ones((1, len(train.labels))), [strength])
    return _Chosen([strength], [accuracy], test.in_the_datas_order(fitted.predict(test.features)[0]))


def _with_dev(train: _Part, dev: _Part, test: _Part) -> _Chosen:
    """Select on the dev part, as SentEval's SplitClassifier does."""
    fitted = train.regressions().fit(np.ones((len(STRENGTHS), len(train.labels))), STRENGTHS)
    best, accuracy = _best(np.mean(fitted.predict(dev.features) == dev.labels, axis=1))
    predicted = fitted.predict(test.features)[best]
    return _Chosen([STRENGTHS[best]], [accuracy], test.in_the_datas_order(predicted))


def _best_across(
    regressions: Regressions, part: _Part, folds: Sequence[tuple[Numbers, Numbers]], strengths: Sequence[float]
) -> tuple[float, float]:
    """Return the strength with the best mean accuracy on the held-out rows of the folds, and that accuracy x100."""
    masks = _masks([rest for rest, _ in folds for _ in strengths], len(part.labels))
    right = regressions.fit(masks, list(strengths) * len(folds)).predict(part.features) == part.labels
    by_fold = right.reshape(len(folds), len(strengths), -1)
    means = np.mean([by_fold[i][:, held].mean(axis=1) for i, (_, held) in enumerate(folds)], axis=0)
    best, accuracy = _best(means)
    return strengths[best], accuracy


def _best(accuracies: npt.NDArray[np.float64]) -> tuple[int, float]:
    """Return the first of the best (the strongest penalty) and its accuracy x100; SentEval rounds to two decimals."""
    rounded = np.round(100 * accuracies, 2)
    best = int(np.argmax(rounded))
    return best, float(rounded[best])


def _folds(labels: Numbers) -> list[tuple[Numbers, Numbers]]:
    """Return SentEval's ten folds of rows in its order: (rows to train on, rows held out)."""
    import warnings

    from sklearn.model_selection import StratifiedKFold

    with warnings.catch_warnings():
        # Inside a fold the rarest class may have FOLDS - 1 rows: one fold then holds out none of it.
        warnings.filterwarnings("ignore", message="The least populated class")
        return list(StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(np.zeros(len(labels)), labels))


def _masks(parts: Sequence[Numbers], count: int) -> Flags:
    masks = np.zeros((len(parts), count), dtype=bool)
    for mask, rows in zip(masks, parts, strict=True):
        mask[rows] = True
    return masks
