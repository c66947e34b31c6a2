"""``holdfast pretrain``."""

from __future__ import annotations

from collections.abc import Mapping
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
    short_help="Train a masked language model from scratch, or continue one.",
    rich_help_panel=TRAIN,
    epilog="\b\nExample:\n"
    "  holdfast pretrain --config small --hours 2 --data ~/sts-data --output runs/small\n"
    "  holdfast pretrain --model runs/small --corpus mine.txt.gz --held-out dev.txt --epochs 3 --output runs/mine",
)
def pretrain(
    ctx: typer.Context,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="YAML file with these options as keys, or the recipe small; the command line overrides it.",
        ),
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(help="Sentences: text file (a sentence per line), .tsv, .jsonl, .parquet, hf:NAME, or - (stdin)."),
    ] = None,
    output: RunFolder = None,
    model: Annotated[
        str | None, typer.Option(help="A masked LM to continue: a folder or a hub name. [default: a new one]")
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Layers of a new model. [default: 4]")] = None,
    hidden: Annotated[int | None, typer.Option(help="Width of a new model. [default: 256]")] = None,
    heads: Annotated[int | None, typer.Option(help="Attention heads of a new model. [default: 4]")] = None,
    intermediate: Annotated[
        int | None, typer.Option(help="Width of the feed-forward layers. [default: 4 x hidden]")
    ] = None,
    vocabulary: Annotated[
        int | None,
        typer.Option(help="Size of a new model's WordPiece vocabulary, counted on the corpus. [default: 12000]"),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Folder or hub model whose tokeniser is used instead of a new vocabulary.")
    ] = None,
    max_steps: MaxSteps = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the corpus. [default: 1]")] = None,
    hours: Annotated[float | None, typer.Option(help="Duration, in place of --epochs.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Tokens per optimiser step. [default: 8192]")] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Peak learning rate; it rises and falls linearly. [default: 0.001]")
    ] = None,
    warmup_share: Annotated[
        float | None, typer.Option(help="Share of the run in which the learning rate rises. [default: 0.06]")
    ] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Weight decay of AdamW. [default: 0.01]")] = None,
    dropout: Annotated[
        float | None, typer.Option(help="Dropout in training. [default: 0.1, or that of --model]")
    ] = None,
    mask_share: Annotated[float | None, typer.Option(help="Share of the tokens to predict. [default: 0.15]")] = None,
    whole_words: Annotated[
        bool | None, typer.Option("--whole-words/--no-whole-words", help="Mask whole words, not pieces. [default: no]")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Tokens per sentence, and positions of a new model. [default: 128]")
    ] = None,
    held_out: Annotated[
        str | None,
        typer.Option(help="Sentences to measure on, which are kept out of training; as --corpus. [default: none]"),
    ] = None,
    column: Column = None,
    max_chars: MaxChars = None,
    seed: Annotated[int | None, typer.Option(help="Random seed. [default: 42]")] = None,
    precision: Precision = None,
    data: DataFolder = None,
    eval_steps: Annotated[int | None, typer.Option(help="Steps between measurements. [default: 500]")] = None,
    save_steps: SaveSteps = None,
    keep_checkpoints: KeepCheckpoints = None,
    export: Annotated[str | None, typer.Option(help="Store the weights in fp32 or fp16. [default: fp32]")] = None,
    attribution: Annotated[
        str | None, typer.Option(help="Source and licence of the corpus, for the model card.")
    ] = None,
    prompts: Annotated[
        list[str] | None, typer.Option("--prompt", help="A sentence with [MASK] to show filled in; repeatable.")
    ] = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Train a masked language model from scratch, or continue one."""
    given = {key: value for key, value in locals().items() if value is not None}
    for key in ("ctx", "config", "resume", "as_json"):
        given.pop(key, None)
    with work_quietly():
        from holdfast.data.folder import data_folder
        from holdfast.pretraining.pretrain_settings import pretrain_settings
        from holdfast.pretraining.pretraining_run import pretrain as run

        settings = pretrain_settings(config, given)
        data_folder(settings.data)  # raises an error for a missing data folder before anything is read
        result = run(settings, resume=resume, console=progress_console(ctx, as_json), command=ctx.obj)
    if as_json:
        print_json(result)
        return
    out = console()
    out.print(_table(result))
    out.print(f'Load it with: AutoModelForMaskedLM.from_pretrained("{result["model"]}")', markup=False, highlight=False)


def _table(result: Mapping[str, Any]) -> Table:
    protocol, made = result["protocol"], result["made"]
    corpus = protocol["corpus"]
    rows = {
        "started from": protocol["base_model"] or "scratch",
        "shape": ", ".join(f"{value} {name}" for name, value in protocol["shape"].items()),
        "vocabulary": protocol["vocabulary"]["told"],
        "corpus": f"{corpus['source']}, {corpus['sentences']:,} sentences, {corpus['tokens']:,} tokens",
        "steps": f"{made['steps']:,}; {made['tokens']:,} tokens, {made['epochs']:.2f} epochs",
        "training took": f"{made['train_seconds'] / 60:.1f} min",
    }
    for row in result["results"]:
        metrics = row["metrics"]
        rows["held out"] = (
            f"perplexity {metrics['perplexity']:.2f}, {metrics['masked_accuracy']:.2f} % right "
            f"({row['n']:,} places of {protocol['held_out']['sentences']:,} sentences)"
        )
    for message in result["prompts"]:
        rows[message["prompt"]] = ", ".join(f"{word} {chance:.2f}" for word, chance in message["top"])
    rows["model"] = f"{result['model']}, {made['parameters']:,} weights, {made['megabytes']:.1f} MB in {made['stored']}"
    return table(["", ""], rows.items(), title="A masked language model", header=False)
