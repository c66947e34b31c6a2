"""Conversion of user input to the type of an option, with an error message on what the option accepts."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from holdfast.errors import UserError, one_of
from holdfast.files import expanded
from holdfast.number_ranges import in_range, short

_MAX_YAML = 1 << 18
"""Maximum bytes of a configuration or a table; those of holdfast have a few thousand."""
_MAX_NODES = 100_000


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, which refuses numbers with too many digits to convert or print."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Convert a whole number."""
        _refuse_long_number(node, 1000)
        return int(super().construct_yaml_int(node))

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """Convert a number; long ones in base 60 (1:30.5) would overflow."""
        _refuse_long_number(node, 200)
        return float(super().construct_yaml_float(node))


def _refuse_long_number(node: yaml.ScalarNode, most: int) -> None:
    if len(node.value) > most:
        problem = f"a number of {len(node.value)} characters, and no option takes one"
        raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)


def fitted(where: str, value: Any, hint: Any, name: str = "") -> Any:
    """Convert ``value`` to the type ``hint``.

    Args:
        where: begin of the error message: the name of the option, and its place.
        value: a value from YAML or from the command line.
        hint: bool, int, float, str, Path, None, a Literal of words, a tuple of names, a mapping, or a union of these.
        name: name of the option, for the range of a number.

    Raises:
        UserError: the value does not fit; the message describes allowed values.
    """
    kinds = kinds_of(hint)
    for kind in kinds:
        if get_origin(kind) is Literal:
            return one_of(where, str(value), get_args(kind))
        fits, converted = _as_kind(value, kind)
        if fits:
            if type(converted) in (int, float):
                in_range(name, converted, where)
            return converted
    origins = [get_origin(kind) or kind for kind in kinds]
    wanted = " or ".join(dict.fromkeys(_DESCRIPTIONS[origin] for origin in origins if origin in _DESCRIPTIONS))
    raise UserError(f"{where} takes {wanted}, not {short(value)}")


_DESCRIPTIONS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    tuple: "a list of names",
    Sequence: "a list of names",
    Mapping: "a mapping of options",
    type(None): "null",
}
# The origin of typing's Mapping[str, Any] is the class of collections.abc, which is the key here.


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the one type."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _as_kind(value: Any, kind: Any) -> tuple[bool, Any]:
    if kind is Path:
        return isinstance(value, (str, Path)), expanded(value) if isinstance(value, (str, Path)) else None
    if kind is float:
        number = math.nan  # not valid for any option
        with contextlib.suppress(ValueError, OverflowError):  # text without a number; an int of more than 308 digits
            # YAML 1.1 reads 3e-5, without a point, as text.
            number = float(value) if type(value) in (int, float, str) else math.nan
        return not math.isnan(number), value if math.isnan(number) else number
    if get_origin(kind) in (tuple, Sequence):
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
            return False, None
        names = tuple(name.strip() for name in given if name.strip())
        return bool(names) or value in ("", [], ()), names  # "," would otherwise mean all, as if nothing were given
    if get_origin(kind) is Mapping:
        return isinstance(value, dict), value
    return type(value) is kind, value


def read_yaml(path: Path, what: str) -> tuple[yaml.Node | None, Any]:
    """Read a YAML file; return its nodes, which have line numbers, and its values.

    Raises:
        UserError: the file cannot be read, or is not YAML (with ``file:line``); the message calls its content ``what``.
    """
    try:
        if path.stat().st_size > _MAX_YAML:
            raise UserError(f"{path} is larger than {_MAX_YAML >> 10} KiB: that is no {what}")
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=_Loader)
        _refuse_unfolding(node, path)
        return node, _values(text)
    except RecursionError as error:
        raise UserError(f"{path}: not valid YAML: nested too deeply") from error
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{path}{line}: not valid YAML: {error.problem or error.context}") from error
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"cannot read the {what} {path}: {reason}") from error


def _values(text: str) -> Any:
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _refuse_unfolding(node: yaml.Node | None, path: Path) -> None:
    """Refuse a file whose aliases expand infinitely, or to more than ``_MAX_NODES`` nodes."""
    sizes: dict[int, int | None] = {}  # number of nodes in each subtree; None while it is being counted

    def size(of: yaml.Node) -> int:
        if id(of) not in sizes:
            sizes[id(of)] = None
            parts = of.value if isinstance(of, yaml.CollectionNode) else ()
            below = (part for pair in parts for part in (pair if isinstance(pair, tuple) else (pair,)))
            sizes[id(of)] = 1 + sum(size(part) for part in below)
        known = sizes[id(of)]
        if known is None or known > _MAX_NODES:
            raise UserError(f"{path}:{of.start_mark.line + 1}: its aliases (*name) unfold without end: write it out")
        return known

    if node is not None:
        size(node)


def split_settings(words: Sequence[str]) -> dict[str, str]:
    """Parse ``["gamma=0.1", …]`` into a mapping; refuse a word without "="."""
    settings = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UserError(f"--set takes name=value, got {word!r}")
        settings[name.strip().replace("-", "_")] = value
    return settings


def option_value(name: str, value: Any, hint: Any) -> Any:
    """Return the value of an option; text is parsed as YAML unless the option takes text ("1e-3", "true", "inf").

    Raises:
        UserError: the value does not fit the option's type.
    """
    if isinstance(value, str) and get_origin(hint) is not Literal:
        parsed = _parsed(value)
        value = parsed if str not in kinds_of(hint) or parsed is None else value
    return fitted(f"option {name!r}", value, hint, name.rpartition(".")[2])


def _parsed(text: str) -> Any:
    try:
        return _values(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


@functools.cache
def type_hints(annotated: Any) -> Mapping[str, Any]:
    """Return the types of the fields of a class or the arguments of a function.

    The plan of all tables asks for them thousands of times, and each time they would be compiled from text.
    """
    return get_type_hints(annotated)


def documented_arguments(cls: type, section: str = "Args") -> dict[str, str]:
    """Return a section of a class's docstring, and of its bases', by argument: ``name: meaning``, continued or not.

    Tables of options, and the help of the command line, show it.
    """
    inherited = [documented_arguments(base, section) for base in cls.__bases__ if base is not object]
    meanings = {name: meaning for found in inherited for name, meaning in found.items()}
    _, _, lines = inspect.cleandoc(cls.__doc__ or "").partition(f"\n{section}:\n")
    name = ""
    for line in lines.splitlines():
        if not line.startswith("    "):
            break  # the section ends where the indentation does
        head, colon, rest = line.strip().partition(": ")
        if line[4] != " " and colon:
            name, meanings[head] = head, rest
        elif name:
            meanings[name] += " " + line.strip()
    return meanings
