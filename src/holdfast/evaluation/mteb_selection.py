"""The tasks of mteb that names stand for: of mteb's registry, of its benchmarks, or classes of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.errors import UserError, did_you_mean, first_line
from holdfast.evaluation.mteb_names import PREFIX, refuse_without_text, require_mteb, short_name
from holdfast.user_functions import imported

Task = Any
"""An instance of ``mteb.AbsTask``."""


def mteb_tasks(names: Sequence[str]) -> list[Task]:
    """Return new instances of the tasks that names stand for, each task once, in the order of the names.

    Args:
        names: ``mteb:TASK`` (a name of mteb's registry), ``mteb:BENCHMARK`` (its name, or a short one such as
            ``eng-v2``), or ``mteb:package.module:CLASS`` with a task class that is not in the registry;
            ``mteb:package.module:CLASS=PATH`` gives the class the path of its files.

    Raises:
        NotInstalled: mteb is not installed, or this Python is too old for it.
        UserError: a name is unknown, a class cannot be imported or made, two tasks have one name, or a task is not on
            texts.
    """
    require_mteb(names)
    found: dict[str, Task] = {}
    for name in names:
        for task in _named(name.removeprefix(PREFIX)):
            known = task.metadata.name
            refuse_without_text(known, task.metadata.modalities)
            if known in found and type(found[known]) is not type(task):
                raise UserError(f"--tasks names two different tasks that are called {known}: measure them apart")
            found.setdefault(known, task)
    return list(found.values())


def _named(name: str) -> list[Task]:
    import mteb

    if ":" in name:
        return [_of_class(name)]
    benchmarks = {short_name(each.name): each.name for each in mteb.get_benchmarks()}
    benchmark = benchmarks.get(name, name if name in benchmarks.values() else None)
    if benchmark is not None:
        return [_again(task) for task in mteb.get_benchmark(benchmark).tasks]
    try:
        return [mteb.get_task(name)]
    except KeyError as error:
        known = {cls.metadata.name for cls in _registry()} | set(benchmarks)
        raise UserError(
            f"--tasks: mteb {mteb.__version__} has no task and no benchmark {name!r}{did_you_mean(name, known)}; "
            "a class of yours is mteb:package.module:Class"
        ) from error


def _again(task: Task) -> Task:
    """Return a new instance of a benchmark's task, which mteb shares within the process, with the same subsets."""
    again = type(task)()
    again.hf_subsets = list(task.hf_subsets)
    return again.filter_eval_splits(list(task.eval_splits))


def _registry() -> Sequence[type[Task]]:
    from mteb.get_tasks import TASK_LIST

    return list(TASK_LIST)


def _of_class(name: str) -> Task:
    """Return an instance of ``package.module:CLASS``, or ``package.module:CLASS=PATH``."""
    import mteb

    where, _, path = name.partition("=")
    module_name, _, class_name = where.partition(":")
    made = imported(module_name, class_name, f"{PREFIX}{name}")
    if not (isinstance(made, type) and issubclass(made, mteb.AbsTask)):
        raise UserError(f"{PREFIX}{name}: {class_name} is no task class of mteb (a subclass of mteb.AbsTask)")
    try:
        return made(path) if path else made()
    except Exception as error:  # any error of the user's class, such as a file that is not there
        raise UserError(f"{PREFIX}{name}: cannot be made: {type(error).__name__}: {first_line(error)}") from error
