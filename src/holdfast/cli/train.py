"""``holdfast train``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.app import (
    TRAIN,
    AsJson,
    Column,
    DataFolder,
    KeepCheckpoints,
    MaxChars,
    MaxSteps,
    Precision,
    Resume,
    RunFolder,
    SaveSteps,
    app,
)
from holdfast.cli.console import console, print_json, progress_console, table, work_quietly

if TYPE_CHECKING:
    from rich.table import Table


@app.command(
    short_help="Train a sentence encoder without labels.",
    rich_help_panel=TRAIN,
    epilog="\b\nExample:\n"
    "  holdfast train robustembed --model google-bert/bert-base-uncased --corpus wiki.txt.gz --output runs/robust\n"
    "  holdfast train simcse --config simcse.yaml --seed 1 --set temperature=0.1 --output runs/simcse-1",
)
def train(
    ctx: typer.Context,
    method: Annotated[
        str,
        typer.Argument(
            help="simcse, consert, ct, v-advcse, robustembed, adcl, adcse, l2p-csr, combined or anchored "
            "(`holdfast methods` tells what they are), or your own: FILE.py:Class."
        ),
    ],
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML file with these options as keys; the command line overrides it."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="Encoder to start from: a folder, a hub name or bundled.")] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            help="Sentences: a text file (a sentence per line), .tsv, .jsonl, .parquet, hf:NAME, or - (stdin)."
        ),
    ] = None,
    output: RunFolder = None,
    preset: Annotated[str | None, typer.Option(help="Preset of the method, such as as_released.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Option of the method; repeatable.")
    ] = None,
    max_steps: MaxSteps = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the corpus. [default: the method's]")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(help="Sentences contrasted with one another, over all processes. [default: the method's]"),
    ] = None,
    accumulate: Annotated[int | None, typer.Option(help="Batches per optimiser step. [default: 1]")] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak learning rate; it falls linearly to 0. [default: the method's]")
    ] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens per sentence in training. [default: 32]")] = None,
    max_grad_norm: Annotated[
        float | None,
        typer.Option(help="Largest norm of the gradient, to which it is clipped; 0: no clipping. [default: 1.0]"),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. [default: 42]")] = None,
    precision: Precision = None,
    data: DataFolder = None,
    column: Column = None,
    positive_column: Annotated[
        str | None,
        typer.Option(
            help="Column of the corpus that holds a positive of each sentence, for methods that take positives."
        ),
    ] = None,
    max_chars: MaxChars = None,
    pooling: Annotated[
        str | None, typer.Option(help="cls, mean, max or prompt, for a raw masked language model. [default: cls]")
    ] = None,
    selection: Annotated[
        str | None,
        typer.Option(
            help="stsb-dev (keep the best step on STS-B dev), last, or auto (by what is here). [default: auto]"
        ),
    ] = None,
    eval_steps: Annotated[
        int | None, typer.Option(help="Steps between evaluations on STS-B dev. [default: 125]")
    ] = None,
    save_steps: SaveSteps = None,
    keep_checkpoints: KeepCheckpoints = None,
    report_to: Annotated[str | None, typer.Option(help="Loggers, joined by commas: tensorboard, wandb, ...")] = None,
    report_sts: Annotated[
        bool | None,
        typer.Option(
            "--report-sts/--no-report-sts",
            help="Measure the finished model on STS where its data is at hand. [default: yes]",
        ),
    ] = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Train a sentence encoder without labels."""
    given = {key: value for key, value in locals().items() if value is not None}
    for key in ("ctx", "config", "set_", "resume", "as_json"):
        given.pop(key, None)
    from holdfast.data.folder import data_folder
    from holdfast.training import training_run
    from holdfast.training.config_file import run_config
    from holdfast.training.duplicates import duplicates_after

    settings = run_config(config, given, set_ or [])
    data_folder(settings.data)  # a missing data folder is an error; else checkpoint selection would be off
    with work_quietly():
        result = training_run.train(settings, resume=resume, console=progress_console(ctx, as_json), command=ctx.obj)
    if not result:  # not the first of several processes, which prints for all
        return
    if as_json:
        print_json(result)
        return
    out = console()
    out.print(_train_table(result))
    if result["results"]:
        from holdfast.evaluation.score_tables import sts_table

        out.print(sts_table(result["results"]))
    if message := duplicates_after(result.get("duplicates", {}), result["protocol"]["options"]):
        out.print(message, markup=False, highlight=False)
    out.print(f'Load it with: SentenceTransformer("{settings.output}")', markup=False, highlight=False)


def _train_table(result: Mapping[str, Any]) -> Table:
    chosen, protocol = result["selected"], result["protocol"]
    kept = f"{chosen['step']} (STS-B dev {chosen['score']:.2f})" if "step" in chosen else "the last"
    corpus = protocol["corpus"]
    rows = {
        "method": protocol["method"] + (f" ({protocol['preset']})" if protocol["preset"] else ""),
        "started from": protocol["base_model"],
        "corpus": f"{corpus['source']}, {corpus['sentences']:,} sentences",
        "steps": f"{chosen['steps']:,} of {_per_step(protocol['training'])}",
        "step kept": kept,
        "training took": f"{result['timing']['train_seconds']:.1f} s",
        "model": result["model"],
    }
    return table(["", ""], rows.items(), title="Trained", header=False)


def _per_step(training: Mapping[str, Any]) -> str:
    """Describe the sentences of one optimiser step: one batch, or several that are not contrasted with one another."""
    batch, batches = training["batch_size"], training["accumulate"]
    return f"{batch:,} sentences" if batches == 1 else f"{batches:,} × {batch:,} sentences"
