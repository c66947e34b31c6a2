"""Break runs at random moments, continue them, and compare what they end in with runs that nothing broke.

    python tests/faults/kills.py --kills 100 --stops 20 --full 20 --seed 1

A run is killed (SIGKILL), asked to stop (SIGINT, SIGTERM), or finds the disk full; several times before it may end.
Half of the moments are uniform over the processor time of an unbroken run; half are the n-th change of a file or a
folder, n uniform over all of an unbroken run, so that the moments between two writes are met too. Runs are made in
processes forked from one that has imported everything.

A disk is full in three ways, drawn alike: Python is refused a change; the run's folder is a file system in memory that
holds so many bytes (Linux, as root), which the writers in Rust and C++ meet too; or no file may grow beyond a size
(`ulimit -f`).

What a run ends in is compared file by file: weights, checkpoints and texts byte by byte, JSON without `MAY_DIFFER`.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # before torch looks: a process with threads cannot be forked
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    os.environ.pop("HOLDFAST_DATA", None)

from small_world import ANEW, JOBS, RESUMABLE, jobs, make_world

MAY_DIFFER = {
    **dict.fromkeys(("created", "time"), "when it was written"),
    "timing": "how long it took",
    "command": "--resume",
    "content_sha256": "of the above",
    **dict.fromkeys(("elapsed", "tokens_per_second", "train_runtime", "eval_runtime"), "how long it took"),
    **dict.fromkeys(("train_samples_per_second", "train_steps_per_second"), "how long it took"),
    **dict.fromkeys(("eval_samples_per_second", "eval_steps_per_second"), "how long it took"),
    "train_seconds": "how long it took",
    "train_loss": "the mean over the steps since the run was begun or continued",
    "passes": "forward passes that were made again",
    "seconds_of_last_run": "how long it took",
    "seconds": "how long it took",
    "result_sha256": "of a result that holds times",
}
"""Keys of JSON that are not compared, and what they tell."""
_OF_PARTS = {"train_runtime", "state"}
"""In records of metrics.jsonl on a part of a run: when it began, how it ended, how long it took."""
_TOOK = re.compile(rb"^\| took \|.*$", re.MULTILINE)
"""A line of a model card."""
_MADE = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?")
"""When a page was made."""
_ROUNDED = {"value"}  # of an attack's verdicts: its last digits change with the batch that a text is in
_SEALS = {"sealed.json"}  # hashes of files that hold times; checked by themselves
_WRITES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.truncate", "os.link", "os.symlink"}
_ROOM = 1 << 28  # bytes of a disk that is not full
_PAGE = 1 << 12  # what such a disk counts in; one of no bytes has no end
_LEAST = 1 << 13  # bytes of a file that is cut: what a run tells has to fit
_KINDS = {"kills": "SIGKILL", "stops": "SIGINT or SIGTERM", "full": "disk full"}


@dataclass(frozen=True)
class Break:
    """How a run is broken: at a change of a file, after a processor time, or by the bytes that its disk takes."""

    kind: str
    change: int | None = None
    seconds: float = 0.0
    number: int = signal.SIGKILL
    disk: int | None = None
    file: int | None = None


@dataclass
class Unbroken:
    """A run that nothing broke."""

    content: dict[str, Any]
    changes: int
    seconds: float
    disk: int
    file: int


@dataclass
class Tally:
    """What was done, and what went wrong."""

    broken: Counter[str] = field(default_factory=Counter)
    by_job: Counter[str] = field(default_factory=Counter)
    ended_before: int = 0
    finished: int = 0
    wrong: list[str] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for kind, what in _KINDS.items():
        parser.add_argument(f"--{kind}", type=int, default=0, help=f"breaks of this kind: {what}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--keep", type=Path, help="keep the folders of runs that went wrong here")
    given = parser.parse_args()
    _import_everything()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-kills-") as scratch:
        tally = Harness(Path(scratch), given.jobs.split(","), random.Random(given.seed), given.keep).run(
            {kind: getattr(given, kind) for kind in _KINDS}
        )
    print(f"{dict(tally.broken)} in {tally.finished} runs, {dict(tally.by_job)}")
    print(f"{tally.ended_before} runs ended before the moment that was drawn; {time.monotonic() - began:.0f} s")
    print(f"not compared: {', '.join(MAY_DIFFER)}, records of metrics.jsonl on a part of a run")
    print(f"rounded to 4 digits: {', '.join(_ROUNDED)}")
    for line in tally.wrong:
        print(f"WRONG: {line}")
    print("nothing was lost, nothing was damaged" if not tally.wrong else f"{len(tally.wrong)} runs went wrong")
    return 1 if tally.wrong else 0


class Harness:
    """Runs, breaks and compares.

    Args:
        scratch: an empty folder.
        names: the jobs.
        draw: of jobs and moments.
        keep: where folders of runs that went wrong are kept.
    """

    def __init__(self, scratch: Path, names: list[str], draw: random.Random, keep: Path | None = None) -> None:
        self.scratch, self.draw, self.keep = scratch, draw, keep
        self.mounts = _can_mount(scratch)
        world = make_world(scratch / "world")
        self.jobs = {name: words for name, words in jobs(world).items() if name in names}
        if "report" in self.jobs:
            made = world.trained.parent.parent
            made.mkdir()
            code, message = self._start("train", made, None, words=jobs(world)["train"])
            assert code == 0, message
        self.unbroken = {name: self._unbroken(name) for name in self.jobs}

    def run(self, wanted: dict[str, int]) -> Tally:
        """Break runs until there are as many breaks of each kind as are wanted."""
        tally, number = Tally(), 0
        while any(tally.broken[kind] < count for kind, count in wanted.items()) and len(tally.wrong) < 5:
            number += 1
            name = self.draw.choice(sorted(self.jobs))
            left = [kind for kind, count in wanted.items() if tally.broken[kind] < count]
            with self._folder(f"{number}-{name}") as folder:
                if problems := self._broken_run(name, folder, left, tally):
                    tally.wrong.append(f"run {number} ({name}): {'; '.join(problems)}")
                    if self.keep is not None:
                        shutil.copytree(folder, self.keep / folder.name, dirs_exist_ok=True)
            if number % 10 == 0:
                print(f"{number} runs, {dict(tally.broken)}, {len(tally.wrong)} wrong", file=sys.stderr, flush=True)
        return tally

    @contextlib.contextmanager
    def _folder(self, name: str) -> Iterator[Path]:
        """A folder of a run, on a disk of its own where that can be had."""
        folder = self.scratch / name
        folder.mkdir()
        if self.mounts:
            _mount(folder, _ROOM)
        try:
            yield folder
        finally:
            if self.mounts:
                subprocess.run(["umount", str(folder)], check=True)
            shutil.rmtree(folder)

    def _broken_run(self, name: str, folder: Path, kinds: list[str], tally: Tally) -> list[str]:
        """One run, broken up to four times and continued to its end; what is wrong with it."""
        for _ in range(self.draw.randint(1, 4)):
            how = self._moment(name, folder, self.draw.choice(kinds))
            if how.disk is not None:
                _mount(folder, how.disk, again=True)
            code, message = self._start(name, folder, how)
            if how.disk is not None:
                _mount(folder, _ROOM, again=True)
            if code == 0:
                tally.ended_before += 1
                break
            tally.broken[how.kind] += 1
            tally.by_job[name] += 1
            problems = _check_break(how, code, message, name) or _check_whole_files(folder)
            if problems:
                return [f"{problem} ({how})" for problem in problems]
        else:
            code, message = self._start(name, folder, None)
        tally.finished += 1
        if code != 0:
            return [f"it did not end well ({code}): {message[-2000:]}"]
        return [*_differences(self.unbroken[name].content, content(folder)), *_left_over(folder)]

    def _moment(self, name: str, folder: Path, kind: str) -> Break:
        whole = self.unbroken[name]
        way = self.draw.choice(["change", "disk", "file"] if self.mounts else ["change", "file"])
        if kind == "full" and way == "disk":
            used = _used(folder)
            return Break(kind, disk=self.draw.randint(used, max(used, whole.disk)) + _PAGE)
        if kind == "full" and way == "file":
            return Break(kind, file=self.draw.randint(_LEAST, max(_LEAST, whole.file)))
        numbers = {"kills": [signal.SIGKILL], "stops": [signal.SIGINT, signal.SIGTERM], "full": [0]}
        number = self.draw.choice(numbers[kind])
        if kind == "full" or self.draw.random() < 0.5:
            return Break(kind, change=self.draw.randint(1, whole.changes), number=number)
        return Break(kind, seconds=self.draw.uniform(0, whole.seconds), number=number)

    def _unbroken(self, name: str) -> Unbroken:
        counted = self.scratch / f"{name}.changes"
        with self._folder(f"unbroken-{name}") as folder:
            code, message = self._start(name, folder, None, count=counted)
            assert code == 0, message
            changes, seconds, disk, file = counted.read_text().split()
            return Unbroken(content(folder), int(changes), float(seconds), int(disk), int(file))

    def _start(
        self, name: str, folder: Path, how: Break | None, count: Path | None = None, words: list[str] | None = None
    ) -> tuple[int, str]:
        """Run a job in a process of its own; its exit code, or minus the signal that ended it, and what it told."""
        words = words or self.jobs[name] + (["--resume"] if name in RESUMABLE else [])
        log = self.scratch / f"{folder.name}.log"  # beside the folder, whose disk may be full
        if name in ANEW:
            shutil.rmtree(folder / "out", ignore_errors=True)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _be_child(words, folder, log, how, count)
        if how is not None and how.change is None and how.kind != "full":
            _signal_after(child, how.seconds, how.number)
        _, status = os.waitpid(child, 0)
        message = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        log.unlink(missing_ok=True)
        return os.waitstatus_to_exitcode(status), message


def _be_child(words: list[str], folder: Path, log: Path, how: Break | None, count: Path | None) -> None:
    """Never returns."""
    code = 70
    try:
        os.chdir(folder)
        os.environ["HOLDFAST_CACHE"] = str(folder / ".cache")
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        seen = _watch(folder, how, measured=count is not None)
        if how is not None and how.file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (how.file, resource.RLIM_INFINITY))
        from holdfast.cli import main as command

        began = time.process_time()
        code = command(words)
        if count is not None:
            count.write_text(f"{seen.changes} {time.process_time() - began} {seen.disk} {seen.file}")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@dataclass
class Seen:
    """What a run did to its folder: changes by Python, and the most bytes that disk and largest file came to."""

    changes: int = 0
    disk: int = 0
    file: int = 0


def _watch(folder: Path, how: Break | None, *, measured: bool) -> Seen:
    """Count what Python is about to change below a folder, and break the process at the change that was drawn."""
    seen, root = Seen(), str(folder)

    def see(event: str, arguments: tuple[Any, ...]) -> None:
        if not (event in _WRITES or (event == "open" and _writes(arguments))):
            return
        if isinstance(arguments[0], int) or not str(Path(os.fsdecode(arguments[0])).absolute()).startswith(root):
            return
        seen.changes += 1
        if measured:
            seen.disk = max(seen.disk, _used(folder))
            sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
            seen.file = max([seen.file, *sizes])
        if how is None or seen.changes != how.change:
            return
        if how.kind == "full":
            # A full disk refuses what needs room; names can be taken away on it.
            if event in ("open", "os.mkdir", "os.rename"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fsdecode(arguments[0]))
        else:
            os.kill(os.getpid(), how.number)

    sys.addaudithook(see)
    return seen


def _writes(arguments: tuple[Any, ...]) -> bool:
    path, mode, flags = arguments
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return bool(path is not None and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _used(folder: Path) -> int:
    return shutil.disk_usage(folder).used


def _mount(folder: Path, size: int, *, again: bool = False) -> None:
    """Put a file system in memory on a folder, of so many bytes, or change the size of the one that is there."""
    options = f"remount,size={size}" if again else f"size={size}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)


def _can_mount(scratch: Path) -> bool:
    """Whether this process may mount file systems: as root on Linux, outside of most containers."""
    place = scratch / "mounted"
    place.mkdir()
    try:
        _mount(place, _ROOM)
    except (OSError, subprocess.CalledProcessError):
        print("no file system can be mounted here: a full disk is met in two ways, not in three", file=sys.stderr)
        return False
    subprocess.run(["umount", str(place)], check=True)
    return True


def _signal_after(child: int, seconds: float, number: int) -> None:
    """Send a signal when a process has used so much processor time, whatever else the machine does."""
    ticks = os.sysconf("SC_CLK_TCK")
    while True:
        used = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        if used[0] == "Z":
            return
        if (int(used[11]) + int(used[12])) / ticks >= seconds:
            os.kill(child, number)
            return
        time.sleep(0.002)


# --- what a run leaves -------------------------------------------------------------------------------------------


def content(folder: Path) -> dict[str, Any]:
    """What is in a run's folder, by its name, without what may differ."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or name.startswith(".") or path.name in _SEALS:
            continue
        if path.suffix == ".json":
            found[name] = _without(json.loads(path.read_text(encoding="utf-8")))
        elif path.suffix == ".jsonl":
            records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            if records := [_without(record) for record in records if _OF_PARTS.isdisjoint(record)]:
                found[name] = records
        else:
            found[name] = _MADE.sub(b"", _TOOK.sub(b"", path.read_bytes()))
    return found


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: round(held, 4) if key in _ROUNDED and isinstance(held, float) else _without(held)
            for key, held in value.items()
            if key not in MAY_DIFFER
        }
    return [_without(held) for held in value] if isinstance(value, list) else value


