"""The tables of options in the pages of the verbs, made from the command line: python docs/site/options.py.

A page has a table between ``<!-- options: VERB -->`` and ``<!-- /options -->``. The names, descriptions and defaults
are those of ``holdfast VERB --help``, which come from the settings classes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer

from holdfast.cli.app import app
from holdfast.cli.console import setting

COMMANDS: Any = typer.main.get_command(app).commands
PAGES = Path(__file__).parents[1]
_TABLE = re.compile(r"(?<=<!-- options: )([\w ]+?)( -->\n).*?(?=<!-- /options -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """Return the text of a page with the present tables."""
    return _TABLE.sub(lambda found: f"{found[1]}{found[2]}{table(found[1])}", page)


def table(verb: str) -> str:
    """Return the table of the options of a verb; one of a group is named with it: ``leaderboard run``."""
    group, _, name = verb.partition(" ")
    command = COMMANDS[group].commands[name] if name else COMMANDS[verb]
    options = sorted(command.params, key=lambda option: option.param_type_name != "argument")
    rows = [f"| `{_name(option)}` | {_meaning(option)} |\n" for option in options if option.name != "help"]
    return "".join(["| option | meaning |\n", "|---|---|\n", *rows])


def _name(option: Any) -> str:
    if option.param_type_name == "argument":
        return option.metavar or option.name.upper()
    return ", ".join([*option.opts, *option.secondary_opts])


def _meaning(option: Any) -> str:
    text, default = (option.help or "").replace("|", "\\|"), option.default
    if "[default: " in text or "[required]" in text or option.required or callable(default):
        return text
    if default in (None, False, ""):
        return text
    if default is True:
        default = option.opts[0]
    return f"{text} [default: {default if isinstance(default, (str, Path)) else setting(default)}]"


if __name__ == "__main__":
    for path in sorted(PAGES.glob("*.md")):
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
