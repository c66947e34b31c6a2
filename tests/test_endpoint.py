"""An HTTP endpoint in place of a model: faults, checks, the cache on disk, the rate limit, keys that stay secret."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embeddings_server import EmbeddingsServer, as_base64, running_server, vector_of
from holdfast.audit.audit_settings import AuditSettings
from holdfast.endpoint import Endpoint, refuse_call_options
from holdfast.endpoint_cache import EndpointCache
from holdfast.endpoint_options import EndpointOptions, endpoint_url
from holdfast.errors import Notice, UserError

KEY = "sk-very-secret"


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with running_server() as running:
        yield running


def endpoint_of(server: EmbeddingsServer, cache: Path, *, key: str | None = None, **more: Any) -> Endpoint:
    given = {"endpoint_timeout": 10.0, "endpoint_retries": 4, **more}
    options = EndpointOptions(endpoint=server.url, endpoint_model="small", endpoint_cache=cache, **given)
    return Endpoint(options, key=key, first_wait=0.01)


def texts_of(count: int) -> list[str]:
    return [f"text number {number} {'word ' * (number % 7)}" for number in range(count)]


def test_vectors_come_in_the_order_of_the_texts(server: EmbeddingsServer, tmp_path: Path) -> None:
    endpoint = endpoint_of(server, tmp_path, key=KEY, endpoint_characters=60)
    texts = texts_of(10)
    found = endpoint([*texts, texts[3]])
    np.testing.assert_array_equal(found, np.array([vector_of(text) for text in [*texts, texts[3]]], np.float32))
    assert all(sum(map(len, body["input"])) <= 60 for body, _, _ in server.seen)
    assert server.requests > 3
    assert max(server.answered.values()) == 1
    body, headers, path = server.seen[0]
    assert (body["model"], headers["Authorization"], path) == ("small", f"Bearer {KEY}", "/v1/embeddings")
    endpoint(["x" * 100])  # longer than a request may be: alone
    assert server.seen[-1][0]["input"] == ["x" * 100]
    server.change = as_base64
    np.testing.assert_array_equal(endpoint(["another"])[0], np.array(vector_of("another"), np.float32))


FAULTS = [429, None, 500, "slow", None, "cut", 503, "short", "drop", None, None, 429, "cut", "drop"]


@pytest.mark.slow
def test_a_flaky_server_gives_the_same_vectors_and_answers_no_text_twice(
    server: EmbeddingsServer, tmp_path: Path
) -> None:
    texts = texts_of(1000)
    options = EndpointOptions(
        endpoint=server.url,
        endpoint_model="small",
        endpoint_cache=tmp_path,
        endpoint_characters=500,
        endpoint_timeout=0.2,
    )
    server.faults = lambda number: FAULTS[number % len(FAULTS)]
    server.headers = {"Retry-After": "0.02"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = Endpoint(options, first_wait=0.01)(texts)
    np.testing.assert_array_equal(found, np.array([vector_of(text) for text in texts], np.float32))
    assert server.requests > 60
    messages = {str(each.message) for each in caught}
    for part in ("status 429", "status 500", "no answer within 0.2 s", "the connection failed", "is not JSON"):
        assert any(part in message for message in messages), part
    assert all(str(server.server_port) in message for message in messages)
    assert any("status 429: no, no key; again in 0.02 s (1 of 8" in message for message in messages), "Retry-After"
    assert set(server.answered.values()) == {1}
    asked = server.requests
    np.testing.assert_array_equal(Endpoint(options)(texts), found)
    assert server.requests == asked, "all answers are in the cache"


KILLED = """
import os, sys
from pathlib import Path
from holdfast.endpoint import Endpoint
from holdfast.endpoint_options import EndpointOptions
from holdfast.endpoint_cache import EndpointCache

url, cache, die_at = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
options = EndpointOptions(endpoint=url, endpoint_model="small", endpoint_cache=cache, endpoint_characters=400)
endpoint = Endpoint(options, first_wait=0.01)
real, calls = os.write, []

