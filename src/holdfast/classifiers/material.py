"""What a classifier is trained, selected and tested on, and what is kept out of it.

Texts of the task's test split and of its published attack sets are in neither the training nor the selection part; the
test split never selects anything.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.attacks.classifier import Text
from holdfast.data.folder import VARIABLE, data_folder
from holdfast.data.registry import Labelled, is_local, load_labelled
from holdfast.data.tasks import Task, task_named
from holdfast.errors import UserError

ATTACK_SETS = {
    "mr": ("textfooler/mr",),
    "ag_news": ("textfooler/ag",),
    "imdb": ("textfooler/imdb",),
    "yelp": ("textfooler/yelp",),
    "snli": ("textfooler/snli",),
    "mnli": ("textfooler/mnli_matched", "textfooler/mnli_mismatched", "textfooler/mnli"),
}
"""The texts that attacks on a task are published on: TextFooler's samples (Jin et al. 2020)."""

HELD_OUT = 0.1
"""The share of the training part that selects where a task has no dev split."""

_MOSTLY = 0.8
_DEV_SPLITS = ("dev", "dev_matched", "dev_10k")
# How `cat -v` shows a byte above 127; SentEval's preparation of MR and SUBJ has left these in the text.
_CAT_V = re.compile(r"M-\^?.")
# How the Penn Treebank writes brackets: MNLI's attack set has them so, MNLI itself has "(".
_BRACKETS = re.compile(r"-[LR][RSC]B-", re.IGNORECASE)


@dataclass(frozen=True)
class Part:
    """Labelled texts for one purpose.

    Attributes:
        split: the split's name; "held-out" for a part of the training split.
        texts: n texts, or pairs of texts.
        labels: n class numbers.
        source: the file or hub data set.
        data_sha256: of the whole split, as :class:`holdfast.data.registry.Labelled` has it.
    """

    split: str
    texts: list[Text]
    labels: list[int]
    source: str
    data_sha256: str

    def __len__(self) -> int:
        return len(self.texts)

    def rows(self, numbers: Iterable[int], split: str | None = None) -> Part:
        """Some of its rows."""
        chosen = list(numbers)
        texts, labels = [self.texts[i] for i in chosen], [self.labels[i] for i in chosen]
        return Part(split or self.split, texts, labels, self.source, self.data_sha256)


@dataclass(frozen=True)
class Exclusion:
    """Rows left out because their texts occur in another set.

    Attributes:
        because: the other set: task and split.
        texts: how many it has; None where it is not at hand, and nothing could be left out.
        from_train: rows left out of the training part.
        from_dev: rows left out of the selection part.
    """

    because: str
    texts: int | None
    from_train: int = 0
    from_dev: int = 0


@dataclass(frozen=True)
class Material:
    """A task made ready.

    Attributes:
        task: its name.
        classes: the classes' names.
        takes_pairs: whether its texts are pairs.
        train: what is trained on.
        dev: what selects.
        test: what is told at the end; None where the task has no test split at hand.
        excluded: what was left out, and why.
    """

    task: str
    classes: list[str]
    takes_pairs: bool
    train: Part
    dev: Part
    test: Part | None
    excluded: tuple[Exclusion, ...]


def load_material(
    task: str, *, train_split: str | None, examples: int | None, seed: int, data: Path | None
) -> Material:
    """A task's training, selection and test parts.

    Args:
        task: a labelled task.
        train_split: the split to train on; None: ``train``, or ``all`` where that is the only one.
        examples: train on at most so many texts, drawn by the seed; None: on all.
        seed: decides which texts are held out and which are drawn.
        data: the data folder, as for :func:`holdfast.data.registry.load_labelled`.

    Raises:
        UserError: no such task or split, a training split that has to be named, a malformed file, nothing left.
    """
    known = task_named(task)
    name = _train_split(known, train_split, data)
    train, classes = _load(known, name, data)
    dev_name = next((dev for dev in _DEV_SPLITS if dev != name and _at_hand(known, dev, data)), None)
    dev = None if dev_name is None else _load(known, dev_name, data, classes)[0]
    tests = [
        split.name for split in known.splits if split.name.startswith("test") and _at_hand(known, split.name, data)
    ]
    test = _load(known, tests[0], data, classes)[0] if tests else None
    barred, absent = _barred(known, tests, data)
    train, from_train = _without(train, barred)
    if dev is None:
        dev, train = hold_out(train, seed)
        from_dev = dict.fromkeys(from_train, 0)
    else:
        dev, from_dev = _without(dev, barred)
    selecting = f"{task} {dev.split}"
    train, in_dev = _without(train, {selecting: dev.texts})
    excluded = [Exclusion(name, len(texts), from_train[name], from_dev[name]) for name, texts in barred.items()]
    excluded.append(Exclusion(selecting, len(dev), in_dev[selecting]))
    if examples is not None and examples < len(train):
        train = train.rows(sorted(random.Random(seed).sample(range(len(train)), examples)))
    _refuse_too_little(known, train, dev, classes)
    missing = tuple(Exclusion(name, None) for name in absent)
    return Material(task, classes, len(known.columns) == 2, train, dev, test, (*excluded, *missing))


