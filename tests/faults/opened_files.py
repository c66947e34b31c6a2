"""The files that a process opens, as the system sees them: weights and tokenisers are opened by compiled code.

    python tests/faults/opened_files.py FOLDER -- holdfast evaluate hostile-model --tasks space

runs the command under strace and prints the files in FOLDER that it opened to read.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_OPENED = re.compile(r'open(?:at2?)?\((?:AT_FDCWD|\d+(?:<.*?>)?)?,? ?"((?:[^"\\]|\\.)*)", (?:\{flags=)?([A-Z_|]+)')


def why_not() -> str | None:
    """Return why the files that a process opens cannot be seen here; None where they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(
        ["strace", "-f", "--seccomp-bpf", "-e", "trace=%file", "true"], capture_output=True, text=True
    )
    return None if tried.returncode == 0 else f"strace is not allowed here: {tried.stderr.strip()[-200:]}"


def run_traced(command: Sequence[str], log: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command, with each process that it starts, and write to ``log`` what files they ask the system for."""
    strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "4096", "-e", "trace=%file", "-o", str(log)]
    return subprocess.run([*strace, *command], text=True, check=False, **more)


def opened(log: Path) -> list[Path]:
    """Return the files that were opened, or tried to be, to read, in their order; folders are left out.

    Paths are as the processes gave them: relative ones are relative to where the command was started.
    """
    found = []
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            call = _OPENED.search(line)
            if call and not {"O_DIRECTORY", "O_WRONLY"} & set(call[2].split("|")):
                found.append(Path(call[1].encode("latin-1", "replace").decode("unicode_escape")))
    return found


def opened_in(folder: Path, log: Path, start: Path) -> list[Path]:
    """Return the files in ``folder``, or below it, that were opened by a command started in ``start``."""
    place = folder.resolve()
    return [path for path in opened(log) if (start / path).resolve().is_relative_to(place)]


def main() -> int:
    folder, mark, *command = sys.argv[1:]
    if mark != "--" or (reason := why_not()) is not None:
        print(reason if mark == "--" else __doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "log"
        code = run_traced(command, log).returncode
        print(*opened_in(Path(folder), log, Path.cwd()), sep="\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
