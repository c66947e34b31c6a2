"""`holdfast evaluate`: any of the tasks on frozen vectors, each distinct sentence of all of them encoded once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.bounds import in_range
from holdfast.encoding import Precision, Progress
from holdfast.errors import UserError, one_of
from holdfast.evaluation.sample import sample_labelled, sample_pairs, sampled_row
from holdfast.evaluation.space import evaluate_space
from holdfast.evaluation.sts import ALL_STS_TASKS, STS_TASKS, StsTask, load_sts
from holdfast.evaluation.transfer import FOLDS, TRANSFER_TASKS, TransferTask, load_transfer
from holdfast.evaluation.vectors import Encode, encode_once
from holdfast.launch import is_first_process

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

GROUPS = {"sts": STS_TASKS, "transfer": TRANSFER_TASKS}
TASKS = (*ALL_STS_TASKS, *TRANSFER_TASKS, "space")


class LoadedTask(Protocol):
    """The data of a task: its sentences, and from their vectors its row of results."""

    @property
    def name(self) -> str:
        """The task's id."""

    @property
    def sentences(self) -> Iterable[str]:
        """Every sentence whose vector is needed."""

    def score(self, encode: Encode) -> dict[str, Any]:
        """The row of results."""


@dataclass(frozen=True)
class _Space:
    model: SentenceTransformer
    data: Path | None
    name: str = "space"

    @property
    def sentences(self) -> Iterator[str]:
        from holdfast.data.registry import load_pairs

        pairs = load_pairs("stsb", "dev", data=self.data)
        yield from pairs.sentences1
        yield from pairs.sentences2

    def score(self, encode: Encode) -> dict[str, Any]:
        return evaluate_space(self.model, data=self.data, encode=encode)


def task_names(text: str, where: str = "--tasks") -> list[str]:
    """The tasks that words joined by commas name, groups (``sts``, ``transfer``) taken apart, none twice.

    Raises:
        UserError: an unknown task, or none.
    """
    names: list[str] = []
    for name in (part.strip() for part in text.split(",") if part.strip()):
        names += GROUPS.get(name) or [one_of(where, name, (*GROUPS, *TASKS))]
    if not names:
        raise UserError(f"{where} names no task: leave it out for the seven STS test sets")
    return list(dict.fromkeys(names))


def evaluate_tasks(
    model: SentenceTransformer,
    tasks: Sequence[str],
    *,
    data: Path | None = None,
    text: str = "raw",
    precision: Precision = "fp32",
    progress: Progress | None = None,
    started: Callable[[str], None] | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """A row of results per task: similarity first, then transfer, then the shape of the space.

    Each says how many of its texts were longer than the model reads: ``truncated: {texts, of, tokens}``.

    Where several processes have joined (`holdfast.distributed.meeting`) they share the encoding; the first one alone
    scores, and the others return no rows.

    Args:
        model: any SentenceTransformer.
        tasks: any of `TASKS`.
        data: the folder with the data sets; ``None`` takes ``HOLDFAST_DATA``, then the hub.
        text: ``"raw"``, or ``"senteval"`` for the text as SentEval tokenises it, where it does.
        precision: of the encoder, ``"fp32"`` or ``"bf16"``.
        progress: called with (sentences done, distinct sentences) while encoding.
        started: called with a task's id when its vectors are there and its scoring begins.
        limit: measure on about so many rows of each part of a task, the same ones for every model, and say so in the
            row: ``sample: {of, seed}``. A quick look, and no score of the task. Not of "space", which is one set.

    Raises:
        UserError: data that is missing or damaged, found before anything is encoded; vectors without a score.
    """
    from holdfast.distributed import joined

    if limit is not None:
        in_range("limit", limit, "a limit of rows", least=2)
    loaded: list[LoadedTask] = []
    for names, load in ((ALL_STS_TASKS, load_sts), (TRANSFER_TASKS, load_transfer)):
        loaded += [load(task, data=data, text=text) for task in tasks if task in names]
    if "space" in tasks:
        loaded.append(_Space(model, data))
    if limit is not None:
        loaded = [_sampled(task, limit) for task in loaded]
    sentences = (sentence for task in loaded for sentence in task.sentences)
    encode = encode_once(model, sentences, precision=precision, progress=progress, shared=True)
    if joined() and not is_first_process():
        return []
    rows = []
    for task in loaded:
        if started is not None:
            started(task.name)
        rows.append({**task.score(encode), "truncated": encode.truncated(task.sentences)})
    return rows


def evaluate_sts_dev(
    model: SentenceTransformer, *, data: Path | None = None, text: str = "raw", limit: int | None = None
) -> list[dict[str, Any]]:
    """One row, of the STS-B dev pairs: what the papers' ablations are told on, and what training selects by.

    Args:
        model: any SentenceTransformer.
        data: the folder with the data sets; ``None`` takes ``HOLDFAST_DATA``, then the hub.
        text: ``"raw"``, or ``"senteval"``.
        limit: as for `evaluate_tasks`.

    Raises:
        UserError: as `evaluate_tasks`.
    """
    from holdfast.data.registry import load_pairs

    task: LoadedTask = StsTask(load_pairs("stsb", "dev", data=data, text=text))
    if limit is not None:
        task = _sampled(task, limit)
    encode = encode_once(model, task.sentences)
    return [{**task.score(encode), "truncated": encode.truncated(task.sentences)}]


@dataclass(frozen=True)
class _Sampled:
    """A task of which a sample is left; ``of`` is how many rows it had."""

    task: LoadedTask
    of: int

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def sentences(self) -> Iterable[str]:
        return self.task.sentences

    def score(self, encode: Encode) -> dict[str, Any]:
        return sampled_row(self.task.score(encode), self.of)


def _sampled(task: LoadedTask, limit: int) -> LoadedTask:
    """The task on some of its rows, where it has more."""
    if isinstance(task, StsTask):
        of, pairs = len(task.pairs.scores), sample_pairs(task.pairs, limit)
        return task if len(pairs.scores) == of else _Sampled(replace(task, pairs=pairs), of)
    if isinstance(task, TransferTask):
        parts = {name: sample_labelled(part, limit, least=FOLDS + 2) for name, part in task.parts.items()}
        measured = "test" if "test" in parts else "all"
        if all(len(parts[name].labels) == len(part.labels) for name, part in task.parts.items()):
            return task
        return _Sampled(replace(task, parts=parts), len(task.parts[measured].labels))
    return task
