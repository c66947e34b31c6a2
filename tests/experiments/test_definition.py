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
        (("  smoke:", "  smokey:"), 23, r"there is no scale 'smokey' \(did you mean 'smoke'"),
        (("    NP: {enc", "    no: {enc"), 10, "the key no is not text: write it in quotes"),
        (("shared:\n  attack: {examples: 5}", "shared: 3"), 3, "'shared' takes a mapping of 'key: value', not 3"),
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
    with pytest.raises(UserError, match="there is no label 'C' on the axis 'data'"):
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
    for row in definition.published.values():
        values = row[:12]  # the others are not in the paper
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
    "holdfast/similarity": "table",
    "holdfast/newer-methods": "table",
}


def test_every_table_and_figure_of_the_papers_is_there() -> None:
    kinds = {name: read_definition(name, "paper").figure for name in known_tables()}
    assert {name: "table" if figure is None else "figure" for name, figure in kinds.items()} == EVERYTHING


SHARING = {  # and the rows whose encoders are not in holdfast/similarity
    "holdfast/newer-methods": {"RankCSE", "SimCSE++", "DiffCSE"},
    "v-advcse/table2": {"V-advCSE-BERT"},
    "robustembed/table2": {"BERT-base ConSERT", "BERT-base USCAL"},
    "adcse/figure3": set(),
    "robustembed/figure3": {"ConSERT", "USCAL"},
}


def trained_encoders(name: str) -> dict[str, Any]:
    """The rows of a table at the scale small that train an encoder, and how."""
    definition = read_definition(name, "small")
    column = next(iter(definition.columns))
    cells = {row.name: merged(definition.settings, definition.cell(row, column))["encoder"] for row in definition.rows}
    return {row: encoder for row, encoder in cells.items() if "method" in encoder}


@pytest.mark.parametrize("name", SHARING)
def test_tables_at_the_scale_small_share_the_encoders_of_the_similarity(name: str) -> None:
    shared = list(trained_encoders("holdfast/similarity").values())
    rows = trained_encoders(name)
    assert {row for row, encoder in rows.items() if encoder not in shared} == SHARING[name]
    assert {encoder["sentences"] for encoder in rows.values()} == {64000}


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
        (("PWWS: {attack: {examples: 1}}", "PVWS: {attack: {examples: 1}}"), "there is no column 'PVWS'"),
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


OWN = """\
title: My table
source: me
rows:
  m: {a: {ROW}}
columns:
  c: {evaluation: {tasks: sts}, measure: sts}
  cc: {COLUMN}
scales:
  smoke: {SMOKE}
"""


