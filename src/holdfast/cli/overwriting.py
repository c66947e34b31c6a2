"""Files that a call would read and replace: refused before any work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import UserError
from holdfast.files import expanded
from holdfast.settings import Option

_WRITTEN = ("output", "junit", "plot", "coordinates")
_LONGEST_PATH = 4096


def refuse_overwriting(flag: str, path: Path, inputs: Mapping[str, Any]) -> None:
    """Refuse to write a file that the same call reads.

    Args:
        flag: the option that names the file to write.
        path: the file.
        inputs: values of other options, by their names; what is no path of a file is ignored.

    Raises:
        UserError: one of them names the file.
    """
    if (name := option_of(path, inputs)) is not None:
        raise UserError(f"{flag} {path} is the file of {name}, which it would replace: name another one")


def option_of(path: Path, inputs: Mapping[str, Any]) -> str | None:
    """Return the first of some options whose value names an existing file; None if none does."""
    for name, value in inputs.items() if path.is_file() else ():
        if any(source.is_file() and source.samefile(path) for source in _files_in(value)):
            return name
    return None


def refuse_overwriting_of(declared: Sequence[Option], settings: Any) -> None:
    """Refuse settings of which one names a file to write that another one reads or writes, as `refuse_overwriting`."""
    written: dict[Path, str] = {}
    for out in declared:
        path = getattr(settings, out.name, None)
        if out.name in _WRITTEN and isinstance(path, Path):
            other = written.setdefault(path.absolute(), out.flag)
            if other != out.flag:
                raise UserError(f"{out.flag} {path} is the file of {other}, too: name another one")
            others = [option for option in declared if option is not out]
            refuse_overwriting(out.flag, path, {_name_of(each): getattr(settings, each.name, None) for each in others})


def _name_of(option: Option) -> str:
    return (option.spelling.metavar or option.name) if option.spelling.argument else option.flag


def _files_in(value: Any) -> Iterator[Path]:
    """Yield the paths that a value of an option may name, alone or joined by commas."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, str):
        for part in (value, *value.split(",")):
            if 0 < len(part) < _LONGEST_PATH and "\0" not in part:
                yield expanded(part)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _files_in(each)
