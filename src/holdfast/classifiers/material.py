"""What a classifier is trained, selected and tested on, and what is kept out of it.

Texts of the task's test splits and of its published attack sets are in neither the training nor the selection part; a
test split never selects anything. Where there is no test split at hand, a part is held out to be one.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from holdfast.attacks.classifier import Text
from holdfast.classifiers.adversarial_texts import AdversarialTexts, read_adversarial_texts
from holdfast.data import own
from holdfast.data.folder import VARIABLE, data_folder
from holdfast.data.registry import Labelled, is_local, load_graded, load_labelled
from holdfast.data.tasks import Split, Task, hub_sources, sources, task_named
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
"""The texts that attacks on a task are published on: TextFooler's samples (Jin et al. 2020)."""

HELD_OUT = 0.1
"""The share of the training part that selects where a task has no dev split, and that tests where it has no other."""

HELD_OUT_TEST = "held-out-test"
"""What the part is called that tests where a task has no test split."""

SCORE = "score"
"""In place of the classes' names, what the one output of a regression is called."""

_MOSTLY = 0.8
_DEV_SPLITS = ("dev", "dev_matched", "dev_10k", "dev_all", "trial")
# Of the scores, which have no classes, every fifth of them is drawn from alike.
_STRATA = 5
# How `cat -v` shows a byte above 127; SentEval's preparation of MR and SUBJ has left these in the text.
_CAT_V = re.compile(r"M-\^?.")
# How the Penn Treebank writes brackets: MNLI's attack set has them so, MNLI itself has "(".
_BRACKETS = re.compile(r"-[LR][RSC]B-", re.IGNORECASE)
# \w is str.isalnum() and the underscore.
_NOT_ALNUM = re.compile(r"[\W_]+")
_NOT_ASCII_ALNUM = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Part:
    """Labelled texts for one purpose.

    Attributes:
        split: the split's name; "held-out" or "held-out-test" for a part of the training split.
        texts: n texts, or pairs of texts.
        labels: n class numbers, or for a regression n scores, all of them floats.
        source: the file or hub data set.
        data_sha256: of the whole split, as :class:`holdfast.data.registry.Labelled` has it.
    """

    split: str
    texts: list[Text]
    labels: Sequence[float]
    source: str
    data_sha256: str

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def graded(self) -> bool:
        """Whether its labels are scores."""
        return isinstance(self.labels[0], float) if len(self) else False

    @property
    def items_sha256(self) -> str:
        """Of its texts in their order: equal for parts of the same texts, whatever drew them or left others out."""
        return hashlib.sha256(json.dumps(self.texts).encode()).hexdigest()

    def rows(self, numbers: Iterable[int], split: str | None = None) -> Part:
        """Some of its rows."""
        chosen = list(numbers)
        texts, labels = [self.texts[i] for i in chosen], [self.labels[i] for i in chosen]
        return Part(split or self.split, texts, labels, self.source, self.data_sha256)


