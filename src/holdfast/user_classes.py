"""User-defined classes, such as training methods and attack recipes, from a Python file or an installed module."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from holdfast.errors import UserError, did_you_mean
from holdfast.files import expanded, sha256

Base = TypeVar("Base")


def is_user_class(name: str) -> bool:
    """Return True if a name is that of a class, ``FILE.py:Class`` or ``package.module:Class``."""
    return ":" in name


def load_class(spec: str, base: type[Base], *, noun: str, texts: Sequence[str]) -> type[Base]:
    """Import the class ``FILE.py:Class`` or ``package.module:Class``. This runs its code: it must be trusted.

    Args:
        spec: the name of the class.
        base: the class that it must be derived from.
        noun: the noun for such a class, for messages.
        texts: class attributes that must be text, for tables and records.

    Raises:
        UserError: the file, module or class does not exist, its code fails, or the class is incomplete.
    """
    source, _, name = spec.rpartition(":")
    if not source or not name:
        raise UserError(f"{spec!r} is not FILE.py:Class or package.module:Class")
    module = _module_of_file(expanded(source), noun) if source.endswith(".py") else _installed_module(source)
    classes: dict[str, type[Base]] = {
        key: value for key, value in vars(module).items() if inspect.isclass(value) and issubclass(value, base)
    }
    if name not in classes:
        listed = ", ".join(key for key, value in classes.items() if value.__module__ == module.__name__) or "none"
        raise UserError(f"{source} has no {noun} {name!r}{did_you_mean(name, classes)}; {noun}s in it: {listed}")
    found = classes[name]
    if lacking := sorted(getattr(found, "__abstractmethods__", ())):
        raise UserError(f"{spec} lacks {', '.join(lacking)}")
    if missing := [key for key in texts if not isinstance(getattr(found, key, None), str)]:
        raise UserError(f"{spec} lacks {missing[0]}, a line of text: see {base.__module__}.{base.__qualname__}")
    return found


def source_sha256(user_class: type) -> str:
    """Return the hash of the file of a class, which is part of a run's record."""
    return sha256(Path(inspect.getfile(user_class)))


def _module_of_file(path: Path, noun: str) -> ModuleType:
    """Import the module in a file; the same content again gives the same module."""
    if not path.is_file():
        raise UserError(f"{path} does not exist: the name of a user-defined {noun} is FILE.py:Class or module:Class")
    name = f"holdfast_user_{path.stem}_{sha256(path)[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and annotations look it up there during the import
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"{_failed_line(path, error)}: {type(error).__name__}: {error}") from error
    return module


def _installed_module(name: str) -> ModuleType:
    if name.startswith("."):
        raise UserError(f"{name} is relative to no package: name a module in full, or a file with its .py")
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(f"{name} cannot be imported: {error}; a file is named with its .py") from error
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]  # the line that failed, in it or in an import
        place = "" if isinstance(error, SyntaxError) else f" ({last.filename}:{last.lineno})"  # it names the place
        raise UserError(f"{name} cannot be imported: {type(error).__name__}: {error}{place}") from error


def _failed_line(path: Path, error: Exception) -> str:
    """Return ``file:line`` of the user's code that failed."""
    file = str(path.absolute())  # as in the import system
    if isinstance(error, SyntaxError) and error.filename == file:
        return f"{path}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{path}:{lines[-1]}" if lines else str(path)
