"""The baseline row of each row of a table: ``--against ROW``, or ``against`` in the table's file."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import UserError, did_you_mean


def baselines(rows: Mapping[str, Mapping[str, str]], against: str) -> dict[str, str]:
    """Map the name of each compared row to the name of its baseline row.

    Args:
        rows: for each row name, its label on each axis.
        against: a row's name: all other rows are compared with it; or AXIS=LABEL: each row is compared with the row
            that has this label and the same labels on all other axes, if there is one.

    Raises:
        UserError: ``against`` names neither; the message lists the rows.
    """
    if against in rows:
        return {name: against for name in rows if name != against}
    axis, _, label = against.partition("=")
    if all(labels.get(axis) != label for labels in rows.values()):
        raise UserError(_unknown(rows, against))
    named = {tuple(labels.items()): name for name, labels in rows.items()}
    found = {}
    for name, labels in rows.items():
        partner = named.get(tuple({**labels, axis: label}.items()))
        if partner is not None and partner != name:
            found[name] = partner
    return found


def _unknown(rows: Mapping[str, Mapping[str, str]], against: str) -> str:
    words = dict.fromkeys(f"{axis}={label}" for labels in rows.values() for axis, label in labels.items())
    near = did_you_mean(against, (*rows, *words))
    return f"{against!r} names no row{near}; rows: {', '.join(rows)}; or AXIS=LABEL, such as {next(iter(words))}"
