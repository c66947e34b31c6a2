"""The data for a classifier's training, selection and tests, and the texts that are excluded from it.

Texts of the task's test splits and of its published attack sets are in neither the training nor the selection part; a
test split is never used for selection. If no test split is available, a part is held out for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.attacks.classifier import Text
from holdfast.classifiers.adversarial_texts import AdversarialTexts, read_adversarial_texts
from holdfast.classifiers.labelled_texts import HELD_OUT_TEST, Part, hold_out, sample, without
from holdfast.classifiers.splits import dev_split, is_available, measured_splits, short_name, train_split_of
from holdfast.data import own_tasks
from holdfast.data.class_names import listed
from holdfast.data.registry import Labelled, hidden_labels_note, load_graded, load_labelled
from holdfast.data.tasks import Task, sources, task_named
from holdfast.errors import UserError

_OF_MNLI = ("textfooler/mnli_matched", "textfooler/mnli_mismatched", "textfooler/mnli")
ATTACK_SETS = {
    "mr": ("textfooler/mr",),
    "ag_news": ("textfooler/ag",),
    "imdb": ("textfooler/imdb",),
    "yelp": ("textfooler/yelp",),
    "yelp_polarity": ("textfooler/yelp",),
    "snli": ("textfooler/snli",),
    "mnli": _OF_MNLI,
    "anli_mix": ("textfooler/snli", *_OF_MNLI),
}
"""The texts of published attacks on a task: TextFooler's samples (Jin et al. 2020)."""

SCORE = "score"
"""The name of the single output of a regression, in place of class names."""


@dataclass(frozen=True)
class Exclusion:
    """Rows left out because their texts occur in another set.

    Attributes:
        because: the other set: task and split; with "premises included" if training rows are left out too that share
            only the first text of a pair.
        texts: number of texts in the other set; None if it is not available, so that nothing could be left out.
        from_train: number of rows left out of the training part.
        from_dev: number of rows left out of the selection part.
    """

    because: str
    texts: int | None
    from_train: int = 0
    from_dev: int = 0


@dataclass(frozen=True)
class TrainingData:
    """The prepared data of a task.

    Attributes:
        task: the task's name.
        classes: the classes' names; for a regression the one name ``score``.
        takes_pairs: True if the texts are pairs.
        train: the training part.
        dev: the selection part.
        tests: the parts that are only measured at the end.
        excluded: the rows that were left out, and the reasons.
        notes: lines about irregularities of the data.
        regression: True if a score is predicted, not a class.
        sampled_from: for each split of a sampled test part, the number of texts that the sample was drawn from.
        adversarial: the adversarial texts, from earlier attacks, in the training part.
    """

    task: str
    classes: list[str]
    takes_pairs: bool
    train: Part
    dev: Part
    tests: tuple[Part, ...]
    excluded: tuple[Exclusion, ...]
    notes: tuple[str, ...] = ()
    regression: bool = False
    sampled_from: Mapping[str, int] = field(default_factory=dict)
    adversarial: tuple[AdversarialTexts, ...] = ()


def load_training_data(
    task: str,
    *,
    train_split: str | None,
    examples: int | None,
    seed: int,
    data: Path | None,
    adversarial_texts: Sequence[Path] = (),
) -> TrainingData:
    """Load a task's training, selection and test parts.

    Args:
        task: a labelled task.
        train_split: the split to train on; None: ``train``, or ``all`` if that is the only one.
        examples: maximum number of training texts, drawn with the seed; None: all.
        seed: the seed of the draws of held-out texts and of training texts.
        data: the data folder, as for :func:`holdfast.data.registry.load_labelled`.
        adversarial_texts: results of attacks on the training split, whose adversarial texts are added to the training.

    Raises:
        UserError: there is no such task or split, the training split must be named, a file is malformed, no text is
            left, or adversarial texts are from other data.
    """
    known = task_named(task)
    name = train_split_of(known, train_split, data)
    train, classes = _load(known, name, data)
    dev_name = dev_split(known, name, data)
    dev = None if dev_name is None else _load(known, dev_name, data, classes)[0]
    measured = measured_splits(known, name, dev_name, data)
    tests = [_load(known, split, data, classes)[0] for split in measured]
    notes = _notes(known, classes, train, [*([dev] if dev is not None else []), *tests])
    # Published training and dev sets keep their premises; a training set made from another split must not share any.
    premises = known.grouped and not name.startswith(("train", "all"))
    also = ", premises included" if premises else ""
    other_sets, absent = _excluded_sets(known, measured, dev_name, data)
    other_sets = {f"{because}{also}": texts for because, texts in other_sets.items()}
    train, from_train = without(train, other_sets, premises)
    from_dev = dict.fromkeys(from_train, 0)
    excluded = []
    if dev is None and not tests and (name != "all" or known.is_own):
        test, train = hold_out(train, seed, grouped=known.grouped, split=HELD_OUT_TEST)
        train, in_test = without(train, {HELD_OUT_TEST: test.texts}, known.grouped)
        excluded.append(Exclusion(f"{short_name(known)} {HELD_OUT_TEST}", len(test), in_test[HELD_OUT_TEST]))
        tests = [test]
    if dev is None:
        dev, train = hold_out(train, seed, grouped=known.grouped)
    else:
        dev, from_dev = without(dev, other_sets)
    selecting = f"{short_name(known)} {dev.split}"
    train, in_dev = without(train, {selecting: dev.texts}, premises or (known.grouped and dev_name is None))
    excluded = [
        *(Exclusion(name, len(texts), from_train[name], from_dev[name]) for name, texts in other_sets.items()),
        *excluded,
        Exclusion(selecting, len(dev), in_dev[selecting]),
        *(Exclusion(name, None) for name in absent),
    ]
    pairs, regression = len(known.columns) == 2, _is_graded(known)
    if adversarial_texts and regression:
        raise UserError(f"adversarial texts keep their class, and {short_name(known)} has scores: leave them out")
    apart = {**other_sets, **{part.split: part.texts for part in (*tests, dev)}}
    added = tuple(
        _without_texts_of(read_adversarial_texts(path, train.texts, train.labels), apart) for path in adversarial_texts
    )
    if examples is not None:
        train = sample(train, examples, seed)
    _refuse_too_little(known, train, dev, classes)
    for more in added:
        train = replace(train, texts=[*train.texts, *more.texts], labels=[*train.labels, *more.labels])
    return TrainingData(
        short_name(known),
        classes,
        pairs,
        train,
        dev,
        tuple(tests),
        tuple(excluded),
        (*notes, *(more.describe() for more in added)),
        regression,
        adversarial=added,
    )


