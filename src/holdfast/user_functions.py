"""User-defined functions in place of a model: found by name, called in batches, with checks of their output."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from holdfast.errors import UserError, emit_notice, first_line
from holdfast.model_lookup import CALL, CALL_BATCH
from holdfast.number_ranges import in_range

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Function = Callable[[list[Any]], Any]

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
"""Seconds before the first repetition of a failed call, which double for each further one, and at most."""


class Memory(Protocol):
    """Vectors of texts that a function has answered already, with the limit of texts per call that was asked for."""

    def known(self, texts: Sequence[str], limit: int | None) -> Mapping[int, npt.NDArray[np.float32]]:
        """Return the vectors of the known texts, by the place of the text."""

    def add(self, texts: Sequence[str], limit: int | None, vectors: npt.NDArray[np.float32]) -> None:
        """Keep the vectors of texts, (n, d)."""


class Batched:
    """A function from texts to rows of numbers, with a limited number of texts per call.

    Args:
        function: takes a list of n texts (or of n pairs) and returns n rows of numbers, always of the same length; any
            type that NumPy converts to an array.
        name: name for the record.
        call_batch: maximum number of texts per call.
        retries: how often a failed call is repeated, after 1, 2, 4, ... seconds.

    Raises:
        UserError: ``call_batch`` is below one, or ``retries`` below zero.
    """

    def __init__(self, function: Function, *, name: str, call_batch: int = CALL_BATCH, retries: int = 0) -> None:
        in_range("call_batch", call_batch)
        in_range("retries", retries)
        self.name = name
        self._function, self._call_batch, self._retries = function, call_batch, retries
        self._columns: int | None = None

    def outputs(
        self, texts: Sequence[Any], *, limit: int | None = None
    ) -> Iterator[tuple[list[int], npt.NDArray[np.float64]]]:
        """Yield, for each call, the indices of its texts and the output (texts, numbers); longest texts first.

        Each call has at most ``call_batch`` texts, or pairs, and at most ``limit`` if it is given.

        Raises:
            UserError: the function fails, or its output is not one row of finite numbers per text, all of the length
                of the first row.
        """
        order = sorted(range(len(texts)), key=lambda place: -_length(texts[place]))
        size = self._call_batch if limit is None else min(limit, self._call_batch)
        for start in range(0, len(order), size):
            places = order[start : start + size]
            yield places, self._output([texts[place] for place in places])

    def _output(self, texts: list[Any]) -> npt.NDArray[np.float64]:
        answer = self._answer(texts)
        try:
            rows = np.asarray(answer, dtype=np.float64)
        except Exception as error:  # any object of the user's
            raise UserError(f"{self.name} returned no array of numbers: {_cause(error)}") from error
        if rows.ndim != 2 or len(rows) != len(texts):
            raise UserError(
                f"{self.name} returned an array of shape {rows.shape} for {len(texts)} texts: it must return one row "
                "of numbers per text"
            )
        with np.errstate(invalid="ignore"):
            finite = (np.abs(rows) <= np.finfo(np.float32).max).all(axis=1)  # vectors are kept in fp32
        if not finite.all():
            text = texts[int(np.argmin(finite))]
            raise UserError(f"{self.name} returned numbers that are not finite for the text {str(text)[:100]!r}")
        if self._columns is None:
            self._columns = rows.shape[1]
        if rows.shape[1] != self._columns:
            raise UserError(
                f"{self.name} returned {self._columns} numbers per text at first, and now {rows.shape[1]}: return as "
                "many for every text"
            )
        return rows

    def _answer(self, texts: list[Any]) -> Any:
        """Call the function, again if it fails; only its last error ends the run."""
        wait = _FIRST_WAIT
        for number in range(self._retries + 1):
            try:
                return self._function(texts)
            except UserError:  # of an endpoint, which has its own repetitions
                raise
            except Exception as error:  # any error of the user's function
                if number == self._retries:
                    often = f" {number + 1} times" if number else ""
                    raise UserError(f"{self.name} failed{often}: {_cause(error)}") from error
                again = f"again in {wait:g} s ({number + 1} of {self._retries}, --retries)"
                emit_notice(f"{self.name} failed: {_cause(error)}; {again}")
                time.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)
        raise AssertionError("unreachable")


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


class VectorFunction:
    """A function from texts to vectors, such as an embedding service, in place of a SentenceTransformer.

    It is accepted by `holdfast.encoding.encode_sentences`, by the audit, and by attacks whose goal uses vectors.

    Args:
        function: takes a list of n texts and returns n vectors of d numbers.
        name: name for the record.
        call_batch: maximum number of texts per call.
        retries: how often a failed call is repeated.
        keeps_answers: the function answers a known text from what it has kept.

    Attributes:
        device: device of the vectors; the function may compute them anywhere.
        tokenizer: None: truncated texts and unknown words cannot be detected.
        before_call: called before each call of the function; it may raise an error to stop.
        memory: vectors of texts that are not sent again; None: all texts are sent.
    """

    device = "cpu"
    tokenizer = None

    def __init__(
        self,
        function: Function,
        *,
        name: str,
        call_batch: int = CALL_BATCH,
        retries: int = 0,
        keeps_answers: bool = False,
    ) -> None:
        self.name, self.keeps_answers = name, keeps_answers
        self.before_call: Callable[[], None] | None = None
        self.memory: Memory | None = None
        self._function = Batched(function, name=name, call_batch=call_batch, retries=retries)

    @classmethod
    def named(
        cls, spec: str, *, call_batch: int = CALL_BATCH, retries: int = 0
    ) -> tuple[VectorFunction, dict[str, Any]]:
        """Load the function ``call:package.module:function``; return it with the hash of its file.

        Raises:
            UserError: as in `load_function`.
        """
        function, identity = load_function(spec)
        return cls(function, name=spec, call_batch=call_batch, retries=retries), identity

    def vectors(
        self,
        texts: Sequence[str],
        *,
        limit: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return the vectors of n different texts, (n, d); ``progress`` gets (texts done, n) after each call."""
        found = dict(self.memory.known(texts, limit)) if self.memory is not None else {}
        unknown = [place for place in range(len(texts)) if place not in found]
        calls = self._function.outputs([texts[place] for place in unknown], limit=limit)
        while len(found) < len(texts):
            if self.before_call is not None:
                self.before_call()
            answered, rows = next(calls)
            places, vectors = [unknown[place] for place in answered], rows.astype(np.float32)
            if self.memory is not None:
                self.memory.add([texts[place] for place in places], limit, vectors)
            found |= zip(places, vectors, strict=True)
            if progress is not None:
                progress(len(found), len(texts))
        if len({len(vector) for vector in found.values()}) > 1:
            raise UserError(f"{self.name} returned vectors of another length before: delete the journal of the audit")
        return np.stack([found[place] for place in range(len(texts))]) if found else np.empty((0, 0), np.float32)


