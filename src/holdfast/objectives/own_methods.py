"""Loading of user-defined objectives from a Python file or an installed module."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType

from holdfast.errors import UserError, did_you_mean
from holdfast.files import sha256
from holdfast.objectives.objective import Objective
from holdfast.option_parsing import expanded

_REQUIRED_TEXTS = ("TITLE", "IDEA", "CITATION")
"""Class attributes that tables of methods and the model card show."""


def is_own(method: str) -> bool:
    """Return True if a method's name is that of a class, ``FILE.py:Class`` or ``package.module:Class``."""
    return ":" in method


def own_method(method: str) -> type[Objective]:
    """Import the objective ``FILE.py:Class`` or ``package.module:Class``. This runs its code: it must be trusted.

    Raises:
        UserError: the file, module or class does not exist, its code fails, or it is not a complete objective.
    """
    source, _, name = method.rpartition(":")
    if not source or not name:
        raise UserError(f"{method!r} is not FILE.py:Class or package.module:Class")
    module = _of_file(expanded(source)) if source.endswith(".py") else _of_module(source)
    own: dict[str, type[Objective]] = {
        key: value for key, value in vars(module).items() if inspect.isclass(value) and issubclass(value, Objective)
    }
    if name not in own:
        listed = ", ".join(key for key, value in own.items() if value.__module__ == module.__name__) or "none"
        raise UserError(f"{source} has no objective {name!r}{did_you_mean(name, own)}; objectives in it: {listed}")
    kind = own[name]
    if inspect.isabstract(kind):
        raise UserError(f"{method} lacks {', '.join(sorted(kind.__abstractmethods__))}")
    if missing := [key for key in _REQUIRED_TEXTS if not isinstance(getattr(kind, key, None), str)]:
        raise UserError(f"{method} lacks {missing[0]}, a line of text: see holdfast.objectives.Objective")
    return kind


def source_sha256(kind: type[Objective]) -> str:
    """Return the hash of the file of an objective, which is part of a run's record."""
    return sha256(Path(inspect.getfile(kind)))


def _of_file(path: Path) -> ModuleType:
    """Import the module in a file; the same content again gives the same module."""
    if not path.is_file():
        raise UserError(f"{path} does not exist: a method of your own is FILE.py:Class or package.module:Class")
    name = f"holdfast_method_{path.stem}_{sha256(path)[:8]}"
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
        raise UserError(f"{_place(path, error)}: {type(error).__name__}: {error}") from error
    return module


def _of_module(name: str) -> ModuleType:
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


def _place(path: Path, error: Exception) -> str:
    """Return ``file:line`` of the user's code that failed."""
    file = str(path.absolute())  # as in the import system
    if isinstance(error, SyntaxError) and error.filename == file:
        return f"{path}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{path}:{lines[-1]}" if lines else str(path)