@dataclass(frozen=True)
class Exclusion:
    """Rows left out because their texts occur in another set.

    Attributes:
        because: the other set: task and split; "premises included" where rows to train on are left out too that share
            but the first text of a pair.
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
        classes: the classes' names; for a regression the one name ``score``.
        takes_pairs: whether its texts are pairs.
        train: what is trained on.
        dev: what selects.
        tests: what else is told at the end.
        excluded: what was left out, and why.
        notes: what is odd about the data, in a line each.
        regression: whether a score is predicted and not a class.
        sampled_from: for a test part that is a sample, by split, how many texts it was drawn from.
        adversarial: what of the training part is adversarial texts that were made before.
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


def load_material(
    task: str,
    *,
    train_split: str | None,
    examples: int | None,
    seed: int,
    data: Path | None,
    adversarial_texts: Sequence[Path] = (),
) -> Material:
    """A task's training, selection and test parts.

    Args:
        task: a labelled task.
        train_split: the split to train on; None: ``train``, or ``all`` where that is the only one.
        examples: train on at most so many texts, drawn by the seed; None: on all.
        seed: decides which texts are held out and which are drawn.
        data: the data folder, as for :func:`holdfast.data.registry.load_labelled`.
        adversarial_texts: results of attacks on the training split, whose texts are trained on besides.

    Raises:
        UserError: no such task or split, a training split that has to be named, a malformed file, nothing left,
            adversarial texts of other data.
    """
    known = task_named(task)
    name = train_split_of(known, train_split, data)
    train, classes = _load(known, name, data)
    notes = _notes(known, train)
    dev_name = _dev_split(known, name, data)
    dev = None if dev_name is None else _load(known, dev_name, data, classes)[0]
    measured = _measured(known, name, dev_name, data)
    tests = [_load(known, split, data, classes)[0] for split in measured]
    # Published training and dev sets are left as their authors made them; what we make one of must know no premise.
    premises = known.grouped and not name.startswith(("train", "all"))
    also = ", premises included" if premises else ""
    barred, absent = _barred(known, measured, dev_name, data)
    barred = {f"{because}{also}": texts for because, texts in barred.items()}
    train, from_train = _without(train, barred, premises)
    from_dev = dict.fromkeys(from_train, 0)
    excluded = []
    if dev is None and not tests and (name != "all" or known.is_own):
        test, train = hold_out(train, seed, grouped=known.grouped, split=HELD_OUT_TEST)
        train, in_test = _without(train, {HELD_OUT_TEST: test.texts}, known.grouped)
        excluded.append(Exclusion(f"{short_name(known)} {HELD_OUT_TEST}", len(test), in_test[HELD_OUT_TEST]))
        tests = [test]
    if dev is None:
        dev, train = hold_out(train, seed, grouped=known.grouped)
    else:
        dev, from_dev = _without(dev, barred)
    selecting = f"{short_name(known)} {dev.split}"
    train, in_dev = _without(train, {selecting: dev.texts}, premises or (known.grouped and dev_name is None))
    excluded = [
        *(Exclusion(name, len(texts), from_train[name], from_dev[name]) for name, texts in barred.items()),
        *excluded,
        Exclusion(selecting, len(dev), in_dev[selecting]),
        *(Exclusion(name, None) for name in absent),
    ]
    pairs, regression = len(known.columns) == 2, classes == [SCORE]
    if adversarial_texts and regression:
        raise UserError(f"adversarial texts keep their class, and {short_name(known)} has scores: leave them out")
    apart = {**barred, **{part.split: part.texts for part in (*tests, dev)}}
    added = tuple(
        _kept_apart(read_adversarial_texts(path, train.texts, train.labels), apart) for path in adversarial_texts
    )
    if examples is not None:
        train = sample(train, examples, seed)
    _refuse_too_little(known, train, dev, classes)
    for more in added:
        train = replace(train, texts=[*train.texts, *more.texts], labels=[*train.labels, *more.labels])
    return Material(
        short_name(known),
        classes,
        pairs,
        train,
        dev,
        tuple(tests),
        tuple(excluded),
        (*notes, *(more.told() for more in added)),
        regression,
        adversarial=added,
    )


def sample(part: Part, count: int, seed: int) -> Part:
    """At most ``count`` of the rows, drawn by the seed and left in their order."""
    if count >= len(part):
        return part
    return part.rows(sorted(random.Random(seed).sample(range(len(part)), count)))


def hold_out(
    part: Part, seed: int, share: float = HELD_OUT, *, grouped: bool = False, split: str = "held-out"
) -> tuple[Part, Part]:
    """A share of each class's rows, drawn by the seed, and the rest.

    Args:
        part: what is drawn from.
        seed: of the drawing.
        share: of each class; at least one row of a class that has two.
        grouped: pairs with the same first text stay together; the share is then never more, and may be less.
        split: what the share is called.
    """
    draw = random.Random(seed)
    strata = _strata(part)
    quota = {name: max(round(share * len(rows)), int(len(rows) > 1)) for name, rows in strata.items()}
    held: set[int] = set()
    if grouped:
        of = {row: name for name, rows in strata.items() for row in rows}
        for group in _groups(part, draw):
            taken = Counter(of[row] for row in group)
            if all(count <= quota[name] for name, count in taken.items()):
                held.update(group)
                for name, count in taken.items():
                    quota[name] -= count
    else:
        for name, rows in strata.items():
            held.update(draw.sample(rows, quota[name]))
    return part.rows(sorted(held), split), part.rows(row for row in range(len(part)) if row not in held)


def _strata(part: Part) -> dict[float, list[int]]:
    """The rows of each class, or of each fifth of the scores."""
    if part.graded:
        ranked = sorted(range(len(part)), key=part.labels.__getitem__)
        return {fifth: sorted(ranked[fifth * len(part) // _STRATA : (fifth + 1) * len(part) // _STRATA])
                for fifth in range(_STRATA)}  # fmt: skip
    rows: dict[float, list[int]] = {label: [] for label in sorted(set(part.labels))}
    for row, label in enumerate(part.labels):
        rows[label].append(row)
    return rows


def _groups(part: Part, draw: random.Random) -> list[list[int]]:
    """The rows with the same first text, in an order that is drawn."""
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(part.texts):
        groups.setdefault(_joined(text[:1], ascii_only=False), []).append(row)
    drawn = list(groups.values())
    draw.shuffle(drawn)
    return drawn


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
    left_out = _NOT_ASCII_ALNUM if ascii_only else _NOT_ALNUM
    return "\t".join(sorted(left_out.sub("", part.lower()) for part in parts))


def _barred(
    task: Task, measured: Sequence[str], dev: str | None, data: Path | None
) -> tuple[dict[str, list[Text]], list[str]]:
    """The texts of the test splits and of the attack sets, by their names, and the attack sets that are not at hand.

    Not those of a split that is measured besides but is a part of the selection part.
    """
    selecting = sources(task.split(dev)) if dev is not None else frozenset()
    tests = [split for split in measured if selecting.isdisjoint(sources(task.split(split)))]
    barred = {f"{short_name(task)} {split}": _load(task, split, data)[0].texts for split in tests}
    absent = []
    for name in ATTACK_SETS.get(task.name, ()):
        if _at_hand(task_named(name), "all", data):
            barred[name] = _load(task_named(name), "all", data)[0].texts
        else:
            absent.append(name)
    return barred, absent


def _without(part: Part, barred: Mapping[str, Sequence[Text]], premises: bool = False) -> tuple[Part, dict[str, int]]:
    """The rows whose text is in none of the sets, and how many each set took out; a row counts for the first.

    With ``premises`` it is enough that the first text of a pair is the first text of one of theirs.
    """

    def marks(text: Text) -> set[str]:
        return keys(text) | keys(text[:1]) if premises else keys(text)

    taken = dict.fromkeys(barred, 0)
    theirs = {name: {key for text in texts for key in marks(text)} for name, texts in barred.items()}
    kept = []
    for row, text in enumerate(part.texts):
        own_marks = marks(text)
        because = next((name for name, others in theirs.items() if not own_marks.isdisjoint(others)), None)
        if because is None:
            kept.append(row)
        else:
            taken[because] += 1
    return part.rows(kept), taken


def _kept_apart(more: AdversarialTexts, others: Mapping[str, Sequence[Text]]) -> AdversarialTexts:
    """The adversarial texts that are in none of the sets."""
    kept, taken = _without(Part("adversarial", more.texts, more.labels, str(more.path), more.sha256), others)
    return replace(more, texts=kept.texts, labels=list(kept.labels), measured_on=sum(taken.values()))


def _notes(task: Task, train: Part) -> tuple[str, ...]:
    """How many texts of the training split have several labels, and how many rows another one's id."""
    labels: dict[Text, set[float]] = {}
    for text, label in zip(train.texts, train.labels, strict=True):
        labels.setdefault(text, set()).add(label)
    several = sum(len(found) > 1 for found in labels.values())
    notes = [f"texts of {short_name(task)} {train.split} that have different labels: {several:,}"] if several else []
    for split in task.splits:
        if split.own is not None and (repeated := own.repeated_ids(split.own)):
            notes.append(f"rows of {split.own} that have the id of an earlier row: {repeated:,}")
    return tuple(notes)


