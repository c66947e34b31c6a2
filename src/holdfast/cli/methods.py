"""``holdfast methods``."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.app import TRAIN, AsJson, app
from holdfast.cli.console import console, print_json, setting, table


@app.command(
    short_help="List the training methods and their options.",
    rich_help_panel=TRAIN,
    epilog="\b\nExample:\n  holdfast methods\n  holdfast methods robustembed",
)
def methods(
    name: Annotated[str | None, typer.Argument(help="Method, or FILE.py:Class, whose options are explained.")] = None,
    as_json: AsJson = False,
) -> None:
    """The training methods: what each does, its paper, and its options with their defaults."""
    from holdfast.objectives import METHODS
    from holdfast.training.method_options import describe, objective_class

    chosen = list(METHODS) if name is None else [name]
    described = [describe(method, objective_class(method)) for method in chosen]
    if as_json:
        print_json(described if name is None else described[0])
        return
    out = console()
    if name is None:
        for method in described:
            method["options"] = ", ".join(method["options"])
            method["cost"] = f"{method['cost']:.2f}"
            method["share"] = _percent(method["idea_gradient_share"])
        columns = ["name", "idea", "paper", "cost", "share", "options"]
        rows = ([method[column] for column in columns] for method in described)
        out.print(table(columns, rows, lines=True, right=("cost", "share")))
        out.print("cost: time of a training step, SimCSE with the same batch = 1, measured (benchmarks/RESULTS.md)")
        out.print("share: how far the gradient changes without the method's own idea, measured (docs/methods.md)")
        out.print("`holdfast methods NAME` shows a method's options and presets", markup=False)
        return
    method = described[0]
    out.print(f"{method['title']}: {method['idea']}\n{method['paper']}\n", markup=False, highlight=False)
    option_rows = ([key, setting(o["default"]), o["meaning"]] for key, o in method["options"].items())
    out.print(table(["option (--set)", "default", "meaning"], option_rows))
    for preset, values in method["presets"].items():
        words = ", ".join(f"{key}={setting(value)}" for key, value in values.items()) or "the defaults"
        out.print(f"--preset {preset}: {words}", markup=False, highlight=False)
    words = " ".join(f"--{key.replace('_', '-')} {setting(value)}" for key, value in method["training"].items())
    out.print(f"trained by default with {words}", markup=False, highlight=False)
    if method["cost"] is not None:
        out.print(
            f"a step takes {method['cost']:.2f} times SimCSE's with the same batch", markup=False, highlight=False
        )
    if method["idea_gradient_share"] is not None:
        words = f"without its own idea ({method['own_idea']}) the gradient of a step differs by"
        out.print(f"{words} {_percent(method['idea_gradient_share'])} of its length", markup=False, highlight=False)


def _percent(share: float | None) -> str:
    """Return a share as text; a dash if there is none."""
    from holdfast.results import percent_shown

    return "–" if share is None else percent_shown(share)
