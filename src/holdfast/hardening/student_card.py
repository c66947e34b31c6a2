"""The model card of a distilled student."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from holdfast.card_terms import terms_of
from holdfast.training.export import USAGE


def student_card(record: Mapping[str, Any], made: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the model card.

    Args:
        record: the run's record (``run.json``).
        made: steps, sizes and speeds of the student.
        rows: rows of the result.
    """
    front = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "sentence-similarity", "feature-extraction", "holdfast", "distillation"],
        **terms_of(record["teacher"]),
    }
    settings = "\n".join(f"| {name} | {value} |" for name, value in _settings(record, made))
    space = "its teacher's space: it can search an index of the teacher"
    if space_of(record, made) == "student":
        space = "a space of its own: an index has to be made with it"
    terms = f"Attribution: {record['attribution']}." if record["attribution"] else "Its owner's terms apply."
    return f"""---
{yaml.safe_dump(front, sort_keys=False).strip()}
---

# A student of {Path(record["teacher"]).name}

A sentence encoder of {made["parameters"] / 1e6:.1f} million weights, {made["megabytes"]:.1f} MB in {made["stored"]}, \
{made["speed"]:.1f} times as fast as its teacher. Its vectors
({made["dimensions"]} numbers) are in {space}.

{USAGE}

## Measurements

{_measured(rows)}

## Training

The student learns the vectors that the frozen teacher gives the clean texts. No labels were used. {terms}

| | |
|---|---|
{settings}

No step was selected: the last one was kept.
"""


def _measured(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "Not measured: no texts were held out."
    lines = []
    for row in rows:
        name = next(iter(row["metrics"]))
        values = [row["metrics"][key] for key in (name, f"teacher_{name}")]
        digits = 2 if name == "spearman" else 4
        cells = " | ".join(f"{value:.{digits}f}" for value in values)
        lines.append(f"| {row['task']} {row['split']} | {name} | {row['n']:,} | {cells} |")
    note = (
        "Cosines are those to the teacher's vectors of the clean texts, held out from training; Spearman is ×100. fp32."
    )
    return "\n".join([note, "", "| | metric | n | student | teacher |", "|---|---|---|---|---|", *lines])


def _settings(record: Mapping[str, Any], made: Mapping[str, Any]) -> list[tuple[str, Any]]:
    corpus = record["corpus"]
    rows: list[tuple[str, Any]] = [
        ("teacher", f"{record['teacher']} (sha256 {record['teacher_sha256'][:16]}…)"),
        ("student", record["student"]),
        ("shape", ", ".join(f"{value} {name}" for name, value in record["shape"].items())),
        ("corpus", f"{corpus['source']}: {corpus['sentences']:,} texts (sha256 {corpus['sha256'][:16]}…)"),
        ("joined", f"{100 * record['join']:g} % of the texts"),
        ("steps", f"{made['steps']:,} in {made['train_seconds'] / 60:.1f} minutes"),
    ]
    if prompt := record.get("teacher_prompt"):
        rows.append(("prompt of the teacher", prompt))
    if prompt := record.get("student_prompt"):
        rows.append(("prompt of the student", prompt))
    rows += [(key.replace("_", " "), f"`{value}`") for key, value in record["training"].items() if value is not None]
    rows += [(key, f"`{value}`") for key, value in record["options"].items()]
    return [*rows, ("holdfast", record["versions"]["holdfast"])]


def space_of(record: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    """Return "student" for vectors in a space of the student's own, "teacher" for those in its teacher's.

    A student of the teacher's width has the teacher's space, whatever was asked for: nothing is projected.
    """
    return "student" if record["space"] == "student" and made["dimensions"] != record["dimensions"] else "teacher"
