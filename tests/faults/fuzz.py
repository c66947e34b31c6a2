"""Malformed files into every reader: each gives a value or one line, soon, and in bounded memory.

    python tests/faults/fuzz.py --inputs 10000 --seed 1

An input is a good file of its kind, damaged: bits turned, parts cut out, doubled or exchanged with another file's,
words put in that have broken readers before, values of JSON exchanged for other values; packed, where the reader
unpacks, before or after that. Model folders get hostile entries besides (`fuzz_models.py`). A reader that raises
anything but `UserError`, takes more than `SECONDS` of processor time or more than `MEMORY` of memory is told, with the
file; and so is, where there is strace, each file outside of the model's folder that was opened.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import opened_files
import zstandard
from fuzz_kinds import Kind, all_kinds, check_printed
from fuzz_models import OUTSIDE, model_kinds

from holdfast.cli.error_lines import fail
from holdfast.errors import UserError

SECONDS = 10.0
_NUMBERS = "holdfast-fuzz-number"
"""A folder of files that are looked for, so that strace's log says which input comes next; none is there."""
MEMORY = 1 << 30
"""Bytes above what the process has when it begins."""


_WORDS: tuple[bytes, ...] = (
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r", b"\r\n", b"\n\n\n", b"\t\t", b'"', b"\\"),
    *(b"\\ud800", b"\\u0000", b"NaN", b"-Infinity", b"1e999", b"-0", b"9" * 5000, b"1" + b"0" * 400, b"null", b"true"),
    *(b"[" * 3000, b'{"a":' * 3000, b"{}", b"[]", b"&a [*a]", b"*a", b"!!python/object:os.system", b"<<: *x", b"? "),
    *(b"- - - ", b"%YAML 9.9", b"---\n", b"x" * 5000, "\u2028\u0085é\U0001f600".encode(), b"\x1f\x8b", b"PK\x03\x04"),
    *(b"../../etc/passwd", b"/etc/passwd", b"%s%n", b"{0.__class__}", b"nan", b"inf", b"1_000", "٣".encode()),
    *(
        b"\x1b]52;c;QUJD\x07",
        b"\x1b[2J",
        b"\xc2\x9b2J",
        b"\\u001b[2J",
        b'"\\x1b[2J"',
        b'"\\e]0;x\\a"',
        "\u202e".encode(),
    ),
    *(
        b"1" + b"0" * 26,
        b"9" * 400,
        b"-" + b"9" * 400,
        b"0x" + b"f" * 400,
        b"1e400",
        b"1:" * 300 + b"1",
        b".inf",
        b"0b1",
    ),
    *(b" =1+1", b"\n=1+1", b"\t@x", b'"\n=1+1"'),
)
_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1e308,
        10**30,
        10**400,
        "",
        "x",
        "\ud800",
        "\0",
        [],
        {},
        [[]],
        {"": None},
        [1, "a", None],
    ),
    *({"schema": 1}, ["x"] * 50, "../..", float("nan"), float("inf"), -0.0),
    *("\x1b]52;c;QUJD\x07", "\x1b[2J", "\x9b2J", "\u202e", "a\rb", 10**26, "=1+1", " =1+1", "\n=1+1", "\u00a0@x"),
)


@dataclass
class Tally:
    """What came of the inputs."""

    refused: int = 0
    read: int = 0
    wrong: dict[str, str] = field(default_factory=dict)
    slowest: float = 0.0
    by_kind: Counter[str] = field(default_factory=Counter)


class _TooSlow(BaseException):
    pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default="", help="only kinds whose name holds this")
    parser.add_argument("--keep", type=Path, help="keep the inputs that went wrong here")
    parser.add_argument("--traced", action="store_true", help="strace watches already")
    given = parser.parse_args()
    reason = opened_files.why_not()
    if reason is None and not given.traced:
        return _watched()
    warnings.simplefilter("ignore")
    began = time.process_time()
    with tempfile.TemporaryDirectory(prefix="holdfast-fuzz-") as scratch:
        os.environ["HOLDFAST_CACHE"] = scratch + "/cache"
        os.environ.pop("HOLDFAST_DATA", None)
        os.environ["HF_HUB_OFFLINE"] = "1"
        kinds = [kind for kind in [*all_kinds(), *model_kinds()] if given.kinds in kind.name]
        tally = fuzz(kinds, given.inputs, given.seed, Path(scratch), given.keep)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{tally.read + tally.refused} inputs of {len(kinds)} kinds: {tally.read} read, {tally.refused} refused")
    print(
        f"slowest {tally.slowest:.2f} s, all {time.process_time() - began:.0f} s of processor time, "
        f"at most {peak} MiB of memory"
    )
    for where, message in tally.wrong.items():
        print(f"WRONG: {where}\n{message}")
    print("no traceback, no hang, no memory without end" if not tally.wrong else f"{len(tally.wrong)} faults")
    if not given.traced:
        print(f"which files were opened is not known: {reason}")
    return 1 if tally.wrong else 0


def _watched() -> int:
    """Run the same under strace, and tell the files outside of the models' folders that were opened."""
    with tempfile.TemporaryDirectory(prefix="holdfast-opened-") as scratch:
        log = Path(scratch) / "log"
        code = opened_files.run_traced([sys.executable, *sys.argv, "--traced"], log).returncode
        paths = opened_files.opened(log)
    number, found = "", []
    for path in paths:
        number = path.name if path.parent.name == _NUMBERS else number
        if OUTSIDE in path.parts[:-1] and number:
            found.append(f"{path} at input {number}")
    for line in found[:20]:
        print(f"OPENED: {line}")
    print(f"{len(found)} files opened outside the folder")
    return code or (1 if found else 0)


