"""The JSON file of results that every command writes and that ``report`` and ``compare`` read.

A result contains measurements (``results``, one row per task and split), the model (``model``, ``model_sha256``), the
protocol (``protocol``, ``seed``, ``command``) and the machine (``environment``), so that a number can be traced and
reproduced. It also contains a hash of its content, so that later changes of the file can be detected.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
import shlex
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from holdfast.errors import EndsRun, UserError
from holdfast.files import write_text
from holdfast.model_lookup import model_identity
from holdfast.terminal import json_escaped, visible
from holdfast.version import __version__

SCHEMA = "holdfast.results/1"
HASH = "content_sha256"
State = Literal["as written", "changed", "unhashed"]
"""The state of a result file; "unhashed": without a hash, from an earlier version or from printed output."""

_PACKAGES = (
    *("torch", "transformers", "sentence-transformers", "tokenizers", "datasets", "numpy", "scipy", "scikit-learn"),
)
# Required keys and their types; a writer may add keys.
_REQUIRED: dict[str, type | tuple[type, ...]] = {
    "schema": str,
    "kind": str,
    "created": str,
    "model": str,
    "model_sha256": str,
    "protocol": dict,
    "environment": dict,
    "command": str,
    "seed": (int, type(None)),
    "results": list,
}
_ROW_REQUIRED: dict[str, type | tuple[type, ...]] = {"task": str, "split": str, "n": int, "metrics": dict}
# Required keys of an example of attack or audit, to show its text or to try it again; and its optional keys.
_EXAMPLE_TEXTS: dict[str, type | tuple[type, ...]] = {"recipe": str, "outcome": str, "original": str}
_EXAMPLE_REQUIRED: dict[str, type | tuple[type, ...]] = {
    **_EXAMPLE_TEXTS,
    "adversarial": str,
    **dict.fromkeys(("number", "queries"), int),
    **dict.fromkeys(("before", "after"), dict),
    "changed": list,
}
_EXAMPLE_MAY: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("other", "reason", "item"), (str, type(None))),
    "label": (int, float, type(None)),
    "neighbours": (list, type(None)),
}
# Metrics that are not x100.
_OF_ONE = ("stability", "different_texts", "p_hold_nearer", "p_entailed_nearer")
# Allowed sets of a row's items: each is a list of n numbers.
_ITEMS: tuple[tuple[str, ...], ...] = (
    *(("correct",), ("gold", "similarity"), ("gold", "prediction"), ("correct", "text"), ("stability", "text")),
    ("nearer", "text"),
    ("mrr@10", "ndcg@10", "recall@1", "recall@10", "recall@100"),
)


def new_result(
    kind: str,
    *,
    command: Sequence[str] | None = None,
    model: str,
    path: Path | None = None,
    identity: dict[str, Any] | None = None,
    protocol: dict[str, Any],
    seed: int | None,
    results: Sequence[dict[str, Any]] = (),
    timing: dict[str, float] | None = None,
    device: str = "cpu",
) -> dict[str, Any]:
    """Return a result, ready for `write_result`; more keys may be added to it.

    Args:
        kind: the command: ``"evaluate"``, ``"train"``, ``"attack"``, ...
        command: words of the command; ``None``: those of this process.
        model: the model as the user named it.
        path: folder of the model, for its hashes.
        identity: the hashes (`model_identity`), if they are already known or the model is not a folder.
        protocol: everything that determines the numbers except model and data.
        seed: random seed; ``None``: no random numbers were drawn.
        results: rows of ``{task, split, n, metrics, ...}``.
        timing: seconds by name.
        device: device of the model (``"cpu"``, ``"cuda:0"``).
    """
    words = [Path(sys.argv[0]).name, *sys.argv[1:]] if command is None else list(command)
    return {
        "schema": SCHEMA,
        "kind": kind,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "model": model,
        **(model_identity(path) if path is not None else identity or {}),
        "protocol": protocol,
        "environment": environment(device),
        "command": shlex.join(words),
        "seed": seed,
        "timing": dict(timing or {}),
        "results": list(results),
    }


def write_result(path: Path, result: dict[str, Any]) -> None:
    """Write ``result`` to ``path``, atomically, with a hash of its content as its last key.

    Numbers that are not finite are replaced as in `finite`, so that the other measurements are not lost.

    Raises:
        UserError: the result is not valid (see `read_result`), or the file cannot be written.
    """
    result = finite(result)
    _validate(result, "this result")
    content = {name: value for name, value in result.items() if name != HASH}
    as_read = json.loads(to_json(content))  # tuples become lists, and all keys text
    write_text(path, to_json({**content, HASH: content_sha256(as_read)}) + "\n")


def content_sha256(result: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a result as read from JSON, independent of key order and whitespace."""
    content = {name: value for name, value in result.items() if name != HASH}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def finite(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without numbers that JSON does not support: infinity and NaN.

    A metric that is not finite is left out of its row, and so are items if one of them is not finite; the row lists
    them in ``undefined``. Everywhere else such a number becomes null.
    """
    rows = [_finite_row(row) if "metrics" in row else row for row in result["results"]]
    return {**{name: _or_null(value) for name, value in result.items() if name != "results"}, "results": rows}


def _finite_row(row: Mapping[str, Any]) -> dict[str, Any]:
    undefined = [name for name, value in row["metrics"].items() if _is_not_finite(value)]
    if any(_is_not_finite(value) for values in row.get("items", {}).values() for value in values):
        undefined.append("items")
    kept = {name: value for name, value in row.items() if name not in ("metrics", "items")}
    kept = {name: _or_null(value) for name, value in kept.items()}
    kept["metrics"] = {name: value for name, value in row["metrics"].items() if name not in undefined}
    if "items" in row and "items" not in undefined:
        kept["items"] = row["items"]
    return {**kept, "undefined": undefined} if undefined else kept


def _or_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _or_null(held) for name, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_or_null(held) for held in value]
    return None if _is_not_finite(value) else value


def _is_not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def to_json(result: Mapping[str, Any]) -> str:
    """Return a result as indented JSON, with each list of items of a row in one line.

    Numbers that are not finite are replaced as in `finite`.
    """
    result = finite(result)
    mark = uuid.uuid4().hex  # placeholder of a list; no text of a result contains it
    compact: list[str] = []

    def held(values: Any) -> str:
        compact.append(json.dumps(values, allow_nan=False))
        return f"{mark} {len(compact) - 1}"

    rows = [
        {**row, "items": {name: held(values) for name, values in row["items"].items()}} if "items" in row else row
        for row in result["results"]
    ]
    text = json.dumps({**result, "results": rows}, indent=2, ensure_ascii=False, allow_nan=False)
    whole = re.sub(rf'"{mark} (\d+)"', lambda found: compact[int(found[1])], text)
    return json_escaped(whole)


def digits_of(metric: str, otherwise: int) -> int:
    """Return the decimals of a displayed number: 3 for metrics between 0 and 1, such as stability, 2 for a Spearman
    correlation ×100, else ``otherwise``."""
    if metric == "spearman":
        return 2
    return 3 if metric in _OF_ONE else otherwise


def p_shown(p: float) -> str:
    """Return a p-value as text."""
    return f"{p:.4f}" if p >= 1e-4 else "<0.0001"


def shown(value: Any) -> Any:
    """Return ``value`` with control characters escaped in every text; see `holdfast.terminal.visible`."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {shown(key): shown(held) for key, held in value.items()}
    if isinstance(value, list):
        return [shown(held) for held in value]
    return value


def read_result(path: Path) -> dict[str, Any]:
    """Read and validate a result; return it without the hash of its content.

    Raises:
        UserError: the file does not exist, is not JSON (with the line), has another schema, a missing or mistyped key,
            a metric that is not a finite number, or items that are not n numbers.
    """
    return read_with_state(path)[0]


def read_with_state(path: Path) -> tuple[dict[str, Any], State]:
    """Read a result as in `read_result`, and return it with its state.

    Raises:
        UserError: as in `read_result`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a result file: not UTF-8 text") from error
    except OSError as error:
        raise UserError(f"cannot read the result file {path}: {error.strerror or error}") from error
    try:
        result = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # an extremely long number, or deeply nested lists
        raise UserError(f"{path}: not a result file: {error}") from error
    _validate(result, str(path))
    if HASH not in result:
        return result, "unhashed"
    state: State = "as written" if result[HASH] == content_sha256(result) else "changed"
    del result[HASH]
    return result, state


def earlier_result(path: Path, model_sha256: str) -> dict[str, Any] | None:
    """Read the result of an earlier start of a command; None if there is no such file.

    Raises:
        UserError: the file is damaged, or the result belongs to another model; the message names both.
    """
    if not path.exists():
        return None
    result = read_result(path)
    found = str(result["model_sha256"])
    if found != model_sha256:
        raise EndsRun(
            f"{path} belongs to another model ({result['model']}, sha256 {found[:12]}) than this run's (sha256 "
            f"{model_sha256[:12]}): move it out of the folder"
        )
    return result


def changed_files(paths: Iterable[Path]) -> list[Path]:
    """Return the result files that were changed since they were written.

    Raises:
        UserError: as in `read_result`.
    """
    return [path for path in paths if read_with_state(path)[1] == "changed"]


def examples_of(result: Mapping[str, Any], path: Path, *, texts_only: bool = False) -> list[dict[str, Any]]:
    """Return the validated examples (attacked texts) of a result; ``path`` is its file, for messages.

    With ``texts_only``, only recipe, outcome and original text of each example are validated.

    Raises:
        UserError: there are no examples, or they are invalid.
    """
    examples = result.get("examples")
    if not isinstance(examples, list):
        raise UserError(f"{path} holds no examples: it is not a result of attack or audit")
    for number, row in enumerate(examples, start=1):
        place = f"{path}: example {number}"
        if not isinstance(row, dict):
            raise UserError(f"{place} is not an object")
        _check_keys(row, _EXAMPLE_TEXTS if texts_only else _EXAMPLE_REQUIRED, place)
        _check_keys(row, {name: kind for name, kind in _EXAMPLE_MAY.items() if name in row}, place)
        if not texts_only:
            _check_example(row, place)
    return examples


def environment(device: str = "cpu") -> dict[str, Any]:
    """Return the machine and the package versions that can affect a number or a time."""
    import torch

    from holdfast.devices import device_name
    from holdfast.precision import processor

    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": processor("model name") or platform.machine(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": device_name(device),
        "packages": {"holdfast": __version__, **{name: _version(name) for name in _PACKAGES}},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _validate(result: Any, where: str) -> None:
    if not isinstance(result, dict) or "schema" not in result:
        raise UserError(f"{where}: not a holdfast result: it has no 'schema'")
    if result["schema"] != SCHEMA:
        raise UserError(f"{where}: its schema is {result['schema']!r}, this version of holdfast reads {SCHEMA!r}")
    _check_keys(result, _REQUIRED, where)
    for number, row in enumerate(result["results"], start=1):
        place = f"{where}: row {number} of results"
        if not isinstance(row, dict):
            raise UserError(f"{place} is not an object")
        _check_keys(row, _ROW_REQUIRED, place)
        for name, value in row["metrics"].items():
            if not is_number(value):
                raise UserError(f"{place}: the metric {name!r} is {value!r}, not a finite number")
        if "items" in row:
            _check_items(row["items"], row["n"], place)


def _check_items(items: Any, count: int, place: str) -> None:
    """Check that items are one of `_ITEMS`, each a list of ``count`` numbers; ``text`` numbers an audit's texts."""
    if not isinstance(items, dict) or tuple(sorted(items)) not in _ITEMS:
        kinds = " or ".join(", ".join(kind) for kind in _ITEMS)
        raise UserError(f"{place}: its items are not one of {kinds}")
    for name, values in items.items():
        if not isinstance(values, list) or len(values) != count:
            raise UserError(f"{place}: items.{name} is not a list of its {count:,} items")
        for number, value in enumerate(values):
            if not is_number(value) or (name == "correct" and value not in (0, 1)):
                valid = "0 or 1" if name == "correct" else "a finite number"
                raise UserError(f"{place}: items.{name}[{number}] is {value!r}, not {valid}")


def is_number(value: Any) -> bool:
    """Return True if a JSON value is a finite number within the range of float; true and false are not numbers."""
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _check_example(row: Mapping[str, Any], place: str) -> None:
    """Check the nested parts of an example."""
    for change in row["changed"]:
        if not isinstance(change, list) or [type(part) for part in change] != [int, str, str]:
            raise UserError(f"{place}: a change is [place, word, other word], not {change!r}")
    for name in ("before", "after"):
        if row[name] and not is_number(row[name].get("value")):
            raise UserError(f"{place}: the output {name!r} has no number 'value'")
        nearest = row[name].get("neighbours", [])
        if not isinstance(nearest, list) or not all(isinstance(text, str) for text in nearest):
            raise UserError(f"{place}: the 'neighbours' {name} are not a list of texts")
    neighbours = row.get("neighbours")
    if neighbours and (len(neighbours) != 2 or not all(isinstance(text, str) for text in neighbours)):
        raise UserError(f"{place}: 'neighbours' are not two texts")


def _check_keys(value: dict[str, Any], required: dict[str, type | tuple[type, ...]], where: str) -> None:
    missing = [key for key in required if key not in value]
    if missing:
        raise UserError(f"{where}: not a complete holdfast result: {', '.join(map(repr, missing))} missing")
    for key, kind in required.items():
        # JSON's true is also a Python int; no key here is a bool.
        if not isinstance(value[key], kind) or isinstance(value[key], bool):
            raise UserError(f"{where}: {key!r} is of the wrong type ({type(value[key]).__name__})")