def _differences(whole: dict[str, Any], broken: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {_told(whole.get(name))} and {_told(broken.get(name))}"
        for name in sorted({*whole, *broken})
        if whole.get(name) != broken.get(name)
    ]


def _told(value: Any) -> str:
    return "not there" if value is None else f"{len(value)} bytes" if isinstance(value, bytes) else repr(value)[:400]


def _left_over(folder: Path) -> list[str]:
    """What only an unfinished run needs, and seals that do not fit."""
    from holdfast.runs.checkpoints import checkpoints, is_intact

    left = [
        path.relative_to(folder).as_posix()
        for path in folder.rglob(".*")
        if not path.relative_to(folder).as_posix().startswith(".cache")
    ]
    problems = [f"left behind: {name}" for name in left]
    return problems + [f"{path.name} is not intact" for path in checkpoints(folder / "out") if not is_intact(path)]


def _check_whole_files(folder: Path) -> list[str]:
    """After a break, every file that has its final name is whole."""
    from safetensors import SafetensorError, safe_open

    problems = []
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or any(part.startswith((".", "checkpoint-")) for part in path.relative_to(folder).parts):
            continue
        try:
            if path.suffix == ".json":
                json.loads(path.read_text(encoding="utf-8"))
            elif path.suffix == ".safetensors":
                with safe_open(str(path), framework="np") as file:
                    file.keys()
        except (ValueError, SafetensorError) as error:
            problems.append(f"{name} is not whole: {error}")
    return problems


