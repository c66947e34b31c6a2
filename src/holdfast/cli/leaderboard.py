"""``holdfast leaderboard run``, ``add``, ``render`` and ``check``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import typer

from holdfast.cli.app import STUDY, leaderboard_app
from holdfast.cli.console import console, print_json, table, work_quietly
from holdfast.cli.error_lines import complain
from holdfast.cli.verbs import Call, verb
from holdfast.leaderboard.leaderboard_settings import (
    LeaderboardAddSettings,
    LeaderboardCheckSettings,
    LeaderboardRenderSettings,
    LeaderboardRunSettings,
)


@verb(
    LeaderboardRunSettings,
    short_help="Measure an encoder on the suite.",
    panel=STUDY,
    group=leaderboard_app,
    examples="""
holdfast leaderboard run my-encoder --data ~/sts-data --output measured
holdfast leaderboard run my-encoder --parts own,cost --output measured
""",
)
def leaderboard_run(settings: LeaderboardRunSettings, call: Call) -> None:
    """Measure an encoder on the parts of the suite; the same command goes on with what is missing in --output."""
    from holdfast.leaderboard.suite_run import run_suite

    with work_quietly():
        files = run_suite(settings, console=call.progress, command=call.command)
    if call.as_json:
        print_json({name: str(path) for name, path in files.items()})
        return
    following = f"holdfast leaderboard add {shlex.quote(str(settings.output))} --name NAME --licence LICENCE"
    console().print(
        f"{len(files)} parts in {settings.output}; next: {following}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


@verb(
    LeaderboardAddSettings,
    short_help="Check results, and add them to a board as an entry.",
    panel=STUDY,
    group=leaderboard_app,
    examples="""
holdfast leaderboard add measured --name my-encoder --licence MIT
holdfast leaderboard add measured --name my-encoder --licence MIT --source me/my-encoder --base all-MiniLM-L6-v2
""",
)
def leaderboard_add(settings: LeaderboardAddSettings, call: Call) -> None:
    """Check the results of a run, add them to a board as an entry, and write the board's page."""
    from holdfast.leaderboard.board import Refused, add

    try:
        with work_quietly():
            entry, page = add(settings)
    except Refused as refused:
        for line in refused.lines[:-1]:
            complain(line)
        raise
    if call.as_json:
        print_json({"entry": entry, "page": str(page)})
        return
    out = console()
    out.print(_scores(entry))
    out.print(f"{settings.name} is on the page {page}", markup=False, highlight=False, soft_wrap=True)


@verb(
    LeaderboardRenderSettings,
    short_help="Write the page of a board from its entries.",
    panel=STUDY,
    group=leaderboard_app,
    examples="holdfast leaderboard render --board leaderboard",
)
def leaderboard_render(settings: LeaderboardRenderSettings, call: Call) -> None:
    """Write the page of a board from its entries, which are checked."""
    from holdfast.leaderboard.board import render

    page = render(settings.board)
    if call.as_json:
        print_json({"page": str(page)})
        return
    console().print(str(page), markup=False, highlight=False, soft_wrap=True)


@verb(
    LeaderboardCheckSettings,
    short_help="Measure an entry's cheap part again, and compare.",
    panel=STUDY,
    group=leaderboard_app,
    examples="""
holdfast leaderboard check
holdfast leaderboard check all-MiniLM-L6-v2
""",
)
def leaderboard_check(settings: LeaderboardCheckSettings, call: Call) -> None:
    """Measure the part of an entry that needs no data again, and exit with code 1 if a value differs.

    Without a name, the entry is a random one of those whose weights are at hand.
    """
    from holdfast.leaderboard.entry_check import check

    with work_quietly():
        name, rows = check(settings, console=call.progress)
    failed = [row for row in rows if not row["equal"]]
    if call.as_json:
        print_json({"name": name, "items": rows, "equal": not failed})
    else:
        header = ["item", "entry", "now", "tolerance", ""]
        numbers = ([f"{row[key]:.2f}" for key in ("entry", "now", "tolerance")] for row in rows)
        cells = [[row["item"], *own, "" if row["equal"] else "differs"] for row, own in zip(rows, numbers, strict=True)]
        console().print(table(header, cells, title=f"{name}: the part without data", right=header[1:4]))
    if failed:
        items = ", ".join(row["item"] for row in failed)
        complain(f"{name}: {len(failed)} of {len(rows)} values differ from its entry: {items}")
        raise typer.Exit(1)


def _scores(entry: Mapping[str, Any]) -> Any:
    from holdfast.leaderboard.suite import the_suite

    titles = the_suite().titles()
    rows = [
        [titles[name], f"{score['value']:.1f}", f"{score['low']:.1f}-{score['high']:.1f}", f"{score['n']:,.0f}"]
        for name, score in entry["scores"].items()
    ]
    header = ["column", "score", "95 %", "n"]
    return table(header, rows, title=entry["name"], right=header[1:])
