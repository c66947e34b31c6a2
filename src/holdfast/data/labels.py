"""Matching of a model's classes with a task's classes.

Models and tasks number the same classes in different orders, so numbers are used only if there are no names. Classes
that cannot be matched by name are refused with an error that shows a label map to give.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.data.class_names import (
    KEYS,
    SHOWN,
    ZERO_AND_ONE,
    ClassNames,
    are_generic,
    are_numbers,
    concept,
    label_number,
    listed,
    whole_number,
)
from holdfast.errors import UserError, did_you_mean


@dataclass(frozen=True)
class ClassMatch:
    """A match of each class of a task with classes of a model.

    Attributes:
        task: the names of the task's classes, in its order.
        model: the names of the model's classes, in its order.
        members: for each class of the task, the numbers of the model's classes that belong to it.
        by: the evidence: the names, the numbers (if there are no names), the order (of a function's columns), or a
            label map.
    """

    task: tuple[str, ...]
    model: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]
    by: Literal["name", "number", "order", "label map"]

    @property
    def merges(self) -> bool:
        """True if a class of the task matches several of the model's."""
        return any(len(members) > 1 for members in self.members)

    @property
    def spare(self) -> tuple[int, ...]:
        """The numbers of the model's classes that match no class of the task."""
        taken = {number for members in self.members for number in members}
        return tuple(number for number in range(len(self.model)) if number not in taken)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...] | None:
        """The model's classes, grouped by the task's classes, then the spare ones; None if nothing is merged."""
        return (*self.members, *((number,) for number in self.spare)) if self.merges else None

    @property
    def classes(self) -> list[str]:
        """The names of the result's classes: the model's own, or the names of its groups."""
        return [*self.task, *(self.model[number] for number in self.spare)] if self.merges else list(self.model)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The index in `classes` of each class of the task."""
        if self.merges:
            return tuple(range(len(self.task)))
        return tuple(number for (number,) in self.members)

    def describe(self) -> str:
        """Return the match as a line of text."""
        pairs = []
        for name, members in zip(self.task, self.members, strict=True):
            task_names = "+".join(self.model[number] for number in members)
            pairs.append(name if task_names == name else f"{name}={task_names}")
        spare = listed([self.model[number] for number in self.spare])
        spare_note = f" (in no class of the task: {spare})" if spare else ""
        return f"classes matched by {self.by}: {listed(pairs)}{spare_note}"

    def record(self) -> dict[str, Any]:
        """Return the match for the result: ``{by, matched, numbers[, spare]}``.

        ``matched`` has the model's classes for each of the task's, ``numbers`` the number of each among `classes`.
        """
        spare = [self.model[number] for number in self.spare]
        return {
            "by": self.by,
            "matched": {
                name: [self.model[number] for number in members]
                for name, members in zip(self.task, self.members, strict=True)
            },
            "numbers": dict(zip(self.task, self.numbers, strict=True)),
            **({"spare": spare} if spare else {}),
        }


def match_classes(model: ClassNames, task: ClassNames, label_map: Mapping[str, str] | None = None) -> ClassMatch:
    """Match the classes of a model with those of a task.

    Args:
        model: the model's classes; it may have some that the task lacks.
        task: the task's classes.
        label_map: the class of the task for classes of the model, by name; several may have the same. If it is given,
            only the map is used.

    Raises:
        UserError: the names do not match, or the map does not fit them; the message shows a map to give.
    """
    if label_map is not None:
        return _by_map(model, task, label_map)
    found = find_match(model, task)
    if found is None:
        raise _unmatched(model, task)
    return found


def find_match(model: ClassNames, task: ClassNames) -> ClassMatch | None:
    """Match a model's classes with a task's without a label map; return None if the names do not match."""
    if model.are_columns:
        order = _by_number(model.names, task.names)
        if order is None and len(model.names) == len(task.names) and not are_numbers(task.names):
            return ClassMatch(task.names, model.names, tuple((i,) for i in range(len(task.names))), "order")
        by: Literal["name", "number"] = "number"
    else:
        order, by = _by_name(model, task), "name"
        if order is None and (are_generic(model.names) or are_generic(task.names)):
            order, by = _by_number(model.names, task.names), "number"
    return None if order is None else ClassMatch(task.names, model.names, tuple((i,) for i in order), by)


def has_classes(model: ClassNames, label_map: Mapping[str, str]) -> bool:
    """Return True if all names in a label map are classes of this model."""
    return all(_place(str(name), model) is not None for name in label_map)


def parse_label_map(text: str) -> dict[str, str]:
    """Read a label map: ``NEGATIVE=neg,POSITIVE=pos``, or a JSON object if names contain commas or equals signs.

    Raises:
        UserError: the text is neither, or names a class of the model twice.
    """
    usage = f"--label-map takes MODEL=TASK,MODEL=TASK (NEGATIVE=neg,POSITIVE=pos) or a JSON object, not {text!r}"
    if text.lstrip().startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(usage) from error
        if not value or not all(isinstance(task_class, str) for task_class in value.values()):
            raise UserError(usage)
        return {str(name): str(task_class) for name, task_class in value.items()}
    found: dict[str, str] = {}
    for pair in text.split(","):
        name, equals, task_class = (part.strip() for part in pair.partition("="))
        if not (name and equals and task_class) or "=" in task_class:
            raise UserError(usage)
        if name in found:
            raise UserError(f"--label-map names the model's class {name!r} twice: it is one class of the task")
        found[name] = task_class
    return found


def _by_map(model: ClassNames, task: ClassNames, label_map: Mapping[str, str]) -> ClassMatch:
    members: list[list[int]] = [[] for _ in task.names]
    seen: dict[int, str] = {}
    for name, task_class in ((str(name), str(task_class)) for name, task_class in label_map.items()):
        number, place = _place(name, model), _place(task_class, task)
        if number is None:
            raise _unknown(name, model, "model")
        if place is None:
            raise _unknown(task_class, task, "task")
        if number in seen:
            raise UserError(f"--label-map: {seen[number]!r} and {name!r} are the same class of {model.owner}")
        seen[number] = name
        members[place].append(number)
    missing = [name for name, found in zip(task.names, members, strict=True) if not found]
    if missing:
        raise UserError(
            f"--label-map maps no class of {model.owner} ({model.listed()}) to {listed(missing)}: "
            f"map at least one to each class of {task.owner}"
        )
    return ClassMatch(task.names, model.names, tuple(tuple(sorted(found)) for found in members), "label map")


def _place(name: str, side: ClassNames) -> int | None:
    """Return the number of the class for a name in a label map; case matters only if needed."""
    for key in KEYS[:2]:
        for names in (side.names, side.meanings):
            found = [number for number, other in enumerate(names) if key(other) == key(name)]
            if len(found) == 1:
                return found[0]
    return None


def _unknown(name: str, side: ClassNames, side_name: str) -> UserError:
    near = did_you_mean(name, [*side.names, *side.meanings])
    return UserError(
        f"--label-map: {name!r}{near} is no class of the {side_name} {side.owner}, which has {side.listed()}"
    )


def _unmatched(model: ClassNames, task: ClassNames) -> UserError:
    if len(model.names) < len(task.names):
        return UserError(
            f"{model.owner} knows {len(model.names)} classes ({model.listed()}) and {task.owner} has {len(task.names)} "
            f"({task.listed()}): fine-tune it with `holdfast finetune {model.owner} --task {task.owner} --output DIR`"
        )
    if model.are_columns:
        mismatch = f"{model.owner} returns {len(model.names)} numbers per text, and {task.owner} has {task.listed()}"
    elif are_generic(model.names):
        mismatch = (
            f"the classes of {model.owner} have no names ({model.listed()}), and {task.owner} has {task.listed()}"
        )
    else:
        mismatch = (
            f"{model.owner} has the classes {model.listed()}, {task.owner} has {task.listed()}: the names do not match"
        )
    example = shlex.quote(_as_text(_example_map(model, task)))
    return UserError(f"{mismatch}; give the match of the classes, for example --label-map {example}")


def _example_map(model: ClassNames, task: ClassNames) -> dict[str, str]:
    """Return a label map for the message: classes with the same name, and the others in their order."""
    named = {concept(name): name for name in task.names}
    model_names = {concept(name) for name in model.names}
    rest = [name for key, name in named.items() if key not in model_names]
    found: dict[str, str] = {}
    for name in model.names[:SHOWN]:
        task_class = named.get(concept(name)) or (rest[0] if rest else None)
        if task_class is not None:
            found[name] = task_class
        if task_class in rest[:-1]:
            rest.remove(task_class)
    return found


def _as_text(label_map: Mapping[str, str]) -> str:
    """Return a label map as text for `parse_label_map`."""
    pairs = [f"{name}={task_class}" for name, task_class in label_map.items()]
    if any(sign in part for pair in label_map.items() for part in pair for sign in ",={"):
        return json.dumps(label_map, ensure_ascii=False)
    return ",".join(pairs)


def _by_name(model: ClassNames, task: ClassNames) -> list[int] | None:
    """Return, for each class of the task, the number of the model's class with the same name or meaning, or None."""
    pairs = [(model.meanings, task.meanings)]
    if not (model.meanings and task.meanings):  # if both meanings are known, equal numbers may have different meanings
        pairs = [(model_names, task_names) for model_names in _readings(model) for task_names in _readings(task)]
    for model_names, task_names in pairs:
        for key in KEYS:
            if (order := _order(list(map(key, model_names)), list(map(key, task_names)))) is not None:
                return order
    return None


def _readings(side: ClassNames) -> list[tuple[str, ...]]:
    """Return the names, then the meanings that they may have."""
    readings = [side.names]
    if side.meanings:
        readings.append(side.meanings)
    elif set(side.names) and {whole_number(name) for name in side.names} <= {0, 1}:
        readings += [tuple(pair[whole_number(name) or 0] for name in side.names) for pair in ZERO_AND_ONE]
    return readings


def _order(model_names: list[str], task_names: list[str]) -> list[int] | None:
    """Return the index of each of the task's names in the model's, or None if one does not occur exactly once there."""
    if len(set(task_names)) < len(task_names) or any(model_names.count(name) != 1 for name in task_names):
        return None
    return [model_names.index(name) for name in task_names]


def _by_number(model_names: Sequence[str], task_names: Sequence[str]) -> list[int] | None:
    """Return `_order` of the numbers in the names: ``LABEL_1`` is 1."""
    numbers = [[str(label_number(name)) for name in names] for names in (model_names, task_names)]
    return None if any("None" in each for each in numbers) else _order(*numbers)
