"""A local server of embeddings, OpenAI-style, whose faults a test chooses, and which counts what it answered."""

from __future__ import annotations

import base64
import json
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

DIMENSIONS = 8

Body = dict[str, Any]
Change = Callable[[Body], Body]


def vector_of(text: str) -> list[float]:
    """The vector of a text: random numbers by its content, as float32 in JSON."""
    rng = np.random.default_rng(zlib.crc32(text.encode()))
    return [float(number) for number in rng.normal(size=DIMENSIONS).astype(np.float32)]


class EmbeddingsServer(ThreadingHTTPServer):
    """The server.

    Attributes:
        faults: the fault of each request, by its number from 0: a status, "slow", "cut", "short" or "drop".
        answered: how often each text was answered, completely.
        requests: the number of requests so far.
        change: changes a good answer.
        headers: headers of answers with a fault.
        seen: the bodies and headers of all requests.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.faults: Callable[[int], Any] = lambda number: None
        self.change: Change = lambda body: body
        self.answered: Counter[str] = Counter()
        self.seen: list[tuple[Body, dict[str, str], str]] = []
        self.headers: dict[str, str] = {}
        self.slow = 0.4
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def requests(self) -> int:
        """The number of requests so far."""
        return len(self.seen)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: EmbeddingsServer

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            number = len(server.seen)
            server.seen.append((body, dict(self.headers), self.path))
        fault = server.faults(number)
        texts = body["input"]
        rows = [{"index": i, "object": "embedding", "embedding": vector_of(text)} for i, text in enumerate(texts)]
        answer = json.dumps(server.change({"object": "list", "data": rows[::-1], "model": body["model"]})).encode()
        if fault == "slow":
            time.sleep(server.slow)
        if fault == "drop":
            self.close_connection = True
        elif isinstance(fault, int):
            given = self.headers.get("Authorization", "no key")
            self._send(fault, json.dumps({"error": {"message": f"no, {given}"}}).encode(), server.headers)
        elif fault == "cut":  # the rest of the announced bytes never comes
            self.close_connection = True
            self._send(200, answer[: len(answer) // 2], length=len(answer))
        elif fault == "short":  # a complete message that is not JSON
            self._send(200, answer[: len(answer) // 2])
        else:
            if fault != "slow":  # counted before it is sent: the client may look at once
                with server.lock:
                    server.answered.update(texts)
            self._send(200, answer)

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None, length: int | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def running_server() -> Iterator[EmbeddingsServer]:
    """Run a server inside the block."""
    server = EmbeddingsServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def as_base64(body: Body) -> Body:
    """The vectors of an answer as base64 of float32."""
    for row in body["data"]:
        row["embedding"] = base64.b64encode(np.asarray(row["embedding"], "<f4").tobytes()).decode()
    return body
