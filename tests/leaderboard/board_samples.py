"""Results of a run of the suite, and entries, without a measurement."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from holdfast.evaluation.evaluation_run import task_names
from holdfast.leaderboard.column_scores import item_names
from holdfast.leaderboard.entry import SCHEMA, write_entry
from holdfast.leaderboard.suite import Suite, the_suite
from holdfast.leaderboard.suite_run import MARK
from holdfast.results import new_result, write_result

SHA = "a" * 64


def entry(name: str, *, at: float = 70.0, kind: str = "transformer", **more: Any) -> dict[str, Any]:
    """An entry whose scores are near a number; ``more`` are values of its encoder."""
    suite, draw = the_suite(), random.Random(name)
    scores = {}
    for column in suite.titles():
        value = min(99.0, max(1.0, at + draw.uniform(-9, 9)))
        scores[column] = {
            "value": value,
            "low": value - draw.uniform(0.2, 3),
            "high": value + draw.uniform(0.2, 1),
            "n": 100.0,
        }
    if kind == "search":
        scores = {column: scores[column] for column in ("retrieval", "human_noise")}
    return {
        "schema": SCHEMA,
        "name": name,
        "created": "2026-11-26",
        "encoder": {
            "kind": kind,
            "source": "folder",
            "backend": "torch",
            "pooling": None,
            "prompts": {},
            "get": "ask its owner",
            "licence": "Apache-2.0",
            "base": None,
            "model_sha256": SHA,
            **more,
        },
        "scores": scores,
        "own": {} if kind == "search" else {"typing": {"value": 80.0, "n": 60.0}, "number": {"value": 50.0, "n": 60.0}},
        "cost": {}
        if kind == "search"
        else {
            "reference": "bundled",
            "dimensions": 384.0,
            "speed": 0.4,
            "speed_low": 0.3,
            "speed_high": 0.5,
            "parameters": 2.2e7,
            "bytes": 9e7,
        },
        "protocol": {"suite": suite.version, "suite_sha256": suite.sha256, "resources": {}},
        "seeds": [suite.seed],
        "versions": {"python": "3.12", "holdfast": "0.1.0"},
        "command": "holdfast leaderboard run x",
        "results": {},
    }


def board(folder: Path, *entries: dict[str, Any]) -> Path:
    """A board with entries, by default one of each kind."""
    whole = entries or (
        entry("plain", at=70),
        entry("hardened", at=75, base="plain"),
        entry("table", at=55, kind="static", base="plain"),
        entry("hashed", at=40, kind="function", source="call:holdfast.leaderboard.hashing_encoder:embed"),
        entry("bm25", at=80, kind="search"),
    )
    for each in whole:
        write_entry(folder, each)
    return folder


def results(folder: Path, *, model: str = "me/mine", suite: Suite | None = None) -> Path:
    """The results of all parts of a run, as if measured."""
    suite = suite or the_suite()
    for part in suite.parts:
        write_result(folder / f"{part}.json", part_result(part, model, suite))
    return folder


def part_result(part: str, model: str, suite: Suite) -> dict[str, Any]:
    """The result of one part."""
    settings, draw = suite.parts[part], random.Random(part)
    protocol: dict[str, Any] = {"pooling": None}
    rows: list[dict[str, Any]] = []
    if settings["kind"] == "audit":
        names = item_names(suite, part)
        protocol |= {
            "texts": {"sha256": suite.data[part]["texts"]},
            "examples": settings.get("examples"),
            "texts_per_item": settings["texts_per_item"],
            "items": names,
            "precision_of_search": "fp32",
            "left_out": [],
            "resources": dict(suite.resources),
        }
        rows = [_item(name) for name in names]
    elif settings["kind"] == "evaluate":
        protocol |= {
            "tasks": task_names(settings["tasks"]),
            "limit": settings.get("limit"),
            "text": "raw",
            "precision": "fp32",
        }
        for form in (None, *filter(None, settings.get("forms", "").split(","))):
            rows += [_row(name, sha, form, draw) for name, sha in suite.data[part].items()]
    else:
        metrics = {
            "dimensions": 8.0,
            "speed": 2.0,
            "speed_low": 1.5,
            "speed_high": 2.5,
            "parameters": 1e6,
            "bytes": 4e6,
        }
        rows = [
            {
                "task": "cost",
                "split": "all",
                "n": 256,
                "metrics": metrics,
                "reference": "bundled",
                "kind": "transformer",
            }
        ]
    result = new_result(
        "evaluate",
        model=model,
        identity={"model_sha256": SHA},
        protocol=protocol,
        seed=suite.seed,
        results=rows,
        command=["holdfast", "leaderboard", "run", "/home/someone/secret/mine", "--output", "../measured"],
    )
    texts = {"examples": []} if settings["kind"] == "audit" else {}
    return {**result, **texts, MARK: suite.protocol(part)}


def _item(name: str) -> dict[str, Any]:
    moved = name in (
        "negation",
        "roles",
        "tense",
        "modality",
        "antonym",
        "number",
        "quantifier",
        "name",
        "noun",
        "meaning",
    )
    metric, value = ("p_hold_nearer", 0.4) if moved else ("stability", 0.9)
    if name in ("adversarial-typos", "advsts"):
        metric, value = "success_rate", 30.0
    task, _, split = name.partition(".")
    metrics = {metric: value, f"{metric}_low": 0.9 * value, f"{metric}_high": 1.1 * value}
    split = split or ("dev" if name == "advsts" else "all")
    return {
        "task": f"audit-{task}",
        "split": split,
        "n": 60,
        "metrics": metrics,
        "verdict": "holds",
        "headline": metric,
        "told": "",
    }


def _row(name: str, sha: str, form: str | None, draw: random.Random) -> dict[str, Any]:
    task, _, split = name.partition("/")
    n = 40
    row: dict[str, Any] = {"task": task, "split": split, "n": n, "data_sha256": sha} | ({"form": form} if form else {})
    if task == "retrieval":
        right = [float(draw.random() < 0.7) for _ in range(n)]
        names = ("mrr@10", "ndcg@10", "recall@1", "recall@10", "recall@100")
        row |= {
            "system": "encoder",
            "metrics": {"recall@1": 100 * sum(right) / n},
            "items": dict.fromkeys(names, right),
        }
    elif task.startswith(("sts", "sick")):
        gold = [draw.uniform(0, 5) for _ in range(n)]
        row |= {
            "metrics": {"spearman": 75.0},
            "items": {"gold": gold, "similarity": [g + draw.gauss(0, 1.5) for g in gold]},
        }
    else:
        right = [int(draw.random() < 0.8) for _ in range(n)]
        row |= {"metrics": {"accuracy": 100 * sum(right) / n}, "items": {"correct": right}}
    return row
