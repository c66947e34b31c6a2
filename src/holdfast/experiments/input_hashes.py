"""Hashes that identify the inputs of a piece of work: files, models, data sets, corpora, linguistic resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.attacks.resource_names import ResourceNames
from holdfast.attacks.resources import synonyms_file, wordnet_folder
from holdfast.attacks.text_similarity import USE_HANDLES, split_spec
from holdfast.classifiers.training_data import ATTACK_SETS
from holdfast.data.folder import data_folder
from holdfast.data.registry import folder_of, locate
from holdfast.data.sources import resolve
from holdfast.data.tasks import TASKS, task_named
from holdfast.errors import EndsRun, UserError
from holdfast.files import expanded, sha256
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.training.train_config import Selection, resolved_selection

OF_TASK = "task:"
"""Prefix of a corpus that consists of a labelled task's training texts: in-domain pre-training."""


def task_and_split(corpus: str) -> tuple[str, str] | None:
    """Return the task and split ("" if not named) of a corpus ``task:TASK`` or ``task:TASK/SPLIT``; else None.

    A task may have slashes in its name, or be a file or folder.
    """
    if not corpus.startswith(OF_TASK):
        return None
    whole = corpus.removeprefix(OF_TASK)
    if whole in {task.name for task in TASKS} or expanded(whole).exists() or "/" not in whole:
        return whole, ""
    task, _, split = whole.rpartition("/")
    return task, split


class Identities:
    """Hashes of files, models and data sets, each computed once."""

    def __init__(self, data: Path | None) -> None:
        self._data = data
        self._digests: dict[Path, str] = {}
        self._models: dict[Path, dict[str, Any]] = {}
        self._resolved: dict[str, Path | UserError] = {}

    def resolved(self, name: str) -> Path:
        """Return the folder of a model; the hub is asked once for each name, also if it does not answer.

        Raises:
            UserError: as `resolve_model`.
        """
        if name not in self._resolved:
            try:
                self._resolved[name] = resolve_model(name)
            except EndsRun:
                raise
            except UserError as error:
                self._resolved[name] = error
        found = self._resolved[name]
        if isinstance(found, UserError):
            raise UserError(str(found))
        return found

    def file(self, path: Path) -> str:
        """Return the hash of a file."""
        if path not in self._digests:
            self._digests[path] = sha256(path)
        return self._digests[path]

    def model(self, path: Path) -> dict[str, Any]:
        """Return the hashes of a model's files."""
        if path not in self._models:
            self._models[path] = {"model_files": model_identity(path)["model_files"]}
        return self._models[path]

    def _of_model_or_file(self, name: str) -> Any:
        """Return the hashes of a model's files or of a file; the name if it is not on this machine."""
        path = expanded(name)
        if path.is_file():
            return self.file(path)
        try:
            return self.model(self.resolved(name))
        except UserError:
            return name

    def option_files(self, names: Iterable[str], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the hashes of the files and models that the options ``names`` name, as a setting ``option_files``.

        The setting is left out if no option names any.
        """
        found = {name: self._of_model_or_file(str(options[name])) for name in names if options.get(name) is not None}
        return {"option_files": found} if found else {}

    def task(self, task: str, text: str = "raw") -> dict[str, Any]:
        """Return the hashes of a task's local files, with raw or SentEval texts; the names of data sets on the hub."""
        known = task_named(task)
        if known.is_own:
            return {"files": [self.file(part.own) for part in known.splits if part.own is not None]}
        folder = folder_of(known, self._data)
        if folder is None:
            return {"hub": [str(part.hub) for part in known.splits if part.hub is not None]}
        files = [path for part in known.splits for path in locate(part, folder, text if part.senteval else "raw") or ()]
        return {"files": [self.file(path) for path in files]}

    def trained_on(self, task: str) -> dict[str, Any]:
        """Return the same for a training task, and the hashes of local attack sets, which are kept out of training."""
        folder = data_folder(self._data)
        sets = [task_named(name).split("all") for name in ATTACK_SETS.get(task_named(task).name, ())]
        kept_out = [] if folder is None else [path for each in sets for path in locate(each, folder) or ()]
        return {**self.task(task), **({"kept_out": [self.file(path) for path in kept_out]} if kept_out else {})}

    def corpus(self, corpus: str) -> dict[str, Any]:
        """Return the hashes of a corpus's files; the name of a corpus on the hub."""
        if of_task := task_and_split(corpus):
            task, split = of_task
            return {"task": task, "split": split or None, **self.trained_on(task)}
        if corpus == "-":
            raise UserError("a reproduction cannot read its corpus from standard input: give --corpus FILE")
        parts = resolve(corpus, self._data)
        return {"parts": [self.file(part) if isinstance(part, Path) else str(part) for part in parts]}

    def selected_on(self, selection: Selection) -> dict[str, Any]:
        """Return how the kept step is selected: the last step, or by STS-B dev, with the hashes of its files."""
        if resolved_selection(selection, self._data) == "last":
            return {"selection": "last"}
        stsb = task_named("stsb")
        dev, folder = stsb.split("dev"), folder_of(stsb, self._data)
        files = () if folder is None else locate(dev, folder) or ()
        return {"selection": "stsb-dev", "selected_on": [self.file(path) for path in files] or str(dev.hub)}

    def resources(self, needed: Sequence[str], names: ResourceNames) -> dict[str, Any]:
        """Return the hashes of the resources that a recipe needs, or the names of those that are no files here.

        Other resources do not change its attack. The similarity encoder is always included, since it measures the
        adversarial texts.
        """
        used = {name: value for name, value in vars(names).items() if name in needed or name == "similarity"}
        found = {name: self._resource_files(name, value) for name, value in used.items()}
        return {name: value if found[name] is None else found[name] for name, value in used.items()}

    def synonyms(self, name: str) -> list[str] | None:
        """Return the hashes of the files of synonyms; None for those that are checked at download.

        Raises:
            UserError: they are missing.
        """
        if name == "counterfitted":
            return None
        return [self.file(path) for path in files_at(synonyms_file(name, self._data))]

    def _resource_files(self, name: str, value: str) -> Any:
        """Return the hashes of a resource's files; None for a package, or for files that are checked at download."""
        try:
            if name == "synonyms":
                return self.synonyms(value)
            if name == "wordnet":
                return [self.file(path) for path in files_at(wordnet_folder(value, self._data))]
        except UserError:
            return None  # the attack reports what is missing
        if name == "similarity":
            encoder, after = split_spec(value)
            calibration = self._of_model_or_file(after) if after.endswith(".json") else after
            return [encoder if encoder in USE_HANDLES else self._of_model_or_file(encoder), calibration]
        return self._of_model_or_file(value) if name == "masked_lm" else None


def files_at(path: Path) -> list[Path]:
    """Return the file itself, or the files of a folder."""
    return sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
