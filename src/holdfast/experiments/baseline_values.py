"""The baseline of each value of a table: ``--against ROW`` or ``COLUMN``, or ``against`` in the table's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.errors import UserError, did_you_mean

ValuePlace = tuple[str, str]
"""The name of the row and the column of a value."""


def baselines(
    rows: Mapping[str, Mapping[str, str]], columns: Sequence[str], against: str
) -> dict[ValuePlace, ValuePlace]:
    """Map the place of each compared value to that of its baseline.

    Args:
        rows: for each row name, its label on each axis.
        columns: names of the columns and averages.
        against: a row's name: all other rows are compared with it, column by column; AXIS=LABEL: each row is compared
            with the row that has this label and the same labels on all other axes, if there is one; or a column's
            name: all other columns are compared with it, row by row.

    Raises:
        UserError: ``against`` names none of these; the message lists rows and columns.
    """
    if against in columns and against not in rows:
        return {(row, column): (row, against) for row in rows for column in columns if column != against}
    partners = _baseline_rows(rows, against)
    if partners is None:
        raise UserError(_unknown(rows, columns, against))
    return {(row, column): (partner, column) for row, partner in partners.items() for column in columns}


def _baseline_rows(rows: Mapping[str, Mapping[str, str]], against: str) -> dict[str, str] | None:
    """Map the name of each compared row to that of its baseline; None if ``against`` names no row."""
    if against in rows:
        return {name: against for name in rows if name != against}
    axis, _, label = against.partition("=")
    if all(labels.get(axis) != label for labels in rows.values()):
        return None
    named = {tuple(labels.items()): name for name, labels in rows.items()}
    partners = {name: named.get(tuple({**labels, axis: label}.items())) for name, labels in rows.items()}
    return {name: partner for name, partner in partners.items() if partner is not None and partner != name}


def _unknown(rows: Mapping[str, Mapping[str, str]], columns: Sequence[str], against: str) -> str:
    words = dict.fromkeys(f"{axis}={label}" for labels in rows.values() for axis, label in labels.items())
    near = did_you_mean(against, (*rows, *words, *columns))
    return (
        f"{against!r} names no row or column{near}; rows: {', '.join(rows)}; or AXIS=LABEL, such as "
        f"{next(iter(words))}; columns: {', '.join(columns)}"
    )
