"""Evaluation on tasks of mteb: by mteb itself, with its cache of results, and rows of the numbers that it gives."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mteb
from huggingface_hub import is_offline_mode
from mteb import ResultCache, TaskResult

from holdfast.errors import Notice, UserError, first_line
from holdfast.evaluation.mteb_encoder import MtebEncoder
from holdfast.evaluation.mteb_names import PREFIX
from holdfast.loading import quiet
from holdfast.result_layout import is_number

BATCH_SIZE = 32
"""Texts in a batch: mteb's default, as it moves the vectors by their rounding."""
COMPLETE, _MISSING, _ALL = "only-cache", "only-missing", "always"
"""mteb's strategies: compute nothing, what is missing, or all."""
_NAMED = 5  # tasks that a message names
Started = Callable[[str, int, int], None]
"""Called with a task's name, its number from 1, and the number of tasks, before it is computed."""


@dataclass(frozen=True)
class Measured:
    """A task with its result.

    Attributes:
        result: mteb's result.
        cached: nothing was encoded: all of the result was in the cache, where numbers have six decimals.
        rows: the rows of results, one for each split and subset.
    """

    result: TaskResult
    cached: bool
    rows: list[dict[str, Any]]


def measure(
    encoder: MtebEncoder, tasks: Sequence[Any], *, cache: Path | None = None, started: Started | None = None
) -> list[Measured]:
    """Measure an encoder on tasks of mteb; what the cache holds for this encoder and these data is not computed again.

    The data of all other tasks are loaded before anything is computed, so that no hours are spent on a set of tasks
    that cannot be completed here.

    Args:
        encoder: the encoder (`holdfast.evaluation.mteb_encoder.mteb_encoder`).
        tasks: instances of mteb's task classes, none of them used before.
        cache: folder of mteb's `ResultCache`; None: ``MTEB_CACHE``, else ``~/.cache/mteb``.
        started: see `Started`.

    Raises:
        UserError: the data of a task cannot be loaded, or a task fails; the cache keeps the tasks before it.
    """
    with _quiet():
        store = _opened(cache)
        ways = [_strategy(store, task, encoder) for task in tasks]
        _load_all([task for task, way in zip(tasks, ways, strict=True) if way != COMPLETE])
        found = []
        for place, (task, way) in enumerate(zip(tasks, ways, strict=True), start=1):
            if started is not None:
                started(task.metadata.name, place, len(tasks))
            found.append(_measured(encoder, task, store, way))
        return found


def cache_folder(cache: Path | None) -> Path:
    """Return the folder of mteb's cache."""
    folder: Path = _opened(cache).cache_path
    return folder


def _opened(cache: Path | None) -> ResultCache:
    try:
        return ResultCache(cache)
    except OSError as error:
        raise UserError(f"--mteb-cache {cache}: {first_line(error)}") from error


def _strategy(store: ResultCache, task: Any, encoder: MtebEncoder) -> str:
    """Return mteb's strategy for a task: `COMPLETE` if the cache holds all of it, else what is to be computed.

    A result of another revision of the data is computed anew, where mteb's own default would take it if it is complete.
    """
    name = task.metadata.name
    try:
        found = store.load_task_result(name, encoder.mteb_model_meta)
    except (ValueError, KeyError, OSError) as error:
        path = store.get_task_result_path(name, encoder.mteb_model_meta)
        raise UserError(f"{path} is damaged ({first_line(error)}): delete it") from error
    if found is None:
        return _MISSING
    if not found.is_mergeable(task):
        return _ALL
    return _MISSING if found.get_missing_evaluations(task) else COMPLETE


def _load_all(tasks: Sequence[Any]) -> None:
    """Load the data of tasks.

    If the hub does not answer, which takes long to find out, the tasks after it are not tried.

    Raises:
        UserError: some cannot be loaded; the message names these tasks.
    """
    failed: list[str] = []
    reason = rest = ""
    parts = [part for task in tasks for part in _parts(task)]
    for place, part in enumerate(parts, start=1):
        try:
            part.load_data()
        except Exception as error:  # of the hub, of the network, or of a class of the user's
            failed.append(f"{PREFIX}{part.metadata.name} ({part.metadata.dataset.get('path', 'local files')})")
            reason = reason or f"{type(error).__name__}: {first_line(error)}"
            if isinstance(error, ConnectionError) and not is_offline_mode() and place < len(parts):
                rest = f"; the {len(parts) - place} after it were not tried"
                break
    if failed:
        named = ", ".join(failed[:_NAMED]) + (f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else "")
        raise UserError(
            f"nothing was computed, since data of mteb cannot be loaded: {named}{rest} ({reason}): run this once where "
            "the Hugging Face hub can be reached and take its cache ($HF_HOME) along, or leave these tasks out"
        )


