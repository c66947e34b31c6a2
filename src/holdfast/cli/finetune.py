"""``holdfast finetune``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.app import TRAIN, AsJson, DataFolder, MaxSteps, Precision, Resume, SaveSteps, app
from holdfast.cli.console import console, print_json, progress_console, table, work_quietly
from holdfast.errors import UserError, one_of

if TYPE_CHECKING:
    from rich.table import Table

# Options without effect with --frozen, which has no training steps.
_OF_TRAINING = ("epochs", "max_steps", "batch_size", "learning_rate", "save_steps")


@app.command(
    short_help="Train a classifier from an encoder and a labelled task.",
    rich_help_panel=TRAIN,
    epilog="\b\nExample:\n"
    "  holdfast finetune google-bert/bert-base-uncased --task sst2 --output runs/sst2\n"
    "  holdfast finetune runs/robust --task sst2 --defence freelb --set steps=2 --output runs/sst2-freelb\n"
    "  holdfast finetune runs/robust --task mr --frozen --data ~/sts-data --output runs/mr-frozen.json",
)
def finetune(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(help="Encoder to start from: a folder, a hub name or pypi:….")],
    task: Annotated[str, typer.Option(help="One of `holdfast data list`, or a FILE.tsv or folder of your own.")],
    output: Annotated[
        Path,
        typer.Option(
            metavar="DIR|FILE.json",
            help="Folder of the run and of the model; for FILE.json the result goes there and the model to FILE.",
        ),
    ],
    defence: Annotated[
        str | None,
        typer.Option(help="none, adv, pgd, freelb, smart or robustembed (see docs/finetune.md). [default: none]"),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Option of the defence; repeatable.")
    ] = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Fit a logistic regression to the vectors and leave the encoder unchanged.")
    ] = False,
    train_split: Annotated[
        str | None, typer.Option(help="Split to train on. [default: train, or all where there is one]")
    ] = None,
    epochs: Annotated[
        float | None, typer.Option(help="Passes over the training part. [default: 4 for adv, 3 for the others]")
    ] = None,
    max_steps: MaxSteps = None,
    batch_size: Annotated[int | None, typer.Option(help="Texts per optimiser step. [default: 32]")] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak learning rate; it falls linearly to 0. [default: 2e-05]")
    ] = None,
    max_length: Annotated[int | None, typer.Option(help="Tokens per text or pair. [default: 128]")] = None,
    examples: Annotated[int | None, typer.Option(help="Train on this many texts, drawn with --seed.")] = None,
    test_examples: Annotated[
        int | None,
        typer.Option(help="Measure on this many texts of each test split, drawn with --seed. [default: all]"),
    ] = None,
    adversarial_texts: Annotated[
        str | None,
        typer.Option(metavar="RESULT.json", help="Train on the texts of this attack on the training split, too."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. [default: 42]")] = None,
    precision: Precision = None,
    data: DataFolder = None,
    save_steps: SaveSteps = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Make a classifier of an encoder and a labelled task."""
    given = {key: value for key, value in locals().items() if value is not None}
    for key in ("ctx", "set_", "resume", "as_json"):
        given.pop(key, None)
    if precision is not None:
        one_of("--precision", precision, ("auto", "fp32", "bf16"))
    if "max_steps" in given and "epochs" in given:
        raise UserError("--max-steps and --epochs exclude each other: give one of them")
    if frozen and (unused := next((name for name in _OF_TRAINING if name in given), None)):
        raise UserError(f"--frozen does not train step by step: leave out --{unused.replace('_', '-')}")
    with work_quietly():
        from holdfast.classifiers import FinetuneSettings
        from holdfast.classifiers import finetune as run
        from holdfast.data.folder import data_folder
        from holdfast.option_parsing import split_settings

        data_folder(data)  # raises an error for a missing data folder before anything is loaded
        settings = FinetuneSettings(**given, options=split_settings(set_ or []))
        result = run(settings, resume=resume, console=progress_console(ctx, as_json), command=ctx.obj)
    if as_json:
        print_json(result)
        return
    out = console()
    out.print(_table(result))
    load = "SentenceTransformer" if settings.frozen else "AutoModelForSequenceClassification.from_pretrained"
    out.print(f'Load it with: {load}("{settings.folder}")', markup=False, highlight=False)


def _table(result: Mapping[str, Any]) -> Table:
    chosen, protocol = result["selected"], result["protocol"]
    train = protocol["data"]["train"]
    out = sum(exclusion["from_train"] for exclusion in protocol["excluded"])
    kind = "scores" if protocol.get("regression") else f"{len(protocol['classes'])} classes"
    rows = {
        "task": f"{protocol['task']}, {kind}",
        "started from": protocol["base_model"],
        "trained on": f"{train['split']}, {train['texts']:,} texts; {out:,} excluded",
        "selection": f"{chosen['protocol']} ({chosen['score']:.2f})",
    }
    if not protocol["frozen"]:
        rows["defence"] = protocol["defence"]
        rows["steps"] = (
            f"{chosen['steps']:,} of {protocol['training']['batch_size']} texts; kept: step {chosen['step']:,}"
        )
    for row in result["results"]:
        scores = ", ".join(f"{name} {value:.2f}" for name, value in row["metrics"].items())
        rows[f"{row['task']} {row['split']}"] = f"{scores} ({row['n']:,} texts)"
    rows["training took"] = f"{result['timing']['train_seconds']:.1f} s"
    rows["model"] = result["model"]
    return table(["", ""], rows.items(), title="A classifier", header=False)
