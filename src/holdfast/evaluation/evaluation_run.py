"""`holdfast evaluate`: tasks on frozen vectors, with each distinct sentence of all tasks encoded once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.encoding import Progress
from holdfast.errors import UserError, one_of
from holdfast.evaluation.deployed_forms import in_forms
from holdfast.evaluation.form_losses import with_losses
from holdfast.evaluation.mteb_names import PREFIX as MTEB
from holdfast.evaluation.mteb_names import is_mteb, split_tasks
from holdfast.evaluation.noisy_task import with_noise, with_noisy_queries
from holdfast.evaluation.retrieval import TASK as RETRIEVAL
from holdfast.evaluation.retrieval import RetrievalOptions, evaluate_retrieval, is_retrieval, load_retrieval
from holdfast.evaluation.space import evaluate_space
from holdfast.evaluation.sts import ALL_STS_TASKS, STS_TASKS, StsTask, load_sts, with_repeated_pairs
from holdfast.evaluation.task_sample import sample_labelled, sample_pairs, sampled_row
from holdfast.evaluation.transfer import FOLDS, TRANSFER_TASKS, TransferTask, load_transfer
from holdfast.evaluation.vectors import Encode, ExtendedTask, LoadedTask, score_tasks
from holdfast.number_ranges import in_range
from holdfast.precision import ResolvedPrecision

if TYPE_CHECKING:
    from holdfast.edits.noise import Noise
    from holdfast.forms import Form
    from holdfast.user_functions import SentenceEncoder

GROUPS = {"sts": STS_TASKS, "transfer": TRANSFER_TASKS}
TASKS = (*ALL_STS_TASKS, *TRANSFER_TASKS, "space", RETRIEVAL)


@dataclass(frozen=True)
class _Space:
    model: SentenceEncoder
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


def task_names(text: str, where: str = "--tasks", *, mteb: bool = False) -> list[str]:
    """Parse task names joined by commas; groups (``sts``, ``transfer``) are expanded and repeated names are dropped.

    ``retrieval:NAME`` and ``mteb:NAME`` stay as they are (`holdfast.evaluation.mteb_names.split_tasks`).

    Args:
        text: the names.
        where: begin of an error message.
        mteb: tasks of mteb can be named, too.

    Raises:
        UserError: a task is unknown, or there is none.
    """
    names: list[str] = []
    for name in split_tasks(text, (*GROUPS, *TASKS)):
        if is_mteb(name) and not mteb:
            raise UserError(f"{where}: {name} is a task of mteb, which only `holdfast evaluate` measures: leave it out")
        is_named = (is_retrieval(name) or is_mteb(name)) and name[-1] != ":"
        known = GROUPS.get(name) or ([name] if is_named else None)
        names += known or [one_of(where, name, (*GROUPS, *TASKS, f"{RETRIEVAL}:NAME", *[f"{MTEB}NAME"] * mteb))]
    if not names:
        raise UserError(f"{where} names no task: leave it out for the seven STS test sets")
    return list(dict.fromkeys(names))


def evaluate_tasks(
    model: SentenceEncoder,
    tasks: Sequence[str],
    *,
    data: Path | None = None,
    text: str = "raw",
    precision: ResolvedPrecision = "fp32",
    progress: Progress | None = None,
    started: Callable[[str], None] | None = None,
    limit: int | None = None,
    noises: Sequence[Noise] = (),
    retrieval: RetrievalOptions | None = None,
    forms: Sequence[Form] = (),
) -> list[dict[str, Any]]:
    """Return a row of results per task: similarity first, then transfer, then the shape of the space, then retrieval.

    With ``noises``, a task's row is followed by one for each noise (`holdfast.evaluation.noisy_task`). With ``forms``,
    these are followed by rows in each form, made of the same vectors, with ``form`` and the differences to the plain
    rows (`holdfast.evaluation.form_losses`).
    Each row counts the texts that exceed the model's length limit: ``truncated: {texts, of, tokens, lost_percent}``.
    If several processes have joined (`holdfast.distributed`), they share the encoding; only the first process computes
    scores, and the others return no rows.

    Args:
        model: any SentenceTransformer.
        tasks: any of `TASKS`, and ``retrieval:NAME``.
        data: the folder with the data sets; ``None`` takes ``HOLDFAST_DATA``, then the hub.
        text: ``"raw"``, or ``"senteval"`` for the text as SentEval tokenises it, where it does.
        precision: precision of the encoder, ``"fp32"`` or ``"bf16"``.
        progress: called with (sentences done, distinct sentences) while encoding.
        started: called with a task's id when its vectors are ready and its scoring starts.
        limit: measure on about this number of rows of each part of a task, the same rows for every model, and record
            this in the row: ``sample: {of, seed}``. This is for a quick look and is not a score of the task. Retrieval
            and "space" are not sampled.
        noises: kinds of noise, with their strengths, in which the tasks are measured, too; "space" is not.
        retrieval: options of retrieval, which has a row for each file of queries (see `evaluate_retrieval`).
        forms: forms of the vectors in which all is measured, too.

    Raises:
        UserError: data is missing or damaged (checked before anything is encoded), a form has more dimensions than the
            model, or vectors have no score.
    """
    if limit is not None:
        in_range("limit", limit, "a limit of rows", least=2)
    options = retrieval or RetrievalOptions()
    collections = [load_retrieval(task, data=data, qrels=options.qrels) for task in tasks if is_retrieval(task)]
    loaded: list[LoadedTask] = []
    for names, load in ((ALL_STS_TASKS, load_sts), (TRANSFER_TASKS, load_transfer)):
        loaded += [load(task, data=data, text=text) for task in tasks if task in names]
    if "space" in tasks:
        loaded.append(_Space(model, data))
    loaded = [each for task in loaded for each in in_forms(_versions(task, noises, limit), forms)]
    rows = []
    if loaded:
        scored = score_tasks(model, loaded, precision=precision, progress=progress, shared=True, started=started)
        rows += with_repeated_pairs(scored)
        rows = with_losses(rows) if forms else rows
    for collection in collections:
        noisy = with_noisy_queries(collection, noises)
        rows += evaluate_retrieval(
            model, noisy, options, precision=precision, progress=progress, shared=True, forms=forms
        )
    return rows


def evaluate_sts_dev(
    model: SentenceEncoder, *, data: Path | None = None, text: str = "raw", limit: int | None = None
) -> list[dict[str, Any]]:
    """Return one row for the STS-B dev pairs, on which papers report ablations and training selects checkpoints.

    The arguments and errors are as for `evaluate_tasks`.
    """
    from holdfast.data.registry import load_pairs

    task: LoadedTask = StsTask(load_pairs("stsb", "dev", data=data, text=text))
    if limit is not None:
        (task,) = _versions(task, (), limit)
    return with_repeated_pairs(score_tasks(model, [task]))


def _versions(task: LoadedTask, noises: Sequence[Noise], limit: int | None) -> list[LoadedTask]:
    """Return the task and a copy of it for each noise, all reduced to the same rows."""
    of = None
    if limit is not None:
        task, of = _sampled(task, limit)
    copies = (with_noise(task, noise) for noise in noises)
    versions = [task, *(copy for copy in copies if copy is not None)]
    if of is None:
        return versions
    return [ExtendedTask(version, functools.partial(sampled_row, of=of)) for version in versions]


def _sampled(task: LoadedTask, limit: int) -> tuple[LoadedTask, int | None]:
    """Return the task reduced to about ``limit`` rows, and their number before; the task and None if it has no more."""
    if isinstance(task, StsTask):
        of, pairs = len(task.pairs.scores), sample_pairs(task.pairs, limit)
        return (task, None) if len(pairs.scores) == of else (replace(task, pairs=pairs), of)
    if isinstance(task, TransferTask):
        parts = {name: sample_labelled(part, limit, least=FOLDS + 2) for name, part in task.parts.items()}
        measured = "test" if "test" in parts else "all"
        if all(len(parts[name].labels) == len(part.labels) for name, part in task.parts.items()):
            return task, None
        return replace(task, parts=parts), len(task.parts[measured].labels)
    return task, None
