"""Access to a table's YAML file: values of the expected type, or errors with ``file:line``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from holdfast.errors import UserError, did_you_mean
from holdfast.number_ranges import RANGES, in_range, short
from holdfast.option_parsing import fitted, read_yaml

_TAG = "tag:yaml.org,2002:"
_TEXT, _MERGE = f"{_TAG}str", f"{_TAG}merge"
_PLAIN = {f"{_TAG}{kind}" for kind in ("str", "int", "float", "bool", "null", "map", "seq", "merge")}

_VALUES = yaml.constructor.SafeConstructor()

_LARGEST = 2**53
"""The largest whole number of a table: above it, floats cannot represent all whole numbers."""

Place = tuple[str | int, ...]
"""The path to a value: keys of mappings, and indices of lists."""


class TableFile:
    """A YAML file, with the line numbers of its keys for error messages.

    Raises:
        UserError: it cannot be read, is not YAML, or holds something that no table may hold: a date, a number that is
            not finite, a key that is not text, or a key twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.node, self.whole = read_yaml(path, "table")
        if self.node is not None:
            self._check_nodes(self.node)

    def get(self, at: Place) -> Any:
        """Return the value at a place, or None."""
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
        """Return the mapping at a place; an empty one if there is none and it is not needed."""
        value = self.get(at)
        if value is None and at and not needed:
            return {}
        if not isinstance(value, dict):
            raise self._no_mapping(at, value)
        return value

    def column_names(self) -> list[str]:
        """Return the names of all columns and averages, in the order of published values."""
        return [*self.mapping(("columns",)), *self.mapping(("averages",))]

    def entries(self, at: Place, of: str) -> Sequence[Any]:
        """Return the list at a place, which must not be empty; ``of`` names its entries in the error message."""
        value = self.get(at)
        if not isinstance(value, list) or not value:
            raise self.wrong(at, f"{_named(at)} takes a list of {of}, not {shown(value)}")
        return value

    def check_names(self, at: Place, known: Iterable[str], kind: str, where: str = "", *, alone: bool = False) -> None:
        """Refuse a value that is not a list of names, each from ``known`` and only once.

        Args:
            at: the place.
            known: the valid names.
            kind: what the names stand for, such as "column".
            where: text after an unknown name in the message, such as " on the axis 'data'".
            alone: whether a single name without a list is allowed.
        """
        value, known = self.get(at), tuple(known)
        names = [value] if alone and isinstance(value, str) else self.entries(at, f"{kind}s")
        for place, name in enumerate(names):
            if name not in known:
                near = did_you_mean(str(name), known)
                raise self.wrong((*at, place), f"there is no {kind} {shown(name)}{where}{near}")
            if name in names[:place]:
                raise self.wrong((*at, place), f"the {kind} {name!r} stands twice in {_named(at)}")

    def check_keys(self, at: Place, known: Iterable[str], kind: str = "") -> None:
        """Refuse a key of the mapping at a place that is not in ``known``; ``kind`` names the keys in the message."""
        known = tuple(known)
        for key in self.mapping(at):
            if key not in known:
                what = f"there is no {kind} {key!r}" if kind else f"unknown key {key!r}"
                raise self.wrong((*at, key), f"{what}{did_you_mean(key, known)}")

    def text(self, at: Place, *, needed: bool = False) -> str:
        """Return the text at a place; an empty one if there is none and it is not needed."""
        value = self.get(at)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or (needed and not value.strip()):
            quote = ": write it in quotes" if isinstance(value, (bool, int, float)) else ""
            raise self.wrong(at, f"{_named(at)} takes text, not {shown(value)}{quote}")
        return value

    def number(self, at: Place) -> float:
        """Return the number at a place, which must be finite."""
        found: float = fitted(f"{self.path}:{self.line(at)}: {_named(at)}", self.get(at), float)
        return found

    def whole_number(self, at: Place, low: int, high: int | None = None) -> int:
        """Return the whole number at a place, which must lie between ``low`` and ``high``."""
        value = self.get(at)
        if type(value) is not int or value < low or (high is not None and value > high):
            bounds = f"from {low} to {high}" if high is not None else f"of at least {low}"
            raise self.wrong(at, f"{_named(at)} takes a whole number {bounds}, not {shown(value)}")
        return value

    def wrong(self, at: Place, what: str) -> UserError:
        """Return an error with the file and line of a place."""
        return UserError(f"{self.path}:{self.line(at)}: {what}")

    def line(self, at: Place) -> int:
        """Return the line of a place, or of the nearest enclosing place in the file."""
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
        """Refuse YAML types and values that no table may hold, with their own line."""
        waiting, seen = [root], set[int]()
        while waiting:
            node = waiting.pop()
            if id(node) in seen:  # an alias
                continue
            seen.add(id(node))
            if problem := _node_problem(node):
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
            if key.tag not in (_TEXT, _MERGE):  # YAML does not read no, off and 3 as text
                raise self._at(key, f"the key {key.value} is not text: write it in quotes")
            if key.value in keys and key.tag == _TEXT:  # YAML would take the last and drop the others
                raise self._at(key, f"the key {key.value!r} stands here twice")
            keys.add(key.value)

    def _check_numbers(self, node: yaml.MappingNode) -> None:
        """Refuse a number out of the range of its key, wherever the key occurs."""
        for key, value in node.value:
            kind = value.tag.removeprefix(_TAG)
            if key.value in RANGES and kind in ("int", "float"):
                number = getattr(_VALUES, f"construct_yaml_{kind}")(value)
                in_range(key.value, number, f"{self.path}:{key.start_mark.line + 1}: {key.value!r}")

    def _at(self, node: yaml.Node, what: str) -> UserError:
        return UserError(f"{self.path}:{node.start_mark.line + 1}: {what}")


def _node_problem(node: yaml.Node) -> str:
    """Return why a node is not a valid value of a table; "" if it is one."""
    kind = node.tag.removeprefix(_TAG)
    if isinstance(node, yaml.ScalarNode) and kind == "float" and not math.isfinite(_VALUES.construct_yaml_float(node)):
        return f"{node.value} is not a finite number"  # a result could not hold it
    if isinstance(node, yaml.ScalarNode) and kind == "int" and abs(_VALUES.construct_yaml_int(node)) > _LARGEST:
        return f"a whole number of a table is at most {_LARGEST}, and {short(_VALUES.construct_yaml_int(node))} is more"
    if kind == "timestamp":
        return f"{node.value} is read as a date: write it in quotes"
    if node.tag not in _PLAIN:
        return f"a table holds texts, numbers, lists and mappings, and nothing of the kind {kind!r}"
    return ""


def _named(at: Place) -> str:
    """Return the name of a place in messages: its key, or for an entry of a list the key of the list."""
    key = next(key for key in reversed(at) if isinstance(key, str))
    return f"each of {key!r}" if isinstance(at[-1], int) else repr(key)


def shown(value: object) -> str:
    """Return a value as an error message shows it."""
    return "null" if value is None else short(value)
