"""Tables in YAML: those that come with holdfast, and what is wrong in one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.errors import UserError
from holdfast.experiments.definition import SCALES, known_tables, merged, read_definition

TABLE = """\
title: A table
source: nobody
shared:
  attack: {examples: 5}
rows:
  data:
    A: {classifier: {task: sst2}}
    B: {classifier: {task: mr}, attack: {examples: 7}}
  training:
    NP: {encoder: {method: none}}
    SimCSE: {encoder: {method: simcse}}
skip:
  - {data: A, training: SimCSE}
columns:
  Acc.: {measure: accuracy}
  PWWS: {attack: {recipe: pwws, examples: 9}, measure: success_rate}
  Typos: {attack: {recipe: typos}, measure: success_rate}
averages:
  Avg.: [PWWS, Typos]
published:
  A NP: [90, 80, null, 70]
scales:
  smoke:
    only: {data: [A]}
    drop: [Typos]
    shared: {attack: {examples: 2}}
    rows: {data: {A: {classifier: {epochs: 1}}}}
"""


def table(tmp_path: Path, text: str = TABLE, scale: str = "small") -> Any:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return read_definition(str(path), scale)


def test_rows_are_the_product_of_the_axes_without_what_is_skipped(tmp_path: Path) -> None:
    definition = table(tmp_path)
    assert [row.name for row in definition.rows] == ["A NP", "B NP", "B SimCSE"]
    assert definition.rows[0].labels == {"data": "A", "training": "NP"}
    assert list(definition.columns) == ["Acc.", "PWWS", "Typos"]


def test_later_words_overrule_earlier_ones(tmp_path: Path) -> None:
    definition = table(tmp_path)
    a, b, _ = definition.rows
    assert definition.cell(a, "Typos")["attack"] == {"examples": 5, "recipe": "typos"}  # shared
    assert definition.cell(b, "Typos")["attack"] == {"examples": 7, "recipe": "typos"}  # the row's
    assert definition.cell(b, "PWWS")["attack"] == {"examples": 9, "recipe": "pwws"}  # the column's
    assert definition.cell(b, "PWWS")["encoder"] == {"method": "none"}


def test_published_values_stand_beside_columns_and_averages(tmp_path: Path) -> None:
    definition = table(tmp_path)
    values = [definition.published_value(definition.rows[0], c) for c in ("Acc.", "PWWS", "Typos", "Avg.")]
    assert values == [90.0, 80.0, None, 70.0]
    assert definition.published_value(definition.rows[1], "Acc.") is None


def test_a_scale_changes_a_table(tmp_path: Path) -> None:
    definition = table(tmp_path, scale="smoke")
    assert [row.name for row in definition.rows] == ["A NP"]
    assert list(definition.columns) == ["Acc.", "PWWS"]
    assert definition.cell(definition.rows[0], "Acc.")["attack"] == {"examples": 2}
    assert definition.cell(definition.rows[0], "Acc.")["classifier"] == {"task": "sst2", "epochs": 1}
    assert definition.published_value(definition.rows[0], "PWWS") == 80.0
    # An average over fewer columns than the published one is not set beside it.
    assert definition.averages == {"Avg.": ["PWWS"]}
    assert definition.published_value(definition.rows[0], "Avg.") is None


def test_merged_leaves_its_parts_as_they_are() -> None:
    first, second = {"a": {"b": 1, "c": 2}}, {"a": {"b": 3}, "d": 4}
    assert merged(first, second) == {"a": {"b": 3, "c": 2}, "d": 4}
    assert first == {"a": {"b": 1, "c": 2}}
    assert merged({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (("title: A table", "titel: A table"), 1, r"unknown key 'titel' \(did you mean 'title'"),
        (("  PWWS: {attack:", "  PWWS: {atack:"), 16, r"unknown key 'atack' \(did you mean 'attack'"),
        (("  Acc.: {measure: accuracy}", "  Acc.: {}"), 15, "the column 'Acc.' has no 'measure'"),
        (("  A NP:", "  A NQ:"), 21, r"there is no row 'A NQ' \(did you mean 'A NP'\?\)"),
        (("[90, 80, null, 70]", "[90, 80]"), 21, "4 values are needed"),
        (("  smoke:", "  smokey:"), 23, r"unknown scale 'smokey' \(did you mean 'smoke'"),
        (("    NP: {enc", "    no: {enc"), 9, "the key False is not text: write it in quotes"),
        (("shared:\n  attack: {examples: 5}", "shared: 3"), 3, "a mapping of 'key: value' is needed here"),
    ],
)
def test_what_is_wrong_is_told_by_line(tmp_path: Path, change: tuple[str, str], line: int, message: str) -> None:
    assert change[0] in TABLE
    with pytest.raises(UserError, match=f":{line}: {message}"):
        table(tmp_path, TABLE.replace(*change))


def test_more_that_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mine.yaml:2: not valid YAML"):
        table(tmp_path, "title: a\n  source: b\n")
    with pytest.raises(UserError, match="a table needs 'source'"):
        table(tmp_path, "title: a\n")
    with pytest.raises(UserError, match="no rows or no columns are left"):
        table(tmp_path, TABLE.replace("drop: [Typos]", "drop: [Acc., PWWS, Typos]"), scale="smoke")
    with pytest.raises(UserError, match="there is no 'C' on the axis 'data'"):
        table(tmp_path, TABLE.replace("only: {data: [A]}", "only: {data: [C]}"), scale="smoke")
    with pytest.raises(UserError, match=r"cannot read the table .*: No such file"):
        read_definition(str(tmp_path / "none.yaml"), "small")
    with pytest.raises(UserError, match=r"unknown table 'adcl/tabel1' \(did you mean 'adcl/table1'"):
        read_definition("adcl/tabel1", "small")


@pytest.mark.parametrize("scale", SCALES)
def test_every_table_that_comes_with_holdfast_is_one(scale: str) -> None:
    names = known_tables()
    assert {"adcl/table1", "adcl/table3", "robustembed/table3", "robustembed/table4", "robustembed/table7"} <= {*names}
    for name in names:
        definition = read_definition(name, scale)
        assert definition.name == name
        for row in definition.rows:
            for column in definition.columns:
                assert definition.cell(row, column)["measure"]


# Averages that the papers print and their own columns do not have.
MISPRINTS = {("robustembed/table3", "TextFooler SimCSE")}  # 73.32


def test_published_averages_are_the_means_of_their_columns() -> None:
    """A misprint or a slip of the hand would show here; the papers round to two digits."""
    checked = 0
    for name in known_tables():
        definition = read_definition(name, "paper")
        for row in definition.rows:
            for average, columns in definition.averages.items():
                values = [definition.published_value(row, column) for column in columns]
                published = definition.published_value(row, average)
                if published is not None and None not in values and (name, row.name) not in MISPRINTS:
                    assert sum(values) / len(values) == pytest.approx(published, abs=0.02), (name, row.name)
                    checked += 1
    assert checked >= 25


def test_the_scales_are_those_of_the_files() -> None:
    import holdfast.experiments

    text = (Path(holdfast.experiments.__file__).parent / "scales.yaml").read_text()
    assert tuple(yaml.safe_load(text)) == SCALES