def own(tmp_path: Path, *more: str, row: str = "", column: str = "measure: sts", smoke: str = "") -> Any:
    """A small table, read: what stands in its row and its second column, under the scale, and from line 10 on."""
    text = OWN.replace("ROW", row).replace("COLUMN", column).replace("SMOKE", smoke)
    return table(tmp_path, "\n".join([text.rstrip(), *more]) + "\n")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("encoder: simcse", "'encoder' takes a mapping of 'key: value', not 'simcse'"),
        ("encoder: null", "'encoder' takes a mapping of 'key: value', not null"),
        ("encoder: {from: consert}", "'from' takes a mapping"),
        ("encoder: {from: {from: consert}}", "'from' takes a mapping"),
        ("classifier: sst2", "'classifier' takes a mapping"),
        ("classifier: {task: sst2, adversarial_texts: geometry}", "'adversarial_texts' takes a mapping"),
        ("attack: pwws", "'attack' takes a mapping"),
        ("evaluation: sts", "'evaluation' takes a mapping"),
        ("evaluation: {tasks: [sts12, sts13]}", "'tasks' takes names joined by commas, not"),
        ("transfer_to: x", "'transfer_to' takes a mapping"),
        ("transfer_to: {classifier: null}", "'classifier' takes a mapping"),
        ("transfer_to: {encodr: {}}", r"unknown key 'encodr' \(did you mean 'encoder'"),
        ("distances_in: x", "'distances_in' takes a mapping"),
        ("distances_in: {encoder: simcse}", "'encoder' takes a mapping"),
        ("distances_in: {pairs: many}", "'pairs' takes a whole number of at least 2, not 'many'"),
        ("distances_in: {pairs: 1}", "'pairs' takes a whole number of at least 2, not 1"),
        ("distances_in: {pair: 3}", r"unknown key 'pair' \(did you mean 'pairs'"),
        ("inspection: similarity", "'inspection' takes a mapping"),
        ("inspection: {options: 3}", "'options' takes a mapping"),
        ("inspection: {options: null}", "'options' takes a mapping"),
        ("inspection: {texts: a b}", "'texts' takes a list of texts, or of pairs of texts, not 'a b'"),
        ("inspection: {texts: []}", "'texts' takes a list"),
        ("inspection: {texts: [[a, b, c]]}", "'texts' takes texts or pairs of texts, and .* is neither"),
        ("inspection: {texts: [[a, 3]]}", "'texts' takes texts or pairs of texts"),
        ("inspection: {texts: [[2020-01-01, b]]}", "2020-01-01 is read as a date: write it in quotes"),
        ("measure: 3", "'measure' takes text, not 3: write it in quotes"),
        ("measure: null", "'measure' takes text, not null"),
        ("measure: ''", "'measure' takes text, not ''"),
        ("not_run: false", "'not_run' takes text, not False"),
        ("digits: 10", "'digits' takes a whole number from 0 to 9, not 10"),
        ("encoder: {options: {gamma: .inf}}", r"\.inf is not a finite number"),
        ("encoder: {3: x}", "the key 3 is not text: write it in quotes"),
        ("encoder: {method: a, method: b}", "the key 'method' stands here twice"),
        ("encoder: {options: !!set {a, b}}", "a table holds texts, .* nothing of the kind 'set'"),
    ],
)
def test_what_cells_say_is_checked_wherever_it_stands(tmp_path: Path, key: str, message: str) -> None:
    places: dict[int, dict[str, Any]] = {4: {"row": key}, 7: {"column": key}}
    for line, given in places.items():
        with pytest.raises(UserError, match=f":{line}: {message}"):
            own(tmp_path, **given)
    for smoke in (f"shared: {{{key}}}", f"rows: {{m: {{a: {{{key}}}}}}}", f"columns: {{c: {{{key}}}}}"):
        with pytest.raises(UserError, match=f":9: {message}"):
            own(tmp_path, smoke=smoke)
    for line in (f"shared: {{{key}}}", f"cells: {{a: {{c: {{{key}}}}}}}"):
        with pytest.raises(UserError, match=f":10: {message}"):
            own(tmp_path, line)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("averages: 3", "'averages' takes a mapping"),
        ("averages: {A: 3}", "'A' takes a list of columns, not 3"),
        ("averages: {A: c}", "'A' takes a list of columns, not 'c'"),
        ("averages: {A: null}", "'A' takes a list of columns, not null"),
        ("averages: {A: []}", "'A' takes a list of columns"),
        ("averages: {A: [c, ccd]}", r"there is no column 'ccd' \(did you mean 'cc'"),
        ("averages: {A: [c, c]}", "the column 'c' stands twice in 'A'"),
        ("averages: {c: [cc]}", "'c' is the name of a column already"),
        ("skip: [a]", "each of 'skip' takes a mapping of 'key: value', not 'a'"),
        ("skip: {m: a}", "'skip' takes a list of combinations"),
        ("skip: [{}]", "a combination without an axis would skip every row"),
        ("skip: [{n: a}]", "there is no axis 'n'"),
        ("skip: [{m: ab}]", "there is no label 'ab' on the axis 'm'"),
        ("skip: [{m: [ab]}]", "there is no label 'ab' on the axis 'm'"),
        ("skip: [{m: null}]", "'m' takes a list of labels, not null"),
        ("published: {a: 3}", "'a' takes a list of numbers, not 3"),
        ("published: {a: [1, x]}", "each of 'a' takes a number, not 'x'"),
        ("published: {a: [1, true]}", "each of 'a' takes a number, not True"),
        ("published: {a: [.nan, 1]}", r"\.nan is not a finite number"),
        ("published: {a: ['nan', 1]}", "each of 'a' takes a number, not 'nan'"),
        ("published: {a: ['inf', 1]}", "each of 'a' must be from -1000000000"),
        (f"published: {{a: [1{'0' * 400}, 1]}}", "a whole number of a table is at most 9007199254740992"),
        ("published: {b: [1, 1]}", "there is no row 'b'"),
        ("cells: {a: 3}", "'a' takes a mapping"),
        ("note: 3", "'note' takes text, not 3: write it in quotes"),
        ("note: 2020-01-01", "2020-01-01 is read as a date: write it in quotes"),
        ("digits: null", "'digits' takes a whole number from 0 to 9, not null"),
        ("figure: 3", "'figure' takes a mapping"),
        ("figure: {}", "a figure's kind is one of lines, scatter, pairs, not null"),
        ("figure: {kind: [lines]}", "a figure's kind is one of"),
        ("figure: {kind: lines}", "'panels' takes a list of panels, not null"),
        ("figure: {kind: lines, y: 3}", "'y' takes text, not 3: write it in quotes"),
        ("figure: {kind: lines, panels: 3}", "'panels' takes a list of panels, not 3"),
        ("figure: {kind: lines, panels: [3]}", "each of 'panels' takes a mapping"),
        ("figure: {kind: lines, panels: [{x: q}]}", "a panel needs 'points'"),
        ("figure: {kind: lines, panels: [{x: q, point: {c: 1}}]}", "unknown key 'point'"),
        ("figure: {kind: lines, panels: [{x: 1, points: {c: 1}}]}", "'x' takes text, not 1"),
        ("figure: {kind: lines, panels: [{x: q, points: [c]}]}", "'points' takes a mapping"),
        ("figure: {kind: lines, panels: [{x: q, points: {d: 1}}]}", "there is no column 'd'"),
        ("figure: {kind: lines, panels: [{x: q, points: {c: far}}]}", "'c' takes a number, not 'far'"),
        ("figure: {kind: scatter, y: c}", "'x' takes text, not null"),
        ("figure: {kind: scatter, x: c, y: c, join: n}", "there is no axis 'n'"),
        ("figure: {kind: scatter, x: c, y: c, axes: {z: far}}", "unknown key 'z'"),
        ("figure: {kind: scatter, x: c, y: c, axes: {y: 3}}", "'y' takes text, not 3"),
    ],
)
def test_what_the_table_says_is_checked(tmp_path: Path, said: str, message: str) -> None:
    with pytest.raises(UserError, match=f"mine.yaml:10: {message}"):
        own(tmp_path, said)