def fuzz(kinds: list[Kind], inputs: int, seed: int, scratch: Path, keep: Path | None = None) -> Tally:
    """Read so many damaged files, of the kinds in turn."""
    draw, tally = random.Random(seed), Tally()
    for kind in kinds:  # imports are made, and the good file must be read
        read(kind, kind.good, scratch)
    with _limited_memory():
        for number in range(inputs):
            kind = kinds[number % len(kinds)]
            data = damaged(kind, kinds, draw)
            with contextlib.suppress(FileNotFoundError):
                (scratch / _NUMBERS / str(number)).open().close()
            began = time.process_time()
            try:
                if _is_refused(kind, data, scratch):
                    tally.refused += 1
                else:
                    tally.read += 1
            except (Exception, _TooSlow) as error:
                where = _place(error)
                if f"{kind.name}: {where}" not in tally.wrong:
                    tally.wrong[f"{kind.name}: {where}"] = "".join(traceback.format_exception(error))[-1500:]
                    if keep is not None:
                        keep.mkdir(parents=True, exist_ok=True)
                        (keep / f"{number}-{Path(kind.name).name}").write_bytes(data)
            tally.by_kind[kind.name] += 1
            tally.slowest = max(tally.slowest, time.process_time() - began)
    return tally


def _is_refused(kind: Kind, data: bytes, scratch: Path) -> bool:
    try:
        with _alarm():
            read(kind, data, scratch)
    except UserError as error:
        check_line(str(error))
        return True
    return False


def read(kind: Kind, data: bytes, scratch: Path) -> None:
    folder = scratch / "input"
    path = folder / kind.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    try:
        kind.read(folder)
    finally:
        path.unlink(missing_ok=True)


def check_line(line: str) -> None:
    """What a user is told is one line, and not the file; a terminal obeys none of it."""
    if "\n" in line or len(line) > 2100:
        raise AssertionError(f"not one short line: {line[:200]!r}")
    with contextlib.redirect_stderr(io.StringIO()) as message:
        fail(line)
    check_printed(message.getvalue())


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/holdfast/" in frame.filename] or frames
    return f"{type(error).__name__} at {Path(ours[-1].filename).name}:{ours[-1].lineno}"


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise _TooSlow(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def _limited_memory() -> Iterator[None]:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


# --- damage ------------------------------------------------------------------------------------------------------


def damaged(kind: Kind, kinds: list[Kind], draw: random.Random) -> bytes:
    """A good file, damaged."""
    data = kind.good
    if kind.hostile is not None and draw.random() < 0.6 and (bad := kind.hostile(data, draw)) is not None:
        return bad
    packer = {".gz": gzip.compress, ".zst": zstandard.compress}.get(Path(kind.name).suffix)
    if packer is not None:  # half of the time what is packed is good and the packing is not
        text = gzip.decompress(data) if kind.name.endswith(".gz") else zstandard.decompress(data)
        if draw.random() < 0.5:
            return packer(_damaged_bytes(text, kinds, draw))
    elif draw.random() < 0.4 and (other := _damaged_json(data, draw)) is not None:
        return other
    return _damaged_bytes(data, kinds, draw)


def _damaged_bytes(data: bytes, kinds: list[Kind], draw: random.Random) -> bytes:
    for _ in range(draw.choice((1, 1, 2, 5))):
        place, end = sorted((draw.randint(0, len(data)), draw.randint(0, len(data))))
        how = draw.randrange(8)
        if how == 0 and data:
            turned = bytearray(data)
            turned[min(place, len(data) - 1)] ^= 1 << draw.randrange(8)
            data = bytes(turned)
        elif how == 1:
            data = data[:place]
        elif how == 2:
            data = data[:place] + data[end:]
        elif how == 3:
            data = data[:end] + data[place:end] * draw.choice((1, 1, 20)) + data[end:]
        elif how == 4:
            other = draw.choice(kinds).good
            data = data[:place] + other[draw.randint(0, len(other)) :][:2000] + data[end:]
        elif how == 5:
            data = data[:place] + draw.randbytes(draw.randint(1, 40)) + data[place:]
        else:
            data = data[:place] + draw.choice(_WORDS) + data[place if how == 6 else end :]
    return data[:200_000]


def _damaged_json(data: bytes, draw: random.Random) -> bytes | None:
    """JSON, or a line of JSON Lines, with one value exchanged or taken out; None for what is no JSON."""
    lines = data.split(b"\n") if data.startswith(b"{") and data.count(b"\n{") else [data]
    at = draw.randrange(len(lines))
    try:
        value = json.loads(lines[at])
    except ValueError:
        return None
    lines[at] = json.dumps(_exchanged(value, draw)).encode()
    return b"\n".join(lines)


def _exchanged(value: Any, draw: random.Random) -> Any:
    if isinstance(value, (dict, list)) and value and draw.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = draw.choice(list(keys))
        if draw.random() < 0.1:
            return {k: v for k, v in value.items() if k != key} if isinstance(value, dict) else value[:key]
        changed = dict(value) if isinstance(value, dict) else list(value)
        changed[key] = _exchanged(value[key], draw)
        return changed
    return draw.choice(_VALUES)


# --- kinds -------------------------------------------------------------------------------------------------------

if __name__ == "__main__":
    sys.exit(main())
