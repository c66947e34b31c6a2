"""``holdfast watch``."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.app import TRAIN, AsJson, app
from holdfast.cli.console import console, plain, print_json
from holdfast.cli.error_lines import complain
from holdfast.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.panel import Panel

    from holdfast.runs.run_status import Standing

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH = 32
"""Width of a curve in characters."""
_STYLES = {"running": "green", "measuring": "green", "finished": "bold green", "stopped": "yellow", "failed": "red"}
_MARKS = {"good": ("✓", "green"), "look": ("!", "yellow"), "bad": ("✕", "red"), "told": ("·", "dim")}
_LEAST, _MOST = 0.2, 86_400


@app.command(
    short_help="Follow runs while they train.",
    rich_help_panel=TRAIN,
    epilog="\b\nExample:\n  holdfast watch runs/robust\n  holdfast watch runs/* --once\n"
    "  holdfast watch runs/robust --once --json",
)
def watch(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run folders of train, harden, distill, finetune or pretrain."),
    ],
    once: Annotated[bool, typer.Option("--once", help="Print the state of the runs once, and end.")] = False,
    every: Annotated[float, typer.Option(help="Seconds between two updates.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Follow runs while they train: loss terms, learning rate, score, attack, speed and time left."""
    from holdfast.runs.run_status import standing_of

    if not _LEAST <= every <= _MOST:  # also false for nan
        raise UserError(f"--every must be from {_LEAST} seconds to {_MOST} (a day), got {every:g}")
    if as_json or once:
        standings = [standing_of(run) for run in runs]
        _warn_damaged(standings)
        if as_json:
            print_json({"runs": [as_record(standing) for standing in standings]})
            return
        for standing in standings:
            console().print(panel(standing))
        return
    out = console()
    try:
        (_follow if out.is_terminal else _print_changes)(runs, every, out)
    except KeyboardInterrupt:  # ends the display; the runs continue
        return


def _follow(runs: Sequence[Path], every: float, out: Console) -> None:
    """Draw all runs repeatedly, side by side if there is room, until the last has ended."""
    from rich.columns import Columns
    from rich.live import Live

    with Live(console=out, auto_refresh=False) as live:
        for standings in _standings(runs, every):
            live.update(Columns([panel(standing) for standing in standings], padding=(0, 1)), refresh=True)


def _print_changes(runs: Sequence[Path], every: float, out: Console) -> None:
    """Print a line for every change, without a terminal, until the last run has ended."""
    before: dict[Path, tuple[str, int]] = {}
    for standings in _standings(runs, every):
        for standing in standings:
            if before.get(standing.folder) != (standing.state, standing.step):
                before[standing.folder] = standing.state, standing.step
                out.print(line(standing), markup=False, highlight=False)


def _standings(runs: Sequence[Path], every: float) -> Iterator[list[Standing]]:
    """Yield the state of the runs every ``every`` seconds, until the last run has ended."""
    from holdfast.runs.run_status import ENDED, standing_of

    reported: set[str] = set()
    while True:
        standings = [standing_of(run) for run in runs]
        reported |= _warn_damaged(standings, reported)
        yield standings
        if all(standing.state in ENDED for standing in standings):
            return
        time.sleep(every)


def _warn_damaged(standings: Iterable[Standing], reported: Collection[str] = ()) -> set[str]:
    """Print the messages about damaged records and logs that are not ``reported`` yet; return all of them."""
    lines = {line for standing in standings for line in standing.damaged}
    for damaged in sorted(lines - set(reported)):
        complain(damaged)
    return lines


def as_record(standing: Standing) -> dict[str, Any]:
    """Convert a standing to a JSON-serialisable dict."""
    record = {**asdict(standing), "folder": str(standing.folder)}
    if standing.score is not None:
        record["score"] = dict(zip(("name", "latest", "best", "best_step"), standing.score, strict=True))
    return record


# --- display -----------------------------------------------------------------------------------------------------


