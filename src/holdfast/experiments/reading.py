"""A table's YAML file: what stands where, of the kind that is needed there, or the line that says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from holdfast.bounds import RANGES, in_range, short
from holdfast.errors import UserError, did_you_mean
from holdfast.values import fitted, read_yaml

_TAG = "tag:yaml.org,2002:"
_TEXT, _MERGE = f"{_TAG}str", f"{_TAG}merge"
_PLAIN = {f"{_TAG}{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq", "merge")}

_VALUES = yaml.constructor.SafeConstructor()

_LARGEST = 2**53
"""Beyond it floats leave out whole numbers."""

Place = tuple[str | int, ...]
"""The keys that lead to a value, and in lists the numbers of what is in them."""


class TableFile:
    """One YAML file, with the lines of its keys for what is wrong in it.

    Args:
        path: the file.

    Raises:
        UserError: it cannot be read, is no YAML, or holds what no table does: a date, a number that is not finite, a
            key that is not text or that stands there twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.node, self.whole = read_yaml(path, "table")
        if self.node is not None:
            self._check_nodes(self.node)

    def get(self, at: Place) -> Any:
        """What stands at a place; None where nothing does."""
        value = self.whole
        for depth, key in enumerate(at):
            if isinstance(key, int):
                value = value[key]
                continue
            if value is None:
                return None
            if not isinstance(value, dict):
                raise self._no_mapping(at[:depth], value)
            value = value.get(key)
        return value

    def mapping(self, at: Place, *, needed: bool = False) -> dict[str, Any]:
        """The mapping at a place; an empty one where nothing stands, unless it is needed."""
        value = self.get(at)
        if value is None and at and not needed:
            return {}
        if not isinstance(value, dict):
            raise self._no_mapping(at, value)
        return value

    def everything(self) -> list[str]:
        """The names of all columns and averages, in the order of published values."""
        return [*self.mapping(("columns",)), *self.mapping(("averages",))]

    def entries(self, at: Place, of: str) -> Sequence[Any]:
        """What is in the list at a place, at least one thing; ``of`` says what things, for the line."""
        value = self.get(at)
        if not isinstance(value, list) or not value:
            raise self.wrong(at, f"{_named(at)} takes a list of {of}, not {shown(value)}")
        return value

    def names(self, at: Place, known: Iterable[str], kind: str, where: str = "", *, alone: bool = False) -> None:
        """Refuse what is no list of names, each one of ``known`` and there once.

        Args:
            at: the place.
            known: what there is.
            kind: what the names are of: "column".
            where: what is said behind a name that is not known: " on the axis 'data'".
            alone: whether one name may stand there without a list.
        """
        value, known = self.get(at), tuple(known)
        names = [value] if alone and isinstance(value, str) else self.entries(at, f"{kind}s")
        for place, name in enumerate(names):
            if name not in known:
                near = did_you_mean(str(name), known)
                raise self.wrong((*at, place), f"there is no {kind} {shown(name)}{where}{near}")
            if name in names[:place]:
                raise self.wrong((*at, place), f"the {kind} {name!r} stands twice in {_named(at)}")

    def known(self, at: Place, known: Iterable[str], kind: str = "") -> None:
        """Refuse a key of the mapping at a place that is not among ``known``; ``kind`` says what the keys are."""
        known = tuple(known)
        for key in self.mapping(at):
            if key not in known:
                what = f"there is no {kind} {key!r}" if kind else f"unknown key {key!r}"
                raise self.wrong((*at, key), f"{what}{did_you_mean(key, known)}")

    def text(self, at: Place, *, needed: bool = False) -> str:
        """The text at a place; an empty one where nothing stands, unless it is needed."""
        value = self.get(at)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or (needed and not value.strip()):
            quote = ": write it in quotes" if isinstance(value, (bool, int, float)) else ""
            raise self.wrong(at, f"{_named(at)} takes text, not {shown(value)}{quote}")
        return value

    def number(self, at: Place) -> float:
        """The number at a place, which is finite."""
        found: float = fitted(f"{self.path}:{self.line(at)}: {_named(at)}", self.get(at), float)
        return found

    def whole_number(self, at: Place, low: int, high: int | None = None) -> int:
        """The whole number at a place, which is not below ``low`` nor above ``high``."""
        value = self.get(at)
        if type(value) is not int or value < low or (high is not None and value > high):
            bounds = f"from {low} to {high}" if high is not None else f"of at least {low}"
            raise self.wrong(at, f"{_named(at)} takes a whole number {bounds}, not {shown(value)}")
        return value

    def wrong(self, at: Place, what: str) -> UserError:
        """The error that something is wrong at a place."""
        return UserError(f"{self.path}:{self.line(at)}: {what}")

    def line(self, at: Place) -> int:
        """The line of a place, or of the nearest one around it that is in the file."""
        node, line = self.node, 1
        for key in at:
            if isinstance(node, yaml.SequenceNode) and isinstance(key, int):
                node = node.value[key]
                line = node.start_mark.line + 1
            elif isinstance(node, yaml.MappingNode):
                for name, value in node.value:
                    if name.value == key:
                        node, line = value, name.start_mark.line + 1
        return line

    def _no_mapping(self, at: Place, value: Any) -> UserError:
        needs = f"{_named(at)} takes" if at else "a table is"
        return self.wrong(at, f"{needs} a mapping of 'key: value', not {shown(value)}")

    def _check_nodes(self, root: yaml.Node) -> None:
        """Refuse what YAML reads as something that no key and no value of a table is, with its own line."""
        waiting, seen = [root], set[int]()
        while waiting:
            node = waiting.pop()
            if id(node) in seen:  # an alias
                continue
            seen.add(id(node))
            if problem := _no_value(node):
                raise self._at(node, problem)
            if isinstance(node, yaml.SequenceNode):
                waiting.extend(reversed(node.value))
            elif isinstance(node, yaml.MappingNode):
                self._check_keys(node)
                self._check_numbers(node)
                waiting.extend(value for _, value in reversed(node.value))

    def _check_keys(self, node: yaml.MappingNode) -> None:
        keys = set()
        for key, _ in node.value:
            if key.tag not in (_TEXT, _MERGE):  # YAML reads no, off and 3 as something else than text
                raise self._at(key, f"the key {key.value} is not text: write it in quotes")
            if key.value in keys and key.tag == _TEXT:  # YAML would take the last and drop the others
                raise self._at(key, f"the key {key.value!r} stands here twice")
            keys.add(key.value)

    def _check_numbers(self, node: yaml.MappingNode) -> None:
        """Refuse a number out of the range of its key, wherever that stands."""
        for key, value in node.value:
            kind = value.tag.removeprefix(_TAG)
            if key.value in RANGES and kind in ("int", "float"):
                number = getattr(_VALUES, f"construct_yaml_{kind}")(value)
                in_range(key.value, number, f"{self.path}:{key.start_mark.line + 1}: {key.value!r}")

    def _at(self, node: yaml.Node, what: str) -> UserError:
        return UserError(f"{self.path}:{node.start_mark.line + 1}: {what}")


def _no_value(node: yaml.Node) -> str:
    """Why a node is no value of a table; "" where it is one."""
    kind = node.tag.removeprefix(_TAG)
    if isinstance(node, yaml.ScalarNode) and kind == "float" and not math.isfinite(_VALUES.construct_yaml_float(node)):
        return f"{node.value} is not a finite number"  # which no result could hold
    if isinstance(node, yaml.ScalarNode) and kind == "int" and abs(_VALUES.construct_yaml_int(node)) > _LARGEST:
        return f"a whole number of a table is at most {_LARGEST}, and {short(_VALUES.construct_yaml_int(node))} is more"
    if kind == "timestamp":
        return f"{node.value} is read as a date: write it in quotes"
    if node.tag not in _PLAIN:
        return f"a table holds texts, numbers, lists and mappings, and nothing of the kind {kind!r}"
    return ""


def _named(at: Place) -> str:
    """A place in words: its key, or for what is in a list the key of the list."""
    key = next(key for key in reversed(at) if isinstance(key, str))
    return f"each of {key!r}" if isinstance(at[-1], int) else repr(key)


def shown(value: object) -> str:
    """A value as a line shows it that says what is wrong with it."""
    return "null" if value is None else short(value)