if TYPE_CHECKING:
    SentenceEncoder: TypeAlias = SentenceTransformer | VectorFunction
    """A model that encodes texts: a SentenceTransformer, or a function in its place."""


def _length(text: Any) -> int:
    """Return the number of characters of a text, or of both texts of a pair."""
    return len(text) if isinstance(text, str) else sum(map(len, text))


def imported(module_name: str, name: str, where: str) -> Any:
    """Import a name from a module, which may be in the current folder; ``where`` begins the error message.

    Raises:
        UserError: there is no such module or name, or the import fails.
    """
    sys.path.insert(0, "")  # as in `python -m`
    try:
        return getattr(importlib.import_module(module_name), name)
    except Exception as error:  # any error of the import
        raise UserError(f"{where}: {type(error).__name__}: {first_line(error)}") from error
    finally:
        sys.path.remove("")


def load_function(spec: str) -> tuple[Function, dict[str, Any]]:
    """Load the function ``call:package.module:function``; return it with the hash of its file.

    Its module may be in the current folder.

    Raises:
        UserError: there is no such module or function, or its import fails.
    """
    module_name, colon, name = spec.removeprefix(CALL).partition(":")
    if not colon or not module_name or not name:
        raise UserError(f"{spec!r} is not call:package.module:function")
    function = imported(module_name, name, spec)
    if not callable(function):
        raise UserError(f"{spec} is no function")
    digest = _hash_of_source(function, module_name, spec)
    return function, {"model_sha256": digest, "model_files": {module_name: digest}}


def _hash_of_source(function: Any, module_name: str, spec: str) -> str:
    """Return the hash of the file of the named module, and of the file that defines the function, if that is another.

    Raises:
        UserError: the module has no file.
    """
    files = [getattr(sys.modules[module_name], "__file__", None)]
    with contextlib.suppress(TypeError, OSError):  # a callable object, a partial function
        files.append(inspect.getsourcefile(inspect.unwrap(function)))
    try:
        contents = [Path(file).read_bytes() for file in dict.fromkeys(filter(None, files))]
    except OSError as error:
        raise UserError(f"{spec}: cannot read its module ({error}), whose hash tells it from others") from error
    if not contents:
        raise UserError(f"{spec}: its module has no file, whose hash tells it from others: put it into a file")
    hashes = [hashlib.sha256(content).hexdigest() for content in contents]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest()
