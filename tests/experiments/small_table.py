"""The table that these tests make."""

from __future__ import annotations

from typing import Any

TABLE = """\
title: Small
source: a test
rows:
  encoder:
    NP: {encoder: {method: none}}
    SimCSE: {encoder: {method: simcse, max_steps: 2, batch_size: 4, precision: fp32, selection: last}}
columns:
  Acc.: {classifier: &sst2 {task: sst2, max_steps: 6, batch_size: 8, learning_rate: 0.005, precision: fp32},
         measure: accuracy}
  Typos: {classifier: *sst2, attack: &typos {recipe: typos, examples: 4, precision: fp32}, measure: success_rate}
  Queries: {classifier: *sst2, attack: *typos, measure: queries}
averages:
  Mean: [Acc., Typos]
published:
  NP: [90, 80, 12, 85]
"""


def values(result: dict[str, Any]) -> dict[tuple[str, str], float | None]:
    return {(row["task"], row["split"]): row["metrics"].get("mean") for row in result["results"]}