def _parts(task: Any) -> list[Any]:
    """Return the tasks whose data a task takes: itself, or those that it aggregates."""
    parts = getattr(task.metadata, "tasks", None)
    return [task] if parts is None else [each for part in parts for each in _parts(part)]


def _measured(encoder: MtebEncoder, task: Any, store: ResultCache, strategy: str) -> Measured:
    encoder.recorder.texts, encoder.recorder.prompts = 0, {}
    options = {"batch_size": BATCH_SIZE, "show_progress_bar": False}
    try:
        found = mteb.evaluate(
            encoder,
            task,
            cache=store,
            overwrite_strategy=strategy,
            encode_kwargs=options,
            co2_tracker=False,
            show_progress_bar=False,
        )
    except UserError:  # of a function in place of a model
        raise
    except Exception as error:  # any of the parts of a task, which mteb lets through
        raise UserError(
            f"{PREFIX}{task.metadata.name} failed: {type(error).__name__}: {first_line(error)}; "
            f"the tasks before it are in the cache {store.cache_path}"
        ) from error
    (result,) = found.task_results
    cached = encoder.recorder.texts == 0
    rows = _rows(task, result, cached, dict(encoder.recorder.prompts))
    for part in _parts(task):
        if part.data_loaded:
            part.unload_data()
    return Measured(result, cached, rows)


def _rows(task: Any, result: TaskResult, cached: bool, prompts: dict[str, str]) -> list[dict[str, Any]]:
    """Return a row of results for each split and subset that the task asks for, with mteb's own numbers (0 to 1)."""
    meta = task.metadata
    rows = []
    for split in task.eval_splits:
        for scores in result.scores.get(split, []):
            subset = str(scores["hf_subset"])
            if subset not in (task.hf_subsets or [subset]) and subset != "default":
                continue
            numbers = {name: float(value) for name, value in scores.items() if is_number(value)}
            more = {
                name: value for name, value in scores.items() if isinstance(value, (list, dict)) and name != _LANGUAGES
            }
            own: dict[str, Any] = {
                "type": meta.type,
                "split": split,
                "main_score": meta.main_score,
                "subset": subset,
                "languages": list(scores[_LANGUAGES]),
                "revision": result.dataset_revision,
                "version": str(scores.get("mteb_version") or result.mteb_version),
                "cached": cached,
            }
            own |= {"prompts": prompts} if prompts else {}
            own |= {"more": more} if more else {}
            rows.append(
                {
                    "task": f"{PREFIX}{result.task_name}",
                    "split": split if subset == "default" else f"{split} {subset}",
                    "n": _count(task, split, subset),
                    "metrics": numbers,
                    "mteb": own,
                }
            )
    return rows


_LANGUAGES = "languages"


def _count(task: Any, split: str, subset: str) -> int:
    """Return the number of samples of a split, of retrieval of the queries: of the loaded data, else as mteb tells it.

    It is 0 if neither is at hand, as for a cached result of a class that is not in mteb's registry.
    """
    if task.data_loaded and task.dataset is not None:
        held = task.dataset.get(subset, task.dataset).get(split)
        if isinstance(held, Mapping):
            return len(held["queries"]) if "queries" in held else 0
        if held is not None:
            # Some sets keep all their samples in the lists of one row.
            first = held[0] if len(held) == 1 else {}
            return max([len(held), *(len(value) for value in first.values() if isinstance(value, list))])
    known = (getattr(task.metadata, "descriptive_stats", None) or {}).get(split) or {}
    of_subset = (known.get("hf_subset_descriptive_stats") or {}).get(subset, known)
    return int(of_subset.get("num_samples") or 0)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the messages of mteb and its libraries from the terminal: what matters is in the rows or raised."""
    from datasets.utils.logging import disable_progress_bar, enable_progress_bar, is_progress_bar_enabled

    logger, shows_bars = logging.getLogger("mteb"), is_progress_bar_enabled()
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    disable_progress_bar()
    try:
        with warnings.catch_warnings(), quiet():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", Notice)  # of holdfast, such as a failed call that is repeated
            yield
    finally:
        logger.setLevel(level)
        if shows_bars:
            enable_progress_bar()


def mteb_protocol(encoder: MtebEncoder) -> dict[str, Any]:
    """Return the part of a result's protocol about mteb."""
    meta = encoder.mteb_model_meta
    described = ("n_parameters", "embed_dim", "max_tokens", "similarity_fn_name", "framework", "use_instructions")
    own = {name: value for name, value in meta.to_dict().items() if name in described and value is not None}
    return {
        "version": mteb.__version__,
        "scores": "mteb's own, 0 to 1",
        "batch_size": BATCH_SIZE,
        "model": meta.name,
        "revision": meta.revision,
        "experiment": dict(meta.experiment_kwargs or {}),
        "meta": own,
    }
