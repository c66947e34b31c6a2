"""Settings of a verb: one dataclass is the only declaration of its options.

The type, the default and the description of a field (its entry under ``Attributes:`` in the class's docstring) are
those of the option, of the YAML key and of the argument in Python. ``Annotated[type, Spelling(…)]`` adds what these
cannot say, such as a metavar. The command line (`holdfast.cli.verbs`), YAML files (`read_settings`) and the tables of
the documentation are made from it. This module and those of settings classes import nothing heavy, since ``--help``
reads them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import yaml

from holdfast.errors import UserError, did_you_mean
from holdfast.option_parsing import documented_arguments, fitted, kinds_of, read_yaml, split_settings

Settings = TypeVar("Settings")

_SHORT = 60
"""Characters of a value that a message shows, at most."""
_NONE = "; None: "
"""The part of a description after which the default is described, for options without a fixed default."""


@dataclass(frozen=True)
class Spelling:
    """The details of an option that the type, the default and the description of its field do not give.

    Attributes:
        argument: it is given by its position, without a name.
        flag: the name on the command line; None: that of the field.
        metavar: placeholder of the value in the help.
        repeated: it is given once for each of its values.
        assignments: it is repeated, and each value is NAME=VALUE.
        python_only: it is neither an option nor a YAML key.
        parse: converts the text of the command line.
    """

    argument: bool = False
    flag: str | None = None
    metavar: str | None = None
    repeated: bool = False
    assignments: bool = False
    python_only: bool = False
    parse: Callable[[str], Any] | None = None


ARGUMENT = Spelling(argument=True)
PYTHON_ONLY = Spelling(python_only=True)
Folder = Annotated[Path, Spelling(metavar="DIR")]
Assignments = Annotated[Mapping[str, Any], Spelling(flag="--set", metavar="NAME=VALUE", assignments=True)]


@dataclass(frozen=True)
class Option:
    """An option of a verb, as declared by a field of its settings class.

    Attributes:
        name: name of the field.
        hint: its type.
        default: its default; ``MISSING``: it is required.
        help: its description, as a sentence, with the described default in brackets.
        spelling: its details.
    """

    name: str
    hint: Any
    default: Any
    help: str
    spelling: Spelling

    @property
    def flag(self) -> str:
        """The name on the command line."""
        return self.spelling.flag or f"--{self.name.replace('_', '-')}"


def options_of(settings: type) -> list[Option]:
    """Return the options that a settings class declares, in the order of its fields; inherited ones are the last."""
    hints, meanings = get_type_hints(settings, include_extras=True), documented_arguments(settings, "Attributes")
    found = []
    own = list(settings.__annotations__)
    for declared in sorted(
        fields(settings), key=lambda field: own.index(field.name) if field.name in own else len(own)
    ):
        hint, spelling = _parts(hints[declared.name])
        if not spelling.python_only:
            default = declared.default if declared.default_factory is MISSING else None
            found.append(Option(declared.name, hint, default, _help(meanings[declared.name]), spelling))
    return found


def _parts(hint: Any) -> tuple[Any, Spelling]:
    """Return the bare type and the spelling of an annotated one, also of one within ``X | None``."""
    if get_origin(hint) is Annotated:
        bare, spelling = get_args(hint)
        return bare, spelling
    if len(kinds_of(hint)) > 1:
        kinds = [_parts(kind) for kind in kinds_of(hint)]
        spelling = next((spelling for _, spelling in kinds if spelling != Spelling()), Spelling())
        return functools.reduce(operator.or_, (kind for kind, _ in kinds)), spelling
    return hint, Spelling()


def _help(description: str) -> str:
    """Return a description for the help; ``…; None: the method's.`` becomes ``…. [default: the method's]``."""
    text, none, default = description.rpartition(_NONE)
    return f"{text}. [default: {default.removesuffix('.')}]" if none else description


def read_settings(settings: type[Settings], given: Mapping[str, Any], config: Path | None = None) -> Settings:
    """Create settings from the values of the command line, by field name, and of a YAML file with these names as keys.

    The command line takes precedence. The class attributes ``EXCLUSIVE`` of a class and its bases list groups of names
    of which only one may be given. One given on the command line replaces those of the file.

    Raises:
        UserError: the file cannot be read, a key is unknown, a value does not fit (with ``file:line``), or a required
            setting is missing.
    """
    options = {option.name: option for option in options_of(settings)}
    values: dict[str, Any] = {}
    if config is not None:
        by_flag = {option.flag.partition("/")[0].strip("-").replace("-", "_"): name for name, option in options.items()}
        for key, value, where in config_entries(config, by_flag | {name: name for name in options}):
            if options[key].spelling.repeated and isinstance(value, str):
                value = [value]  # as on the command line, where a comma separates nothing
            values[key] = fitted(f"{where}: {key}", value, options[key].hint, key)
            if options[key].spelling.assignments:
                values[key] = {str(name).replace("-", "_"): setting for name, setting in (values[key] or {}).items()}
    for group in (group for cls in settings.__mro__ for group in vars(cls).get("EXCLUSIVE", ())):
        chosen = [options[name].flag for name in group if name in given]
        if len(chosen) > 1:
            raise UserError(f"{chosen[0]} and {chosen[1]} exclude each other: give one of them")
        of_file = [name for name in group if values.get(name) not in (None, False)]
        if len(of_file) > 1 and not chosen:
            raise UserError(f"{config}: {of_file[0]} and {of_file[1]} exclude each other: give one of them")
        if chosen:
            values = {name: value for name, value in values.items() if name not in group}
    for name, value in given.items():
        converted = _from_command_line(options[name], value, values.get(name))
        if options[name].spelling.argument and values.get(name, converted) != converted:
            raise UserError(f"{config} is for the {name} {values[name]}, the command line says {value}")
        values[name] = converted
    for name, declared in options.items():
        if declared.default is MISSING and name not in values:
            what = name if declared.spelling.argument else declared.flag
            raise UserError(f"missing: {what} (on the command line or in --config)")
    return settings(**values)


def refuse_given(settings: Any, names: Iterable[str], reason: str) -> None:
    """Refuse options that are given where nothing reads them; one at its default counts as not given.

    Args:
        settings: an instance of a settings class.
        names: names of its fields.
        reason: the rest of the message, after the option and its value, such as "is for --goal neighbours".

    Raises:
        UserError: one of them is given.
    """
    flags = {option.name: option.flag for option in options_of(type(settings))}
    defaults = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(settings)
    }
    for name in names:
        value = getattr(settings, name)
        if value != defaults[name]:
            shown = f" {value}" if isinstance(value, (str, int, float, Path)) and len(str(value)) <= _SHORT else ""
            raise UserError(f"{flags[name]}{shown} {reason}")


def _from_command_line(option: Option, value: Any, in_file: Any) -> Any:
    if option.spelling.assignments:
        return {**(in_file or {}), **split_settings(value)}
    if option.spelling.repeated:
        return tuple(value)
    if option.spelling.parse is not None:
        return option.spelling.parse(value)
    return fitted(option.flag, value, option.hint, option.name)


def config_entries(file: Path, known: Mapping[str, str]) -> Iterator[tuple[str, Any, str]]:
    """Yield the name, value and ``file:line`` of each entry of a YAML mapping; ``known`` has the names of the keys.

    Raises:
        UserError: the file is not such a mapping, or has a key twice or one that is not in ``known``.
    """
    node, values = read_yaml(file, "configuration")
    if node is None:
        return
    if not isinstance(node, yaml.MappingNode):
        raise UserError(f"{file}:{node.start_mark.line + 1}: a configuration is a list of 'key: value' lines")
    seen: dict[str, int] = {}
    for name_node, _ in node.value:
        name, line = str(name_node.value), name_node.start_mark.line + 1
        key = name.replace("-", "_")
        if key not in known:
            raise UserError(f"{file}:{line}: unknown key {name!r}{did_you_mean(key, list(known))}")
        key = known[key]
        if key in seen:
            raise UserError(f"{file}:{line}: {name!r} is given twice, first in line {seen[key]}")
        seen[key] = line
        yield key, values[name], f"{file}:{line}"
