"""The Typer application, and options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

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


OPTION_PANELS: dict[str, tuple[str, ...]] = {
    "Input": (
        *(
            "against",
            "attacked",
            "adversarial_texts",
            "column",
            "corpus",
            "data",
            "file",
            "held_out",
            "label_map",
            "model",
            "endpoint",
            "endpoint_model",
        ),
        *("models", "others", "positive_column", "search", "split", "task", "text", "texts", "tokenizer"),
        *("train_split", "translators", "vectors"),
    ),
    "What to do": (),
    "Limits": (
        *("batch_tokens", "draws", "epochs", "examples", "hours", "limit", "max_chars", "max_length", "max_steps"),
        *("max_words", "pairs", "sentences", "test_examples", "words"),
    ),
    "Output": (
        *("as_json", "attribution", "coordinates", "export", "features", "github", "junit", "output", "plot", "plots"),
        *("prompts", "report_sts", "report_to", "title"),
    ),
    "Run": (
        *("call_batch", "config", "eval_steps", "help", "jobs", "keep_checkpoints", "plan", "precision", "processes"),
        *("endpoint_cache", "endpoint_characters", "endpoint_key", "endpoint_rate", "endpoint_retries"),
        *("endpoint_timeout", "executor", "on_stop", "resume", "retries", "save_steps", "seed", "seeds"),
        *("side_by_side", "slurm", "so_far"),
    ),
}
"""The groups of options in the help of a verb with more than `_MOST_IN_ONE_PANEL`; the second has all others."""

_MOST_IN_ONE_PANEL = 10


class _Verb(TyperCommand):
    """A command whose many options are listed in panels."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, and the options by panel."""
        shown = [(_panel(parameter), parameter.get_help_record(ctx)) for parameter in self.get_params(ctx)]
        shown = [(panel, record) for panel, record in shown if record is not None]
        if sum(panel != "Arguments" for panel, _ in shown) <= _MOST_IN_ONE_PANEL:
            shown = [(panel if panel == "Arguments" else "Options", record) for panel, record in shown]
        for name in ("Arguments", "Options", *OPTION_PANELS):
            if records := [record for panel, record in shown if panel == name]:
                with formatter.section(name):
                    formatter.write_dl(records)


def _panel(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    return next((name for name, options in OPTION_PANELS.items() if parameter.name in options), "What to do")


def example(commands: str) -> str:
    """Return example commands as the end of a help text, one in each line."""
    return "\b\nExample:\n" + "\n".join(f"  {command}" for command in commands.strip().splitlines())


_SUMMARY = 67
"""Characters of a verb's summary: one line of 80 columns, beside the longest name."""

_APP: dict[str, Any] = {
    "cls": _Verbs,
    "add_completion": False,
    "rich_markup_mode": None,  # plain help: it starts faster, and looks the same in a log and on a screen
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


_Function = TypeVar("_Function", bound=Callable[..., Any])


class _App(typer.Typer):
    def command(self, name: str | None = None, **details: Any) -> Callable[[_Function], _Function]:
        """Register a command whose help has panels of options."""
        return super().command(name, **{"cls": _Verb, **details})


app = _App(
    help="Train robust sentence encoders without labels, and measure any encoder.",
    epilog="\b\nExample:\n  holdfast demo",
    **_APP,
)
data_app = _App(
    help="List data sets and corpora, check those at hand, write texts.",
    epilog="\b\nExample:\n  holdfast data list --data ~/sts-data",
    **_APP,
)
app.add_typer(data_app, name="data", rich_help_panel=STUDY)
leaderboard_app = _App(
    help="Compare encoders on one fixed suite: quality, robustness, cost.",
    epilog="\b\nExample:\n  holdfast leaderboard run my-encoder --data ~/sts-data --output measured",
    **_APP,
)
app.add_typer(leaderboard_app, name="leaderboard", rich_help_panel=STUDY)

ALIVE = "holdfast.alive"
"""Key of the `holdfast.cli.heartbeat.Alive` object in the context of a command."""

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output, and nothing else.")]
DataFolder = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder of labelled data sets. [default: $HOLDFAST_DATA, else the hub]"),
]

Resume = Annotated[bool, typer.Option("--resume", help="Continue the run that is in --output.")]


def _print_version(asked: bool) -> None:
    if asked:
        from holdfast.version import __version__

        print(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Accept the options before the command name."""
