"""Training methods that defend a classifier against attacks, one per file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.classifiers.defences.adv import ADV
from holdfast.classifiers.defences.defence import Defence, Moment, TaskBatch, Training
from holdfast.classifiers.defences.freelb import FreeLB
from holdfast.classifiers.defences.none import NoDefence
from holdfast.classifiers.defences.pgd import PGD
from holdfast.classifiers.defences.robustembed import RobustEmbedDefence
from holdfast.classifiers.defences.smart import SMART
from holdfast.errors import UserError, one_of
from holdfast.training.method_options import given_options, option_defaults

DEFENCES: dict[str, type[Defence]] = {
    "none": NoDefence,
    "adv": ADV,
    "pgd": PGD,
    "freelb": FreeLB,
    "smart": SMART,
    "robustembed": RobustEmbedDefence,
}
"""The defences by their command-line names."""

__all__ = ["DEFENCES", "Defence", "Moment", "TaskBatch", "Training", "all_options", "make_defence"]


def make_defence(name: str, options: Mapping[str, Any]) -> Defence:
    """Build a defence with some of its options; text values are parsed as YAML.

    Raises:
        UserError: there is no such defence or option (the nearest name is suggested), or a value is not valid.
    """
    kind = DEFENCES[one_of("--defence", name, tuple(DEFENCES))]
    given = given_options(name, kind, options)
    try:
        return kind(**given)
    except ValueError as error:
        raise UserError(f"{name}: {error}") from error


def all_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of a defence for the record: the given ones, with their types, and the other defaults."""
    kind = DEFENCES[name]
    return {**option_defaults(kind), **given_options(name, kind, options)}
