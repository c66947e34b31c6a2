"""Samples of adversarial texts made against one model and tried on another: success of the deception, per text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import UserError
from holdfast.evaluation.pairing.compare_inputs import ComparedResult, RowKey, common, common_values, name_of, recipe_of
from holdfast.evaluation.samples import Means, Sample, Shares


def transferred_samples(sources: Sequence[ComparedResult]) -> tuple[dict[RowKey, Sample], list[str]]:
    """Return samples of the texts that were tried on the models of all results: True where a text deceived the model.

    A text of an attack is tried on a model only if the model classifies its original correctly. Texts that several
    recipes made from one original are not separate items: the original has the share of them that deceived.
    """
    rows = [_rows_of(source) for source in sources]
    shared, notes = common([list(own) for own in rows], sources)
    samples: dict[RowKey, Sample] = {}
    for key in shared:
        same = [own[key] for own in rows]
        _check_texts(key, same, sources)
        correct = common_values([dict(zip(row["items"]["text"], row["items"]["correct"], strict=True)) for row in same])
        if not correct[0]:
            notes.append(f"no text that was tried on all models: {name_of(key)}")
        elif {value for row in correct for value in row} <= {0, 1}:
            samples[key] = Shares([[not right for right in row] for row in correct])
        else:
            samples[key] = Means([[100.0 * (1.0 - share) for share in row] for row in correct])
    if not samples:
        raise UserError("no text was tried on all models: no original is classified correctly by all of them")
    return samples, notes


def _rows_of(source: ComparedResult) -> dict[RowKey, Mapping[str, Any]]:
    """Return a result's rows about one model, by the attack and the model that the texts were made against."""
    rows = source.result["results"]
    if len({row.get("on") for row in rows}) > 1:
        raise UserError(
            f"{source.path}: texts were tried on several models; to compare models, make a result of each: "
            "holdfast transfer RESULT.json --models MODEL --output FILE.json"
        )
    found: dict[RowKey, Mapping[str, Any]] = {}
    for row in rows:
        if "items" not in row:
            raise UserError(
                f"{source.path} does not record which texts deceived: it is of an earlier version, make it again"
            )
        if ", " in str(row.get("recipe")) and "texts" not in row:
            raise UserError(
                f"{source.path} counts texts of one original by several recipes as separate items: it is of an earlier "
                "version, make it again"
            )
        key = RowKey(row["task"], row["split"], recipe_of(row), "success_rate")
        if key in found:
            raise UserError(f"{source.path} holds {name_of(key)} twice: make it from one of these attacks")
        found[key] = row
    return found


def _check_texts(key: RowKey, rows: Sequence[Mapping[str, Any]], sources: Sequence[ComparedResult]) -> None:
    """Refuse rows with texts of different attacks."""
    for row, source in zip(rows[1:], sources[1:], strict=True):
        if row.get("items_sha256") != rows[0].get("items_sha256"):
            raise UserError(
                f"{source.path}: the texts of {name_of(key)} come from another attack than in {sources[0].path} "
                "(items_sha256): try the texts of the same result on both models"
            )