def short_name(task: Task) -> str:
    """What a task is called; of a user's own, the name of the file or folder."""
    return Path(task.name).name if task.is_own else task.name


def train_split_of(task: Task, given: str | None, data: Path | None) -> str:
    """The split to train on: the one that is given, or ``train``, or ``all`` where that is the only one.

    Raises:
        UserError: it is a test split, or has to be named.
    """
    if given is not None:
        if _is_test(task.split(given)):
            raise UserError(f"--train-split {given}: a test split is never trained on")
        return given
    names = [split.name for split in task.splits if not _is_test(split)]
    if not names:
        raise UserError(f"{task.name} has no split to train on, only what is there to be measured on")
    if "train" not in names and names[0] == "all":
        return "all"
    if _at_hand(task, "train", data):
        return "train"
    others = [name for name in names if name != "train" and _at_hand(task, name, data)]
    where = data_folder(data)
    if not others:
        return names[0]  # whatever is missing is told by the reader
    hub = where is not None and "train" in names and hub_sources(task.split("train"))
    raise UserError(
        f"{task.name} has no train split in {where or 'the hub'}: name the split to train on, "
        f"{' or '.join(f'--train-split {name}' for name in others)}"
        + (f" (or leave out --data and {VARIABLE} to take the hub's train split)" if hub else "")
    )


