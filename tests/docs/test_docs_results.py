"""The tables in docs/results: pages are what their results say, whole, and of nobody's machine."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docs_pages import ROOT, module_at, text

from holdfast.experiments.definition import known_tables

RESULTS = sorted((ROOT / "docs" / "results").glob("*/*.json"))
HARDENED = ROOT / "docs" / "results" / "harden.json"
SEEDS = ROOT / "docs" / "results" / "harden-seeds.json"
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


IN_RESULTS = {
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
"""The rows of the table of the older hardening: the tasks that they are of, and their decimals."""


def test_the_results_show_what_a_hardening_measured() -> None:
    measured = {row["task"]: row["metrics"] for row in read(HARDENED)["results"]}
    for name, (task, digits) in IN_RESULTS.items():
        has = measured[task]
        before, after = (f"{has[when]:.{digits}f}" for when in ("before", "after"))
        difference, *ends = (f"{has['difference' + end]:+.{digits}f}" for end in ("", "_low", "_high"))
        message = f"{difference} ({' to '.join(ends)})".replace("-", "−")
        assert f"| {name} | {before} | {after} | {message} |" in text("benchmarks/RESULTS.md")


DIFFERENCES = {
    "clean": ("hold-out clean", 1),
    "mistyped": ("hold-out typing", 1),
    "as a recogniser writes": ("hold-out speech", 1),
    "mistyped, spelling correction before both": ("hold-out typing, spelling", 1),
    "questions, mistyped": ("hold-out queries typing", 1),
    "questions, as a recogniser writes": ("hold-out queries speech", 1),
    "P(same meaning nearer than another meaning)": ("hold-out hold/move", 3),
}
"""The rows of the README's first table of a hardening, of several seeds: the figure and its decimals."""

BOTH = {
    "STS, seven tasks, Spearman average": "STS, seven tasks",
    "adversarial typing errors, success %": "adversarial typing errors, success %",
}
NOISEQA = ("clean", "typed", "heard", "translated")


def test_the_readme_shows_the_means_of_the_seeds() -> None:
    measured, readme = read(SEEDS), text("README.md")
    seeds, original = measured["seeds"], measured["original"]

    def mean_and_deviation(figure: str, digits: int, sign: str = "") -> str:
        values = [seed[figure] for seed in seeds]
        return f"{statistics.fmean(values):{sign}.{digits}f} ± {statistics.stdev(values):.{digits}f}".replace("-", "−")

    for name, (figure, digits) in DIFFERENCES.items():
        assert f"| {name} | {mean_and_deviation(figure, digits, '+')} |" in readme
    for name, figure in BOTH.items():
        digits = 2 if figure.startswith("STS") else 1
        assert f"| {name} | {original[figure]:.{digits}f} | {mean_and_deviation(figure, digits)} |" in readme
    for system in ("", ", spelling first"):
        figures = [f"NoiseQA {version}{system}" for version in NOISEQA]
        first = "spelling correction, then " * bool(system)
        assert f"| {first}all-MiniLM-L6-v2 | " + " | ".join(f"{original[each]:.1f}" for each in figures) in readme
        assert f"| {first}hardened | " + " | ".join(mean_and_deviation(each, 1) for each in figures) in readme
    assert f"{len(seeds)} seeds" in readme


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
    GATHER.write_pages(tmp_path / "into")
    assert made.with_suffix(".md").read_text(encoding="utf-8") == GATHER.page_of(made)
    assert "(x.md)" in (made.parent / "README.md").read_text(encoding="utf-8")
