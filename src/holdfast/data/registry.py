"""Loading of labelled tasks by name: scored pairs and labelled sentences, from local files or the hub.

Files are searched in ``data``, else in the folder in ``HOLDFAST_DATA``; that folder has
``<dataset>/<split>.tsv[.gz|.zst]``, or is SentEval's own. Without a folder, and for a task of which the folder has
nothing, the hub's copy is downloaded. The user can give a file or folder of their own in place of a task's name
(:mod:`holdfast.data.own_tasks`).
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from holdfast.data import own_tasks, senteval
from holdfast.data.class_names import listed
from holdfast.data.folder import VARIABLE, data_folder
from holdfast.data.hub_rows import rows_from_hub
from holdfast.data.senteval import Row
from holdfast.data.tables import read_columns
from holdfast.data.tasks import NLI, Split, Task, hub_sources, task_named
from holdfast.errors import UserError, did_you_mean

_SUFFIXES = (".tsv.gz", ".tsv", ".tsv.zst")
TEXTS = ("raw", "senteval")
"""The forms of a task's text: as published, or as SentEval tokenises it."""
# Labels of rows without a gold label; in the inference sets "-" means that the annotators did not agree.
HIDDEN = "-1"
"""The label of GLUE's test sets, which are published without their labels."""
_NO_LABEL = ("-", HIDDEN)
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_WHOLE = re.compile(r"-?[0-9]+\.0+")
_SIGNED = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True)
class ScoredPairs:
    """Pairs of sentences with a graded similarity; the five lists are equally long.

    Attributes:
        task: the task's id.
        split: the split's name.
        sentences1: the first sentences.
        sentences2: the second sentences.
        scores: the similarity, higher is closer, on the task's own scale (0-5, SICK 1-5).
        subsets: the subset of the task of each row, ``""`` if it has none.
        source: the files, joined by commas, or the hub data set.
        sha256: hash of the rows ``sentence1 TAB sentence2 TAB score``, joined by ``\\n``, whatever the file format.
    """

    task: str
    split: str
    sentences1: list[str]
    sentences2: list[str]
    scores: list[float]
    subsets: list[str]
    source: str
    sha256: str


@dataclass(frozen=True)
class Labelled:
    """Sentences, or pairs of sentences, with a class.

    Attributes:
        task: the task's id.
        split: the split's name.
        sentences1: the (first) sentences.
        sentences2: the second sentences, or ``None`` for a task on single sentences.
        labels: the class number of each row, below ``len(classes)``.
        classes: the labels' names, the same for every split of a task whose classes are known.
        source: the files read, joined by commas, or the hub data set.
        sha256: hash of the rows ``text(s) TAB class``, joined by ``\\n``.
    """

    task: str
    split: str
    sentences1: list[str]
    sentences2: list[str] | None
    labels: list[int]
    classes: list[str]
    source: str
    sha256: str


@dataclass(frozen=True)
class Graded:
    """Texts, or pairs of texts, with a number to predict; the lists are equally long.

    Attributes:
        task: the task's id.
        split: the split's name.
        texts: tuples of one or two texts.
        scores: the numbers, on the task's own scale.
        source: the files read, joined by commas, or the hub data set.
        sha256: hash of the rows ``text(s) TAB score``, joined by ``\\n``.
    """

    task: str
    split: str
    texts: list[tuple[str, ...]]
    scores: list[float]
    source: str
    sha256: str


def load_pairs(
    task: str,
    split: str,
    *,
    data: Path | None = None,
    text: str = "raw",
    scale: tuple[float, float] | None = None,
) -> ScoredPairs:
    """Load the scored pairs of a similarity task.

    Args:
        task: ``sts12`` ... ``sts16``, ``stsb``, ``sickr`` or ``sickr-full``.
        split: ``test``, ``dev``, ``train``, ...; ``sickr-full`` has ``all``.
        data: the data folder; by default the folder in ``HOLDFAST_DATA``, or the hub if that is not set.
        text: ``raw``, or ``senteval`` for the text as SentEval tokenises and lower-cases it. (Text from a SentEval
            folder is never changed.)
        scale: the lowest and the highest allowed score of a user's own task; None: any number.

    Raises:
        UserError: a name is unknown, a file does not exist, a row or score is malformed or a score is off the task's
            scale (with ``file:line``), or the hub cannot be reached or has a different number of rows than the task.
    """
    graded, subsets = _graded(task, split, data, text, ("sts",), scale)
    first, second = ([texts[place] for texts in graded.texts] for place in (0, 1))
    return ScoredPairs(task, split, first, second, graded.scores, subsets, graded.source, graded.sha256)


