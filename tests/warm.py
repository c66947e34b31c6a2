"""Processes of their own for tests, forked from one that has imported everything: the imports take eight seconds.

What a test starts this way runs as ``python script.py ARGUMENTS`` would, alone or as several processes that find one
another as under torchrun, and may be killed.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

IMPORTED = (
    "datasets",
    "holdfast.attacks.attack_run",
    "holdfast.audit",
    "holdfast.classifiers.finetune_run",
    "holdfast.cli",
    "holdfast.evaluation.evaluation_run",
    "holdfast.hardening.hardening_run",
    "holdfast.pretraining.pretraining_run",
    "holdfast.training.training_run",
    "pytest",
    "transformers",
)
_TIMEOUT = 600.0


class WarmPython:
    """A Python that has imported holdfast and what it stands on, and forks a process for each run."""

    def __init__(self) -> None:
        command = [sys.executable, __file__, *IMPORTED]
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def run(
        self, script: Path, *words: str, processes: int = 1, function: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a script to its end, in the working folder and the environment of the caller, on one thread.

        Args:
            script: a Python file.
            words: its arguments.
            processes: how many run it at once, as ranks of one group. Where one fails, the others are killed.
            function: call the file's function of this name with the words instead of running the file.

        Returns:
            What ended: the return code is that of the first process to fail, negative for a signal; ``stdout`` and
            ``stderr`` are both what all of them wrote.
        """
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        request = {
            "script": str(script),
            "words": words,
            "function": function,
            "environments": [{**environment, **rank} for rank in ranks(processes)],
            "folder": str(Path.cwd()),
        }
        with tempfile.NamedTemporaryFile("r") as log:
            self._ask({**request, "log": log.name})
            code = self._answer()
            written = log.read()
        return subprocess.CompletedProcess([str(script), *words], code, written, written)

    def close(self) -> None:
        """End it."""
        self._server.communicate(timeout=30)

    def _ask(self, request: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()

    def _answer(self) -> int:
        assert self._server.stdout is not None
        ready, _, _ = select.select([self._server.stdout], [], [], _TIMEOUT)
        if not ready:
            os.killpg(self._server.pid, signal.SIGKILL)
            raise TimeoutError(f"a run has not ended within {_TIMEOUT:.0f} s")
        line = self._server.stdout.readline()
        assert line, "the process that others are forked from has ended"
        return int(line)


def ranks(processes: int) -> list[dict[str, str]]:
    """What torchrun tells each of several processes on one machine; of one process alone nothing."""
    if processes == 1:
        return [{}]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    group = {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1"}
    return [{**group, "MASTER_PORT": port, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]


# --- the process that others are forked from ---------------------------------------------------------------------


def serve() -> None:
    """Fork what each line asks for, wait for it, and answer with its return code."""
    gc.disable()
    for name in sys.argv[1:]:
        importlib.import_module(name)
    load_a_model()
    gc.collect()
    gc.enable()
    gc.freeze()  # the garbage collector of a forked process does not visit what was imported, nor copy its memory
    for line in sys.stdin:
        request = json.loads(line)
        running = set()
        for environment in request["environments"]:
            pid = os.fork()
            if pid == 0:
                become(request, environment)
            running.add(pid)
        print(wait_for(running), flush=True)


def load_a_model() -> None:
    """Load a small BERT: transformers keeps what it compiles for its first model, which takes a third of a second."""
    from transformers import AutoModel, BertConfig, BertModel

    with tempfile.TemporaryDirectory() as folder:
        config = BertConfig(
            vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4
        )
        BertModel(config).save_pretrained(folder)
        AutoModel.from_pretrained(folder)


def become(request: dict[str, Any], environment: dict[str, str]) -> None:
    """Run the script, or its function, in this process, and end it."""
    log = os.open(request["log"], os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(request["folder"])
    script, words, function = request["script"], request["words"], request["function"]
    sys.argv = [script, *words]
    sys.path.insert(0, str(Path(script).parent))
    code = 1
    try:
        if function is None:
            runpy.run_path(script, run_name="__main__")
        else:
            runpy.run_path(script)[function](*words)
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    leave(code)


def leave(code: int) -> NoReturn:
    """End as Python ends, but for its teardown of the modules: half a second of each process."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def wait_for(running: set[int]) -> int:
    """The first return code that is not 0, after which the others are killed; else 0."""
    found = 0
    while running:
        pid, status = os.wait()
        running.remove(pid)
        code = os.waitstatus_to_exitcode(status)
        if code and not found:
            found = code
            for other in running:
                os.kill(other, signal.SIGKILL)
    return found


if __name__ == "__main__":
    serve()
