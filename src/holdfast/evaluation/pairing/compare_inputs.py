"""The two sides of a comparison: results, one per seed, and the tasks that they share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from holdfast.errors import UserError
from holdfast.evaluation.retrieval import TASK as RETRIEVAL
from holdfast.evaluation.retrieval_systems import ENCODER
from holdfast.files import paths_in
from holdfast.forms import FLOAT32, Form, form_of
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
    """The key by which results are compared; ``recipe`` is set for attacks only, ``form`` for forms of vectors."""

    task: str
    split: str
    recipe: str | None
    metric: str
    form: str | None = None

    @property
    def seed_name(self) -> str:
        """The name that makes the draws of a row independent of those of other rows; the same for all forms."""
        return "/".join(map(str, (self.task, self.split, self.recipe, self.metric)))


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


def sides_in_forms(sides: Sequence[Side], forms: Sequence[Form]) -> list[Side]:
    """Return the baseline in the plain form, and each other side in each form; one side alone is both.

    Args:
        sides: the baseline first.
        forms: the forms; none: all that a side has.

    Raises:
        UserError: a result has no row in a form.
    """
    found = [_in_form(sides[0], None)]
    for side in sides[1:] or sides:
        own = dict.fromkeys(filter(None, (form_of(row) for row in side.sources[0].result["results"])))
        if not own:
            raise UserError(f"{side.sources[0].path} has no rows in other forms of the vectors: measure it with --as")
        found += [_in_form(side, name) for name in (map(str, forms) if forms else own)]
    return found


def _in_form(side: Side, form: str | None) -> Side:
    """Return a side with the rows in one form, as if they were plain."""
    sources = []
    for source in side.sources:
        rows = [row for row in source.result["results"] if form_of(row) == form]
        if not rows:
            there = ", ".join(dict.fromkeys(form_of(row) or FLOAT32 for row in source.result["results"]))
            raise UserError(f"{source.path} has no rows as {form or FLOAT32}; its forms are {there}")
        plain = [{name: value for name, value in row.items() if name != "form"} for row in rows]
        sources.append(replace(source, result={**source.result, "results": plain}))
    return Side(side.name if form is None else f"{side.name} as {form}", tuple(sources))


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
    left = list(dict.fromkeys(name_of(key) for key in everything if key not in shared))
    return shared, [f"not in all of the results: {', '.join(left)}"] if left else []


def common_values(found: Sequence[Mapping[Key, float]]) -> list[list[float]]:
    """Return the values of the keys that all mappings hold, in the order of the first: a list for each mapping."""
    keys = [key for key in found[0] if all(key in others for others in found[1:])]
    return [[values[key] for key in keys] for values in found]


def recipe_of(row: Mapping[str, Any]) -> str | None:
    """Return what tells rows of a split apart.

    The collection and the system of a search; the recipe of an attack, with the model that tried texts were made
    against; None for others.
    """
    if row["task"] == RETRIEVAL:
        names = [str(row.get("data", "")), str(row.get("system", ""))]
        return " ".join(name for name in names if name and name != ENCODER.name)
    against = f" against {shown(row['made_against'])}" if "made_against" in row else ""
    return f"{row['recipe']}{against}" if "recipe" in row else None


def name_of(key: RowKey) -> str:
    """Return the key as it is written in messages."""
    named = " ".join(part for part in (key.task, key.split, key.recipe) if part)
    return named if key.form is None else f"{named} as {key.form}"


def as_object(value: Any) -> dict[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}