@pytest.mark.parametrize(
    ("smoke", "message"),
    [
        ("drop: 3", "'drop' takes a list of columns, not 3"),
        ("drop: cc", "'drop' takes a list of columns, not 'cc'"),
        ("drop: [c, ccd]", r"there is no column 'ccd' \(did you mean 'cc'"),
        ("drop: [3]", "there is no column 3"),
        ("only: [a]", "'only' takes a mapping of 'key: value', not"),
        ("only: {m: null}", "'m' takes a list of labels, not null"),
        ("only: {m: a}", "'m' takes a list of labels, not 'a'"),
        ("only: {n: [a]}", "there is no axis 'n'"),
        ("only: {m: [b]}", "there is no label 'b' on the axis 'm'"),
        ("rows: 3", "'rows' takes a mapping"),
        ("rows: {n: {a: {}}}", "there is no axis 'n'"),
        ("rows: {m: {b: {}}}", "there is no label 'b'"),
        ("columns: {d: {}}", "there is no column 'd'"),
    ],
)
def test_what_a_scale_says_is_checked_at_every_scale(tmp_path: Path, smoke: str, message: str) -> None:
    with pytest.raises(UserError, match=f"mine.yaml:9: {message}"):
        own(tmp_path, smoke=smoke)


def test_what_a_scale_drops_may_stand_in_averages_and_panels(tmp_path: Path) -> None:
    panels = "figure: {kind: lines, panels: [{points: {c: 1e-3, cc: 2, A: 3, B: 4}}]}"
    said = ("averages: {A: [c, cc], B: [cc]}", panels, "published: {a: [1, null, 3, 4]}")
    assert own(tmp_path, *said, smoke="drop: [cc]").averages == {"A": ["c", "cc"], "B": ["cc"]}
    smoke = read_definition(str(tmp_path / "mine.yaml"), "smoke")
    assert (list(smoke.columns), smoke.averages) == (["c"], {"A": ["c"]})
    assert smoke.published == {"a": [1.0, None]}
    assert smoke.figure == {"kind": "lines", "panels": [{"points": {"c": 0.001, "A": 3.0}}]}


