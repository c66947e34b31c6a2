"""From what a person wrote to the type that an option takes, or the line that says what it takes."""

from __future__ import annotations

import contextlib
import inspect
import math
import os
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import yaml

from holdfast.bounds import in_range, short
from holdfast.errors import UserError, one_of

_MAX_YAML = 1 << 18
"""Bytes of a configuration or a table; those that come with holdfast have a few thousand."""
_MAX_NODES = 100_000


class _Loader(yaml.SafeLoader):
    """YAML's safe loader, which converts no number of so many digits that it takes long or cannot be printed."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """Make a whole number."""
        _refuse_long_number(node, 1000)
        return int(super().construct_yaml_int(node))

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """Make a number; those in base 60 (1:30.5) would overflow."""
        _refuse_long_number(node, 200)
        return float(super().construct_yaml_float(node))


def _refuse_long_number(node: yaml.ScalarNode, most: int) -> None:
    if len(node.value) > most:
        problem = f"a number of {len(node.value)} characters, and no option takes one"
        raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)


def fitted(where: str, value: Any, hint: Any, name: str = "") -> Any:
    """``value`` as the type ``hint`` says.

    Args:
        where: the name of the option, and the place where it stands: what the line begins with.
        value: a value as YAML reads it or as the command line parsed it.
        hint: bool, int, float, str, Path, None, a Literal of words, a tuple of names, a mapping, or a union of these.
        name: of the option, whose range a number must lie in.

    Raises:
        UserError: it does not fit; the line says what would.
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for kind in kinds:
        if get_origin(kind) is Literal:
            return one_of(where, str(value), get_args(kind))
        fits, converted = _as_kind(value, kind)
        if fits:
            if type(converted) in (int, float):
                in_range(name, converted, where)
            return converted
    wanted = " or ".join(_DESCRIPTIONS[get_origin(kind) or kind] for kind in kinds)
    raise UserError(f"{where} takes {wanted}, not {short(value)}")


_DESCRIPTIONS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    tuple: "a list of names",
    Mapping: "a mapping of options",
    type(None): "null",
}
# typing's Mapping[str, Any] has the class of collections.abc as its origin; both are the same object here.


def _as_kind(value: Any, kind: Any) -> tuple[bool, Any]:
    if kind is Path:
        return isinstance(value, (str, Path)), expanded(value) if isinstance(value, (str, Path)) else None
    if kind is float:
        number = math.nan  # of no use to any option
        with contextlib.suppress(ValueError, OverflowError):  # text that is none; a whole number of 308 digits and more
            # YAML 1.1 reads 3e-5, without a point, as text.
            number = float(value) if type(value) in (int, float, str) else math.nan
        return not math.isnan(number), value if math.isnan(number) else number
    if get_origin(kind) is tuple:
        names = value.split(",") if isinstance(value, str) else value
        fits = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
        return fits, tuple(name.strip() for name in names if name.strip()) if fits else None
    if get_origin(kind) is Mapping:
        return isinstance(value, dict), value
    return type(value) is kind, value


def expanded(path: str | Path) -> Path:
    """``path``, in which ``~`` and ``~user`` are home folders.

    Raises:
        UserError: there is no such user, or no home folder is known; or no file can have that name.
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


def paths_in(words: str) -> list[str]:
    """What a person joined by commas, without the blanks around it; a path that exists is one, whatever is in it."""
    if words and expanded(words).exists():  # an empty path would be the folder that one is in
        return [words]
    return [part.strip() for part in words.split(",") if part.strip()]


def read_yaml(path: Path, what: str) -> tuple[yaml.Node | None, Any]:
    """A YAML file's nodes, which know their lines, and its values.

    Args:
        path: the file.
        what: what it holds, for the line that says it cannot be read.

    Raises:
        UserError: it cannot be read, or is no YAML (with ``file:line``).
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
    """Refuse a file whose aliases make it endless, or many times as long as it is written.

    Raises:
        UserError: it is such a file.
    """
    sizes: dict[int, int | None] = {}  # of each node with all that is below it; None while it is being counted

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
    """``["gamma=0.1", …]`` as a mapping.

    Raises:
        UserError: a word without "=".
    """
    settings = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UserError(f"--set takes name=value, got {word!r}")
        settings[name.strip().replace("-", "_")] = value
    return settings


def option_value(name: str, value: Any, hint: Any) -> Any:
    """The value of an option, whose text is read as YAML unless the option takes text ("1e-3", "true", "inf").

    Raises:
        UserError: it does not fit the option's type.
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if isinstance(value, str) and get_origin(hint) is not Literal:
        parsed = _parsed(value)
        value = parsed if str not in kinds or parsed is None else value
    return fitted(f"option {name!r}", value, hint, name.rpartition(".")[2])


def _parsed(text: str) -> Any:
    try:
        return _values(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


def documented_arguments(cls: type) -> dict[str, str]:
    """The ``Args:`` section of a class's docstring: ``name: meaning``, and the deeper lines that belong to it.

    What tables of options say of each.
    """
    _, _, section = (inspect.getdoc(cls) or "").partition("\nArgs:\n")
    meanings: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        if not line.startswith("    "):
            break  # the section ends where the indentation does
        head, colon, rest = line.strip().partition(": ")
        if line[4] != " " and colon:
            name, meanings[head] = head, rest
        elif name:
            meanings[name] += " " + line.strip()
    return meanings