def hold_out(part: Part, seed: int, share: float = HELD_OUT) -> tuple[Part, Part]:
    """A share of each class's rows, drawn by the seed, and the rest; at least one row of a class that has two."""
    draw = random.Random(seed)
    held: set[int] = set()
    for label in sorted(set(part.labels)):
        rows = [row for row, of in enumerate(part.labels) if of == label]
        held.update(draw.sample(rows, max(round(share * len(rows)), int(len(rows) > 1))))
    return part.rows(sorted(held), "held-out"), part.rows(row for row in range(len(part)) if row not in held)


def keys(text: Text) -> set[str]:
    """What two copies of a text have in common, however each was tokenised.

    Letters and digits in lower case; and the ASCII ones of them alone, since some copies have lost all others and
    some show them as ``M-i``. Of a pair the order does not matter.
    """
    whole, plain = _joined(text, ascii_only=False), _joined(text, ascii_only=True)
    # What is left of a text in another script may be left of many.
    return {whole, plain} if len(plain) >= _MOSTLY * len(whole) else {whole}


def _joined(text: Text, *, ascii_only: bool) -> str:
    parts = [_BRACKETS.sub(" ", _CAT_V.sub("", part) if ascii_only else part) for part in text]
    wanted = ["".join(c for c in part.lower() if c.isalnum() and (c.isascii() or not ascii_only)) for part in parts]
    return "\t".join(sorted(wanted))


def _barred(task: Task, tests: Sequence[str], data: Path | None) -> tuple[dict[str, list[Text]], list[str]]:
    """The texts of the test splits and of the attack sets, by their names, and the attack sets that are not at hand."""
    barred = {f"{task.name} {split}": _load(task, split, data)[0].texts for split in tests}
    absent = []
    for name in ATTACK_SETS.get(task.name, ()):
        if _at_hand(task_named(name), "all", data):
            barred[name] = _load(task_named(name), "all", data)[0].texts
        else:
            absent.append(name)
    return barred, absent


def _without(part: Part, barred: Mapping[str, Sequence[Text]]) -> tuple[Part, dict[str, int]]:
    """The rows whose text is in none of the sets, and how many each set took out; a row counts for the first."""
    taken = dict.fromkeys(barred, 0)
    theirs = {name: {key for text in texts for key in keys(text)} for name, texts in barred.items()}
    kept = []
    for row, text in enumerate(part.texts):
        own = keys(text)
        because = next((name for name, others in theirs.items() if not own.isdisjoint(others)), None)
        if because is None:
            kept.append(row)
        else:
            taken[because] += 1
    return part.rows(kept), taken


def _train_split(task: Task, given: str | None, data: Path | None) -> str:
    if given is not None:
        if task.split(given).name.startswith("test"):
            raise UserError(f"--train-split {given}: a test split is never trained on")
        return given
    names = [split.name for split in task.splits if not split.name.startswith("test")]
    if "train" not in names and names[0] == "all":
        return "all"
    if _at_hand(task, "train", data):
        return "train"
    others = [name for name in names if name != "train" and _at_hand(task, name, data)]
    where = data_folder(data)
    if not others:
        return names[0]  # whatever is missing is told by the reader
    raise UserError(
        f"{task.name} has no train split in {where or 'the hub'}: name the split to train on, "
        f"{' or '.join(f'--train-split {name}' for name in others)}"
    )


def _at_hand(task: Task, split: str, data: Path | None) -> bool:
    """Whether a split can be had: from the data folder where there is one, else from the hub."""
    part = next((part for part in task.splits if part.name == split), None)
    if part is None:
        return False
    return part.hub is not None if data_folder(data) is None else is_local(task.name, split, data)


def _load(task: Task, split: str, data: Path | None, classes: list[str] | None = None) -> tuple[Part, list[str]]:
    """A split, with its labels numbered as in ``classes`` where they are given."""
    labelled = load_labelled(task.name, split, data=data)
    part = Part(split, _texts(labelled), labelled.labels, labelled.source, labelled.sha256)
    if classes is None or classes == labelled.classes:
        return part, labelled.classes
    unknown = [name for name in labelled.classes if name not in classes]
    if unknown:
        raise UserError(f"{labelled.source} has the class {unknown[0]!r}, which no training text has: mend the data")
    labels = [classes.index(labelled.classes[label]) for label in part.labels]
    return Part(split, part.texts, labels, part.source, part.data_sha256), classes


def _texts(labelled: Labelled) -> list[Text]:
    if labelled.sentences2 is None:
        return [(text,) for text in labelled.sentences1]
    return list(zip(labelled.sentences1, labelled.sentences2, strict=True))


def _refuse_too_little(task: Task, train: Part, dev: Part, classes: Sequence[str]) -> None:
    seen = set(train.labels)
    missing = [name for label, name in enumerate(classes) if label not in seen]
    if len(seen) < 2 or missing:
        what = f"no text of the class {missing[0]!r}" if missing else "one class only"
        raise UserError(f"{task.name} {train.split}: of {len(train)} training texts there is {what}: take more of them")
    if not len(dev):
        raise UserError(f"{task.name} {train.split}: no text is left to select by (give {VARIABLE} a fuller folder)")
