"""Cells: their names, their order, and the folder they are kept in."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserError
from holdfast.experiments import cells
from holdfast.experiments.cells import CELL_FILE, Cell, Store, in_order


def chain(**changes: Any) -> Cell:
    """model → encoder → classifier → attack."""
    start = Cell("model", {"sha256": changes.get("model", "0")}, where={"path": "/somewhere"})
    encoder = Cell("encoder", {"steps": changes.get("steps", 1)}, {"start": start})
    classifier = Cell("classifier", {"task": changes.get("task", "sst2")}, {"encoder": encoder})
    return Cell("attack", {"recipe": changes.get("recipe", "pwws")}, {"victim": classifier})


def keys(cell: Cell) -> dict[str, str]:
    return {needed.kind: needed.key for needed in cell.needed()}


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ({"model": "1"}, {"model", "encoder", "classifier", "attack"}),
        ({"steps": 2}, {"encoder", "classifier", "attack"}),
        ({"task": "mr"}, {"classifier", "attack"}),
        ({"recipe": "typos"}, {"attack"}),
    ],
)
def test_a_change_renames_exactly_what_depends_on_it(change: dict[str, Any], kinds: set[str]) -> None:
    before, after = keys(chain()), keys(chain(**change))
    assert {kind for kind in before if before[kind] != after[kind]} == kinds


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [
        ("encoder", {"encoder", "classifier", "attack"}),
        ("classifier", {"classifier", "attack"}),
        ("attack", {"attack"}),
        ("evaluation", set()),
    ],
)
def test_a_raised_revision_renames_that_kind_and_what_depends_on_it(
    monkeypatch: pytest.MonkeyPatch, kind: str, kinds: set[str]
) -> None:
    raised_to = max(cells.REVISIONS.values()) + 1
    before = keys(chain())
    monkeypatch.setattr(cells, "REVISIONS", {**cells.REVISIONS, kind: raised_to})
    after = chain()
    assert {name for name, key in before.items() if key != keys(after)[name]} == kinds
    raised = {cell.kind for cell in after.needed() if cell.record().get("revision") == raised_to}
    assert raised == {kind} & kinds, "the record says it"


def test_the_first_revision_is_in_no_name_so_that_older_cells_keep_theirs() -> None:
    assert cells.REVISIONS["encoder"] == 1
    assert set(Cell("encoder", {}).record()) == {"kind", "settings", "inputs"}


def test_a_key_depends_on_neither_place_nor_label_nor_order() -> None:
    one = Cell("encoder", {"a": 1, "b": 2}, where={"corpus": "x.txt"}, label="one")
    other = Cell("encoder", {"b": 2, "a": 1}, where={"corpus": "y.txt"}, label="other")
    assert one.key == other.key
    assert one.key != Cell("classifier", {"a": 1, "b": 2}).key
    part = Cell("attack", {}, {"victim": one})
    assert part.key != Cell("attack", {}, {"texts": one}).key


def test_cells_come_once_and_after_what_they_need() -> None:
    first, second = chain(), chain(recipe="typos")
    cells = in_order([second, first, first])
    assert [cell.kind for cell in cells] == ["model", "encoder", "classifier", "attack", "attack"]
    assert len({cell.key for cell in cells}) == 5


def test_a_cell_is_finished_when_it_says_so(tmp_path: Path) -> None:
    store, cell = Store(tmp_path / "cells"), chain()
    assert not store.finished(cell)
    store.place(cell).mkdir(parents=True)
    (store.place(cell) / "results.json").write_text("{}")
    assert not store.finished(cell)  # killed before its end
    store.finish(cell, time.monotonic())
    assert store.finished(cell)
    record = json.loads((store.place(cell) / CELL_FILE).read_text())
    assert record["settings"] == {"recipe": "pwws"}
    assert record["inputs"] == {"victim": cell.inputs["victim"].key}
    assert not store.finished(chain(recipe="typos"))


def test_a_model_that_was_there_is_finished_and_stays_where_it_is(tmp_path: Path) -> None:
    store = Store(tmp_path / "cells")
    (start, *_) = chain().needed()
    assert store.finished(start)
    assert store.product(start) == Path("/somewhere")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": "another"}'])
def test_a_damaged_cell_is_told(tmp_path: Path, text: str) -> None:
    store, cell = Store(tmp_path / "cells"), chain()
    store.place(cell).mkdir(parents=True)
    (store.place(cell) / CELL_FILE).write_text(text)
    with pytest.raises(UserError, match="remove the folder"):
        store.finished(cell)
