"""The JSON file of results that every command writes and that ``report`` and ``compare`` read.

A result contains measurements (``results``, one row per task and split), the model (``model``, ``model_sha256``), the
protocol (``protocol``, ``seed``, ``command``) and the machine (``environment``), so that a number can be traced and
reproduced. It also contains a hash of its content, so that later changes of the file can be detected.
"""

from __future__ import annotations

import functools
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
from holdfast.result_layout import (
    EXAMPLE_MAY,
    EXAMPLE_REQUIRED,
    EXAMPLE_TEXTS,
    SCHEMA,
    check_example,
    check_keys,
    check_result,
)
from holdfast.terminal import json_escaped, visible
from holdfast.version import __version__

HASH = "content_sha256"
State = Literal["as written", "changed", "unhashed"]
"""The state of a result file; "unhashed": without a hash, from an earlier version or from printed output."""

_PACKAGES = (
    *("torch", "transformers", "sentence-transformers", "tokenizers", "datasets", "numpy", "scipy", "scikit-learn"),
)
# Metrics that are not x100.
_OF_ONE = ("stability", "different_texts", "p_hold_nearer", "p_entailed_nearer")


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
    check_result(result, "this result")
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


def percent_shown(share: float) -> str:
    """Return a share in percent as it is displayed: two digits, and whole numbers from 10 on."""
    percent = 100 * share
    return f"{percent:.2g} %" if percent < 9.95 else f"{percent:.0f} %"


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
    check_result(result, str(path))
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


def shown_pieces(row: Mapping[str, Any]) -> list[str | tuple[str, str]]:
    """Return the parts of an example's text, of a changed one what it was and what it is, as `shown`.

    Places count the characters of the text as it was read, so that control characters are escaped in the parts.

    Raises:
        TypeError, ValueError: the example's changes are no list of changes.
    """
    from holdfast.edits.words import pieces, spanned_pieces

    found = (
        spanned_pieces(row["original"], row["spans"])
        if row.get("spans")
        else pieces(row["original"], row["adversarial"], row.get("changed") or ())
    )
    return [shown(each) if isinstance(each, str) else (shown(str(each[0])), shown(str(each[1]))) for each in found]


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
        check_keys(row, EXAMPLE_TEXTS if texts_only else EXAMPLE_REQUIRED, place)
        check_keys(row, {name: kind for name, kind in EXAMPLE_MAY.items() if name in row}, place)
        if not texts_only:
            check_example(row, place)
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


@functools.cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
