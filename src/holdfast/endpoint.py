"""An OpenAI-style HTTP endpoint of embeddings as a function from texts to vectors.

A request is ``POST URL/embeddings`` with ``{"model": NAME, "input": [TEXT, ...]}``. Each answer is checked and kept on
disk (`holdfast.endpoint_cache`) before the next request, so that no text is sent again after it was answered. The key
is read from an environment variable, and is in no message and no result.
"""

from __future__ import annotations

import email.utils
import hashlib
import os
import random
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.endpoint_cache import EndpointCache, vector_of_base64
from holdfast.endpoint_options import EndpointOptions, endpoint_address, endpoint_url
from holdfast.errors import UserError, emit_notice, first_line
from holdfast.files import cache_folder
from holdfast.model_lookup import is_function
from holdfast.number_ranges import check_numbers
from holdfast.settings import refuse_given
from holdfast.text_prompts import refuse_prompts
from holdfast.user_functions import VectorFunction

Vectors = npt.NDArray[np.float32]

_AGAIN = (408, 425, 429)
"""Statuses below 500 after which a request is repeated."""
_NOT_ALLOWED = (401, 403)
_LONGEST_WAIT, _LONGEST_RETRY_AFTER = 60.0, 600.0
"""Seconds between two tries, at most: by the exponential back-off, and by Retry-After."""
_SHOWN = 200
"""Characters of a server's message that are shown."""


class _Fault(Exception):
    """A fault of an answer; ``again``: a repetition may succeed, after ``wait`` seconds if the server names them."""

    def __init__(self, message: str, *, again: bool = False, wait: float | None = None) -> None:
        super().__init__(message)
        self.again, self.wait = again, wait


