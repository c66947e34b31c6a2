"""The tables of options in the pages of the verbs, made from the command line: python docs/site/options.py.

A page has a table between ``<!-- options: VERB -->`` and ``<!-- /options -->``. The names, descriptions and defaults
are those of ``holdfast VERB --help``, which come from the settings classes. The leaderboard's entries are between
``<!-- entries -->`` and ``<!-- /entries -->``.
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


def with_entries(page: str) -> str:
    """Return the text of a page with the present table of the leaderboard's entries."""
    return _ENTRIES.sub(lambda _: entries_table(), page)


def entries_table() -> str:
    """Return the table of the leaderboard's entries, the best quality first."""
    from holdfast.leaderboard.entry import entries_in
    from holdfast.leaderboard.page import ranked
    from holdfast.leaderboard.suite import the_suite

    suite = the_suite()
    deployed = {name for name, column in suite.columns.items() if column.group == "deployed"}
    titles = {name: title for name, title in suite.titles().items() if name not in deployed}
    rows = [["encoder", *titles.values(), "Speed"], ["---"] * (len(titles) + 2)]
    for entry in ranked(entries_in(PAGES / "leaderboard").values()):
        cells = [_score(entry["scores"].get(name), whole=name in suite.overall) for name in titles]
        speed = f"{entry['cost']['speed']:.2f}" if "speed" in entry["cost"] else ""
        rows.append([f"`{entry['name']}`", *cells, speed])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


_ENTRIES = re.compile(r"(?<=<!-- entries -->\n).*?(?=<!-- /entries -->)", re.DOTALL)


def _score(score: Any, *, whole: bool) -> str:
    if score is None:
        return ""
    interval = f" ({score['low']:.1f}–{score['high']:.1f})" if whole else ""
    return f"{score['value']:.1f}{interval}"


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
    if isinstance(default, (list, tuple)):
        default = ",".join(map(str, default))
    return f"{text} [default: {default if isinstance(default, (str, Path)) else setting(default)}]"


if __name__ == "__main__":
    for path in sorted(PAGES.glob("*.md")):
        path.write_text(with_entries(with_tables(path.read_text(encoding="utf-8"))), encoding="utf-8")
