"""Cells that are kept in the repository: without models and gold scores, and put back as they were."""

from __future__ import annotations

import gzip
import importlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from small_table import values

from holdfast.experiments.reproduce_settings import ReproduceSettings
from holdfast.experiments.reproduction import reproduce

TABLE = """
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


def test_kept_cells_are_put_back(
    settings: Callable[..., ReproduceSettings],
    stsb: Path,
    made: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    kept_cells = importlib.import_module("kept_cells")
    found = reproduce(settings(TABLE))
    assert len(made) == 4
    made.clear()
    output, kept, back = settings(TABLE).output, tmp_path / "kept", tmp_path / "back"
    kept_cells.save(output, kept)
    files = sorted(kept.iterdir())
    assert [path.name.partition("-")[0] for path in files] == ["encoder"] * 2 + ["evaluation"] * 2
    assert not any(b'"gold"' in gzip.decompress(path.read_bytes()) for path in files)
    kept_cells.restore(kept, back, stsb)
    written = [path.relative_to(back) for path in back.rglob("*") if path.is_file()]
    assert len(written) == 10
    for path in written:
        assert (back / path).read_bytes() == (output / path).read_bytes()
    assert values(reproduce(settings(TABLE, output=back))) == values(found)
    assert made == []
    transfer = {"results": [{"task": "mr", "items": {"correct": [1, 0, 1]}}]}
    word = kept_cells.without_gold(transfer, output)
    assert word["results"][0]["items"] == {"correct": "101"}
    assert kept_cells.with_gold(word, stsb) == transfer

    later = (kept / files[2].name).stat().st_mtime_ns
    kept_cells.save(output, kept)
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
        kept_cells.save(output, kept)