class Endpoint:
    """A function from texts to vectors that asks an endpoint.

    Args:
        options: the options; ``endpoint`` and ``endpoint_model`` are given.
        key: the key; None: none is sent.
        first_wait: seconds before the first repetition, which double for each further one.

    Raises:
        UserError: the URL is not one of http or https.
    """

    def __init__(self, options: EndpointOptions, *, key: str | None = None, first_wait: float = 1.0) -> None:
        import httpx2

        assert options.endpoint is not None
        assert options.endpoint_model is not None
        check_numbers(options)
        self.url, self.model = endpoint_url(options.endpoint), options.endpoint_model
        self._address = endpoint_address(options.endpoint)
        if not options.endpoint.startswith(("http://", "https://")):
            raise UserError(f"--endpoint {self.url} is not a URL of http or https, such as https://host/v1")
        self._options, self._key, self._first_wait = options, key, first_wait
        self._cache = EndpointCache(options.endpoint_cache or cache_folder("endpoints"), self._address, self.model)
        self._jitter = random.Random(f"{self.url}/{os.getpid()}")  # two processes do not repeat at the same time
        self._next = 0.0
        self._dimensions: int | None = None
        try:
            self._target = httpx2.URL(options.endpoint)
            if not self._target.path.rstrip("/").endswith("/embeddings"):
                self._target = self._target.copy_with(path=f"{self._target.path.rstrip('/')}/embeddings")
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            self._client = httpx2.Client(headers=headers, timeout=options.endpoint_timeout)
            weakref.finalize(self, self._client.close)
        except (httpx2.InvalidURL, UnicodeError, ValueError) as error:  # a key may hold a letter that a header cannot
            raise UserError(f"--endpoint {self.url}: {self._without_key(first_line(error))}") from error

    @property
    def identity(self) -> dict[str, Any]:
        """The hash of the URL with its query and the model's name, for results, and URL and name."""
        digest = hashlib.sha256(f"{self._address}\n{self.model}".encode()).hexdigest()
        return {"model_sha256": digest, "model_files": {}, "endpoint": {"url": self.url, "model": self.model}}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, (n, d), from the cache or from the endpoint.

        Raises:
            UserError: the endpoint cannot be reached, refuses a request, or gives no valid answer.
        """
        found = dict(self._cache.known(texts))
        for part in self._requests([text for text in dict.fromkeys(texts) if text not in found]):
            found |= self._cache.known(part)  # another process may have asked in the meantime
            waiting = [text for text in part if text not in found]
            if waiting:
                vectors = self._answer(waiting)
                self._cache.add(waiting, vectors)
                found |= zip(waiting, vectors, strict=True)
        lengths = sorted({len(vector) for vector in found.values()})
        if len(lengths) > 1:
            raise UserError(
                f"{self.url}: {self.model} gave vectors of {lengths[0]:,} and of {lengths[1]:,} dimensions: if it has "
                f"changed, delete {self._cache.path}"
            )
        return np.stack([found[text] for text in texts]) if texts else np.zeros((0, 0), np.float32)

    def _requests(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """Yield the texts of each request, with at most so many characters; the caller limits their number."""
        part: list[str] = []
        characters = 0
        for text in texts:
            if part and characters + len(text) > self._options.endpoint_characters:
                yield part
                part, characters = [], 0
            part.append(text)
            characters += len(text)
        if part:
            yield part

    def _answer(self, texts: Sequence[str]) -> Vectors:
        """Ask until there is a valid answer, at most ``endpoint_retries`` times again; return the vectors (n, d)."""
        retries = self._options.endpoint_retries
        for number in range(retries + 1):
            try:
                return self._asked(texts)
            except _Fault as fault:
                if not fault.again or number == retries:
                    tries = f" (after {number + 1} tries)" if number else ""
                    kept = f"; {len(self._cache):,} answers are kept in {self._cache.path}" if len(self._cache) else ""
                    raise UserError(f"{self.url}: {self._without_key(str(fault))}{tries}{kept}") from None
                wait = self._wait(number) if fault.wait is None else fault.wait
                emit_notice(
                    f"{self.url}: {self._without_key(str(fault))}; again in {wait:.2g} s ({number + 1} of {retries}, "
                    "--endpoint-retries)"
                )
                time.sleep(wait)
        raise AssertionError("unreachable")

    def _wait(self, number: int) -> float:
        """Return the seconds before the next repetition: doubled each time, and by up to a fifth longer at random."""
        return min(_LONGEST_WAIT, self._first_wait * 2.0**number) * (1.0 + 0.2 * self._jitter.random())

    def _asked(self, texts: Sequence[str]) -> Vectors:
        import httpx2

        self._keep_rate()
        try:
            response = self._client.post(self._target, json={"model": self.model, "input": list(texts)})
        except httpx2.TimeoutException as error:
            seconds = f"{self._options.endpoint_timeout:g} s (--endpoint-timeout)"
            raise _Fault(f"no answer within {seconds}", again=True) from error
        except httpx2.RequestError as error:
            raise _Fault(f"the connection failed: {first_line(error)}", again=True) from error
        status = response.status_code
        if status in _NOT_ALLOWED:
            raise _Fault(f"status {status}: {self._about_key()}{_message(response)}")
        if status != 200:
            again = status in _AGAIN or status >= 500
            raise _Fault(f"status {status}{_message(response)}", again=again, wait=_retry_after(response, again))
        try:
            answer = response.json()
        except ValueError as error:
            raise _Fault("status 200, but the answer is not JSON (cut short?)", again=True) from error
        return self._checked(answer, len(texts))

    def _checked(self, answer: Any, count: int) -> Vectors:
        """Return the vectors of an answer in the order of the texts.

        Raises:
            _Fault: they are not ``count`` vectors of finite numbers, all of one length, with the indices of the texts.
        """
        rows = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise _Fault(f"status 200, but the answer has no list 'data'{_error_of(answer)}")
        if len(rows) != count:
            raise _Fault(f"status 200, but {len(rows)} vectors for {count} texts")
        indices = [row.get("index", place) for place, row in enumerate(rows)]
        if any(type(index) is not int for index in indices) or sorted(indices) != list(range(count)):
            raise _Fault(f"status 200, but the indices of the vectors are not 0 to {count - 1}, each once")
        vectors = [np.zeros(0, np.float32)] * count
        for index, row in zip(indices, rows, strict=True):
            vectors[index] = _vector(row.get("embedding"), index)
        lengths = sorted({len(vector) for vector in vectors} | ({self._dimensions} if self._dimensions else set()))
        if len(lengths) > 1:
            raise _Fault(f"status 200, but vectors of {lengths[0]:,} and of {lengths[1]:,} dimensions")
        self._dimensions = lengths[0]
        return np.stack(vectors)

    def _keep_rate(self) -> None:
        """Wait until the rate limit allows the next request."""
        if self._options.endpoint_rate is None:
            return
        time.sleep(max(0.0, self._next - time.monotonic()))
        self._next = time.monotonic() + 60.0 / self._options.endpoint_rate

    def _about_key(self) -> str:
        name = self._options.endpoint_key
        return f"the key in ${name} is not accepted" if self._key else f"a key is needed: set ${name}"

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text


def load_vector_function(options: Any) -> tuple[VectorFunction, dict[str, Any]]:
    """Return the function in place of a model that the settings of a verb name, and its record: hashes, the endpoint.

    Args:
        options: settings with ``model``, ``call_batch``, ``retries`` and the fields of `EndpointOptions`.

    Raises:
        UserError: there is no such function, or the options of the endpoint are not valid.
    """
    if options.endpoint is None:
        return VectorFunction.named(options.model, call_batch=options.call_batch, retries=options.retries)
    endpoint = Endpoint(options, key=os.environ.get(options.endpoint_key) or None)
    function = VectorFunction(endpoint, name=options.model, call_batch=options.call_batch, keeps_answers=True)
    return function, endpoint.identity


def refuse_call_options(options: Any) -> None:
    """Refuse options of calls for a model that is no function, of a function for an endpoint, and of no endpoint.

    Args:
        options: settings with ``model``, ``call_batch``, ``retries`` and the fields of `EndpointOptions`.

    Raises:
        UserError: one of them is given.
    """
    if options.endpoint is None:
        own = [each.name for each in fields(EndpointOptions) if each.name != "endpoint"]
        refuse_given(options, own, "is of an endpoint: add --endpoint URL, or leave it out")
    if not is_function(options.model):
        reason = f"is for call:... and --endpoint, and {options.model} is a model: leave it out"
        refuse_given(options, ("call_batch", "retries"), reason)
    elif options.endpoint is not None:
        refuse_given(options, ("retries",), "is for call:..., and --endpoint has --endpoint-retries")


def refuse_model_options(options: Any) -> None:
    """Refuse options of a model for the function in its place.

    Args:
        options: settings with ``model``, ``pooling`` and the fields of `PromptOptions` and `BackendOptions`.

    Raises:
        UserError: there is such an option.
    """
    if options.pooling is not None:
        raise UserError(f"--pooling is for a raw language model, and {options.model} is a function")
    refuse_prompts(options, options.model)
    if not options.chosen_backend.is_torch:
        raise UserError(f"--backend is for a model, and {options.model} is a function")


def _vector(embedding: Any, index: int) -> Vectors:
    """Return one vector of an answer, a list of numbers or base64 of float32."""
    try:
        with np.errstate(over="ignore"):  # too large a number becomes infinity
            vector = vector_of_base64(embedding) if isinstance(embedding, str) else np.asarray(embedding, np.float32)
    except (ValueError, TypeError, OverflowError):
        vector = np.zeros(0, np.float32)
    if vector.ndim != 1 or not len(vector):
        raise _Fault(f"status 200, but vector {index} is neither a list of numbers nor base64 of float32")
    if not np.isfinite(vector).all():
        raise _Fault(f"status 200, but vector {index} has a number that is not finite")
    return vector


def _message(response: Any) -> str:
    """Return the server's own message, if there is one, in one short line."""
    try:
        answer = response.json()
    except ValueError:
        answer = response.text
    return _error_of(answer)


def _error_of(answer: Any) -> str:
    found = answer.get("error", answer.get("detail", answer.get("message"))) if isinstance(answer, dict) else answer
    if isinstance(found, Mapping):
        found = found.get("message")
    if not isinstance(found, str) or not found.strip():
        return ""
    return f": {' '.join(found.split())[:_SHOWN]}"


def _retry_after(response: Any, again: bool) -> float | None:
    """Return the seconds that the header Retry-After asks for: a number, or the time until a date.

    Raises:
        _Fault: it asks to wait too long.
    """
    text = response.headers.get("Retry-After")
    if text is None or not again:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            until = email.utils.parsedate_to_datetime(text)
        except (TypeError, ValueError):
            return None
        until = until if until.tzinfo is not None else until.replace(tzinfo=timezone.utc)
        seconds = (until - datetime.now(timezone.utc)).total_seconds()
    if not seconds <= _LONGEST_RETRY_AFTER:
        raise _Fault(f"status {response.status_code}, and it asks to wait for {seconds:,.0f} s: run again later")
    return max(0.0, seconds)
