"""Verbs whose options a settings class declares: the command of a class, and the settings of a call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.app import AsJson, Resume, app, example
from holdfast.cli.console import console, print_json, progress_console, table
from holdfast.cli.overwriting import refuse_overwriting_of
from holdfast.files import check_file_place, expanded, output_lock
from holdfast.option_parsing import kinds_of
from holdfast.settings import Option, options_of, read_settings

if TYPE_CHECKING:
    from rich.table import Table

    from holdfast.progress import Reporter

_CONFIG = typer.Option("--config", metavar="FILE", help="YAML file with these options as keys; options override it.")
_ON_COMMAND_LINE = "COMMANDLINE"


@dataclass(frozen=True)
class Call:
    """One call of a verb, apart from its settings.

    Attributes:
        context: context of the command.
        as_json: print the result as JSON, and nothing else.
        resume: continue the run that is in the output.
    """

    context: typer.Context
    as_json: bool
    resume: bool

    @property
    def command(self) -> list[str]:
        """The words of the command line."""
        return list(self.context.obj)

    @functools.cached_property
    def progress(self) -> Reporter:
        """The console for progress."""
        return progress_console(self.context, self.as_json)

    def lock(self, output: Path | None) -> None:
        """Take the lock of a result file until the verb ends.

        Raises:
            UserError: it is a folder, a parent of it is a file, or another process writes it.
        """
        if output is not None:
            check_file_place("--output", output)
        self.context.with_resource(output_lock(output))

    def finish(self, result: dict[str, Any], output: Path | None, show: Callable[[], None]) -> None:
        """Write a result to its file, and print it: as JSON, or by ``show`` for people."""
        if output is not None:
            from holdfast.results import write_result

            write_result(output, result)
        if self.as_json:
            print_json(result)
        else:
            show()

    def print_made(
        self, result: dict[str, Any], title: str, rows: Mapping[str, str], *more: Table | str | None
    ) -> None:
        """Print the result of a verb that makes a model: as JSON, or as a table of ``rows`` and ``more`` below it."""
        if self.as_json:
            print_json(result)
            return
        out = console()
        for part in (table(["", ""], rows.items(), title=title, header=False), *more):
            if isinstance(part, str):
                out.print(part, markup=False, highlight=False)
            elif part is not None:
                out.print(part)


def verb(
    settings: type[Any],
    *,
    short_help: str,
    panel: str,
    examples: str,
    before_examples: str = "",
    resumes: bool = False,
    group: typer.Typer = app,
) -> Callable[[Callable[[Any, Call], None]], Callable[[Any, Call], None]]:
    """Register a function of settings and a `Call` as the verb of its name; its options are those of the settings.

    Args:
        settings: the settings class. With a class method ``find_config``, this finds the file that ``--config`` names.
        short_help: the summary, for the list of verbs.
        panel: the group of verbs.
        examples: example commands, one in each line.
        before_examples: more text for the end of the help.
        resumes: there is ``--resume``.
        group: the application of the verb; one of a group, ``leaderboard_run``, has the name without the group's.
    """
    declared = options_of(settings)
    find: Callable[[str], Path] = getattr(settings, "find_config", expanded)

    def register(run: Callable[[Any, Call], None]) -> Callable[[Any, Call], None]:
        def command(ctx: typer.Context, **words: Any) -> None:
            config = words["config"]
            given = {
                option.name: words[option.name]
                for option in declared
                if ctx.get_parameter_source(option.name).name == _ON_COMMAND_LINE  # type: ignore[union-attr]
            }
            made = read_settings(settings, given, None if config is None else find(config))
            refuse_overwriting_of(declared, made)
            if hasattr(made, "data"):
                from holdfast.data.folder import data_folder

                data_folder(made.data)  # raises an error for a missing folder before anything is read
            run(made, Call(ctx, words["as_json"], words.get("resume", False)))

        parameters = [_parameter("ctx", typer.Context), *map(_of_option, declared)]
        parameters.append(_parameter("config", Annotated[str | None, _CONFIG], None))
        parameters += [_parameter("resume", Resume, False)] if resumes else []
        parameters.append(_parameter("as_json", AsJson, False))
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        command.__name__, command.__doc__ = run.__name__, run.__doc__
        epilog = before_examples + example(examples)
        name = run.__name__ if group is app else run.__name__.rpartition("_")[2]
        group.command(name, short_help=short_help, rich_help_panel=panel, epilog=epilog)(command)
        return run

    return register


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _of_option(option: Option) -> inspect.Parameter:
    """Return the parameter of a command for an option; a missing one is reported when the file was read, too."""
    spelling, is_required = option.spelling, option.default is MISSING
    if spelling.argument:
        about = typer.Argument(metavar=spelling.metavar, help=option.help)
        default = inspect.Parameter.empty if is_required else option.default
    else:
        flag = option.flag
        if bool in kinds_of(option.hint) and "/" not in flag and not flag.startswith("--no-"):
            flag = f"{flag}/--no-{flag.removeprefix('--')}"
        text = f"{option.help} [required]" if is_required else option.help
        about = typer.Option(flag, metavar=spelling.metavar, help=text)
        default = None if is_required or option.default == () else option.default
    hint = _typer_type(option)
    return _parameter(option.name, Annotated[hint | None if default is None else hint, about], default)


def _typer_type(option: Option) -> Any:
    """Return the type to which Typer converts a value; what it does not know is read as text and converted later."""
    if option.spelling.assignments or option.spelling.repeated:
        return list[str]
    kinds = [kind for kind in kinds_of(option.hint) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 and kinds[0] in (bool, int, float, Path) else str
