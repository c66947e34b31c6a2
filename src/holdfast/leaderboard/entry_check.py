"""`holdfast leaderboard check`: the cheap part of an entry measured again, which needs no data."""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import UserError
from holdfast.leaderboard.column_scores import own_scores
from holdfast.leaderboard.entry import entry_named
from holdfast.leaderboard.entry_encoders import at_hand, entries_folder, measured_as
from holdfast.leaderboard.leaderboard_settings import LeaderboardCheckSettings, LeaderboardRunSettings
from holdfast.leaderboard.suite import the_suite
from holdfast.leaderboard.suite_run import run_suite
from holdfast.number_ranges import check_numbers
from holdfast.results import read_result

if TYPE_CHECKING:
    from rich.console import Console

OWN = "own"
TOLERANCE = 0.5
"""Points by which a mean may differ: other processors and versions round otherwise."""
TEXTS = 2
"""Texts by which a share of texts may differ, for the same reason."""
_SHARES = ("number",)
"""The items of the part whose value is a share of texts."""


def check(settings: LeaderboardCheckSettings, *, console: Console | None = None) -> tuple[str, list[dict[str, Any]]]:
    """Measure the part ``own`` of an entry again; return its name and, for each item, ``{item, entry, now, …}``.

    Raises:
        UserError: there is no such entry, it has no such part, or its weights are not at hand.
    """
    check_numbers(settings)
    folder, suite = entries_folder(settings.board), the_suite()
    name = settings.name or _drawn(folder, settings.seed)
    entry = entry_named(name, folder)
    if not entry["own"]:
        raise UserError(f"{name} has no part {OWN!r}, the only one that needs no data: it cannot be checked here")
    if entry["protocol"]["suite_sha256"] != suite.sha256:
        raise UserError(f"{name} is of another suite than this version of holdfast has: run it again")
    with tempfile.TemporaryDirectory() as place:
        run = LeaderboardRunSettings(output=Path(place), parts=OWN, **measured_as(entry))
        files = run_suite(run, console=console)
        now = own_scores(suite, read_result(files[OWN])["results"])
    rows = []
    for item, before in entry["own"].items():
        value = now[item]["value"]
        tolerance = 100.0 * TEXTS / before["n"] if item in _SHARES else TOLERANCE
        equal = now[item]["n"] == before["n"] and abs(value - before["value"]) <= tolerance
        rows.append({"item": item, "entry": before["value"], "now": value, "tolerance": tolerance, "equal": equal})
    return name, rows


def _drawn(folder: Path, seed: int | None) -> str:
    """Return a random entry whose weights are at hand.

    Raises:
        UserError: there is none.
    """
    names = sorted(at_hand(folder))
    if not names:
        raise UserError(f"no entry in {folder} has its weights at hand")
    return random.Random(time.time_ns() if seed is None else seed).choice(names)
