"""A small world to audit in: its words, its texts, and an audit of it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from holdfast.audit import AuditSettings, audit

SEEN = [
    "man",
    "woman",
    "child",
    "dog",
    "cat",
    "runs",
    "sleeps",
    "eats",
    "plays",
    "sings",
    "park",
    "house",
    "bed",
    "red",
]
TASKS = [
    *("audit-vectors", "audit-quality", "audit-case", "audit-case", "audit-full-stop", "audit-blank"),
    *("audit-typos", "audit-noise", "audit-synonyms", "audit-fillers", "audit-adversarial-typos"),
    *("audit-adversarial-synonyms", "audit-advsts-typos", "audit-advsts", "audit-neighbours", "audit-poisoning"),
]
"""Tasks of every audit, in their order; between them are those of the families of edits, and of labelled sets."""


def some_texts(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found["The " + " ".join(rng.choices(SEEN, k=rng.randint(5, 9))) + "."] = None
    return list(found)


def tasks_of(result: dict[str, Any]) -> list[str]:
    return [r["task"] for r in result["results"] if r["task"] in TASKS and r["split"] not in ("title", "sentence")]


def by_task(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        row["task"] + ("" if row["split"] in ("all", "dev") else f"-{row['split']}"): row for row in result["results"]
    }


def run(model: str = "lm", **changed: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"examples": 6, "tagger": "textblob", "data": Path("data"), "texts": "mine.txt", **changed}
    if given["data"] is not None and not given["data"].is_dir():
        given["data"] = None
    return audit(AuditSettings(model, **given))