def _is_test(split: Split) -> bool:
    """Whether a split, or a file that it is read from, is there to be measured on."""
    return split.name.startswith("test") or any(name.rpartition("/")[2].startswith("test") for name in split.files)


def _dev_split(task: Task, train: str, data: Path | None) -> str | None:
    """The split that selects: the first that is at hand and shares no rows with the training split."""
    known = {split.name: split for split in task.splits}
    return next((n for n in _DEV_SPLITS if n in known and _apart(task, train, n) and _at_hand(task, n, data)), None)


def _measured(task: Task, train: str, dev: str | None, data: Path | None) -> list[str]:
    """The splits that are measured besides the selecting one, as far as they are at hand and not trained on."""
    names = task.measured or tuple(split.name for split in task.splits if split.name.startswith("test"))
    return [n for n in names if n != dev and _apart(task, train, n) and _at_hand(task, n, data)]


def _apart(task: Task, one: str, other: str) -> bool:
    return sources(task.split(one)).isdisjoint(sources(task.split(other)))


def _at_hand(task: Task, split: str, data: Path | None) -> bool:
    """Whether a split can be had: from the data folder where there is one, else from the hub."""
    part = next((part for part in task.splits if part.name == split), None)
    if part is None:
        return False
    return is_local(task.name, split, data) or (data_folder(data) is None and bool(hub_sources(part)))


def _load(task: Task, split: str, data: Path | None, classes: list[str] | None = None) -> tuple[Part, list[str]]:
    """A split, with its labels numbered as in ``classes`` where they are given."""
    if task.kind in ("sts", "regression"):
        graded = load_graded(task.name, split, data=data)
        return Part(split, graded.texts, graded.scores, graded.source, graded.sha256), [SCORE]
    labelled = load_labelled(task.name, split, data=data)
    part = Part(split, _texts(labelled), labelled.labels, labelled.source, labelled.sha256)
    if classes is None or classes == labelled.classes:
        return part, labelled.classes
    unknown = [name for name in labelled.classes if name not in classes]
    if unknown:
        raise UserError(f"{labelled.source} has the class {unknown[0]!r}, which no training text has: mend the data")
    labels = [classes.index(labelled.classes[label]) for label in labelled.labels]
    return Part(split, part.texts, labels, part.source, part.data_sha256), classes


def _texts(labelled: Labelled) -> list[Text]:
    if labelled.sentences2 is None:
        return [(text,) for text in labelled.sentences1]
    return list(zip(labelled.sentences1, labelled.sentences2, strict=True))


def _refuse_too_little(task: Task, train: Part, dev: Part, classes: Sequence[str]) -> None:
    where = f"{task.name} {train.split}"
    if not len(dev):
        alike = ", and pairs with the same first text stay together" if task.grouped else ""
        raise UserError(f"{where}: no text is left to select by{alike}: give more of them, or a dev split")
    seen = set(train.labels)
    if classes == [SCORE]:
        if len(seen) < 2:
            raise UserError(f"{where}: the {len(train)} training texts do not differ in score: take more of them")
        return
    missing = [name for label, name in enumerate(classes) if label not in seen]
    if missing:
        what = f"no text of the class {missing[0]!r}"
        raise UserError(f"{where}: of {len(train)} training texts there is {what}: take more of them")
    if len(classes) < 2:
        raise UserError(f"{where}: there is one class only, {classes[0]!r}: a task has at least two")