def _excluded_sets(
    task: Task, measured: Sequence[str], dev: str | None, data: Path | None
) -> tuple[dict[str, list[Text]], list[str]]:
    """Return the texts of the test splits and of attack sets, by name, and the names of missing attack sets."""
    selecting = sources(task.split(dev)) if dev is not None else frozenset()
    tests = [split for split in measured if selecting.isdisjoint(sources(task.split(split)))]
    other_sets = {f"{short_name(task)} {split}": _load(task, split, data)[0].texts for split in tests}
    absent = []
    for name in ATTACK_SETS.get(task.name, ()):
        if is_available(task_named(name), "all", data):
            other_sets[name] = _load(task_named(name), "all", data)[0].texts
        else:
            absent.append(name)
    return other_sets, absent


def _without_texts_of(more: AdversarialTexts, others: Mapping[str, Sequence[Text]]) -> AdversarialTexts:
    """Return the adversarial texts that are in none of the sets."""
    kept, taken = without(Part("adversarial", more.texts, more.labels, str(more.path), more.sha256), others)
    return replace(more, texts=kept.texts, labels=list(kept.labels), measured_on=sum(taken.values()))


def _notes(task: Task, classes: Sequence[str], train: Part, others: Sequence[Part]) -> tuple[str, ...]:
    """Return lines about repeated texts and ids, hidden labels, and classes that are missing in a split."""
    labels: dict[Text, set[float]] = {}
    for text, label in zip(train.texts, train.labels, strict=True):
        labels.setdefault(text, set()).add(label)
    several = sum(len(found) > 1 for found in labels.values())
    notes = [f"texts of {short_name(task)} {train.split} that have different labels: {several:,}"] if several else []
    for split in task.splits:
        if split.own is not None and (repeated := own_tasks.repeated_ids(split.own)):
            notes.append(f"rows of {split.own} that have the id of an earlier row: {repeated:,}")
    if _is_graded(task):
        return tuple(notes)
    hidden = hidden_labels_note(classes, train.labels, train.source)
    for part in others:
        occurring = set(part.labels)
        if lacking := [name for number, name in enumerate(classes) if number not in occurring]:
            notes.append(f"{short_name(task)} {part.split} has no text of the class {listed(lacking)}")
    return (*notes, *([hidden] if hidden is not None else []))


def _is_graded(task: Task) -> bool:
    """Return True for a task of scores, which has no classes."""
    return task.kind in ("sts", "regression")


def _load(task: Task, split: str, data: Path | None, classes: list[str] | None = None) -> tuple[Part, list[str]]:
    """Load a split, with its labels numbered as in ``classes`` if they are given, and return it with its classes."""
    if _is_graded(task):
        graded = load_graded(task.name, split, data=data)
        return Part(split, graded.texts, graded.scores, graded.source, graded.sha256), [SCORE]
    labelled = load_labelled(task.name, split, data=data, classes=classes)
    part = Part(split, _texts(labelled), labelled.labels, labelled.source, labelled.sha256)
    return part, labelled.classes


def _texts(labelled: Labelled) -> list[Text]:
    if labelled.sentences2 is None:
        return [(text,) for text in labelled.sentences1]
    return list(zip(labelled.sentences1, labelled.sentences2, strict=True))


def _refuse_too_little(task: Task, train: Part, dev: Part, classes: Sequence[str]) -> None:
    where = f"{task.name} {train.split}"
    if not len(dev):
        grouped = ", and pairs with the same first text stay together" if task.grouped else ""
        raise UserError(f"{where}: no text is left for selection{grouped}: give more texts, or a dev split")
    seen = set(train.labels)
    if _is_graded(task):
        if len(seen) < 2:
            raise UserError(f"{where}: the {len(train)} training texts all have the same score: give more texts")
        return
    missing = [name for label, name in enumerate(classes) if label not in seen]
    if missing:
        what = f"no text of the class {missing[0]!r}"
        raise UserError(f"{where}: {what} among {len(train)} training texts: give more texts")
    if len(classes) < 2:
        raise UserError(f"{where}: the only class is {classes[0]!r}: a task has at least two")
