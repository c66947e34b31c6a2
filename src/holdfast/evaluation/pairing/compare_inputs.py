"""The two sides of a comparison: results, one per seed, and the tasks that they share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from holdfast.errors import UserError
from holdfast.files import paths_in
from holdfast.results import read_with_state, shown

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class ComparedResult:
    """A result, its file, and a flag that is True if the file was changed since it was written."""

    path: Path
    result: dict[str, Any]
    changed: bool = False

    @property
    def is_attack(self) -> bool:
        """True if the items of the result are attacked texts."""
        return bool(self.result["kind"] == "attack")


@dataclass(frozen=True)
class Side:
    """One model, or one method with several seeds."""

    name: str
    sources: tuple[ComparedResult, ...]


class RowKey(NamedTuple):
    """The key by which results are compared; ``recipe`` is set for attacks only."""

    task: str
    split: str
    recipe: str | None
    metric: str


def read_side(words: str) -> Side:
    """Read a side from a path, or from several paths joined by commas: one result per seed.

    Raises:
        UserError: no path is given, a file is not a result, or a file or a model is given twice.
    """
    paths = [Path(word) for word in paths_in(words)]
    if not paths:
        raise UserError("a result file is missing: give A.json B.json, and several seeds as a-1.json,a-2.json")
    read = [(path, *read_with_state(path)) for path in paths]
    sources = tuple(ComparedResult(path, result, state == "changed") for path, result, state in read)
    seen: dict[tuple[str, Any], Path] = {}
    for source in sources:
        # The same encoder measured twice is one seed; an attack has its own draws.
        key = (source.result["model_sha256"], source.result["seed"] if source.is_attack else None)
        if key in seen:
            raise UserError(f"{seen[key]} and {source.path} hold the same model: seeds are models of several trainings")
        seen[key] = source.path
    first = sources[0]
    backend = first.result.get("protocol", {}).get("backend")
    form = f" ({shown(str(backend['name']))})" if isinstance(backend, Mapping) and "name" in backend else ""
    name = shown(str(first.result["model"])) + form + (f" and {len(sources) - 1} more" if len(sources) > 1 else "")
    return Side(name, sources)


def common(keys: Sequence[Sequence[RowKey]], sources: Sequence[ComparedResult]) -> tuple[list[RowKey], list[str]]:
    """Return the keys that all results hold, and lines about the other keys.

    Raises:
        UserError: the results have no key in common.
    """
    shared = [key for key in keys[0] if all(key in others for others in keys[1:])]
    if not shared:
        contents = "; ".join(
            f"{source.path} holds {', '.join(dict.fromkeys(map(name_of, own))) or 'nothing'}"
            for source, own in zip(sources, keys, strict=True)
        )
        raise UserError(f"the results have no task in common: {contents}")
    everything = dict.fromkeys(chain.from_iterable(keys))
    left = [name_of(key) for key in everything if key not in shared]
    return shared, [f"not in all of the results: {', '.join(left)}"] if left else []


def common_values(found: Sequence[Mapping[Key, float]]) -> list[list[float]]:
    """Return the values of the keys that all mappings hold, in the order of the first: a list for each mapping."""
    keys = [key for key in found[0] if all(key in others for others in found[1:])]
    return [[values[key] for key in keys] for values in found]


def name_of(key: RowKey) -> str:
    """Return the key as it is written in messages."""
    return " ".join(part for part in (key.task, key.split, key.recipe) if part)


def as_object(value: Any) -> dict[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}
