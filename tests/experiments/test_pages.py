"""What a page says besides its values: trainings, detectable effects, names in the log, the corpus that was chosen."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from small_table import TABLE

from holdfast.experiments.cells import Cell
from holdfast.experiments.definition import Row
from holdfast.experiments.render import detectable, laid_out, markdown, trainings_laid_out
from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import reproduce
from holdfast.experiments.row_names import named_by_rows
from holdfast.experiments.table_rows import Entry

Settings = Callable[..., ReproduceSettings]


def told(settings: ReproduceSettings) -> tuple[dict[str, Any], str]:
    """A result, and what was printed while it was made."""
    out = io.StringIO()
    result = reproduce(settings, console=Console(file=out, width=500))
    return result, out.getvalue()


def test_a_page_has_the_steps_batch_learning_rate_and_kept_step_of_each_row(settings: Settings) -> None:
    result, _ = told(settings())
    header, lines = trainings_laid_out(result)
    assert header == ["encoder", "training", "steps", "batch", "learning rate", "kept step"]
    assert lines == [["SimCSE", "simcse", "2", "4", "3e-05", "2"]], "the other row's encoder was not trained"
    assert "| SimCSE | simcse | 2 | 4 | 3e-05 | 2 |" in markdown(result)


def test_seeds_that_kept_other_steps_are_all_told() -> None:
    row = {
        "labels": {"x": "A"},
        "trainings": [[{"method": "simcse", "steps": 100, "batch": 64, "kept": k}] for k in (50, 75)],
    }
    plain = {"labels": {"x": "B"}}
    assert trainings_laid_out({"results": [row, plain]})[1] == [["A", "simcse", "100", "64", "50, 75"]]


def test_the_dev_scores_before_and_after_a_training_are_told_where_they_are_known() -> None:
    known = {"method": "adcl", "steps": 100, "batch": 64, "kept": 50, "start": 73.5}
    rows = [
        {"labels": {"x": "A"}, "trainings": [[{**known, "score": 48.8}], [{**known, "score": 1069.0}]]},
        {"labels": {"x": "B"}, "trainings": [[{"method": "ct", "steps": 9, "batch": 8, "kept": 9}]]},
    ]
    header, lines = trainings_laid_out({"results": rows})
    assert header[-3:] == ["kept step", "dev before", "dev"]
    assert lines[0][-3:] == ["50", "73.50", "48.80, 1069.00"]
    assert lines[1][-3:] == ["9", "not recorded", "not recorded"]


def test_the_command_of_a_page_makes_its_table(settings: Settings) -> None:
    result, _ = told(settings())
    shown = markdown({**result, "command": "holdfast reproduce a/b --so-far --output DIR"})
    assert "`holdfast reproduce a/b --output DIR`" in shown


def test_the_learning_rate_of_a_training_is_told_where_it_is_known() -> None:
    known = {"method": "simcse", "steps": 9, "batch": 8, "kept": 9}
    rows = [
        {"labels": {"x": "A"}, "trainings": [[{**known, "rate": 1e-4}], [{**known, "rate": 1e-4}]]},
        {"labels": {"x": "B"}, "trainings": [[{**known, "rate": 3e-5}]]},
        {"labels": {"x": "C"}, "trainings": [[known]]},
    ]
    header, lines = trainings_laid_out({"results": rows})
    assert header == ["x", "training", "steps", "batch", "learning rate", "kept step"]
    assert [line[4] for line in lines] == ["0.0001", "3e-05", "–"]


def test_the_strength_of_a_trainings_attack_is_told_where_it_is_known() -> None:
    known = {"method": "robustembed", "steps": 9, "batch": 8, "kept": 9}
    rows = [
        {"labels": {"x": "A"}, "trainings": [[{**known, "attack": 5.0}], [{**known, "attack": 76.125}]]},
        {"labels": {"x": "B"}, "trainings": [[{**known, "method": "simcse"}], [{**known, "method": "simcse"}]]},
    ]
    header, lines = trainings_laid_out({"results": rows})
    assert header[-2:] == ["kept step", "attack, % of its loss"]
    assert [line[-1] for line in lines] == ["5.00, 76.12", "–"]


def test_the_log_names_the_row_of_each_cell(settings: Settings) -> None:
    _, printed = told(settings())
    assert "encoder: SimCSE: simcse, seed 1" in printed
    assert "attack: NP: typos against" in printed


def test_a_cell_of_many_rows_has_the_first_name_and_their_number() -> None:
    start = Cell("model", {}, label="lm")
    shared = Cell("encoder", {"m": 1}, {"start": start}, label="simcse")
    rows = [Row({"x": name}, {}) for name in "ABC"]
    entries = [Entry(row, "c", "sts", 1, [Cell("attack", {"of": n}, {"victim": shared}, label="typos"), "no data"])
               for n, row in enumerate(rows)]  # fmt: skip
    named = named_by_rows(entries)
    cells = [entry.cells[0] for entry in named]
    assert all(isinstance(cell, Cell) for cell in cells)
    assert [cell.label for cell in cells] == ["A: typos", "B: typos", "C: typos"]  # type: ignore[union-attr]
    assert cells[0].inputs["victim"].label == "A and 2 more rows: simcse"  # type: ignore[union-attr]
    assert [cell.key for cell in cells] == [entry.cells[0].key for entry in entries]  # type: ignore[union-attr]
    assert named[0].cells[1] == "no data"


def test_the_data_folders_wikipedia_is_the_corpus_where_none_is_given(settings: Settings, sentences: list[str]) -> None:
    given = settings(corpus=None, scale="smoke")
    result, printed = told(given)
    assert "no corpus to train on: give --corpus" in str(result["results"])
    folder = Path(str(given.data)) / "unlabelled"
    folder.mkdir()
    (folder / "wiki_train_0.tsv").write_text("\n".join(["sentence", *sentences]) + "\n")
    result, printed = told(given)
    assert "encoders train on wiki, the data folder's Wikipedia: --corpus names another" in printed
    assert result["protocol"]["corpus"] == "wiki"
    assert "no corpus" not in str(result["results"])
    assert "Wikipedia" not in told(settings(scale="smoke"))[1], "a corpus was given"
    assert "Wikipedia" not in told(settings(corpus=None, scale="smoke", only=["NP"]))[1], "nothing is trained"


def compared(**protocol: Any) -> dict[str, Any]:
    """A result with differences from A in two columns."""
    rows = [
        {"task": name, "split": column, "labels": {"x": name}, "digits": 1, "seeds": [1, 1],
         "metrics": {"detectable": effect}}
        for name, column, effect in (("B", "STS", 0.82), ("C", "STS", 1.24), ("B", "PWWS", 7.0), ("C", "PWWS", 0.0))
    ]  # fmt: skip
    own = {"scale": "small", "seeds": 1, "columns": ["PWWS", "STS"], "against": "A", **protocol}
    return {"protocol": own, "differences": {"results": rows}}


def test_the_smallest_effects_stand_above_a_table() -> None:
    (line,) = detectable(compared())
    assert line.startswith("Minimum detectable effect, in points from A: PWWS 7.0, STS 0.8 to 1.2. ")
    assert "probability of 80 %" in line
    assert "The variance between trainings is unknown where a row has one seed" in line
    several = compared(seeds=3)
    for row in several["differences"]["results"]:
        row["seeds"] = [3, 3]
    assert "unknown" not in detectable(several)[0]
    assert detectable(compared(scale="smoke")) == []
    none = compared() | {"differences": {"results": []}}
    assert detectable(none)[0].startswith("Minimum detectable effect: unknown, as nothing is compared")
    equal = compared()
    for row in equal["differences"]["results"]:
        row["metrics"]["detectable"] = 0.0
    assert detectable(equal) == [
        "Minimum detectable effect: unknown, as no item differs between the rows that are compared."
    ]


def test_numbers_of_the_smoke_scale_have_no_differences_from_published_ones(settings: Settings) -> None:
    result, _ = told(settings())
    assert any("(90.0, " in cell for line in laid_out(result)[1] for cell in line)
    assert "Ours (published, difference)." in markdown(result)
    result["protocol"]["scale"] = "smoke"
    assert any(cell.endswith("(90.0)") for line in laid_out(result)[1] for cell in line)
    assert "Ours (published)." in markdown(result)


@pytest.mark.parametrize("seeds", [1, 2])
def test_differences_have_holms_correction(settings: Settings, seeds: int) -> None:
    result, _ = told(settings(f"{TABLE}against: NP\n", seeds=seeds))
    found = [row["metrics"] for row in result["differences"]["results"]]
    assert min(row["p_holm"] for row in found) == min(1.0, len(found) * min(row["p"] for row in found))
    assert "(Holm " in markdown(result)
    assert f"Holm's correction for the {len(found)} comparisons of this table" in markdown(result)
    assert "Minimum detectable effect, in points from NP: " in markdown(result)
