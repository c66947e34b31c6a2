"""`holdfast evaluate`: any of the tasks on frozen vectors, each distinct sentence of all of them encoded once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.encoding import Precision, Progress
from holdfast.errors import UserError, one_of
from holdfast.evaluation.space import evaluate_space
from holdfast.evaluation.sts import ALL_STS_TASKS, STS_TASKS, load_sts
from holdfast.evaluation.transfer import TRANSFER_TASKS, load_transfer
from holdfast.evaluation.vectors import Encode, encode_once

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
) -> list[dict[str, Any]]:
    """A row of results per task: similarity first, then transfer, then the shape of the space.

    Args:
        model: any SentenceTransformer.
        tasks: any of `TASKS`.
        data: the folder with the data sets; ``None`` takes ``HOLDFAST_DATA``, then the hub.
        text: ``"raw"``, or ``"senteval"`` for the text as SentEval tokenises it, where it does.
        precision: of the encoder, ``"fp32"`` or ``"bf16"``.
        progress: called with (sentences done, distinct sentences) while encoding.
        started: called with a task's id when its vectors are there and its scoring begins.

    Raises:
        UserError: data that is missing or damaged, found before anything is encoded; vectors without a score.
    """
    loaded: list[LoadedTask] = []
    for names, load in ((ALL_STS_TASKS, load_sts), (TRANSFER_TASKS, load_transfer)):
        loaded += [load(task, data=data, text=text) for task in tasks if task in names]
    if "space" in tasks:
        loaded.append(_Space(model, data))
    sentences = (sentence for task in loaded for sentence in task.sentences)
    encode = encode_once(model, sentences, precision=precision, progress=progress)
    rows = []
    for task in loaded:
        if started is not None:
            started(task.name)
        rows.append(task.score(encode))
    return rows