def _check_break(how: Break, code: int, message: str, name: str) -> list[str]:
    """Whether a run ended as it should: with the signal, or with its exit code and one line."""
    lines = [line for line in message.splitlines() if line.startswith("holdfast: ")]
    if how.kind == "kills":
        return [] if code == -signal.SIGKILL else [f"exit code {code} after a kill: {message[-2000:]}"]
    if how.kind == "full":
        said = ("no space left",) if how.file is None else ("File too large", "a quota, or the limit of")
        fits = code == 2 and len(lines) == 1 and any(part in lines[0] for part in said)
        return [] if fits and "Traceback" not in message else [f"a full disk: exit code {code}: {message[-2000:]}"]
    line = "holdfast: stopped" + ("; continue with --resume" if name in RESUMABLE else "")
    line += "; the same command goes on from here" if name == "reproduce" else ""
    # Before the command line has taken over, a signal ends the process as it ends any.
    early = code in (-how.number, 70) and not lines and how.seconds < 0.05
    fits = code == 128 + how.number and lines == [line] and "Traceback" not in message
    return [] if fits or early else [f"a signal: exit code {code}: {message[-2000:]}"]


def _import_everything() -> None:
    """What the runs import, so that each fork has it."""
    import holdfast.attacks.attack_run
    import holdfast.audit
    import holdfast.baselines.construction
    import holdfast.classifiers
    import holdfast.cli
    import holdfast.evaluation.evaluation_run
    import holdfast.evaluation.masks
    import holdfast.evaluation.space
    import holdfast.experiments.reproduction
    import holdfast.hardening.hardening_run
    import holdfast.objectives.anchored
    import holdfast.objectives.simcse
    import holdfast.pretraining.pretraining_run
    import holdfast.report.plots
    import holdfast.report.report_files
    import holdfast.training.training_run  # noqa: F401


if __name__ == "__main__":
    sys.exit(main())