def line(standing: Standing) -> str:
    """Format a standing as one line."""
    parts = [str(standing.folder), _progress(standing)]
    there = [name for name in ("loss", *standing.terms) if name in standing.values]
    parts += [f"{_name(name)} {standing.values[name]:.4g}" for name in there]
    if standing.score is not None:
        parts.append(f"{_name(standing.score[0])} {standing.score[1]:.2f}")
    return "  ".join(part for part in (*parts, standing.message) if part)


def panel(standing: Standing) -> Panel:
    """Create a panel for a standing, with its curves."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(no_wrap=True)
    table.add_column()
    for name, now, points, note in _rows(standing):
        table.add_row(*(plain(cell) for cell in (name, now, sparkline(points), note)))
    state = plain(standing.message, style=_STYLES.get(standing.state, "dim"))
    head = plain("  ".join(filter(None, (standing.what, _progress(standing)))))
    marks = []
    for flag in standing.flags:
        mark, style = _MARKS[flag.level]
        marks.append(plain(f"{mark} {flag.what}: {flag.message}", style=style))
    parts: list[RenderableType] = [state, *([head] if head else []), *([table] if table.row_count else []), *marks]
    return Panel(Group(*parts), title=plain(str(standing.folder)), box=box.ROUNDED, expand=False)


def _progress(standing: Standing) -> str:
    from holdfast.progress import duration

    if not standing.step and not standing.steps:
        return ""
    of = "" if standing.steps is None else f"/{standing.steps:,} ({100 * standing.step / standing.steps:.0f} %)"
    left = "" if standing.left is None else f"ETA {duration(standing.left)}"
    return "  ".join(filter(None, (f"step {standing.step:,}{of}", standing.speed, left)))


def _rows(standing: Standing) -> list[tuple[str, str, Sequence[tuple[float, float]], str]]:
    """Return name, latest value, curve and a note of each quantity."""
    rows: list[tuple[str, str, Sequence[tuple[float, float]], str]] = []
    for name, value in standing.values.items():
        note = ""
        if name == "delta_norm" and standing.radius:
            note = f"{100 * value / standing.radius:.0f} % of its ball's radius {standing.radius:g}"
        if standing.score is not None and name == standing.score[0]:
            note = f"best {standing.score[2]:.2f} at step {standing.score[3]:,}"
        number = f"{value:.2f}" if name.startswith("eval_") else f"{value:.4g}"
        indent = "  " if name in standing.terms else ""
        rows.append((indent + _name(name), number, standing.curves[name], note))
    return rows


_NAMES: Mapping[str, str] = {
    "attack_loss_rise": "attack's rise of the loss",
    "attack_loss_share": "the attack's share of the attacked loss",
    "weakening_loss_rise": "weakening's rise of the loss",
    "delta_norm": "norm of δ",
    "grad_norm": "norm of the gradient",
    "gradient_share": "regulariser's share of the gradient",
    "regularisation": "λ",
    "negatives_turned": "angle of the negatives' step, degrees",
    "idea_gradient_share": "the idea's share of the gradient",
    "views_found": "views nearest to their own sentence",
}


def _name(name: str) -> str:
    return _NAMES.get(name, name.removeprefix("eval_").replace("_", " "))


def sparkline(points: Sequence[tuple[float, float]], width: int = _WIDTH) -> str:
    """Draw a curve as one line of blocks, scaled from its lowest to its highest value; "" for fewer than two points.

    More points (step, value) than ``width`` are averaged in consecutive groups.
    """
    values = [y for _, y in points]
    if len(values) < 2:
        return ""
    count = min(width, len(values))
    bounds = [len(values) * place // count for place in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(bounds)]
    low, high = min(means), max(means)
    if high == low:
        return _BLOCKS[len(_BLOCKS) // 2] * count
    return "".join(_BLOCKS[min(len(_BLOCKS) - 1, int(len(_BLOCKS) * (y - low) / (high - low)))] for y in means)
