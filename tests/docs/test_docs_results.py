"""The tables in docs/results: pages are what their results say, whole, and of nobody's machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docs_pages import ROOT, module_at, text

from holdfast.experiments.definition import known_tables

RESULTS = sorted((ROOT / "docs" / "results").glob("*/*.json"))
HARDENED = ROOT / "docs" / "results" / "harden.json"
SCALES = sorted({path.parent.name for path in RESULTS})
_ABSOLUTE = re.compile(r"(?<![\w.:/<])/(?:\w[\w.-]*/)+\w")


GATHER = module_at("docs/results/gather.py")


def read(path: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, held in value.items():
            yield from (key, *strings(held))
    elif isinstance(value, list):
        for held in value:
            yield from strings(held)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_page_is_what_its_result_says(path: Path) -> None:
    assert read(path)["protocol"]["scale"] == path.parent.name
    assert path.with_suffix(".md").read_text(encoding="utf-8") == GATHER.page_of(path)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_cell_holds_a_value_or_the_reason_why_not(path: Path) -> None:
    result = read(path)
    assert result["results"]
    for row in result["results"]:
        missing = row["n"] < result["protocol"]["seeds"]  # of a seed, or there is one value for all of them
        assert bool(row["not_run"]) <= missing, (row["task"], row["split"])
        assert bool(row["not_run"]) or "mean" in row["metrics"], (row["task"], row["split"])


@pytest.mark.parametrize("path", [*RESULTS, HARDENED], ids=lambda path: path.stem)
def test_a_result_names_no_folder_of_a_machine(path: Path) -> None:
    result = read(path)
    texts = {message for row in result["results"] for message in row.get("told", ())}  # people's texts have slashes too
    found = [each for each in strings(result) if each not in texts and _ABSOLUTE.search(each)]
    assert found == []


@pytest.mark.parametrize("scale", SCALES)
def test_the_index_leads_to_every_table(scale: str) -> None:
    assert text(f"docs/results/{scale}/README.md") == GATHER.index_of(ROOT / "docs" / "results" / scale)
    assert f"]({scale}/README.md)" in text("docs/results/README.md")


def test_all_tables_were_made_at_smoke_scale() -> None:
    assert {read(path)["protocol"]["table"] for path in RESULTS if path.parent.name == "smoke"} == set(known_tables())


IN_README = {
    "seven STS tasks, Spearman average": ("sts average", 2),
    "STS-B dev, Spearman": ("audit-quality", 2),
    "AdvSTS, typing errors, success %": ("audit-advsts-typos", 1),
    "AdvSTS, WordNet synonyms, success %": ("audit-advsts", 1),
    "adversarial typing errors, success %": ("audit-adversarial-typos", 1),
    "adversarial synonyms, success %": ("audit-adversarial-synonyms", 1),
    "loses its 5 nearest neighbours, %": ("audit-neighbours", 1),
    "stability under random typing errors": ("audit-typos", 3),
    "stability under random synonyms": ("audit-synonyms", 3),
}
"""The rows of the README's table of a hardening: the tasks that they are of, and their decimals."""


def test_the_readme_shows_what_a_hardening_measured() -> None:
    measured = {row["task"]: row["metrics"] for row in read(HARDENED)["results"]}
    for name, (task, digits) in IN_README.items():
        has = measured[task]
        before, after = (f"{has[when]:.{digits}f}" for when in ("before", "after"))
        difference, *ends = (f"{has['difference' + end]:+.{digits}f}" for end in ("", "_low", "_high"))
        message = f"{difference} ({' to '.join(ends)})".replace("-", "−")
        assert f"| {name} | {before} | {after} | {message} |" in text("README.md")


def test_gathered_tables_hold_no_texts_of_data_sets(tmp_path: Path) -> None:
    points = [{"pair": 0, "kind": kind, "x": 0.0, "y": 1.0, "text": "a film"} for kind in ("clean", "adversarial")]
    result = read(RESULTS[0])
    result["results"][0]["coordinates"] = {"method": "t-SNE", "points": points}
    result["protocol"]["scale"] = "smoke"
    (tmp_path / "x.json").write_text(json.dumps(result), encoding="utf-8")
    (tmp_path / "x-2.svg").write_text("<svg/>", encoding="utf-8")
    (tmp_path / "x.svg").write_text("<svg/>", encoding="utf-8")
    (tmp_path / "x-other.svg").write_text("<svg/>", encoding="utf-8")
    (made,) = GATHER.gather(tmp_path, tmp_path / "into")
    assert made == tmp_path / "into" / "smoke" / "x.json"
    assert "a film" not in made.read_text(encoding="utf-8")
    assert read(made)["results"][0]["coordinates"]["points"][1]["y"] == 1.0
    assert GATHER.page_of(made).count("](x") == 2
    assert GATHER.page_of(made).index("](x.svg)") < GATHER.page_of(made).index("](x-2.svg)")
    assert not (made.parent / "x-other.svg").exists()
