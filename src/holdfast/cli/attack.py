"""``holdfast attack`` and ``holdfast recipes``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.app import ATTACK, AsJson, DataFolder, LabelMap, app
from holdfast.cli.console import console, print_json, progress_console, setting, table, work_quietly
from holdfast.cli.doctor import MaskedLMOption, SimilarityOption, SynonymsOption, TaggerOption, WordNetOption
from holdfast.errors import UserError, one_of

if TYPE_CHECKING:
    from rich.table import Table

_GOALS = ("auto", "class", "score", "drift", "neighbours")


@app.command(
    short_help="Change texts word by word until a model fails.",
    rich_help_panel=ATTACK,
    epilog="\b\nExample:\n"
    "  holdfast attack runs/sst2 --task sst2 --recipes textfooler,pwws --resources light --output sst2.json\n"
    "  holdfast attack all-MiniLM-L6-v2 --task stsb --recipes pwws --examples 200 --output advsts.json\n"
    "  holdfast attack my-encoder --texts questions.txt --goal neighbours --search documents.txt --recipes typos",
)
def attack(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="A classifier, an encoder, or call:package.module:function (list of texts -> scores of classes, or "
            "vectors)."
        ),
    ],
    task: Annotated[
        str | None,
        typer.Option(help="sst2, mr, ag_news, textfooler/mr, snli, ...: wrong classes; stsb, sickr: wrong scores."),
    ] = None,
    texts: Annotated[
        str | None, typer.Option(help="Sentences without labels in place of a task, as for --corpus of train.")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|CORPUS",
            help="For --goal neighbours: corpus to search, as for --corpus of train. [default: all of --texts, "
            "or of the task's split]",
        ),
    ] = None,
    recipes: Annotated[
        str, typer.Option(help="Recipes, joined by commas; `holdfast recipes` lists them.")
    ] = "textfooler,textbugger,pwws,bae-r,bertattack,geometry",
    goal: Annotated[
        str,
        typer.Option(
            help="class (another class), score (a similarity further from people's), drift (a vector far from where "
            "it was), neighbours (the nearest texts lost), or auto: by the data."
        ),
    ] = "auto",
    split: Annotated[str | None, typer.Option(help="Split of the task. [default: test, else dev, else all]")] = None,
    examples: Annotated[
        int | None, typer.Option(help="Attack this many examples, drawn with --seed. [default: all]")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Constant of a recipe: candidates=20, or pwws.same_tag=true; repeatable.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="For --goal drift: cosine below which an attack succeeds. [default: half-way to other texts]"
        ),
    ] = None,
    k: Annotated[int, typer.Option(help="For --goal neighbours: neighbours to displace.")] = 5,
    margin: Annotated[
        float, typer.Option(help="For --goal score: required increase of the error, in points of 5.")
    ] = 1.0,
    label_map: LabelMap = None,
    resources: Annotated[
        str,
        typer.Option(
            metavar="SET",
            help="paper (resources of the papers) or light (those that need no download); see `holdfast doctor`.",
        ),
    ] = "paper",
    synonyms: SynonymsOption = None,
    wordnet: WordNetOption = None,
    tagger: TaggerOption = None,
    masked_lm: MaskedLMOption = None,
    similarity: SimilarityOption = None,
    precision: Annotated[
        str, typer.Option(help="Precision of the search: auto, fp32 or bf16. Every success is confirmed in fp32.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Random seed of --examples and of recipes that draw at random.")] = 42,
    data: DataFolder = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Result file; FILE.examples.jsonl holds the texts, too.")
    ] = None,
    side_by_side: Annotated[int | None, typer.Option(help="Examples attacked at once. [default: 64]")] = None,
    call_batch: Annotated[
        int | None, typer.Option(help="For call:...: largest number of texts in one call. [default: 256]")
    ] = None,
    processes: Annotated[int, typer.Option(help="Processes that share the examples on this machine.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run that was writing --output.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change texts word by word until a model fails, and tell how often and how easily it does."""
    one_of("--goal", goal, _GOALS)
    one_of("--precision", precision, ("auto", "fp32", "bf16"))
    from holdfast.attacks.attack_run import AttackSettings
    from holdfast.attacks.attack_run import attack as run
    from holdfast.attacks.engine import SIDE_BY_SIDE
    from holdfast.attacks.resources import choose
    from holdfast.data.labels import parse_label_map
    from holdfast.option_parsing import split_settings
    from holdfast.user_functions import CALL_BATCH

    named = {"synonyms": synonyms, "wordnet": wordnet, "tagger": tagger, "masked_lm": masked_lm}
    names = tuple(name.strip() for name in recipes.split(",") if name.strip())
    if not names:
        raise UserError("--recipes names no recipe: `holdfast recipes` lists them")
    settings = AttackSettings(
        model=model,
        recipes=names,
        task=task,
        texts=texts,
        search=search,
        split=split,
        goal=goal,  # type: ignore[arg-type]
        examples=examples,
        constants=split_settings(set_ or []),
        threshold=threshold,
        k=k,
        margin=margin,
        resources=choose(resources, **named, similarity=similarity),
        precision=precision,  # type: ignore[arg-type]
        seed=seed,
        data=data,
        output=output,
        side_by_side=SIDE_BY_SIDE if side_by_side is None else side_by_side,
        call_batch=CALL_BATCH if call_batch is None else call_batch,
        processes=processes,
        label_map=None if label_map is None else parse_label_map(label_map),
    )
    with work_quietly():
        result = run(settings, resume=resume, console=progress_console(ctx, as_json), command=ctx.obj)
    if not result:  # not the first of several processes
        return
    if as_json:
        print_json(result)
        return
    out = console()
    out.print(attack_table(result))
    for row in result["results"]:
        for reason, count in row["skipped"].items():
            out.print(f"{row['recipe']}: {count} skipped: {reason}", markup=False, highlight=False)
    if (searched := result["protocol"]["goal"].get("searched")) is not None:
        out.print(_describe_corpus(searched), markup=False, highlight=False)
    for name, source in result["protocol"]["opened_resources"].items():
        out.print(f"{name}: {source}", markup=False, highlight=False)
    if output is not None:
        out.print(f"see the texts with: holdfast show {output}", markup=False, highlight=False)


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
    title = f"{result['model']} on {result['results'][0]['task']} {result['results'][0]['split']}"
    return table(["recipe", *headers], cells, title=title, right=headers)


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
    from holdfast.attacks.recipe_choice import describe, recipe_class
    from holdfast.attacks.recipes import RECIPES

    described = [describe(recipe_class(each)) for each in (RECIPES if name is None else [name])]
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
        out.print("`holdfast recipes NAME` explains the constants of a recipe", markup=False)
        return
    (row,) = described
    out.print(f"{row['name']}: {row['idea']}\n{row['paper']}\n", markup=False, highlight=False)
    cells = [[key, setting(c["value"]), c["meaning"]] for key, c in row["constants"].items()]
    out.print(table(["constant (--set)", "value", "meaning"], cells))
