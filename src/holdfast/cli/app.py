"""The Typer application, and options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from holdfast.errors import UserError, did_you_mean

PANELS = AUDIT, TRAIN, ATTACK, STUDY = "Audit and harden", "Train", "Attack", "Research"
"""The groups of verbs in ``holdfast --help``, in this order."""


class _Verbs(TyperGroup):
    """Group of commands, listed by panel, that suggests the closest name for an unknown command."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a list of verbs for each panel; within one, in the order in which the verbs were registered."""
        verbs = {name: command for name, command in self.commands.items() if not command.hidden}
        panels = {name: getattr(command, "rich_help_panel", None) for name, command in verbs.items()}
        for panel in (*PANELS, "Commands"):
            own = [name for name in verbs if (panels[name] if panels[name] in PANELS else "Commands") == panel]
            if own:
                with formatter.section(panel):
                    formatter.write_dl([(name, verbs[name].get_short_help_str(limit=_SUMMARY)) for name in own])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = list(self.commands)
        if args and args[0] not in known:
            hint = did_you_mean(args[0], known)
            raise UserError(f"there is no command {args[0]!r}{hint}; commands: {', '.join(known)}")
        return super().resolve_command(ctx, args)


_SUMMARY = 67
"""Characters of a verb's summary: one line of 80 columns, beside the longest name."""

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
    help="List data sets and corpora, and check those at hand.",
    epilog="\b\nExample:\n  holdfast data list --data ~/sts-data",
    **_APP,
)
app.add_typer(data_app, name="data", rich_help_panel=STUDY)

ALIVE = "holdfast.alive"
"""Key of the `holdfast.cli.heartbeat.Alive` object in the context of a command."""

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
Column = Annotated[str | None, typer.Option(help="Column of the corpus that holds the sentences.")]
MaxChars = Annotated[int | None, typer.Option(help="Longest line of the corpus, in characters. [default: 10000]")]
SaveSteps = Annotated[
    int | None, typer.Option(help="Steps between checkpoints. [default: 500, removed when the run ends well]")
]
KeepCheckpoints = Annotated[int | None, typer.Option(help="Checkpoints to keep. [default: 2]")]
Precision = Annotated[
    str | None, typer.Option(help="auto (bf16 where the machine computes it fast), fp32 or bf16. [default: auto]")
]
RunFolder = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the run and of the finished model.")]


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
