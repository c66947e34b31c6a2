"""``holdfast show`` and ``holdfast transfer``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.app import ATTACK, AsJson, LabelMap, app
from holdfast.cli.console import console, print_json, progress_console, table, work_quietly
from holdfast.cli.diff import marked
from holdfast.cli.error_lines import warn_changed
from holdfast.errors import one_of
from holdfast.files import output_lock
from holdfast.number_ranges import in_range
from holdfast.text_prompts import PromptOptions


@app.command(
    short_help="Print adversarial texts and what was changed in them.",
    rich_help_panel=ATTACK,
    epilog="\b\nExample:\n  holdfast show sst2.json --recipe pwws --limit 5",
)
def show(
    result: Annotated[Path, typer.Argument(metavar="RESULT.json", help="A result of attack or audit.")],
    recipe: Annotated[str | None, typer.Option(help="Print only the texts of this recipe.")] = None,
    outcome: Annotated[
        str, typer.Option(help="Outcome of the attack: succeeded, failed, skipped or all.")
    ] = "succeeded",
    limit: Annotated[int, typer.Option(help="Largest number of texts to print.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Print adversarial texts with their changes, and the verdicts of the model on them."""
    from holdfast.results import examples_of, read_with_state

    in_range("limit", limit)
    one_of("--outcome", outcome, ("succeeded", "failed", "skipped", "all"))
    read, state = read_with_state(result)
    warn_changed([result] if state == "changed" else [])
    examples = examples_of(read, result)
    names = sorted({str(row["recipe"]) for row in examples})
    if recipe is not None:
        one_of("--recipe", recipe, tuple(names))
    chosen = [
        row for row in examples if (recipe is None or row["recipe"] == recipe) and outcome in ("all", row["outcome"])
    ][:limit]
    if as_json:
        print_json(chosen)
        return
    out = console()
    for row in chosen:
        out.print(marked(row))
    if not chosen:
        out.print(f"no example with the outcome {outcome}")


@app.command(
    short_help="Try the adversarial texts of one classifier on others.",
    rich_help_panel=ATTACK,
    epilog="\b\nExample:\n  holdfast transfer a.json b.json --models runs/a,runs/b --output transfer.json",
)
def transfer(
    ctx: typer.Context,
    results: Annotated[list[Path], typer.Argument(metavar="RESULT.json...", help="Results of attack on one task.")],
    models: Annotated[
        str | None, typer.Option(help="Classifiers to try the texts on, joined by commas. [default: those attacked]")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="Print only the texts of this recipe. [default: of all recipes]")
    ] = None,
    label_map: LabelMap = None,
    prompt: Annotated[
        str | None, typer.Option(metavar="TEXT", help="On a frozen encoder: put this text before every text.")
    ] = None,
    prompt_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="On a frozen encoder: put its prompt of this name before them.")
    ] = None,
    no_prompt: Annotated[
        bool, typer.Option("--no-prompt", help="On a frozen encoder: put no prompt before the texts.")
    ] = False,
    output: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Write the result to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how often adversarial texts for one classifier deceive another (ADCL, Table 3)."""
    from holdfast.attacks.transfer import transferability
    from holdfast.data.labels import parse_label_map
    from holdfast.report.tables import transfer_matrix
    from holdfast.results import changed_files, write_result

    ctx.with_resource(output_lock(output))
    warn_changed(changed_files(results))
    names = [name.strip() for name in models.split(",") if name.strip()] if models is not None else None
    with work_quietly():
        result = transferability(
            results,
            models=names,
            recipe=recipe,
            label_map=None if label_map is None else parse_label_map(label_map),
            prompts=PromptOptions(prompt=prompt, prompt_name=prompt_name, no_prompt=no_prompt),
            console=progress_console(ctx, as_json),
            command=ctx.obj,
        )
    if output is not None:
        write_result(output, result)
    if as_json:
        print_json(result)
        return
    columns, matrix = transfer_matrix(result["results"])
    rows = [[name, *(f"{rates[c]:.1f}" if c in rates else "-" for c in columns)] for name, rates in matrix]
    console().print(
        table(
            ["attacked model", *columns], rows, title="Adversarial texts that deceive another model, %", right=columns
        )
    )
