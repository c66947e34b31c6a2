"""Cells that are kept in the repository: without models and gold scores, and put back as they were."""

from __future__ import annotations

import gzip
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_table import TABLE as ATTACKS
from small_table import values

from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import reproduce

SIMILARITY = """
title: A table
source: here
shared: {evaluation: {tasks: stsb-dev}}
rows:
  encoder:
    SimCSE: {encoder: {method: simcse, batch_size: 8, max_steps: 2}}
    SimCSE, one step: {encoder: {method: simcse, batch_size: 8, max_steps: 1}}
columns:
  STS-B: {measure: stsb-dev.spearman}
scales: {}
"""


@pytest.fixture
def kept_cells(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("kept_cells")


def test_kept_cells_are_put_back(
    kept_cells: Any,
    settings: Callable[..., ReproduceSettings],
    stsb: Path,
    made: list[str],
    tmp_path: Path,
) -> None:
    found = reproduce(settings(SIMILARITY))
    assert len(made) == 4
    made.clear()
    output, kept, back = settings(SIMILARITY).output, tmp_path / "kept", tmp_path / "back"
    kept_cells.save(output, kept, stsb)
    files = sorted(kept.iterdir())
    assert [path.name.partition("-")[0] for path in files] == ["encoder"] * 2 + ["evaluation"] * 2
    assert not any(b'"gold"' in gzip.decompress(path.read_bytes()) for path in files)
    kept_cells.restore(kept, back, stsb)
    written = [path.relative_to(back) for path in back.rglob("*") if path.is_file()]
    assert len(written) == 10
    for path in written:
        assert (back / path).read_bytes() == (output / path).read_bytes()
    assert values(reproduce(settings(SIMILARITY, output=back))) == values(found)
    assert made == []
    transfer = {"results": [{"task": "mr", "items": {"correct": [1, 0, 1]}}]}
    word = kept_cells.without_gold(transfer, output)
    assert word["results"][0]["items"] == {"correct": "101"}
    assert kept_cells.with_gold(word, stsb) == transfer

    later = (kept / files[2].name).stat().st_mtime_ns
    kept_cells.save(output, kept, stsb)
    assert (kept / files[2].name).stat().st_mtime_ns == later

    pairs = stsb / "stsb" / "dev.tsv"
    pairs.write_text(pairs.read_text().replace("\t1.", "\t2.", 1))
    with pytest.raises(SystemExit, match="is not the result that was written"):
        kept_cells.restore(kept, tmp_path / "other", stsb)
    record = json.loads(gzip.decompress(files[2].read_bytes()))
    (output / "cells" / files[2].name.removesuffix(".json.gz") / "results.json").write_text(
        json.dumps({**record["results"], "results": [{"task": "mr", "items": {"text": ["a"]}}]})
    )
    files[2].unlink()
    with pytest.raises(SystemExit, match="items of mr that cannot be kept: text"):
        kept_cells.save(output, kept, stsb)


def test_attacks_are_kept_without_texts(
    kept_cells: Any, settings: Callable[..., ReproduceSettings], data: Path, made: list[str], tmp_path: Path
) -> None:
    found = reproduce(settings(ATTACKS))
    made.clear()
    output, kept, back = settings(ATTACKS).output, tmp_path / "kept", tmp_path / "back"
    kept_cells.save(output, kept, data)
    names = [path.name.partition("-")[0] for path in sorted(kept.iterdir())]
    assert names == ["attack"] * 2 + ["classifier"] * 2 + ["encoder"]
    changes = 0
    for path in kept.glob("attack-*"):
        record = gzip.decompress(path.read_bytes()).decode()
        result = json.loads((output / "cells" / path.name.removesuffix(".json.gz") / "results.json").read_text())
        for row in result["examples"]:
            assert row["original"] not in record
            assert row["adversarial"] not in record
            changes += len(row["changed"])
        for row in json.loads(record)["results"]["examples"]:
            assert not {"original", "label", "other"} & set(row)
            assert all(len(change) == 2 for change in row["changed"])  # place and new word
    assert changes
    kept_cells.restore(kept, back, data)
    written = [path.relative_to(back) for path in back.rglob("*") if path.is_file()]
    assert len(written) == 15  # of attacks the examples, too; of trainings the run
    for path in written:
        assert (back / path).read_bytes() == (output / path).read_bytes()
    assert values(reproduce(settings(ATTACKS, output=back))) == values(found)
    assert made == []

    (attack,) = list(output.glob("cells/attack-*"))[:1]
    result = json.loads((attack / "results.json").read_text())
    result["examples"][0]["queries"] += 1
    (attack / "results.json").write_text(json.dumps(result))
    (kept / f"{attack.name}.json.gz").unlink()
    with pytest.raises(SystemExit, match=f"{attack.name} cannot be kept: with the data"):
        kept_cells.save(output, kept, data)
    result["examples"][0]["original"] += " not of the data"
    (attack / "results.json").write_text(json.dumps(result))
    with pytest.raises(SystemExit, match=r"the original of example \d+ is not that of the data"):
        kept_cells.save(output, kept, data)


@pytest.mark.parametrize(
    ("original", "changed"),
    [
        ("a good film.", "a fine film."),
        ("a good film.", "a good film."),
        ("a good film, a good one", "a g ood film, one"),
        ("good", "not good at all!"),
        ("good - film", ""),
    ],
)
def test_differences_of_words(kept_cells: Any, original: str, changed: str) -> None:
    assert kept_cells.replaced(original, kept_cells.put_in(original, changed)) == changed


def test_what_is_put_in(kept_cells: Any) -> None:
    assert kept_cells.put_in("a good film.", "a fine film.") == [[3, 4, "fine"]]
