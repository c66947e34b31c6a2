"""The registered tasks and resources: location, content and licence of each split.

They are listed in ``tasks.tsv`` and ``splits.tsv`` beside this module; the columns are the attributes of `Task` and
`Split`, and lists are joined by commas. Locally a split is ``<file>.tsv[.gz|.zst]`` under the data folder. Row counts
are the published ones; for similarity tasks a hub data set with another count is refused, because its scores would not
be comparable.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.data import own_tasks
from holdfast.data.hub import HubSource
from holdfast.errors import UserError, did_you_mean

NLI = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True)
class Split:
    """One split of a task.

    Args:
        name: ``test``, ``dev``, ``train``, ``all``, ...
        files: paths under the data folder without ``.tsv.gz``; several are read in this order.
        rows: number of rows.
        hub: the same split on the hub, or ``None`` if the hub has no faithful copy that loads without a script.
        hub_columns: the hub's names of the text columns and the label, if they differ from the task's.
        senteval: True if there is a second file, ``<file>_senteval``, with the text as SentEval tokenises it.
        parts: in place of files, the ``(task, split)`` pairs that are joined to this split.
        label: the label column in the files, if it is not the task's.
        relabel: ``(value in the files, class)`` if the two differ; rows whose class is ``None`` are left out.
        own: a user's own file, in place of all of these.
    """

    name: str
    files: tuple[str, ...]
    rows: int | None = None
    hub: HubSource | None = None
    hub_columns: tuple[str, ...] | None = None
    senteval: bool = False
    parts: tuple[tuple[str, str], ...] = ()
    label: str | None = None
    relabel: tuple[tuple[str, str | None], ...] = ()
    own: Path | None = None


@dataclass(frozen=True)
class Task:
    """A labelled task, or a resource that is only listed (``label`` is then ``None``).

    Args:
        name: the id.
        kind: ``sts`` (scored pairs), ``regression`` (scored texts), ``transfer``, ``classification``, ``pairs``,
            ``nli``, ``attack``, ``paraphrase`` or ``lexicon``.
        columns: the text columns, one or two.
        label: the column of the score or label.
        classes: the labels in the order of their numbers; ``None`` means those that occur, sorted.
        splits: the splits.
        licence: the licence or terms, as given by the source.
        measured: the splits on which a classifier is measured; ``()`` means those whose names begin with ``test``.
        grouped: True if pairs share first texts (a premise with several hypotheses), so that a held-out part must take
            all pairs of a first text.
        meanings: the meanings of classes whose names are numbers, in the same order.
        scale: the lowest and the highest score; None: any number.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    label: str | None
    classes: tuple[str, ...] | None
    splits: tuple[Split, ...]
    licence: str
    measured: tuple[str, ...] = ()
    grouped: bool = False
    meanings: tuple[str, ...] = ()
    scale: tuple[float, float] | None = None

    @property
    def is_own(self) -> bool:
        """True if the task consists of a user's own files."""
        return any(split.own is not None for split in self.splits)

    def split(self, name: str) -> Split:
        """Return the split ``name``; raise a `UserError` that lists the splits if there is none."""
        for split in self.splits:
            if split.name == name:
                return split
        names = [split.name for split in self.splits]
        raise UserError(f"{self.name} has no split {name!r}{did_you_mean(name, names)}: it has {', '.join(names)}")


def task_named(name: str) -> Task:
    """Return the task ``name``, or the task of a user's own file or folder (see :mod:`holdfast.data.own_tasks`).

    Raises:
        UserError: there is no such task (the nearest name is suggested), or the file cannot be a task.
    """
    tasks = {task.name: task for task in TASKS}
    if name in tasks:
        return tasks[name]
    files = own_tasks.files_of(name)
    if files is None:
        raise UserError(
            f"unknown task {name!r}{did_you_mean(name, tasks)}: `holdfast data list` shows all of them; "
            "a FILE.tsv or FILE.jsonl of your own, or a folder with train, dev and test, is one too"
        )
    return _own_task(name, files)


def sources(split: Split) -> frozenset[str]:
    """Return the files of a split; two splits with a file in common share rows."""
    if split.own is not None:
        return frozenset({str(split.own)})
    parts = (sources(task_named(task).split(name)) for task, name in split.parts)
    return frozenset(split.files).union(*parts)


