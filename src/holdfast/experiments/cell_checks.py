"""Checks, before anything is made, that the data and resources of every cell are at hand.

A check reads no rows and loads no model: it looks for files, and asks the hub whether a data set exists. What is
downloaded at first use, such as word vectors, is downloaded by its check.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.attacks.attack_inputs import default_split
from holdfast.attacks.recipe_choice import make_recipes
from holdfast.attacks.resource_names import SETS
from holdfast.attacks.resources import Resources, availability
from holdfast.attacks.score_scale import fitting_split
from holdfast.attacks.text_similarity import USE_HANDLES, split_spec
from holdfast.classifiers.splits import needed_splits
from holdfast.data import hub
from holdfast.data.sources import resolve
from holdfast.data.split_checks import check_split
from holdfast.data.tasks import task_named
from holdfast.errors import EndsRun, UserError
from holdfast.evaluation.sts import ALL_STS_TASKS, measured_split
from holdfast.evaluation.transfer import needed_splits as transfer_splits
from holdfast.experiments.cell_planning import STSB_DEV, Setting
from holdfast.experiments.cells import Cell
from holdfast.experiments.input_hashes import Identities, task_and_split


@dataclass(frozen=True)
class Need:
    """Something that must be at hand for a cell.

    Attributes:
        kind: "split" of a task, "training" (all splits that a training on a task reads), "corpus", "resource" or
            "model".
        name: the task, corpus, resource or model.
        split: the split; for a training None means the default one.
        text: the kind of text, as for `holdfast.data.registry.load_pairs`.
    """

    kind: str
    name: str
    split: str | None = None
    text: str = "raw"


class CellChecks:
    """Checks of the needs of cells, each made once."""

    def __init__(self, setting: Setting, identity: Identities) -> None:
        self._setting, self._identity = setting, identity
        self._found: dict[Need, str | None] = {}

    def unmakeable(self, cells: Iterable[Cell]) -> dict[str, str]:
        """Return the reason for each cell, by its key, that cannot be made; cells must come after their inputs.

        Raises:
            EndsRun: a full disk, or another error that ends the run.
        """
        reasons: dict[str, str] = {}
        for cell in cells:
            causes = (reasons[taken.key] for taken in cell.inputs.values() if taken.key in reasons)
            reason = next(causes, None) or self._reason(cell)
            if reason is not None:
                reasons[cell.key] = reason
        return reasons

    def _reason(self, cell: Cell) -> str | None:
        try:
            needs = list(self._needs(cell))
        except EndsRun:
            raise
        except UserError as error:
            return str(error)
        return next((reason for need in needs if (reason := self._lacking(need)) is not None), None)

    def _lacking(self, need: Need) -> str | None:
        """Return why something is not at hand; None if it is."""
        if need not in self._found:
            try:
                self._check(need)
            except EndsRun:
                raise
            except UserError as error:
                self._found[need] = str(error)
            else:
                self._found[need] = None
        return self._found[need]

    def _needs(self, cell: Cell) -> Iterator[Need]:
        """Yield the needs of a cell, without those of its inputs."""
        settings, corpus = cell.settings, cell.where.get("corpus")
        if corpus is not None:
            task = task_and_split(str(corpus))
            yield Need("corpus", str(corpus)) if task is None else Need("training", task[0], task[1] or None)
        if settings.get("selection") == "stsb-dev":
            yield Need("split", "stsb", "dev")
        for option, found in settings.get("option_files", {}).items():
            if found == str(settings["options"].get(option)):  # no hash, because it is not on this machine
                yield Need("model", found)
        if cell.kind == "classifier":
            yield Need("training", settings["task"], settings.get("train_split"))
        elif cell.kind == "attack":
            yield from self._needs_of_attack(settings)
        elif cell.kind == "evaluation":
            yield from _needs_of_evaluation(settings)

    def _needs_of_attack(self, settings: Mapping[str, Any]) -> Iterator[Need]:
        task = task_named(settings["task"])
        split = settings.get("split") or default_split(task, self._data)
        yield Need("split", task.name, split)
        if task.kind == "sts" and settings.get("goal") in (None, "auto", "score"):
            yield Need("split", *fitting_split(task.name, split))
        (recipe,) = make_recipes([settings["recipe"]], settings.get("constants") or {})
        for resource in recipe.needs():
            yield Need("resource", resource)
        if self._setting.resources.similarity not in {names.similarity for names in SETS.values()}:
            yield Need("resource", "similarity")  # that of a set may be missing

    @property
    def _data(self) -> Path | None:
        return self._setting.data

    @functools.cached_property
    def _hub_answers(self) -> bool:
        return hub.switched_off() is None and hub.hub_reachable()

    @functools.cached_property
    def _here(self) -> dict[str, bool]:
        """Availability of each resource without a download, by its name."""
        return {row.resource: row.here for row in availability(self._setting.resources, data=self._data)}

    def _check(self, need: Need) -> None:
        """Raise a `UserError` if something is not at hand."""
        if need.kind == "split":
            check_split(need.name, str(need.split), data=self._data, text=need.text, hub_answers=self._hub_answers)
        elif need.kind == "training":
            for split in needed_splits(task_named(need.name), need.split, self._data):
                check_split(need.name, split, data=self._data, hub_answers=self._hub_answers)
        elif need.kind == "corpus":
            for part in resolve(need.name, self._data):
                if isinstance(part, hub.HubSource):
                    hub.check(part, streamed=True, reachable=self._hub_answers)
        elif need.kind == "model":
            self._identity.resolved(need.name)
        else:
            self._check_resource(need.name)

    def _check_resource(self, name: str) -> None:
        names = self._setting.resources
        model = names.masked_lm if name == "masked_lm" else split_spec(names.similarity)[0]
        if name in ("masked_lm", "similarity") and model not in USE_HANDLES:
            self._identity.resolved(model)
        elif not self._here.get(name, False):
            Resources(names, data=self._data).require([name])


def _needs_of_evaluation(settings: Mapping[str, Any]) -> Iterator[Need]:
    for task in settings["tasks"]:
        named = "stsb" if task in ("space", STSB_DEV) else task
        splits = ("dev",) if named != task else transfer_splits(task) if task not in ALL_STS_TASKS else ()
        for split in splits or (measured_split(task),):
            senteval = settings.get("text") == "senteval" and task_named(named).split(split).senteval
            yield Need("split", named, split, "senteval" if senteval else "raw")
