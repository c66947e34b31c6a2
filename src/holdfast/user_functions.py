"""User-defined functions in place of a model: found by name, called in batches, with checks of their output."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from holdfast.errors import UserError, first_line
from holdfast.model_lookup import CALL, CALL_BATCH
from holdfast.number_ranges import in_range

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Function = Callable[[list[Any]], Any]


class Batched:
    """A function from texts to rows of numbers, with a limited number of texts per call.

    Args:
        function: takes a list of n texts (or of n pairs) and returns n rows of numbers, always of the same length; any
            type that NumPy converts to an array.
        name: name for the record.
        call_batch: maximum number of texts per call.

    Raises:
        UserError: ``call_batch`` is below one.
    """

    def __init__(self, function: Function, *, name: str, call_batch: int = CALL_BATCH) -> None:
        in_range("call_batch", call_batch)
        self.name = name
        self._function, self._call_batch = function, call_batch
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
        try:
            rows = np.asarray(self._function(texts), dtype=np.float64)
        except Exception as error:  # any error of the user's function
            cause = f"{type(error).__name__}: {error}"
            raise UserError(f"{self.name} failed, or returned no array of numbers: {cause}") from error
        if rows.ndim != 2 or len(rows) != len(texts):
            raise UserError(
                f"{self.name} returned an array of shape {rows.shape} for {len(texts)} texts: it must return one row "
                "of numbers per text"
            )
        if not (finite := np.isfinite(rows).all(axis=1)).all():
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


class VectorFunction:
    """A function from texts to vectors, such as an embedding service, in place of a SentenceTransformer.

    It is accepted by `holdfast.encoding.encode_sentences`, by the audit, and by attacks whose goal uses vectors.

    Args:
        function: takes a list of n texts and returns n vectors of d numbers.
        name: name for the record.
        call_batch: maximum number of texts per call.

    Attributes:
        device: device of the vectors; the function may compute them anywhere.
        tokenizer: None: truncated texts and unknown words cannot be detected.
        before_call: called before each call of the function; it may raise an error to stop.
    """

    device = "cpu"
    tokenizer = None

    def __init__(self, function: Function, *, name: str, call_batch: int = CALL_BATCH) -> None:
        self.name = name
        self.before_call: Callable[[], None] | None = None
        self._function = Batched(function, name=name, call_batch=call_batch)

    @classmethod
    def named(cls, spec: str, *, call_batch: int = CALL_BATCH) -> tuple[VectorFunction, dict[str, Any]]:
        """Load the function ``call:package.module:function``; return it with the hash of its file.

        Raises:
            UserError: as in `load_function`.
        """
        function, identity = load_function(spec)
        return cls(function, name=spec, call_batch=call_batch), identity

    def vectors(
        self,
        texts: Sequence[str],
        *,
        limit: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> npt.NDArray[np.float32]:
        """Return the vectors of n different texts, (n, d); ``progress`` gets (texts done, n) after each call."""
        vectors = np.empty((0, 0), dtype=np.float32)
        done = 0
        calls = self._function.outputs(texts, limit=limit)
        while done < len(texts):
            if self.before_call is not None:
                self.before_call()
            places, rows = next(calls)
            if not done:
                vectors = np.empty((len(texts), rows.shape[1]), dtype=np.float32)
            vectors[places] = rows
            done += len(places)
            if progress is not None:
                progress(done, len(texts))
        return vectors


if TYPE_CHECKING:
    SentenceEncoder: TypeAlias = SentenceTransformer | VectorFunction
    """A model that encodes texts: a SentenceTransformer, or a function in its place."""


def _length(text: Any) -> int:
    """Return the number of characters of a text, or of both texts of a pair."""
    return len(text) if isinstance(text, str) else sum(map(len, text))


def load_function(spec: str) -> tuple[Function, dict[str, Any]]:
    """Load the function ``call:package.module:function``; return it with the hash of its file.

    Its module may be in the current folder.

    Raises:
        UserError: there is no such module or function, or its import fails.
    """
    module_name, colon, name = spec.removeprefix(CALL).partition(":")
    if not colon or not module_name or not name:
        raise UserError(f"{spec!r} is not call:package.module:function")
    sys.path.insert(0, "")  # as in `python -m`
    try:
        function = getattr(importlib.import_module(module_name), name)
    except Exception as error:  # any error of the import
        raise UserError(f"{spec}: {type(error).__name__}: {first_line(error)}") from error
    finally:
        sys.path.remove("")
    if not callable(function):
        raise UserError(f"{spec} is no function")
    try:
        source = Path(inspect.getsourcefile(function) or "").read_bytes()
    except (TypeError, OSError):
        source = b""
    digest = hashlib.sha256(source).hexdigest()
    return function, {"model_sha256": digest, "model_files": {module_name: digest}}
