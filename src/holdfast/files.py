"""Atomic writing of files, and locks, so that only one process writes at a time.

A file is written under a temporary name beside the target, then renamed. The outputs of a run are locked while it runs.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import hashlib
import inspect
import json
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from safetensors import SafetensorError

from holdfast.errors import EndsRun, UserError, first_line
from holdfast.launch import is_first_process

# Both errno values mean "the data did not fit": the disk or the user's quota is full.
NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_OF_RUST = re.compile(r"\(os error (\d+)\)")  # tokenizers raises Exception, safetensors its own error
_OF_CPP = re.compile(r"basic_ios|iostream|PytorchStreamWriter|inline_container")  # torch.save, gives no reason

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


class InUse(UserError):
    """Another process is writing to the same place; the message names it."""


def expanded(path: str | Path) -> Path:
    """Return ``path`` with ``~`` and ``~user`` replaced by home folders.

    Raises:
        UserError: there is no such user or no known home folder, or the name is not a valid file name.
    """
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError as error:
        way_out = "" if error.encoding == "utf-8" else ": set PYTHONUTF8=1"
        reason = f"in this system's encoding ({error.encoding}){way_out}"
        raise UserError(f"{str(path)!a} cannot be a file's name {reason}") from error
    if b"\0" in encoded:
        raise UserError(f"{str(path)!a} cannot be a file's name: it holds a NUL")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        home = str(path).partition("/")[0]
        raise UserError(f"{path}: there is no home folder {home}; a file of that name is ./{home}") from error


def check_file_place(option: str, path: Path) -> None:
    """Refuse a path that no file can be written to, before any work is done.

    Raises:
        UserError: it is a folder, a parent of it is a file, or the folder may not be written to.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder; {option} takes a file")
    place = next((parent for parent in path.absolute().parents if parent.exists()), path.absolute().parent)
    if not place.is_dir():
        raise UserError(f"cannot write {path}: {place} is a file, not a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"cannot write {path}: {place} may not be written to")


def check_folder_place(option: str, folder: Path) -> None:
    """Refuse a folder that nothing can be written to, before any work is done.

    Raises:
        UserError: it or a parent of it is a file, or it may not be written to.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; {option} takes a folder")
    check_file_place(option, folder / "file")


def paths_in(words: str) -> list[str]:
    """Split paths separated by commas; an existing path is kept as one, even if its name contains commas."""
    if words and expanded(words).exists():  # an empty path would be the current folder
        return [words]
    return [part.strip() for part in words.split(",") if part.strip()]


def cache_folder(name: str) -> Path:
    """Return the cache folder ``$HOLDFAST_CACHE/NAME``, by default ``~/.cache/holdfast/NAME``."""
    root = os.environ.get("HOLDFAST_CACHE")
    return (expanded(root) if root else Path.home() / ".cache" / "holdfast") / name


@contextlib.contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``target`` and rename it to ``target`` when the block ends without an error.

    On any error the temporary file is removed and ``target`` is not changed.

    Raises:
        UserError: the folder cannot be written, or the disk is full.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        os.close(handle)
    except OSError as error:
        raise cannot_write(target, error) from error
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except OSError as error:
        raise cannot_write(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(target: Path, text: str) -> None:
    """Write ``text`` to ``target`` as UTF-8, atomically."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(target: Path, value: Any) -> None:
    """Write ``value`` to ``target`` as indented JSON, atomically. NaN and infinity are refused."""
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def append_line(target: Path, line: str) -> None:
    """Append a line to ``target``, completely or, if the disk is full, not at all.

    The file is closed at once, so that the line is kept if the process is killed.

    Raises:
        UserError: the file cannot be written.
    """
    try:
        with target.open("ab", buffering=0) as file:
            before = file.tell()
            data = f"{line}\n".encode()
            try:
                while data:  # a write may be partial; the next attempt then raises the error
                    data = data[file.write(data) :]
            except OSError:
                file.truncate(before)  # an incomplete line would be joined to the next one
                raise
    except OSError as error:
        raise cannot_write(target, error) from error


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; return an empty one if the file is missing, damaged or incomplete."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def remembered(memo: Path) -> dict[str, Any]:
    """Return the content of a cache file; empty if it is missing, damaged or has no ``key``.

    The name of such a file is the hash of its input, which it also holds as its ``key``.

    Raises:
        UserError: ``key`` and name differ.
    """
    facts = read_object(memo)
    if "key" not in facts:
        return {}
    if facts["key"] != memo.stem:
        raise EndsRun(f"{memo} holds the key {facts['key']!s:.32}, not its own name: delete it, and run again")
    return facts


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def remove_temporary(folder: Path, *names: str) -> None:
    """Remove temporary files of killed writers in a folder; the caller must hold the lock of the files.

    The ``names`` of the target files are patterns; none: all files of the folder, without its subfolders.
    """
    for name in names or ("*",):
        for path in folder.glob(f".{name}.????????.part"):  # named by `atomic_path`
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(lock: Path, target: Path) -> Iterator[None]:
    """Lock ``target`` for this process inside the block, by a lock on the file ``lock``, which is removed afterwards.

    The operating system releases the lock when the process ends in any way: the lock file of a killed process does not
    block others. The file names its holder; its folder must exist.

    Raises:
        InUse: another process holds it.
        UserError: the file cannot be written or locked.
    """
    handle = _acquire(lock, target)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the user may have removed the folder
            lock.unlink()  # while held, so that it is not the file of another process
        os.close(handle)


@contextlib.contextmanager
def output_lock(output: Path | None) -> Iterator[None]:
    """Lock a result file, and the journals beside it, for this run inside the block.

    No effect if ``output`` is None or a folder; of several processes only the first one locks.

    Raises:
        UserError: another run is writing to the file.
    """
    if output is None or output.is_dir() or not is_first_process():
        yield
        return
    with created_folder(output.parent), locked(output.parent / f".{output.name}.lock", output):
        name, stem = glob.escape(output.name), glob.escape(output.name.removesuffix(".json"))
        remove_temporary(output.parent, name, f"{stem}.examples.jsonl", f".{name}.journal-*")
        yield


def exclusive(
    held: Callable[[Any], AbstractContextManager[None]],
) -> Callable[[Callable[Parameters, Returned]], Callable[Parameters, Returned]]:
    """Decorate a run so that it holds a context manager while it runs, such as a lock of its output.

    ``held`` returns the context manager, given the settings, which are the first argument of the run.
    """

    def decorate(run: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
        first = next(iter(inspect.signature(run).parameters))

        @functools.wraps(run)
        def locked_run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
            with held(args[0] if args else kwargs[first]):
                return run(*args, **kwargs)

        return locked_run

    return decorate


@contextlib.contextmanager
def created_folder(folder: Path) -> Iterator[None]:
    """Create a folder for the block; a folder created here is removed again if it is empty at the end.

    Raises:
        UserError: it cannot be created.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    try:
        yield
    finally:
        for path in missing:
            with contextlib.suppress(OSError):
                path.rmdir()


def _acquire(lock: Path, target: Path) -> int:
    """Open and lock the file, write the holder into it, and return its handle."""
    import fcntl

    holder = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    while True:
        handle = None
        try:
            # Do not follow a link, which would overwrite another file.
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same_file(handle, lock):
                os.ftruncate(handle, 0)
                os.pwrite(handle, json.dumps(holder).encode(), 0)
                return handle
            os.close(handle)  # its holder has just removed it: try again with a new file
        except BlockingIOError as error:
            assert handle is not None
            held = _holder(handle)
            os.close(handle)
            raise InUse(
                f"{target} is in use by {held}: wait until that run ends, or choose another --output"
            ) from error
        except OSError as error:
            if handle is not None:
                os.close(handle)
            raise cannot_write(lock, error) from error


def _is_same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except FileNotFoundError:
        return False


def _holder(handle: int) -> str:
    try:
        holder = json.loads(os.pread(handle, 4096, 0))
        return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it is being written
        return "another process"


@contextlib.contextmanager
def one_line_write_errors(target: Path) -> Iterator[None]:
    """Turn write errors of libraries, whose messages on a full disk differ, into one `UserError` about ``target``."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise cannot_write(target, error) from error
    except Exception as error:
        if isinstance(error, UserError) or not (_OF_CPP.search(str(error)) or _OF_RUST.search(str(error))):
            raise
        raise cannot_write(target, error) from error


def cannot_write(target: Path, error: Exception) -> EndsRun:
    """Return the error to raise if ``target`` could not be written."""
    number = system_error(error)
    if number in NO_SPACE or "No space left" in str(error) or (number is None and _is_full(target)):
        return EndsRun(f"no space left on the disk while writing {target}: free some space and run again")
    if number is not None:
        return EndsRun(f"cannot write {target}: {os.strerror(number)}")
    hint = " (perhaps a quota, or the limit of `ulimit -f`)" if _OF_CPP.search(str(error)) else ""
    return EndsRun(f"cannot write {target}: {first_line(error)}{hint}")


def system_error(error: BaseException) -> int | None:
    """Return the errno of an error, also of an error of a Rust library; None if it has none."""
    if isinstance(error, OSError):
        return error.errno
    found = _OF_RUST.search(str(error))
    return int(found[1]) if found else None


def _is_full(target: Path) -> bool:
    """Return True if the disk of ``target`` has less than 1 MiB left: not every library gives a reason."""
    folder = next((parent for parent in target.absolute().parents if parent.exists()), None)
    return folder is not None and shutil.disk_usage(folder).free < 1 << 20


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
