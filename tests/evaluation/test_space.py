"""Alignment and uniformity against their definitions and values known in closed form."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.errors import UserError
from holdfast.evaluation.space import alignment, evaluate_space, uniformity


def test_definitions_pair_by_pair() -> None:
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=(7, 5)), draw.normal(size=(7, 5))
    unit = [v / np.linalg.norm(v) for v in a]
    slow_alignment = np.mean([np.linalg.norm(u - w / np.linalg.norm(w)) ** 2 for u, w in zip(unit, b, strict=True)])
    kernels = [np.exp(-2 * np.linalg.norm(unit[i] - unit[j]) ** 2) for i in range(7) for j in range(7) if i != j]
    assert alignment(a, b) == pytest.approx(slow_alignment, abs=1e-12)
    assert uniformity(a) == pytest.approx(np.log(np.mean(kernels)), abs=1e-12)


def test_closed_forms() -> None:
    v = np.eye(4)
    assert alignment(v, 3 * v) == pytest.approx(0.0, abs=1e-12)
    assert alignment(v, -v) == pytest.approx(4.0)
    assert uniformity(v) == pytest.approx(-4.0), "orthogonal vectors: every squared distance is 2"
    assert uniformity(np.ones((3, 2))) == pytest.approx(0.0, abs=1e-12)


def test_blocks_of_rows_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(1).normal(size=(25, 6))
    whole = uniformity(vectors)
    monkeypatch.setattr("holdfast.evaluation.space._ROWS_AT_ONCE", 4)
    assert uniformity(vectors) == pytest.approx(whole, abs=1e-12)


def test_vectors_without_direction_are_refused() -> None:
    with pytest.raises(UserError, match="no direction"):
        uniformity(np.zeros((3, 2)))


def test_positives_are_the_pairs_that_mean_the_same(
    tmp_path: Path, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    folder = tmp_path / "stsb"
    folder.mkdir()
    rows = [(sentences[0], sentences[1], 4.0), (sentences[2], sentences[3], 3.9), (sentences[4], sentences[5], 5.0)]
    lines = ["sentence1\tsentence2\tscore", *("\t".join(map(str, row)) for row in rows)]
    (folder / "dev.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    model = make_encoder_model("bert")
    row = evaluate_space(model, data=tmp_path)
    vectors = model.encode(sentences[:6])
    assert row["positives"] == 2
    assert row["n"] == 6
    assert row["metrics"]["alignment"] == pytest.approx(alignment(vectors[[0, 4]], vectors[[1, 5]]), abs=1e-5)
    assert row["metrics"]["uniformity"] == pytest.approx(uniformity(vectors), abs=1e-5)
    assert json.loads(json.dumps(row))["task"] == "space"
