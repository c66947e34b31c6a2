"""``holdfast attack`` and ``holdfast recipes``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.attacks.attack_settings import AttackSettings
from holdfast.cli.app import ATTACK, AsJson, app
from holdfast.cli.console import console, print_json, print_whole, setting, table, work_quietly
from holdfast.cli.overwriting import option_of
from holdfast.cli.verbs import Call, verb
from holdfast.errors import UserError
from holdfast.forms import form_of

if TYPE_CHECKING:
    from rich.table import Table


@verb(
    AttackSettings,
    short_help="Change texts word by word until a model fails.",
    panel=ATTACK,
    resumes=True,
    examples="""
holdfast attack runs/sst2 --task sst2 --recipes textfooler,pwws --resources light --output sst2.json
holdfast attack all-MiniLM-L6-v2 --task stsb --recipes pwws --examples 200 --output advsts.json
holdfast attack my-encoder --texts questions.txt --goal neighbours --search documents.txt --recipes typos
holdfast attack my-encoder --goal poison --search documents.txt --queries questions.txt --resources light
""",
)
def attack(settings: AttackSettings, call: Call) -> None:
    """Change texts word by word until a model fails; report how often and how easily it does."""
    from holdfast.attacks.attack_run import attack as run
    from holdfast.attacks.attack_run import examples_path

    if not settings.recipes:
        raise UserError("--recipes names no recipe: `holdfast recipes` lists them")
    if settings.output is not None and settings.output.name:
        inputs = {"--texts": settings.texts, "--search": settings.search, "--queries": settings.queries}
        if (name := option_of(examples := examples_path(settings.output), inputs)) is not None:
            raise UserError(
                f"--output {settings.output} has its examples in {examples}, which is the file of {name}: name "
                "another one"
            )
    with work_quietly():
        result = run(settings, resume=call.resume, console=call.progress, command=call.command)
    if not result:  # not the first of several processes
        return
    if call.as_json:
        print_json(result)
        return
    if settings.estimate:  # the line is printed
        return
    out = console()
    if settings.goal == "poison":
        from holdfast.cli.poisoning import print_poisoning

        print_poisoning(out, result, settings.output)
        return
    out.print(attack_table(result))
    for row in result["results"]:
        if (won := row.get("won_by")) is not None:
            out.print(_describe_winners(row["recipe"], won, row["metrics"]))
        for reason, count in row["skipped"].items():
            out.print(f"{row['recipe']}: {count} skipped: {reason}")
    if (searched := result["protocol"]["goal"].get("searched")) is not None:
        out.print(_describe_corpus(searched))
    for name, source in result["protocol"]["opened_resources"].items():
        out.print(f"{name}: {source}")
    if settings.output is not None:
        print_whole(out, f"see the texts with: holdfast show {shlex.quote(str(settings.output))}")


def attack_table(result: Mapping[str, Any]) -> Table:
    """Create a table with a row per recipe."""
    columns = {
        "attacked": "attacked",
        "success_rate": "success %",
        "interval": "95 %",
        "accuracy": "accuracy",
        "accuracy_under_attack": "under attack",
        "spearman_before": "Spearman",
        "spearman_after": "after",
        "replaced": "replaced %",
        "queries": "queries",
        "similarity": "similarity",
        "seconds_per_example": "s/example",
    }
    timed = result["timing"].get("recipes", {})
    rows = []
    for row in result["results"]:
        metrics = {**row["metrics"], **timed.get(row["recipe"], {})}
        if "success_rate" in metrics:
            metrics["interval"] = f"{metrics['success_rate_low']:.1f}-{metrics['success_rate_high']:.1f}"
        rows.append((row["recipe"], metrics))
    shown = [key for key in columns if any(key in metrics for _, metrics in rows)]
    digits = {"attacked": 0, "similarity": 3, "seconds_per_example": 2}
    cells = [[name, *(_number(metrics.get(key), digits.get(key, 1)) for key in shown)] for name, metrics in rows]
    headers = [columns[key] for key in shown]
    first = result["results"][0]
    form = f" as {first['form']}" if form_of(first) else ""
    title = f"{result['model']}{form} on {first['task']} {first['split']}"
    return table(["recipe", *headers], cells, title=title, right=headers)


def _describe_winners(recipe: str, won: Mapping[str, int], metrics: Mapping[str, float]) -> str:
    """Describe which recipes of an ensemble broke how many texts."""
    withstood = int(metrics["attacked"] - metrics["succeeded"])
    broken = ", ".join(f"{name} {count}" for name, count in won.items())
    return f"{recipe}: broken by {broken}; {withstood} withstood all recipes; quote this row as the robustness"


def _describe_corpus(searched: Mapping[str, Any]) -> str:
    """Describe the texts that were searched for neighbours."""
    first = f" (its first {searched['sentences']:,} sentences)" if searched["cut"] else ""
    return f"neighbours among {searched['different']:,} different texts of {searched['source']}{first}"


def _number(value: Any, digits: int) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.{digits}f}"


@app.command(
    short_help="List the attack recipes and their constants.",
    rich_help_panel=ATTACK,
    epilog="\b\nExample:\n  holdfast recipes\n  holdfast recipes textfooler",
)
def recipes(
    name: Annotated[str | None, typer.Argument(help="Recipe, or FILE.py:Class, whose constants are explained.")] = None,
    as_json: AsJson = False,
) -> None:
    """The attack recipes, with every constant."""
    from holdfast.attacks.poisoning.poison_recipes import POISON_RECIPES
    from holdfast.attacks.recipe_choice import describe, recipe_class
    from holdfast.attacks.recipes import RECIPES

    chosen = [*RECIPES, *POISON_RECIPES] if name is None else [name]
    described = [describe(POISON_RECIPES.get(each) or recipe_class(each)) for each in chosen]
    if as_json:
        print_json(described if name is None else described[0])
        return
    out = console()
    if name is None:
        rows = [
            [
                row["name"],
                row["idea"],
                row["paper"],
                ", ".join(row["needs"]) or "-",
                ", ".join(f"{key}={setting(c['value'])}" for key, c in row["constants"].items()),
            ]
            for row in described
        ]
        out.print(table(["recipe", "idea", "paper", "needs", "constants (--set)"], rows, lines=True))
        out.print("`holdfast recipes NAME` explains the constants of a recipe")
        return
    (row,) = described
    out.print(f"{row['name']}: {row['idea']}\n{row['paper']}\n")
    cells = [[key, setting(c["value"]), c["meaning"]] for key, c in row["constants"].items()]
    out.print(table(["constant (--set)", "value", "meaning"], cells))
