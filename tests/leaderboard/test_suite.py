"""The suite: its hash, and that each column is measured by its part."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest
import yaml

from holdfast.audit.audited_texts import POOL, choose_texts
from holdfast.leaderboard.column_scores import item_names
from holdfast.leaderboard.suite import Suite, own_texts, the_suite


def _values() -> dict[str, Any]:
    text = resources.files("holdfast.leaderboard").joinpath("suite.yaml").read_text(encoding="utf-8")
    values: dict[str, Any] = yaml.safe_load(text)
    return values


def test_every_change_changes_the_hash() -> None:
    before = the_suite().sha256
    assert Suite.of(_values()).sha256 == before, "the order of keys and comments have no part in it"
    for change in (
        lambda values: values["parts"]["audit"].update(texts_per_item=201),
        lambda values: values["data"]["similarity"].update({"sts12/test": "0" * 64}),
        lambda values: values["columns"]["hold"].update(scale=99),
        lambda values: values.update(seed=43),
    ):
        values = _values()
        change(values)
        assert Suite.of(values).sha256 != before


def test_every_row_of_a_column_is_measured_by_its_part() -> None:
    suite = the_suite()
    for column in suite.columns.values():
        part = suite.parts[column.part]
        measured = item_names(suite, column.part) if part["kind"] == "audit" else list(suite.data[column.part])
        assert set(column.rows) <= set(measured), column.name
        assert column.form is None or column.form in part["forms"].split(",")
        assert column.group in ("quality", "robustness", "deployed")
    assert {name for about in suite.overall.values() for name in about["columns"]} == {
        name for name, column in suite.columns.items() if column.group != "deployed"
    }


def test_the_number_of_kinds_in_a_description_is_that_of_its_rows() -> None:
    words = {"seven": 7, "nine": 9, "twelve": 12}
    suite = the_suite()
    for name, count in {"sts": 7, "transfer": 7, "hold": 12, "evasion": 7}.items():
        column = suite.columns[name]
        assert len(column.rows) == count
        assert [words[word] for word in column.about.split() if word in words] == [count]
    moves = set(item_names(suite, "audit")) & set(
        "negation roles tense modality antonym number quantifier name noun".split()
    )
    assert len(moves) == 9


def test_the_texts_of_the_part_without_data_are_those_of_the_suite(tmp_path: Any) -> None:
    texts = own_texts()
    assert len(texts) == len(set(texts)) > 500
    file = tmp_path / "texts.txt"
    file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    suite = the_suite()
    chosen = choose_texts(str(file), data=None, count=POOL, max_words=None, seed=suite.seed)
    assert chosen.sha256 == suite.data["own"]["texts"]
    assert chosen.sha256 == hashlib.sha256("\n".join(chosen.texts).encode()).hexdigest()


def test_a_part_is_marked_with_suite_and_hash() -> None:
    suite = replace(the_suite(), version=7)
    assert suite.protocol("own") == {"suite": 7, "suite_sha256": suite.sha256, "part": "own"}


@pytest.mark.parametrize("part", ["similarity", "retrieval", "transfer"])
def test_every_row_of_data_has_a_hash(part: str) -> None:
    assert all(len(digest) == 64 for digest in the_suite().data[part].values())