def hub_sources(split: Split) -> tuple[HubSource, ...]:
    """Return the sources of a split on the hub; ``()`` if it, or a part of it, has no faithful copy there."""
    if not split.parts:
        return () if split.hub is None else (split.hub,)
    parts = [hub_sources(task_named(task).split(name)) for task, name in split.parts]
    return tuple(source for part in parts for source in part) if all(parts) else ()


def _own_task(name: str, files: dict[str, Path]) -> Task:
    """Build a user's own task: the first file gives the columns; the other files are checked when they are read."""
    columns, label = own_tasks.columns_of(next(iter(files.values())))
    pairs = len(columns) == 2
    kinds = ("regression", "sts") if label == "score" else ("classification", "pairs")
    splits = tuple(Split(split, (), own=path) for split, path in files.items())
    return Task(name, kinds[pairs], columns, label, None, splits, "the user's own", grouped=pairs)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _hub(text: str) -> HubSource | None:
    """Convert ``owner/name[:config][@split]``, whose default split is ``train``, or ``owner/name/archive.tar``."""
    path, _, split = text.partition("@")
    name, _, config = path.partition(":")
    if name.endswith(".tar"):
        repository, _, archive = name.rpartition("/")
        return HubSource(repository, archive=archive)
    return HubSource(name, config or None, split or "train") if text else None


def _table(name: str) -> list[dict[str, str]]:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE, restval=""))


def _split(row: Mapping[str, str]) -> Split:
    """Convert a row of splits.tsv; the default file is ``<task>/<split>``."""
    parts = tuple((task, split) for task, _, split in (part.partition("/") for part in _words(row["parts"])))
    pairs = (pair.partition("=") for pair in _words(row["relabel"]))
    return Split(
        row["split"],
        () if parts else _words(row["files"]) or (f"{row['task']}/{row['split']}",),
        int(row["rows"]) if row["rows"] else None,
        _hub(row["hub"]),
        _words(row["hub_columns"]) or None,
        senteval=row["senteval"] == "yes",
        parts=parts,
        label=row["label"] or None,
        relabel=tuple((value, label or None) for value, _, label in pairs),
    )


def _task(row: Mapping[str, str], splits: Iterable[Split]) -> Task:
    """Convert a row of tasks.tsv."""
    low, _, high = row["scale"].partition(" to ")
    return Task(
        row["task"],
        row["kind"],
        _words(row["columns"]),
        row["label"] or None,
        _words(row["classes"]) or None,
        tuple(splits),
        row["licence"],
        measured=_words(row["measured"]),
        grouped=row["grouped"] == "yes",
        meanings=_words(row["meanings"]),
        scale=(float(low), float(high)) if high else None,
    )


def _registered() -> tuple[Task, ...]:
    """Return the tasks of tasks.tsv with their splits of splits.tsv."""
    splits: dict[str, list[Split]] = defaultdict(list)
    for row in _table("splits.tsv"):
        splits[row["task"]].append(_split(row))
    return tuple(_task(row, splits[row["task"]]) for row in _table("tasks.tsv"))


# Reasons for entries of the tables:
# - SICK-R (MTEB's copy has all pairs in one split), SUBJ and MPQA (no copy is known to be the same set with the same
#   classes) come from the archive of SentEval's folder that SimCSE's authors publish on the hub.
# - The samples of DBpedia have an order of numbers of their own; the class names are unambiguous.
# - Yelp polarity, ``reviews``: one and two stars are negative, four and five positive, three are left out (Zhang et
#   al. 2015).
# - The labels of MNLI's test sets are hidden: the mismatched dev set is used to measure, the matched one to select.
#   GLUE's other test sets, whose labels are hidden too, are not listed.
# - FEVER: on the hub the claims are the "premise" and the evidence is the "hypothesis". ANLI's authors (Nie et al.
#   2020), who made the data, use the evidence as the premise. The test set has no labels.
# - ``anli_mix`` is the mix on which ANLI's authors train; ``dev_mix`` is for a trial without the training sets.
# - The classes of WNLI have the reverse order of those of QNLI and RTE.
TASKS = _registered()