def load_graded(task: str, split: str, *, data: Path | None = None) -> Graded:
    """Load the scored pairs of a similarity task, or a user's own scored texts, for regression, as in `load_pairs`."""
    return _graded(task, split, data, "raw", ("sts", "regression"))[0]


def _graded(
    task: str,
    split: str,
    data: Path | None,
    text: str,
    kinds: tuple[str, ...],
    scale: tuple[float, float] | None = None,
) -> tuple[Graded, list[str]]:
    """Load the scored rows, and the subset of each."""
    known, part = _lookup(task, split, text, kinds)
    scale = known.scale or scale
    rows, source = _rows(known, part, data, text)
    texts, scores, subsets = [], [], []
    for where, fields, value, subset in rows:
        texts.append(tuple(fields))
        scores.append(_score(value, where, scale))
        subsets.append(subset)
    if source.startswith("hf:") and part.rows not in (None, len(scores)):
        raise UserError(f"{source} has {len(scores):,} rows, but {task} {split} has {part.rows:,}: give --data instead")
    if not scores:
        raise UserError(f"{source} holds no rows: get the file again")
    if scale is not None and min(scores) < max(scores) <= 1.0 < scale[1]:
        raise UserError(
            f"{source}: all {len(scores):,} scores lie between 0 and 1, and the scale of {task} ends at {scale[1]:g}: "
            f"multiply them by {scale[1]:g}"
        )
    lines = ("\t".join([*fields, repr(score)]) for fields, score in zip(texts, scores, strict=True))
    return Graded(task, split, texts, scores, source, _digest(lines)), subsets


def load_labelled(
    task: str,
    split: str,
    *,
    data: Path | None = None,
    text: str = "raw",
    classes: Sequence[str] | None = None,
) -> Labelled:
    """Load the labelled sentences or pairs of a classification task, without rows on which annotators did not agree.

    Args:
        task: any task of `holdfast data list` that has classes, or a user's own file or folder.
        split: its split; ``all`` if there is only one.
        data: the data folder, as for `load_pairs`.
        text: ``raw`` or ``senteval``, as for `load_pairs`.
        classes: the classes of the training split of a user's own task; None: the classes that occur in this split.

    Raises:
        UserError: as for `load_pairs`, or a label is not one of the task's, or all labels are hidden.
    """
    known, part = _lookup(task, split, text, ("transfer", "classification", "pairs", "nli", "attack"))
    if part.parts:
        return _joined(task, split, [load_labelled(*other, data=data, text=text) for other in part.parts])
    rows, source = _rows(known, part, data, text)
    kept = [row for row in _relabelled(rows, part) if not (known.classes == NLI and row[2] in _NO_LABEL)]
    if not kept:
        raise UserError(f"{source} holds no rows with a label: get the file again")
    if known.is_own and all(row[2] == HIDDEN for row in kept):
        hidden = f"every label of {source} is -1, which is how GLUE hides those of its test sets"
        raise UserError(f"{kept[0][0]}: {hidden}: get the labels, or leave this split out")
    names = list(known.classes or classes or _classes_in(row[2] for row in kept))
    labels = [_class(value, names, where, known.is_own) for where, _, value, _ in kept]
    second = [texts[1] for _, texts, _, _ in kept] if len(known.columns) == 2 else None
    lines = ("\t".join([*row[1], names[label]]) for row, label in zip(kept, labels, strict=True))
    return Labelled(task, split, [row[1][0] for row in kept], second, labels, names, source, _digest(lines))