def test_a_figure_keeps_the_columns_that_it_is_of(tmp_path: Path) -> None:
    assert own(tmp_path, "figure: {kind: scatter, x: c, y: cc}", smoke="drop: [cc]").figure["y"] == "cc"
    with pytest.raises(UserError, match=r"mine.yaml:10: the figure needs the column 'cc', which is dropped .* smoke"):
        read_definition(str(tmp_path / "mine.yaml"), "smoke")
    both = read_definition(str(tmp_path / "mine.yaml"), "small")
    assert both.with_columns(["c", "cc"]).figure == both.figure
    assert both.with_columns(["c"]).figure is None, "a scatter of one column"


def test_adversarial_texts_can_be_called_off(tmp_path: Path) -> None:
    row = "classifier: {task: mr, adversarial_texts: {recipe: geometry}}"
    definition = own(tmp_path, row=row, column="classifier: {adversarial_texts: null}, measure: accuracy")
    assert definition.cell(definition.rows[0], "cc")["classifier"] == {"task": "mr", "adversarial_texts": None}


@pytest.mark.parametrize(
    ("kind", "texts", "message"),
    [
        ("similarity", "[a b]", "takes pairs of texts"),
        ("masks", "[[a, b]]", "takes single texts"),
        ("hard-positives", "[a, [a, b]]", "takes single texts"),
    ],
)
def test_an_inspection_is_of_texts_that_its_kind_takes(tmp_path: Path, kind: str, texts: str, message: str) -> None:
    wrong = f"an inspection of the kind '{kind}' {message}"
    with pytest.raises(UserError, match=f":7: {wrong}"):
        own(tmp_path, row=f"inspection: {{kind: {kind}}}", column=f"inspection: {{texts: {texts}}}, measure: x")
    with pytest.raises(UserError, match=f":4: {wrong}"):
        own(tmp_path, row=f"inspection: {{texts: {texts}}}", column=f"inspection: {{kind: {kind}}}, measure: x")
    own(tmp_path, row=f"inspection: {{kind: {kind}}}", smoke=f"shared: {{inspection: {{texts: {texts}}}}}")
    with pytest.raises(UserError, match=f":9: {wrong}"):
        read_definition(str(tmp_path / "mine.yaml"), "smoke")
    own(tmp_path, row="inspection: {kind: similarity, texts: [[a, b]]}")


def test_two_rows_of_one_name_are_refused(tmp_path: Path) -> None:
    rows = "rows: {m: {a: {}, a b: {}}, n: {b c: {}, c: {}}}"
    text = f"title: t\nsource: me\n{rows}\ncolumns: {{c: {{measure: sts}}}}\n"
    with pytest.raises(UserError, match=r"mine.yaml:3: two rows have the name 'a b c'"):
        table(tmp_path, text)
    assert len(table(tmp_path, text + "skip: [{m: a, n: b c}]\n").rows) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("m: {a: {}}", "{}"), ":3: the table has no rows"),
        (("m: {a: {}}", "m: a"), ":4: 'm' takes a mapping"),
        (("m: {a: {}}", "m: {a: x}"), ":4: 'a' takes a mapping"),
        (("m: {a: {}}", "m: {a: {}, a: {}}"), ":4: the key 'a' stands here twice"),
        (("title: My table", "title: no"), ":1: 'title' takes text, not False: write it in quotes"),
        (("source: me", "source:"), ":2: 'source' takes text, not null"),
        (("smoke: {}", "smoke: 3"), ":9: 'smoke' takes a mapping"),
    ],
)
def test_the_parts_of_a_table(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    text = OWN.replace("ROW", "").replace("COLUMN", "measure: sts").replace("SMOKE", "")
    assert change[0] in text
    with pytest.raises(UserError, match=message):
        table(tmp_path, text.replace(*change))


def test_what_is_no_mapping_at_all_is_no_table(tmp_path: Path) -> None:
    for text in ("", "- a\n", "3\n"):
        with pytest.raises(UserError, match=r"mine.yaml:1: a table is a mapping of 'key: value', not"):
            table(tmp_path, text)


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        (("averages:", "  A:", "    - c", "    - d"), 13, "there is no column 'd'"),
        (("skip:", "  - {m: a}", "  - m:", "    - a", "    - b"), 14, "there is no label 'b' on the axis 'm'"),
        (("figure:", "  kind: lines", "  panels:", "    - x: q", "      points: {c: far}"), 14, "'c' takes a number"),
    ],
)
def test_the_line_is_that_within_a_list(tmp_path: Path, lines: tuple[str, ...], line: int, message: str) -> None:
    with pytest.raises(UserError, match=f"mine.yaml:{line}: {message}"):
        own(tmp_path, *lines)
