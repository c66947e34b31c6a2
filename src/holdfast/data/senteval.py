"""Reader of SentEval's own folder, as created by its download script; SentEval is not needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from holdfast.data.untrusted_lines import MAX_ROW_CHARS, numbered_lines, open_bytes
from holdfast.errors import UserError

Row = tuple[str, list[str], str, str]
"""``(file:line, texts, label or score, subset)`` of one labelled row."""

_SUBSETS = {
    "STS12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    # Without SMT: its text is licensed, so SentEval and all published averages leave it out.
    "STS13": ("FNWN", "headlines", "OnWN"),
    "STS14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "STS15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "STS16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
_FILES = {
    **{f"stsb/{split}": (f"STS/STSBenchmark/sts-{split}.csv",) for split in ("train", "dev", "test")},
    "sickr/train": ("SICK/SICK_train.txt",),
    "sickr/trial": ("SICK/SICK_trial.txt",),
    "sickr/test": ("SICK/SICK_test_annotated.txt",),
    "mr/all": ("MR/rt-polarity.pos", "MR/rt-polarity.neg"),
    "cr/all": ("CR/custrev.pos", "CR/custrev.neg"),
    "subj/all": ("SUBJ/subj.objective", "SUBJ/subj.subjective"),
    "mpqa/all": ("MPQA/mpqa.pos", "MPQA/mpqa.neg"),
    **{f"sst2/{split}": (f"SST/binary/sentiment-{split}",) for split in ("train", "dev", "test")},
    "trec/train": ("TREC/train_5500.label",),
    "trec/test": ("TREC/TREC_10.label",),
    "mrpc/train": ("MRPC/msr_paraphrase_train.txt",),
    "mrpc/test": ("MRPC/msr_paraphrase_test.txt",),
}
_MARKS = ("STS", "SICK", "MR", "CR", "SUBJ", "MPQA", "SST", "TREC", "MRPC")


def find_root(folder: Path) -> Path | None:
    """Return the folder with ``STS``, ``SICK``, ``MR`` ...: ``folder`` or one of SentEval's subfolders; else None."""
    for below in (".", "downstream", "data/downstream", "data", "SentEval/data/downstream"):
        candidate = folder / below
        if any((candidate / mark).is_dir() for mark in _MARKS):
            return candidate
    return None


def files_of(root: Path, name: str) -> list[Path]:
    """Return the files of a split (``sts12/test``, ``mr/all``, ...), or ``[]`` if SentEval does not have it."""
    task, _, split = name.partition("/")
    if task.upper() in _SUBSETS and split == "test":
        folder = root / "STS" / f"{task.upper()}-en-test"
        return [folder / f"STS.{part}.{s}.txt" for s in _SUBSETS[task.upper()] for part in ("input", "gs")]
    return [root / path for path in _FILES.get(name, ())]


def has(root: Path, name: str) -> bool:
    """Return True if all files of the split exist."""
    files = files_of(root, name)
    return bool(files) and all(path.is_file() for path in files)


def read(root: Path, name: str) -> Iterator[Row]:
    """Yield the rows of a split in SentEval's order (positive before negative in sets with one file per class).

    Raises:
        UserError: a file cannot be read, or a line has too few fields.
    """
    files = files_of(root, name)
    task = name.partition("/")[0]
    if task.upper() in _SUBSETS:
        for texts, scores in zip(files[::2], files[1::2], strict=True):
            yield from _scored(texts, scores)
    elif task in ("mr", "cr", "subj", "mpqa"):
        for path, label in zip(files, ("1", "0"), strict=True):
            for number, line in _lines(path):
                yield f"{path}:{number}", [line.strip()], label, ""
    else:
        readers: dict[str, Callable[[Path], Iterator[Row]]] = {
            "stsb": partial(_fields, texts=(5, 6), label=4, header=False),
            "sickr": partial(_fields, texts=(1, 2), label=3, header=True),
            "sst2": partial(_fields, texts=(0,), label=1, header=False),
            "mrpc": partial(_fields, texts=(3, 4), label=0, header=True),
            "trec": _questions,
        }
        for path in files:
            yield from readers[task](path)


def _scored(texts: Path, scores: Path) -> Iterator[Row]:
    subset = texts.name.removeprefix("STS.input.").removesuffix(".txt").removeprefix("surprise.")
    pairs, golds = list(_lines(texts)), list(_lines(scores))
    if len(pairs) != len(golds):
        raise UserError(
            f"{texts} has {len(pairs)} lines and {scores} has {len(golds)}: they belong together line by line"
        )
    for (number, line), (_, gold) in zip(pairs, golds, strict=True):
        # Most pairs of 2015 and 2016 were never annotated; their score is an empty line.
        if gold.strip():
            yield f"{texts}:{number}", _pick(line.split("\t"), (0, 1), f"{texts}:{number}"), gold.strip(), subset


def _fields(path: Path, texts: tuple[int, ...], label: int, header: bool) -> Iterator[Row]:
    for number, line in _lines(path):
        if header and number == 1:
            continue
        fields, where = line.split("\t"), f"{path}:{number}"
        yield where, _pick(fields, texts, where), _pick(fields, (label,), where)[0], ""


def _questions(path: Path) -> Iterator[Row]:
    for number, line in _lines(path, latin=True):
        kind, blank, question = line.partition(" ")
        if not blank or ":" not in kind:
            raise UserError(f"{path}:{number}: expected 'CLASS:detail question': correct or remove the line")
        yield f"{path}:{number}", [question.strip()], kind.partition(":")[0], ""


def _pick(fields: list[str], places: tuple[int, ...], where: str) -> list[str]:
    if len(fields) <= max(places):
        raise UserError(
            f"{where}: {len(fields)} tab-separated fields where {max(places) + 1} are needed: correct the line"
        )
    return [fields[place].strip() for place in places]


def _lines(path: Path, latin: bool = False) -> Iterator[tuple[int, str]]:
    with open_bytes(path) as file:
        if latin:  # only the question files, in the originals
            yield from ((number, raw.decode("latin-1").rstrip("\r\n")) for number, raw in enumerate(file, start=1))
        else:
            yield from numbered_lines(file, str(path), MAX_ROW_CHARS)
