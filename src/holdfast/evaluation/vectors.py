"""Vectors that several tasks share: each distinct sentence is encoded once for all tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.encoding import Progress, Vectors, encode_sentences
from holdfast.input_limits import Cuts
from holdfast.launch import is_first_process
from holdfast.precision import ResolvedPrecision

if TYPE_CHECKING:
    from holdfast.user_functions import SentenceEncoder

Encode = Callable[[Sequence[str]], Vectors]
"""A function from n texts to their vectors, (n, d)."""


class Encoded:
    """Vectors (n, d) of n different texts, looked up by the texts, and the record of the texts that were cut."""

    def __init__(self, sentences: Sequence[str], vectors: Vectors, cuts: Cuts) -> None:
        self._row = {sentence: index for index, sentence in enumerate(sentences)}
        self._vectors, self._cuts = vectors, cuts

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of some of the texts, (len(texts), d)."""
        return self._vectors[[self._row[sentence] for sentence in texts]]

    def truncated(self, texts: Iterable[str]) -> dict[str, Any]:
        """Return the number of cut texts among some distinct texts, in the form of `Cuts.record`."""
        return self._cuts.among(texts).record()


def encode_once(
    model: SentenceEncoder,
    sentences: Iterable[str],
    *,
    precision: ResolvedPrecision = "fp32",
    progress: Progress | None = None,
    shared: bool = False,
) -> Encoded:
    """Encode the distinct sentences, and return a look-up of their vectors.

    ``progress`` is called with (sentences done, distinct sentences); with ``shared``, the processes that have joined
    divide the work (see `encode_sentences`).
    """
    distinct = list(dict.fromkeys(sentences))
    cuts = Cuts(kept={})
    vectors = encode_sentences(model, distinct, precision=precision, progress=progress, shared=shared, cuts=cuts)
    return Encoded(distinct, vectors, cuts)


class LoadedTask(Protocol):
    """The data of a task: it gives its sentences, and computes a row of results from their vectors."""

    @property
    def name(self) -> str:
        """The task's id."""

    @property
    def sentences(self) -> Iterable[str]:
        """Every sentence whose vector is needed; some occur more than once."""

    def score(self, encode: Encode) -> dict[str, Any]:
        """Return the row of results."""


@dataclass(frozen=True)
class ExtendedTask:
    """A task whose row of results is extended: ``extend`` returns the whole row."""

    task: LoadedTask
    extend: Callable[[dict[str, Any]], dict[str, Any]]

    @property
    def name(self) -> str:
        """The task's id."""
        return self.task.name

    @property
    def sentences(self) -> Iterable[str]:
        """All sentences whose vectors are needed."""
        return self.task.sentences

    def score(self, encode: Encode) -> dict[str, Any]:
        """Return the extended row of results."""
        return self.extend(self.task.score(encode))


def score_tasks(
    model: SentenceEncoder,
    tasks: Sequence[LoadedTask],
    *,
    precision: ResolvedPrecision = "fp32",
    progress: Progress | None = None,
    shared: bool = False,
    started: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Return the row of each task, with the number of cut texts: ``truncated: {texts, of, tokens, lost_percent}``.

    With ``shared``, the processes that have joined share the encoding; only the first process computes scores, and the
    others return no rows. ``started`` is called with a task's id when its scoring starts; see `encode_once`.
    """
    from holdfast.distributed import joined

    sentences = (sentence for task in tasks for sentence in task.sentences)
    encode = encode_once(model, sentences, precision=precision, progress=progress, shared=shared)
    if shared and joined() and not is_first_process():
        return []
    rows = []
    for task in tasks:
        if started is not None:
            started(task.name)
        rows.append({**task.score(encode), "truncated": encode.truncated(task.sentences)})
    return rows
