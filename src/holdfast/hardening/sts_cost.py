"""Scores on the seven STS test sets before and after a hardening: its cost on clean texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.data.registry import is_local
from holdfast.evaluation.evaluation_result import evaluation, evaluation_options
from holdfast.evaluation.evaluation_run import evaluate_tasks
from holdfast.evaluation.pairing.compare_inputs import ComparedResult, Side
from holdfast.evaluation.pairing.rows import compare
from holdfast.evaluation.sts import STS_TASKS
from holdfast.input_limits import cut_lines
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.models import load_sentence_transformer
from holdfast.progress import stage
from holdfast.results import earlier_result, write_result
from holdfast.text_prompts import PromptOptions

if TYPE_CHECKING:
    from rich.console import Console

BEFORE, AFTER = "sts-before.json", "sts-after.json"
AVERAGE = "sts average"


def available(data: Path | None) -> bool:
    """Return True if all seven test sets are on this machine."""
    return all(is_local(task, "test", data) for task in STS_TASKS)


def evaluate_sts(
    model: str,
    path: Path,
    *,
    pooling: str | None,
    data: Path | None,
    prompts: PromptOptions,
    console: Console | None,
    command: list[str] | None,
) -> dict[str, Any]:
    """Measure a model on the seven sets, or read the result of an earlier run; `holdfast compare` can read the file.

    Raises:
        UserError: the data is damaged, or the vectors have no score.
    """
    folder = resolve_model(model)
    options, identity = evaluation_options(STS_TASKS, pooling=pooling), model_identity(folder)
    if prompts.prompt_settings:
        options["prompt_options"] = prompts.prompt_settings
    earlier = earlier_result(path, identity["model_sha256"])
    if earlier is not None and all(
        earlier["protocol"].get(name) == options.get(name) for name in (*options, "prompt_options")
    ):
        return earlier
    if earlier is not None and console is not None:
        console.print(f"{path} has other settings: measure again", highlight=False, markup=False)
    with stage(console, f"measuring {model} on the seven STS test sets", unit="sentences") as progress:
        encoder = load_sentence_transformer(model, pooling=pooling, prompts=prompts)
        rows = evaluate_tasks(encoder, STS_TASKS, data=data, progress=progress.update)
    if console is not None:
        for line in cut_lines(rows):
            console.print(line, highlight=False, markup=False)
    result = evaluation(model, encoder, rows, options=options, identity=identity, command=command)
    write_result(path, result)
    return result


def difference_metrics(found: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics of a paired difference, as named in a hardening's rows, from those of `compare`."""
    names = {"difference": "difference", "low": "difference_low", "high": "difference_high", "p": "p"}
    return {name: found[key] for key, name in names.items() if key in found}


def average_row(before: dict[str, Any], after: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a row for a hardening's result: the average of the seven sets before and after, and the paired difference.

    Raises:
        UserError: most resamples of a set have no score.
    """
    sides = [Side(name, (ComparedResult(folder / name, side),)) for name, side in ((BEFORE, before), (AFTER, after))]
    rows, _ = compare(*sides)
    row = next(row for row in rows if row["task"] == AVERAGE)
    found = row["metrics"]
    metrics = {"before": found["baseline"], "after": found["other"], **difference_metrics(found)}
    return {"task": AVERAGE, "split": "test", "n": row["n"], "metric": "spearman", "metrics": metrics, "verdicts": []}
