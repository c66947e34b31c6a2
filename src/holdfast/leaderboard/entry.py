"""Entries of the leaderboard: one JSON file each, with the scores of an encoder and everything that decides them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import UserError, did_you_mean
from holdfast.files import write_json
from holdfast.leaderboard.suite import Suite
from holdfast.result_layout import is_number
from holdfast.results import HASH, content_sha256

SCHEMA = "holdfast.leaderboard/1"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""The names of entries, which are names of files, too."""
KINDS = {
    "transformer": "a transformer",
    "static": "a table of vectors of tokens",
    "function": "a function",
    "search": "a search by words",
}
"""The kinds of encoders, with a description of each."""
_KEYS: dict[str, type] = {
    **dict.fromkeys(("schema", "name", "created", "command"), str),
    **dict.fromkeys(("encoder", "scores", "own", "cost", "protocol", "versions", "results"), dict),
    "seeds": list,
}
_SMALLEST, _LARGEST = -100.0, 100.0
_ROUNDING = 1e-6


def published_folder() -> Path:
    """Return the folder of the published entries: in an installed package its own, in a checkout docs/leaderboard."""
    packaged = Path(__file__).parent / "entries"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "docs" / "leaderboard"


def entries_in(folder: Path, suite: Suite | None = None) -> dict[str, dict[str, Any]]:
    """Return the entries of a folder, by name.

    Args:
        folder: the folder.
        suite: the suite that they must be of; None: any.

    Raises:
        UserError: an entry is damaged, was changed by hand, or is of another suite.
    """
    return {path.stem: read_entry(path, suite) for path in sorted(folder.glob("*.json"))}


def entry_named(name: str, folder: Path) -> dict[str, Any]:
    """Return one entry of a folder.

    Raises:
        UserError: there is none of that name (the message names the nearest one), or it is damaged.
    """
    path = folder / f"{name}.json"
    if not NAME.fullmatch(name) or not path.is_file():
        known = sorted(each.stem for each in folder.glob("*.json"))
        raise UserError(
            f"no entry {name!r}{did_you_mean(name, known)} in {folder}: {', '.join(known) or 'it is empty'}"
        )
    return read_entry(path)


def read_entry(path: Path, suite: Suite | None = None) -> dict[str, Any]:
    """Read an entry.

    Raises:
        UserError: it is damaged, was changed after it was written, or is not of the suite, if one is given.
    """
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not an entry of the leaderboard: {error}") from error
    if not isinstance(entry, dict) or entry.get("schema") != SCHEMA:
        raise UserError(f"{path}: not an entry of the leaderboard: its schema is not {SCHEMA!r}")
    if wrong := [key for key, kind in _KEYS.items() if not isinstance(entry.get(key), kind)]:
        raise UserError(f"{path}: not a complete entry: {', '.join(map(repr, wrong))} missing or of the wrong type")
    if entry.get(HASH) != content_sha256(entry):
        raise UserError(f"{path} was changed after it was written: add the results again, with --replace")
    if entry["name"] != path.stem:
        raise UserError(f"{path} is the entry {entry['name']!r}: a file has the name of its entry")
    if suite is not None and (wrong := mistakes_of_entry(entry, suite)):
        raise UserError(f"{path}: {wrong[0]}")
    return entry


def mistakes_of_entry(entry: Mapping[str, Any], suite: Suite) -> list[str]:
    """Return what is wrong with the protocol and the scores of an entry, a line each."""
    if entry["protocol"].get("suite_sha256") != suite.sha256:
        return [
            f"it is of suite {entry['protocol'].get('suite')} with another hash than suite {suite.version} of this "
            "version of holdfast: run it again"
        ]
    lines = [f"the score {name!r} is not one of the suite" for name in entry["scores"] if name not in suite.titles()]
    overall = [name for name in entry["scores"] if name in suite.overall]
    for name in [*(name for name in entry["scores"] if name not in overall), *overall]:
        if lines and name in overall:  # a mean of wrong scores
            break
        score = entry["scores"][name]
        ends = [score.get(end) for end in ("low", "value", "high")]
        if not all(map(is_number, ends)):
            lines.append(f"{name}: its value and interval are not three numbers")
        elif not all(_SMALLEST - _ROUNDING <= end <= _LARGEST + _ROUNDING for end in ends):
            lines.append(f"{name}: {ends[1]:g} ({ends[0]:g} to {ends[2]:g}) is outside of -100 to 100")
        elif not ends[0] - _ROUNDING <= ends[1] <= ends[2] + _ROUNDING:
            lines.append(f"{name}: the value {ends[1]:g} is outside of its interval, {ends[0]:g} to {ends[2]:g}")
    return lines


def write_entry(folder: Path, entry: Mapping[str, Any]) -> Path:
    """Write an entry with the hash of its content; return its file."""
    path = folder / f"{entry['name']}.json"
    content = {key: value for key, value in entry.items() if key != HASH}
    whole = {**content, HASH: content_sha256(json.loads(json.dumps(content)))}
    write_json(path, whole)
    return path
