"""Which row of a table each other one is compared with: ``--against ROW``, or ``against`` in its file."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.errors import UserError, did_you_mean


def baselines(rows: Mapping[str, Mapping[str, str]], against: str) -> dict[str, str]:
    """For the name of each row that is compared the name of the one that it is compared with.

    Args:
        rows: for each row's name its label on each axis.
        against: a row's name, with which all others are compared; or AXIS=LABEL: then a row is compared with the one
            that has this label and is the same on all other axes, where there is one.

    Raises:
        UserError: it names neither; the line lists the rows.
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
