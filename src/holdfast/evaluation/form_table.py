"""The tables of forms of vectors for the terminal: what each loses, on clean texts and in noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from holdfast.data.beir import CLEAN
from holdfast.evaluation.form_losses import ROBUSTNESS
from holdfast.evaluation.retrieval_table import version_name
from holdfast.evaluation.sts import average
from holdfast.forms import FLOAT32, form_of

_METRICS = ("spearman", "accuracy", "recall@1")
"""The metrics that are shown, the first that a row has."""


def form_tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """Yield a table for each form: for each task the score, and the losses of quality and robustness with intervals."""
    plain = {_key(row): row for row in rows if form_of(row) is None}
    for form in dict.fromkeys(filter(None, map(form_of, rows))):
        own = [row for row in rows if form_of(row) == form and _metric(row) is not None]
        if own:
            yield _table(form, own, plain)


def _table(form: str, rows: Sequence[Mapping[str, Any]], plain: Mapping[tuple[Any, ...], Mapping[str, Any]]) -> Table:
    size = rows[0]["vectors"]
    calibrated = f", calibrated on {size['calibrated_on']}" if "calibrated_on" in size and len(rows) == 1 else ""
    table = Table(
        title=f"as {form}: {size['bytes']:,} bytes a vector{calibrated}",
        title_justify="left",
        caption="difference to float32, paired, 95 % interval; robustness: what noise takes, beyond what it takes from "
        "float32",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    table.add_column("")
    for name in (FLOAT32, form, "difference", "robustness"):
        table.add_column(name, justify="right")
    for row in rows:
        metric, other = str(_metric(row)), plain.get(_key(row))
        score = "-" if other is None else f"{other['metrics'][metric]:.2f}"
        against = row.get("against", {})
        cells = (_difference(against.get(key), metric) for key in (FLOAT32, ROBUSTNESS))
        table.add_row(_name(row), score, f"{row['metrics'][metric]:.2f}", *cells)
    before, after = _average(plain.values()), _average(rows)
    if before is not None and after is not None:
        table.add_row("sts average", f"{before:.2f}", f"{after:.2f}", f"{after - before:+.2f}", "")
    return table


def _average(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the mean Spearman of the seven similarity tasks in one form."""
    return average([{**row, "form": None} for row in rows if "spearman" in row["metrics"]])


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["task"], row["split"], row.get("system"), row.get("data")


def _metric(row: Mapping[str, Any]) -> str | None:
    return next((name for name in _METRICS if name in row["metrics"]), None)


def _name(row: Mapping[str, Any]) -> str:
    split = row["split"]
    if row["task"] == "retrieval":
        system = "" if row["system"] == "encoder" else f" {row['system']}"
        return f"{row['data']}{system} {'clean' if split == CLEAN else version_name(split)}"
    return str(row["task"]) if split in ("test", "all") else f"{row['task']} {str(split).removeprefix('test ')}"


def _difference(found: Mapping[str, Any] | None, metric: str) -> str:
    made = (found or {}).get(metric)
    return f"{made['difference']:+.2f} ({made['low']:+.2f}, {made['high']:+.2f})" if made else ""
