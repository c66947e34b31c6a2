"""Checks of the results of a run before they become an entry: hashes, protocol, seeds, data, numbers of texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import UserError
from holdfast.evaluation.evaluation_run import task_names
from holdfast.files import expanded
from holdfast.leaderboard.column_scores import item_names, named_rows
from holdfast.leaderboard.suite import Suite
from holdfast.leaderboard.suite_run import MARK, parts_of_search
from holdfast.models import backend_in
from holdfast.results import HASH, State, content_sha256, read_with_state


@dataclass(frozen=True)
class PartResult:
    """The result of a part of the suite.

    Attributes:
        path: its file.
        result: its content.
        state: the state of the file.
        part: the name of the part; "" for a result of something else.
    """

    path: Path
    result: Mapping[str, Any]
    state: State
    part: str

    @property
    def sha256(self) -> str:
        """The hash of the content."""
        return content_sha256(self.result)

    @property
    def backend(self) -> str:
        """The name of the backend that ran the model."""
        return backend_in(self.result["protocol"])


def read_parts(paths: Sequence[str], suite: Suite) -> list[PartResult]:
    """Read the results of a run: files, or folders with a file for each part.

    Raises:
        UserError: a file is no result, or a folder has none.
    """
    found = []
    for word in paths:
        path = expanded(word)
        files = [path / f"{name}.json" for name in suite.parts if (path / f"{name}.json").exists()]
        if path.is_dir() and not files:
            raise UserError(f"{path} has no results of the leaderboard: make them with `holdfast leaderboard run`")
        for file in files if path.is_dir() else [path]:
            result, state = read_with_state(file)
            mark = result.get(MARK)
            part = str(mark.get("part")) if isinstance(mark, dict) else ""
            found.append(PartResult(file, result, state, part if part in suite.parts else ""))
    return found


def mistakes(parts: Sequence[PartResult], suite: Suite) -> list[str]:
    """Return what is wrong with the results of a run, a line for each mistake; empty if nothing is."""
    lines = [line for part in parts for line in _of_file(part, suite)]
    known = [part for part in parts if part.part]
    lines += _of_all(known, suite, complete=len(known) == len(parts))
    marked = [part for part in known if part.result[MARK] == suite.protocol(part.part)]
    lines += [f"{part.path}: {line}" for part in marked for line in _of_protocol(part, suite)]
    return list(dict.fromkeys(lines))  # a row stands in each form of the vectors


def is_search(parts: Sequence[PartResult]) -> bool:
    """Return True if all rows are those of the search by words."""
    rows = [row for part in parts for row in part.result["results"]]
    return bool(rows) and all(row.get("system", "encoder") == "bm25" for row in rows)


def _of_file(part: PartResult, suite: Suite) -> Iterator[str]:
    if not part.part:
        yield f"{part.path}: not a result of `holdfast leaderboard run`"
        return
    if part.state != "as written":
        yield f"{part.path}: was changed after it was written (its {HASH} differs): run the part again"
    if part.result[MARK] != suite.protocol(part.part):
        mark = part.result[MARK]
        other = f"suite {mark.get('suite')} (sha256 {str(mark.get('suite_sha256'))[:12]})"
        yield (
            f"{part.path}: measured on {other}, this is suite {suite.version} (sha256 {suite.sha256[:12]}): run it "
            "again with this version of holdfast"
        )


def _of_all(parts: Sequence[PartResult], suite: Suite, *, complete: bool) -> Iterator[str]:
    """Yield what is wrong between the parts: missing ones, if all are known, repeated ones, and different models."""
    names = [part.part for part in parts]
    needed = parts_of_search(suite) if is_search(parts) else list(suite.parts)
    for name in suite.parts:
        if names.count(name) > 1:
            yield f"the part {name} is given {names.count(name)} times"
        if complete and name in needed and name not in names:
            yield f"the part {name} is missing: the same `holdfast leaderboard run` goes on with it"
    first = next(iter(parts), None)
    for part in parts[1:]:
        assert first is not None
        for what, own, other in (
            ("weights", part.result["model_sha256"], first.result["model_sha256"]),
            ("files of the model", *(_hash_of_files(each.result) for each in (part, first))),
            ("backend", part.backend, first.backend),
            ("pooling", part.result["protocol"].get("pooling"), first.result["protocol"].get("pooling")),
            ("prompts", part.result["protocol"].get("prompt_options"), first.result["protocol"].get("prompt_options")),
        ):
            if own != other:
                yield f"{part.path}: other {what} than in {first.path} ({_short(own)}, not {_short(other)})"


def _hash_of_files(result: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(result.get("model_files"), sort_keys=True).encode()).hexdigest()


def _of_protocol(part: PartResult, suite: Suite) -> Iterator[str]:
    kind = suite.parts[part.part]["kind"]
    if kind == "audit":
        yield from _of_audit(part, suite)
    elif kind == "evaluate":
        yield from _of_evaluation(part, suite)
    for row in part.result["results"]:
        wanted = suite.data.get(part.part, {}).get(f"{row['task']}/{row['split']}")
        if wanted is not None and row.get("data_sha256") != wanted:
            found = _short(row.get("data_sha256"))
            yield f"the data of {row['task']}/{row['split']} is not the suite's (sha256 {found})"


def _of_evaluation(part: PartResult, suite: Suite) -> Iterator[str]:
    wanted, protocol = suite.parts[part.part], part.result["protocol"]
    yield from _differences(
        protocol,
        {"tasks": task_names(wanted["tasks"]), "limit": wanted.get("limit"), "text": "raw", "precision": "fp32"},
    )
    forms = [None, *filter(None, wanted.get("forms", "").split(","))]
    for form in forms:
        rows = named_rows(part.result["results"], form)
        for column in suite.columns.values():
            if column.part == part.part and column.form == form:
                yield from (f"the row {name} is missing" for name in column.rows if name not in rows)


def _of_audit(part: PartResult, suite: Suite) -> Iterator[str]:
    wanted, result = suite.parts[part.part], part.result
    protocol = result["protocol"]
    own = {name: wanted.get(name) for name in ("examples", "texts_per_item")}
    yield from _differences(protocol, {**own, "items": item_names(suite, part.part), "precision_of_search": "fp32"})
    if result["seed"] != suite.seed:
        yield f"its seed is {result['seed']}, the suite's {suite.seed}"
    if protocol["left_out"]:
        yield f"it left out {'; '.join(protocol['left_out'])}"
    if (found := protocol["texts"]["sha256"]) != (texts := suite.data[part.part]["texts"]):
        yield f"its texts are not the suite's (sha256 {_short(found)}, not {_short(texts)}): is --data complete?"
    used = protocol["resources"]
    if part.part == "audit":
        for name, value in suite.resources.items():
            if used.get(name) != value:
                yield f"its resource {name} is {used.get(name)}, the suite's {value}"
    rows = named_rows(result["results"])
    for name in item_names(suite, part.part):
        if name not in rows:
            yield f"the item {name} is missing"
        elif rows[name]["verdict"] == "absent":
            yield f"the item {name} was not measured: {rows[name]['told']}"


def _differences(protocol: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    for name, value in wanted.items():
        if protocol.get(name) != value:
            yield f"its {name} is {_short(protocol.get(name))}, the suite's {_short(value)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:12]}…"