def hidden_labels_note(classes: Sequence[str], labels: Sequence[float], source: str) -> str | None:
    """Return a line about a class -1 beside 0, 1, …, which may mean a missing label; None if there is no such class."""
    if HIDDEN not in classes or "0" not in classes:
        return None
    count = list(labels).count(classes.index(HIDDEN))
    return f"{source}: {count:,} rows are of the class {HIDDEN}; if this stands for no label, remove these rows"


def is_local(task: str, split: str, data: Path | None = None) -> bool:
    """Return True if `load_pairs` or `load_labelled` finds the split on this machine; this uses no network."""
    part = task_named(task).split(split)
    if part.own is not None:
        return True
    try:
        folder = data_folder(data)
    except UserError:
        return False
    return folder is not None and locate(part, folder) is not None


def folder_of(task: Task, data: Path | None) -> Path | None:
    """Return the data folder of a task; None if the task comes from the hub.

    It comes from the hub if there is no folder, or if the folder has nothing of the task and the hub has it.

    Raises:
        UserError: the named folder does not exist.
    """
    folder = data_folder(data)
    if folder is None or not any(hub_sources(split) for split in task.splits):
        return folder
    return folder if any(locate(split, folder) for split in task.splits) else None


def locate(split: Split, folder: Path, text: str = "raw") -> list[Path] | None:
    """Return the files of a split under ``folder``, in either layout, or ``None`` if one of them does not exist."""
    if split.parts:
        found = [locate(task_named(task).split(name), folder, text) for task, name in split.parts]
        return None if None in found else [path for paths in found for path in paths or ()]
    tables = _tables(split, folder, text)
    if tables is not None:
        return tables
    root = senteval.find_root(folder)
    if root is None or not all(senteval.has(root, name) for name in split.files):
        return None
    return [path for name in split.files for path in senteval.files_of(root, name)]


def _lookup(task: str, split: str, text: str, kinds: tuple[str, ...]) -> tuple[Task, Split]:
    if text not in TEXTS:
        raise UserError(f"unknown text {text!r}{did_you_mean(text, TEXTS)}: it is raw or senteval")
    known = task_named(task)
    if known.kind not in kinds:
        raise UserError(f"{task} is a {known.kind} task and cannot be loaded as {' or '.join(kinds)}")
    return known, known.split(split)


def _rows(task: Task, split: Split, data: Path | None, text: str) -> tuple[Iterable[Row], str]:
    if split.own is not None:
        return own_tasks.read(split.own, task.columns, task.label or ""), str(split.own)
    folder = folder_of(task, data)
    if folder is None:
        with beside_folder(task, split, data, text):
            return rows_from_hub(task, split, text)
    tables = _tables(split, folder, text)
    if tables is not None:
        return _from_tables(task, split, tables), ",".join(map(str, tables))
    root = senteval.find_root(folder)
    if root is not None and all(senteval.has(root, name) for name in split.files):
        files = [path for name in split.files for path in senteval.files_of(root, name)]
        return (row for name in split.files for row in senteval.read(root, name)), ",".join(map(str, files))
    raise missing_split(task, split, folder, text, root)


def _tables(split: Split, folder: Path, text: str) -> list[Path] | None:
    ending = "_senteval" if text == "senteval" else ""
    found = []
    for name in split.files:
        candidates = [folder / f"{name}{ending}{suffix}" for suffix in _SUFFIXES]
        path = next((path for path in candidates if path.is_file()), None)
        if path is None:
            return None
        found.append(path)
    return found


def _from_tables(task: Task, split: Split, paths: list[Path]) -> Iterator[Row]:
    width = len(task.columns)
    for path in paths:
        for number, fields in read_columns(path, [*task.columns, split.label or task.label or "", "subset?"]):
            yield f"{path}:{number}", fields[:width], fields[width], fields[width + 1]


