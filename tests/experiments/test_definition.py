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


# Averages that the papers print and their own columns do not have.
MISPRINTS = {
    ("robustembed/table3", "TextFooler SimCSE", "Avg."),  # 73.32
    ("l2p-csr/table1", "BERT-large +Flow", "Avg."),  # 69.74
    ("v-advcse/table3", "SimCSE-BERT", "Test All"),  # 46.93
}


def test_published_averages_are_the_means_of_their_columns() -> None:
    """A misprint or a slip of the hand would show here; the papers round to the digits that they print."""
    checked, found = 0, set()
    for name in known_tables():
        definition = read_definition(name, "paper")
        for row in definition.rows:
            for average, columns in definition.averages.items():
                values = [definition.published_value(row, column) for column in columns]
                published = definition.published_value(row, average)
                if published is None or None in values:
                    continue
                digits = max(len(f"{value:g}".partition(".")[2]) for value in values)
                if sum(values) / len(values) != pytest.approx(published, abs=2 * 10.0**-digits if digits > 1 else 0.06):
                    found.add((name, row.name, average))
                checked += 1
    assert found == MISPRINTS
    assert checked >= 140


def test_published_differences_are_those_of_their_columns() -> None:
    """ADCL's Table 4: δ is d_neg less d_pos, of numbers with one digit."""
    definition = read_definition("adcl/table4", "paper")
    for values in definition.published.values():
        for d_pos, d_neg, delta in zip(values[::3], values[1::3], values[2::3], strict=True):
            assert d_neg - d_pos == pytest.approx(delta, abs=0.11)


EVERYTHING = {
    **{f"v-advcse/table{n}": "table" for n in range(1, 7)},
    **{f"robustembed/table{n}": "table" for n in range(1, 9)},
    **{f"robustembed/figure{n}": "figure" for n in range(2, 6)},
    **{f"adcl/table{n}": "table" for n in (1, 2, 3, 4, 6, 7, 8, 9)},
    **{f"adcl/figure{n}": "figure" for n in range(3, 7)},
    **{f"adcse/table{n}": "table" for n in range(1, 4)},
    **{f"adcse/figure{n}": "figure" for n in (3, 4)},
    **{f"l2p-csr/table{n}": "table" for n in range(1, 5)},
    **{f"l2p-csr/figure{n}": "figure" for n in (2, 3)},
    "holdfast/pretraining": "table",
    "holdfast/defences": "table",
    "holdfast/frontier": "figure",
}


def test_every_table_and_figure_of_the_papers_is_there() -> None:
    kinds = {name: read_definition(name, "paper").figure for name in known_tables()}
    assert {name: "table" if figure is None else "figure" for name, figure in kinds.items()} == EVERYTHING


CELLS = TABLE.replace(
    "averages:",
    """\
cells:
  A NP: {"*": {attack: {seed: 3}}, PWWS: {attack: {examples: 1}}}
digits: 2
note: A note.
figure: {kind: scatter, x: Acc., y: PWWS}
averages:""",
).replace("Acc.: {measure: accuracy}", "Acc.: {measure: accuracy, digits: 0}")


def test_single_cells_have_the_last_word(tmp_path: Path) -> None:
    definition = table(tmp_path, CELLS)
    a, b, _ = definition.rows
    assert definition.cell(a, "PWWS")["attack"] == {"examples": 1, "recipe": "pwws", "seed": 3}
    assert definition.cell(a, "Typos")["attack"] == {"examples": 5, "recipe": "typos", "seed": 3}
    assert definition.cell(b, "PWWS")["attack"] == {"examples": 9, "recipe": "pwws"}
    assert (definition.digits, definition.note) == (2, "A note.")
    assert definition.cell(a, "Acc.")["digits"] == 0


def test_a_measure_may_stand_in_a_row(tmp_path: Path) -> None:
    text = TABLE.replace("{method: none}}", "{method: none}, measure: accuracy}").replace(
        "Acc.: {measure: accuracy}", "Acc.: {}"
    )
    text = text.replace("    SimCSE: {encoder: {method: simcse}}\n", "    SimCSE: {not_run: no time}\n")
    definition = table(tmp_path, text)
    assert definition.cell(definition.rows[0], "Acc.")["measure"] == "accuracy"


def test_what_is_left_out_at_a_scale_is_told(tmp_path: Path) -> None:
    assert table(tmp_path).left_out == ()
    assert table(tmp_path, scale="smoke").left_out == ("data B", "columns Typos")


def test_skip_takes_lists(tmp_path: Path) -> None:
    definition = table(
        tmp_path, TABLE.replace("training: SimCSE}", "training: [SimCSE, NP]}").replace("A NP:", "B NP:")
    )
    assert [row.name for row in definition.rows] == ["B NP", "B SimCSE"]


LINES = CELLS.replace(
    "{kind: scatter, x: Acc., y: PWWS}", "{kind: lines, y: '%', panels: [{x: n, points: {PWWS: 1, Typos: 2}}]}"
)


def test_a_figure_keeps_the_points_that_are_left(tmp_path: Path) -> None:
    figure = table(tmp_path, LINES).figure
    assert figure == {"kind": "lines", "y": "%", "panels": [{"x": "n", "points": {"PWWS": 1.0, "Typos": 2.0}}]}
    assert table(tmp_path, LINES, scale="smoke").figure["panels"][0]["points"] == {"PWWS": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("kind: scatter", "kind: pie"), "a figure's kind is one of lines, scatter, pairs, not 'pie'"),
        (("x: Acc.", "x: Ac."), r"there is no column 'Ac\.' \(did you mean 'Acc\.'"),
        (("y: PWWS}", "z: PWWS}"), "unknown key 'z'"),
        (("digits: 2", "digits: many"), "'digits' takes a whole number from 0 to 9, not 'many'"),
        (('A NP: {"*"', 'A NQ: {"*"'), r"there is no row 'A NQ' \(did you mean 'A NP'"),
        (("PWWS: {attack: {examples: 1}}", "PVWS: {attack: {examples: 1}}"), "unknown key 'PVWS'"),
    ],
)
def test_what_is_wrong_in_figures_and_cells(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in CELLS
    with pytest.raises(UserError, match=message):
        table(tmp_path, CELLS.replace(*change))


def test_the_scales_are_those_of_the_files() -> None:
    import holdfast.experiments

    text = (Path(holdfast.experiments.__file__).parent / "scales.yaml").read_text()
    assert tuple(yaml.safe_load(text)) == SCALES
