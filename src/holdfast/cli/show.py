"""``holdfast show`` and ``holdfast transfer``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli.app import ATTACK, AsJson, app
from holdfast.cli.console import console, print_json, table, work_quietly
from holdfast.cli.diff import marked
from holdfast.cli.error_lines import warn_changed
from holdfast.cli.verbs import Call, verb
from holdfast.data.label_map import LabelMap
from holdfast.errors import one_of
from holdfast.files import expanded
from holdfast.number_ranges import in_range
from holdfast.settings import Spelling
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


@dataclass(frozen=True)
class TransferSettings(PromptOptions):
    """Settings of a transfer of attacks.

    Attributes:
        results: Results of attack on one task.
        models: Classifiers to try the texts on, joined by commas; None: those attacked.
        recipe: Use only the texts of this recipe; None: of all recipes.
        label_map: The task's class for each class of the model: NEGATIVE=neg,POSITIVE=pos; None: matched by name.
        output: Write the result to this file.
        prompt: On a frozen encoder: put this text before every text.
        prompt_name: On a frozen encoder: put its prompt of this name before them.
        no_prompt: On a frozen encoder: put no prompt before the texts.
    """

    results: Annotated[tuple[str, ...], Spelling(argument=True, repeated=True, metavar="RESULT.json...")]
    models: str | None = None
    recipe: str | None = None
    label_map: LabelMap | None = None
    output: Annotated[Path | None, Spelling(metavar="FILE.json")] = None


@verb(
    TransferSettings,
    short_help="Try the adversarial texts of one classifier on others.",
    panel=ATTACK,
    examples="""
holdfast transfer a.json b.json --models runs/a,runs/b --output transfer.json
""",
)
def transfer(settings: TransferSettings, call: Call) -> None:
    """Measure how often adversarial texts for one classifier deceive another (ADCL, Table 3)."""
    from holdfast.attacks.transfer import transferability
    from holdfast.results import changed_files

    call.lock(settings.output)
    results = [expanded(path) for path in settings.results]
    warn_changed(changed_files(results))
    models = settings.models
    with work_quietly():
        result = transferability(
            results,
            models=None if models is None else [name.strip() for name in models.split(",") if name.strip()],
            recipe=settings.recipe,
            label_map=settings.label_map,
            prompts=PromptOptions(
                prompt=settings.prompt, prompt_name=settings.prompt_name, no_prompt=settings.no_prompt
            ),
            console=call.progress,
            command=call.command,
        )
    call.finish(result, settings.output, lambda: _print_rates(result))


def _print_rates(result: Mapping[str, Any]) -> None:
    from holdfast.report.tables import transfer_matrix

    columns, matrix = transfer_matrix(result["results"])
    rows = [[name, *(f"{rates[c]:.1f}" if c in rates else "-" for c in columns)] for name, rates in matrix]
    console().print(
        table(
            ["attacked model", *columns], rows, title="Adversarial texts that deceive another model, %", right=columns
        )
    )