def _relabelled(rows: Iterable[Row], split: Split) -> Iterator[Row]:
    """Yield the rows with the task's classes, without those that the task leaves out."""
    classes = dict(split.relabel)
    for where, texts, value, subset in rows:
        if not classes:
            yield where, texts, value, subset
        elif value not in classes:
            known = ", ".join(classes)
            raise UserError(f"{where}: the label {value[:40]!r} is not one of {known}: correct or remove the row")
        elif (label := classes[value]) is not None:
            yield where, texts, label, subset


def _joined(task: str, split: str, parts: Sequence[Labelled]) -> Labelled:
    """Join several sets with the same classes."""
    first = [text for part in parts for text in part.sentences1]
    second = [text for part in parts for text in part.sentences2 or ()]
    labels = [label for part in parts for label in part.labels]
    classes = parts[0].classes
    lines = (f"{a}\t{b}\t{classes[label]}" for a, b, label in zip(first, second, labels, strict=True))
    return Labelled(task, split, first, second, labels, classes, ",".join(p.source for p in parts), _digest(lines))


@contextlib.contextmanager
def beside_folder(task: Task, split: Split, data: Path | None, text: str) -> Iterator[None]:
    """Add to an error of the hub that the data folder, where there is one, does not have the split."""
    folder = data_folder(data)
    try:
        yield
    except UserError as error:
        if folder is None:
            raise
        missing = missing_split(task, split, folder, text, senteval.find_root(folder))
        raise UserError(f"{missing}; and {error}") from error


def missing_split(task: Task, split: Split, folder: Path, text: str, root: Path | None) -> UserError:
    """Return the error for a split that is not in the data folder; ``root``: the folder of SentEval in it."""
    ending = "_senteval" if text == "senteval" else ""
    names = [f"{name}{ending}.tsv.gz" for name in split.files]
    missing = next((name for name in names if not (folder / name).is_file()), names[0])
    senteval_note = f", nor are SentEval's files in {root}" if root is not None else ""
    return UserError(
        f"{task.name} {split.name}: {folder / missing} does not exist{senteval_note}: "
        f"give the folder of <dataset>/<split>.tsv.gz with --data or {VARIABLE}"
    )


def _score(value: str, where: str, scale: tuple[float, float] | None) -> float:
    try:
        score = float(value)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise UserError(f"{where}: the score {value[:40]!r} is not a number: correct or remove the row")
    if scale is not None and not scale[0] <= score <= scale[1]:
        limits = f"{scale[0]:g} to {scale[1]:g}"
        raise UserError(f"{where}: the score {value[:40]} is off the scale of {limits}: correct or remove the row")
    return score


def _class_order(name: str) -> tuple[bool, Decimal, str]:
    """Return a sort key: numbers in numerical order, then names in alphabetical order."""
    number = _SIGNED.fullmatch(name) is not None
    return not number, Decimal(name if number else 0), name  # int() refuses more than 4,300 digits


def _classes_in(values: Iterable[str]) -> list[str]:
    """Return the distinct classes in their order; 1 and 1.0 are one class."""
    classes: dict[str, str] = {}
    for name in sorted(set(values), key=_class_order):
        classes.setdefault(name.rstrip("0").removesuffix(".") if _WHOLE.fullmatch(name) else name, name)
    return list(classes.values())


def _class(value: str, classes: list[str], where: str, is_own: bool) -> int:
    """Return the number of a label's class."""
    if value in classes:
        return classes.index(value)
    number, names = _number(value), [_number(name) for name in classes]
    if number is not None and number in names:
        return names.index(number)
    # The hub and some releases number the classes in this order; not used if the classes are themselves numbers.
    if not is_own and value.isdigit() and number in range(len(classes)) and set(names) == {None}:
        return int(value)
    known = listed(classes) + (", the classes of the training split" if is_own else "")
    hidden = " (GLUE's test sets have it in place of their labels)" if value == HIDDEN else ""
    raise UserError(f"{where}: the label {value[:40]!r} is not one of {known}{hidden}: correct or remove the row")


def _number(name: str) -> float | None:
    """Return a class's name as a number (1 and 1.0 are the same), or None."""
    return float(name) if _NUMBER.fullmatch(name) else None


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
