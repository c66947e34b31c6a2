"""Make the tables of options in the documentation from the commands: python .ci/option_tables.py [--write].

A page has ``<!-- options: VERB -->`` before a table and ``<!-- /options -->`` after it. Without ``--write``, a table
that is not what the verb declares is an error.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import typer

from holdfast.cli.app import app

DOCS = Path(__file__).parent.parent / "docs"
TABLE = re.compile(r"(<!-- options: ([a-z -]+) -->\n).*?(<!-- /options -->)", re.DOTALL)


def main() -> int:
    """Return 0 where every table is what it should be, or was written."""
    wrong = []
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        made = TABLE.sub(lambda found: f"{found[1]}{table(found[2])}\n{found[3]}", text)
        if made != text:
            wrong.append(page)
            if "--write" in sys.argv[1:]:
                page.write_text(made, encoding="utf-8")
    if wrong and "--write" not in sys.argv[1:]:
        names = ", ".join(str(page.relative_to(DOCS.parent)) for page in wrong)
        print(
            f"tables of options that are not up to date: {names}: python .ci/option_tables.py --write", file=sys.stderr
        )
        return 1
    return 0


def table(verb: str) -> str:
    """Return the table of a verb's arguments and options, as Markdown."""
    command: Any = typer.main.get_command(app)
    for name in verb.split():
        command = command.commands[name]
    parameters = sorted(command.params, key=lambda parameter: parameter.param_type_name != "argument")
    rows = [row(parameter) for parameter in parameters if parameter.name != "help"]
    return "\n".join(["| option | default | what it sets |", "|---|---|---|", *rows])


def row(parameter: Any) -> str:
    """Return the row of an argument or an option."""
    names = " / ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = f"`{(parameter.metavar or parameter.name).upper()}`"
    text, _, described = (parameter.help or "").partition(" [default: ")
    text, required = text.removesuffix(" [required]"), text.endswith(" [required]") or parameter.required
    default = "required" if required else described.removesuffix("]") or shown(parameter)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (names, default, text)) + " |"


def shown(parameter: Any) -> str:
    """Return a fixed default as it is written on the command line."""
    value = parameter.default
    if value is None or value is False or value in ((), []):
        return ""
    if value is True:
        return f"`{parameter.opts[0]}`"
    return f"`{','.join(value) if isinstance(value, (list, tuple)) else value}`"


if __name__ == "__main__":
    sys.exit(main())