def write(handle, data):
    calls.append(None)
    if len(calls) == die_at:  # in the middle of a line
        real(handle, data[:len(data) // 2 + 30])
        os.kill(os.getpid(), 9)
    return real(handle, data)

os.write = write
endpoint([f"text number {number}" for number in range(200)])
"""


def test_a_killed_run_goes_on_from_the_cache(server: EmbeddingsServer, tmp_path: Path) -> None:
    script, cache = tmp_path / "run.py", tmp_path / "cache"
    script.write_text(KILLED)
    killed = subprocess.run([sys.executable, str(script), server.url, str(cache), "5"], timeout=300)
    assert killed.returncode == -signal.SIGKILL
    (file,) = cache.glob("*.vectors")
    assert not file.read_bytes().endswith(b"\n")
    kept = len(server.answered)
    assert 0 < kept < 200
    texts = [f"text number {number}" for number in range(200)]
    found = endpoint_of(server, cache)(texts)
    np.testing.assert_array_equal(found, np.array([vector_of(text) for text in texts], np.float32))
    twice = [text for text, times in server.answered.items() if times > 1]
    last = server.seen[4][0]["input"]  # the request whose answers were being written
    assert set(twice) <= set(last)
    assert sum(len(line.split()) == 3 for line in file.read_bytes().splitlines()) >= 200
    reader = EndpointCache(cache, server.url, "small")
    assert set(reader.known(texts)) == set(texts)


def test_two_processes_share_the_cache(server: EmbeddingsServer, tmp_path: Path) -> None:
    one, two = endpoint_of(server, tmp_path), endpoint_of(server, tmp_path)
    one(["a", "b"])
    two(["b", "c"])
    one(["c", "a"])
    assert server.answered == {"a": 1, "b": 1, "c": 1}
    options = EndpointOptions(endpoint=server.url, endpoint_model="other", endpoint_cache=tmp_path)
    Endpoint(options)(["a"])
    assert server.answered["a"] == 2, "another model has other vectors"


def test_what_another_process_answered_in_the_meantime_is_not_sent(server: EmbeddingsServer, tmp_path: Path) -> None:
    def meanwhile(body: dict[str, Any]) -> dict[str, Any]:
        EndpointCache(tmp_path, server.url, "small").add(["b"], np.array([vector_of("b")], np.float32))
        return body

    server.change = meanwhile
    found = endpoint_of(server, tmp_path, endpoint_characters=1)(["a", "b"])
    np.testing.assert_array_equal(found[1], np.array(vector_of("b"), np.float32))
    assert server.answered == {"a": 1}


@pytest.mark.parametrize(("status", "message"), [(401, "the key in $OPENAI is not accepted"), (403, "is not accepted")])
def test_a_refused_key_is_one_line_without_the_key_and_not_tried_again(
    server: EmbeddingsServer, tmp_path: Path, status: int, message: str
) -> None:
    server.faults = lambda number: status
    with pytest.raises(UserError, match=f"status {status}: ") as raised:
        endpoint_of(server, tmp_path, key=KEY, endpoint_key="OPENAI")(["a"])
    assert message in str(raised.value)
    assert server.url in str(raised.value)
    assert "no, Bearer ***" in str(raised.value), "the server's own message"
    assert KEY not in str(raised.value)
    assert raised.value.__cause__ is None
    assert server.requests == 1
    with pytest.raises(UserError, match=r"status 40\d: a key is needed: set \$HOLDFAST_ENDPOINT_KEY: no, no key"):
        endpoint_of(server, tmp_path)(["a"])


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_wrong_request_is_not_tried_again(server: EmbeddingsServer, tmp_path: Path, status: int) -> None:
    server.faults = lambda number: status
    with pytest.raises(UserError, match=f"/v1: status {status}: no, no key$"):
        endpoint_of(server, tmp_path)(["a"])
    assert server.requests == 1


def test_a_server_that_stays_away_ends_the_run_after_the_retries(server: EmbeddingsServer, tmp_path: Path) -> None:
    endpoint = endpoint_of(server, tmp_path)
    endpoint(["a"])
    server.faults = lambda number: 503
    with (
        pytest.warns(Notice, match=r"status 503: no, no key; again in 0\.\d+ s \(4 of 4, --endpoint-retries\)"),
        pytest.raises(UserError, match=r"status 503: no, no key \(after 5 tries\); 1 answers are kept in .*\.vectors"),
    ):
        endpoint(["b"])
    assert server.requests == 6


def test_a_retry_after_beyond_ten_minutes_ends_the_run_and_a_date_is_read(
    server: EmbeddingsServer, tmp_path: Path
) -> None:
    server.faults = lambda number: 429 if number == 0 else None
    server.headers = {"Retry-After": "86400"}
    with pytest.raises(UserError, match=r"status 429, and it asks to wait for 86,400 s: run again later"):
        endpoint_of(server, tmp_path)(["a"])
    server.faults = lambda number: 429 if number == 1 else None
    server.headers = {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}
    with pytest.warns(Notice, match=r"again in 0 s"):
        endpoint_of(server, tmp_path)(["a"])


def changed(**row: Any) -> Any:
    def change(body: dict[str, Any]) -> dict[str, Any]:
        body["data"][0] |= row
        return body

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: {**body, "data": body["data"][1:]}, "1 vectors for 2 texts"),
        (changed(index=0), "the indices of the vectors are not 0 to 1, each once"),
        (changed(index=True), "the indices of the vectors are not 0 to 1, each once"),
        (changed(embedding=[1.0] * 7), "vectors of 7 and of 8 dimensions"),
        (changed(embedding=[1.0] * 7 + [float("nan")]), "vector 1 has a number that is not finite"),
        (changed(embedding=[1.0] * 7 + [1e300]), "vector 1 has a number that is not finite"),
        (changed(embedding="not base64!"), "vector 1 is neither a list of numbers nor base64 of float32"),
        (changed(embedding="YWJj"), "vector 1 is neither a list of numbers nor base64 of float32"),
        (changed(embedding=[]), "vector 1 is neither a list of numbers nor base64 of float32"),
        (changed(embedding=None), "vector 1 is neither a list of numbers nor base64 of float32"),
        (changed(embedding=[[1.0]]), "vector 1 is neither a list of numbers nor base64 of float32"),
        (lambda body: {"error": {"message": "overloaded"}}, "the answer has no list 'data': overloaded"),
        (lambda body: [1], "the answer has no list 'data'"),
    ],
)
def test_an_invalid_answer_is_one_line(server: EmbeddingsServer, tmp_path: Path, change: Any, message: str) -> None:
    server.change = change
    with pytest.raises(UserError, match="/v1: status 200, but ") as raised:
        endpoint_of(server, tmp_path)(["a", "b"])
    assert message in str(raised.value)
    assert server.requests == 1
    assert not list(tmp_path.glob("*.vectors")), "nothing invalid is kept"


def test_another_length_than_before_is_refused(server: EmbeddingsServer, tmp_path: Path) -> None:
    endpoint_of(server, tmp_path)(["a"])
    server.change = changed(embedding=[1.0, 2.0])
    with pytest.raises(UserError, match=r"small gave vectors of 2 and of 8 dimensions: if it has changed, delete .*"):
        endpoint_of(server, tmp_path)(["a", "b"])


class Clock:
    """A clock that only sleeping moves."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_the_rate_limit_spaces_the_requests(
    server: EmbeddingsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("holdfast.endpoint.time", clock)
    endpoint_of(server, tmp_path, endpoint_rate=600.0, endpoint_characters=1)(["a", "b", "c", "d"])
    assert server.requests == 4
    assert clock.now == pytest.approx(100.3)


def test_no_one_there_is_one_line(tmp_path: Path) -> None:
    options = EndpointOptions(
        endpoint="http://127.0.0.1:9", endpoint_model="m", endpoint_cache=tmp_path, endpoint_retries=0
    )
    with pytest.raises(UserError, match=r"http://127\.0\.0\.1:9: the connection failed: .*"):
        Endpoint(options)(["a"])


def test_a_query_of_the_url_tells_endpoints_apart_and_is_not_shown(server: EmbeddingsServer, tmp_path: Path) -> None:
    found = []
    for query in ("", "?task=a", "?task=b", "?task=b"):
        options = EndpointOptions(endpoint=server.url + query, endpoint_model="small", endpoint_cache=tmp_path)
        found.append(Endpoint(options))
        found[-1](["a text"])
    assert server.requests == 3, "only the last has its answer in the cache"
    assert len({endpoint.identity["model_sha256"] for endpoint in found}) == 3
    assert {endpoint.identity["endpoint"]["url"] for endpoint in found} == {server.url}
    assert all("task" not in path.read_text(encoding="utf-8") for path in tmp_path.iterdir())


def test_options_are_checked_and_urls_are_shown_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="--endpoint https://h needs the name of its model: --endpoint-model"):
        EndpointOptions(endpoint="https://h")
    with pytest.raises(UserError, match="--endpoint-model names a model of an endpoint: add --endpoint URL"):
        EndpointOptions(endpoint_model="m")
    for name, value in (("endpoint_rate", 3.0), ("endpoint_retries", 0)):
        flag = f"--{name.replace('_', '-')} {value}"
        with pytest.raises(UserError, match=f"^{flag} is of an endpoint: add --endpoint URL, or leave it out$"):
            refuse_call_options(AuditSettings("m", **{name: value}))
    for url in (f"https://me:{KEY}@h/v1", f"https://h/v1?api_key={KEY}", f"https://h/v1?a=b&Token={KEY}"):
        with pytest.raises(UserError, match=r"holds a user or a key, .* variable HOLDFAST_ENDPOINT_KEY") as held:
            EndpointOptions(endpoint=url, endpoint_model="m")
        assert KEY not in str(held.value)
    assert endpoint_url("https://me:you@h:8/v1/embeddings?api-version=1#x") == "https://h:8/v1/embeddings"
    options = EndpointOptions(endpoint="https://h/v1/embeddings?api-version=1", endpoint_model="m")
    assert str(Endpoint(options)._target) == "https://h/v1/embeddings?api-version=1"
    with pytest.raises(UserError, match="--endpoint ftp://h is not a URL of http or https"):
        Endpoint(EndpointOptions(endpoint="ftp://h", endpoint_model="m"))
    with pytest.raises(UserError, match="--endpoint-timeout must be more than 0"):
        Endpoint(EndpointOptions(endpoint="http://h", endpoint_model="m", endpoint_timeout=0.0))
    with pytest.raises(UserError, match="--endpoint http://h: ") as raised:
        Endpoint(EndpointOptions(endpoint="http://h", endpoint_model="m"), key=f"{KEY}é")
    assert KEY not in str(raised.value)
