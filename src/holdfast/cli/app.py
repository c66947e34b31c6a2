"""The Typer application, and options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.errors import UserError, did_you_mean


class _Verbs(TyperGroup):
    """Group of commands that suggests the closest name for an unknown command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = list(self.commands)
        if args and args[0] not in known:
            hint = did_you_mean(args[0], known)
            raise UserError(f"there is no command {args[0]!r}{hint}; commands: {', '.join(known)}")
        return super().resolve_command(ctx, args)


_APP: dict[str, Any] = {
    "cls": _Verbs,
    "add_completion": False,
    "rich_markup_mode": None,  # plain help: it starts faster, and looks the same in a log and on a screen
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
app = typer.Typer(
    help="Train robust sentence encoders without labels, and measure any encoder.",
    epilog="\b\nExample:\n  holdfast demo",
    **_APP,
)
data_app = typer.Typer(
    help="What data is known, what of it is here, and whether it is intact.",
    epilog="\b\nExample:\n  holdfast data list --data ~/sts-data",
    **_APP,
)
app.add_typer(data_app, name="data")

ALIVE = "holdfast.alive"
"""Key of the `holdfast.cli.alive.Alive` object in the context of a command."""

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output, and nothing else.")]
DataFolder = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder of labelled data sets. [default: $HOLDFAST_DATA, else the hub]"),
]
LabelMap = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL=TASK,...",
        help="The task's class for each class of the model: NEGATIVE=neg,POSITIVE=pos. [default: matched by name]",
    ),
]

Resume = Annotated[bool, typer.Option("--resume", help="Continue the run that is in --output.")]
MaxSteps = Annotated[int | None, typer.Option(help="Optimiser steps, in place of --epochs.")]
Column = Annotated[str | None, typer.Option(help="The corpus column that holds the sentences.")]
MaxChars = Annotated[int | None, typer.Option(help="The longest line the corpus may have. [default: 10000]")]
SaveSteps = Annotated[
    int | None, typer.Option(help="Steps between checkpoints. [default: 500, removed when the run ends well]")
]
KeepCheckpoints = Annotated[int | None, typer.Option(help="How many checkpoints are kept. [default: 2]")]
Precision = Annotated[
    str | None, typer.Option(help="auto (bf16 where the machine is good at it), fp32 or bf16. [default: auto]")
]
RunFolder = Annotated[Path | None, typer.Option(metavar="DIR", help="The run's folder; the model ends up in it.")]


def _print_version(asked: bool) -> None:
    if asked:
        from holdfast import __version__

        print(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Accept the options before the command name."""
