"""Writing files so that nothing is ever half-written: a temporary name beside the target, then a rename."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from holdfast.errors import UserError

# Both errno values mean "the data did not fit": the disk is full, or the user's quota is.
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}


def cache_folder(name: str) -> Path:
    """``$HOLDFAST_CACHE/NAME``, else ``~/.cache/holdfast/NAME``: where what was read or downloaded once is kept."""
    root = os.environ.get("HOLDFAST_CACHE")
    return (Path(root).expanduser() if root else Path.home() / ".cache" / "holdfast") / name


@contextlib.contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``target`` and rename it to ``target`` when the block ends without an error.

    On any error the temporary file is removed and ``target`` is left as it was.

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
    """Write ``text`` to ``target`` as UTF-8, all of it or none of it."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(target: Path, value: Any) -> None:
    """Write ``value`` to ``target`` as indented JSON, all of it or none of it. NaN and infinity are refused."""
    write_text(target, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, as hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def telling_write_errors(target: Path) -> Iterator[None]:
    """Turn the errors of libraries that write ``target`` into one line; they tell a full disk in words of their own.

    Raises:
        UserError: ``target`` could not be written.
    """
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise cannot_write(target, error) from error
    except RuntimeError as error:
        if "PytorchStreamWriter" in str(error) or "inline_container" in str(error):
            raise cannot_write(target, error) from error
        raise


def cannot_write(target: Path, error: Exception) -> UserError:
    """The line to show when ``target`` could not be written."""
    full = isinstance(error, OSError) and error.errno in _NO_SPACE
    if full or "No space left" in str(error) or _is_full(target):
        return UserError(f"no space left on the disk while writing {target}: free some space and run again")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
    return UserError(f"cannot write {target}: {reason}")


def _is_full(target: Path) -> bool:
    """Whether hardly anything fits on the disk of ``target``: not every library says why it failed."""
    folder = next((parent for parent in target.absolute().parents if parent.exists()), None)
    return folder is not None and shutil.disk_usage(folder).free < 1 << 20


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
