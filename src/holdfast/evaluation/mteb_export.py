"""The export of a result to mteb's files: a result for each task, and the metadata of the model.

The folder has the layout of mteb's cache, so that ``mteb.ResultCache(folder)`` reads it:
``results/ORGANISATION__MODEL/REVISION/TASK.json`` with ``model_meta.json`` beside.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mteb
from mteb import ResultCache, TaskResult
from mteb.models import ModelMeta

from holdfast.errors import UserError, first_line
from holdfast.evaluation.mteb_encoder import model_name, plain_meta, revision_of
from holdfast.evaluation.mteb_names import PREFIX, is_mteb

SAME_PAIRS = {
    **{f"sts{year}": f"STS{year}" for year in range(12, 17)},
    "stsb": "STSBenchmark",
    "sickr-full": "SICK-R",
}
"""Tasks of holdfast whose pairs and measure are those of a task of mteb."""

_OWN_NAMES = {"spearman": "cosine_spearman", "pearson": "cosine_pearson"}
_MAIN = ("spearman", "accuracy", "ndcg@10")
"""The metrics of holdfast's own tasks that can be a main score, all x100."""


@dataclass(frozen=True)
class Exported:
    """Files that were written, and rows that were left out.

    Attributes:
        folder: the folder, which `mteb.ResultCache` reads.
        files: the files of results, and that of the model.
        left_out: lines on rows that mteb has no place for, with the reason.
    """

    folder: Path
    files: list[Path]
    left_out: list[str]


def export_to_mteb(result: Mapping[str, Any], folder: Path) -> Exported:
    """Write a result of `holdfast evaluate` as mteb's files.

    Rows of mteb's tasks keep their numbers. Rows of holdfast's own tasks are divided by 100 and named as in mteb: a
    task on the same pairs (`SAME_PAIRS`, with as many pairs as mteb's statistics tell) gets mteb's name, with the hash
    of the data as its revision, since the file was not mteb's; all others are ``holdfast-TASK``.

    Args:
        result: a result of kind "evaluate".
        folder: is made if it is not there; files of the same tasks, model and revision are replaced.

    Raises:
        UserError: it is a result of another kind, or the folder cannot be written.
    """
    if result.get("kind") != "evaluate":
        raise UserError(f"mteb has a place for results of holdfast evaluate, not of {result.get('kind')}")
    kept, left_out = _sorted_out(result["results"])
    meta = meta_of(result)
    try:
        store = ResultCache(folder)
        files = []
        for name, rows in kept.items():
            task = _task_result(name, rows, result)
            store.save_to_cache(task, meta)
            files.append(store.get_task_result_path(task.task_name, meta))
    except OSError as error:
        raise UserError(f"--export-mteb {folder}: {first_line(error)}") from error
    return Exported(folder, [*files, *{file.with_name("model_meta.json") for file in files}], left_out)


def meta_of(result: Mapping[str, Any]) -> ModelMeta:
    """Return mteb's metadata of the model of a result."""
    protocol = result["protocol"]
    own = protocol.get("mteb") or {}
    revision = own.get("revision") or revision_of(result)
    known: dict[str, Any] = {"name": model_name(result["model"]), "revision": revision}
    known |= {"embed_dim": protocol.get("dimensions"), "max_tokens": protocol.get("max_seq_length")}
    return plain_meta({**known, **own.get("meta", {})}, own.get("experiment") or {})


def _sorted_out(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, list[Mapping[str, Any]]], list[str]]:
    """Return the rows by mteb's name of their task, and lines on those that are left out."""
    kept: dict[str, list[Mapping[str, Any]]] = {}
    left_out: list[str] = []
    for row in rows:
        name = f"{row['task']} {row['split']}"
        if is_mteb(row["task"]):
            kept.setdefault(row["task"].removeprefix(PREFIX), []).append(row)
        elif row.get("form"):
            left_out.append(f"{name} as {row['form']}: its vectors are another model's")
        elif row.get("system", "encoder") != "encoder":
            left_out.append(f"{name} by {row['system']}: it is not the encoder's")
        elif _main_of(row) is None:
            left_out.append(f"{name}: it has no score of which more is better")
        else:
            kept.setdefault(_own_name(row), []).append(row)
    return kept, left_out


def _own_name(row: Mapping[str, Any]) -> str:
    """Return mteb's name of a task of holdfast."""
    known = SAME_PAIRS.get(row["task"])
    if known is not None and row["split"] == "test" and not row.get("sample"):
        samples = mteb.get_task(known).metadata.n_samples or {}
        if samples.get("test") == row["n"]:
            return known
    data = f"-{row['data']}" if "data" in row else ""
    return f"holdfast-{row['task']}{data}"


def _main_of(row: Mapping[str, Any]) -> str | None:
    return next((name for name in _MAIN if name in row["metrics"]), None)


def _task_result(name: str, rows: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> TaskResult:
    scores: dict[str, list[dict[str, Any]]] = {}
    revision = ""
    for row in rows:
        own = row.get("mteb")
        if own is not None:
            split, entry, revision = own["split"], _of_mteb(row, own), own["revision"]
        else:
            split, entry, revision = "test", _of_own(row), f"holdfast-{row.get('data_sha256', 'unknown')}"
        scores.setdefault(split, []).append(entry)
    return TaskResult(
        dataset_revision=revision,
        task_name=name,
        mteb_version=mteb.__version__,
        scores=scores,
        evaluation_time=result["timing"].get("evaluate_seconds"),
        date=datetime.datetime.fromisoformat(result["created"]),
    )


def _of_mteb(row: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    known = {"hf_subset": own["subset"], "languages": own["languages"], "mteb_version": own["version"]}
    return {**row["metrics"], **own.get("more", {}), **known}


def _of_own(row: Mapping[str, Any]) -> dict[str, Any]:
    main = _main_of(row)
    assert main is not None
    metrics = {_OWN_NAMES.get(key, key.replace("@", "_at_")): value / 100 for key, value in row["metrics"].items()}
    subset = "default" if row["split"] in ("test", "all", "queries") else row["split"]
    return {**metrics, "main_score": row["metrics"][main] / 100, "hf_subset": subset, "languages": ["eng-Latn"]}
