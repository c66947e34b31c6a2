"""The claims of the papers in docs/results: each figure is that of a result, and no table is without a claim."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from docs_pages import ROOT, module_at, text

from holdfast.experiments.definition import known_tables, read_definition

GATHER = module_at("docs/results/gather.py")
FOUND = GATHER.claims()
CLAIMS = FOUND["claims"]
VERDICTS = {"shown", "not shown", "not tested yet", "cannot be tested here"}
PAPERS = {"V-advCSE": "v-advcse", "AdCSE": "adcse", "L2P-CSR": "l2p-csr", "RobustEmbed": "robustembed", "ADCL": "adcl"}
NEEDED = {"id", "paper", "place", "claim", "published", "test", "n", "baseline", "verdict", "why"}
ALLOWED = NEEDED | {"measured", "detectable", "before", "evidence"}


def ids(claim: dict[str, Any]) -> str:
    return str(claim["id"])


@pytest.mark.parametrize("claim", CLAIMS, ids=ids)
def test_a_claim_is_whole(claim: dict[str, Any]) -> None:
    assert NEEDED <= set(claim) <= ALLOWED
    assert claim["paper"] in PAPERS
    assert claim["verdict"] in VERDICTS
    assert claim["test"] in FOUND["tests"]
    assert all(isinstance(value, str) for name, value in claim.items() if name != "evidence")
    measured = claim["verdict"] in ("shown", "not shown")
    assert measured == ("measured" in claim) == ("detectable" in claim), "what is decided has a value and its power"
    assert not measured or "evidence" in claim or claim["test"] == "number"


def test_each_claim_has_a_name_of_its_own() -> None:
    assert len({claim["id"] for claim in CLAIMS}) == len(CLAIMS)


def test_every_table_and_figure_of_the_papers_has_a_claim() -> None:
    places = {
        (PAPERS[claim["paper"]], f"{kind.lower()}{number}")
        for claim in CLAIMS
        for kind, first, last in re.findall(r"(Table|Figure)s? (\d+)(?: to (\d+))?", claim["place"])
        for number in range(int(first), int(last or first) + 1)
    }
    tables = {tuple(name.split("/")) for name in known_tables() if not name.startswith("holdfast/")}
    assert places == tables
    assert all(read_definition("/".join(name), "paper").claim for name in tables)


EVIDENCE = [(claim["id"], number, each) for claim in CLAIMS for number, each in enumerate(claim.get("evidence", ()))]


@pytest.mark.parametrize("each", [each for *_, each in EVIDENCE], ids=[f"{name}-{n}" for name, n, _ in EVIDENCE])
def test_the_figures_behind_a_verdict_are_those_of_the_results(each: dict[str, Any]) -> None:
    if "text" in each:
        assert each["text"] in text("benchmarks/RESULTS.md")
        return
    scale = each["result"].rpartition("-")[2]
    result = json.loads((ROOT / "docs" / "results" / scale / f"{each['result']}.json").read_text(encoding="utf-8"))
    rows = result["differences"]["results"] if "difference" in each else result["results"]
    (row,) = (row for row in rows if (row["task"], row["split"]) == (each["row"], each["column"]))
    if "value" in each:
        decimals = len(f"{each['value']:.10f}".rstrip("0").partition(".")[2])
        assert round(row["metrics"]["mean"], max(1, decimals)) == each["value"]
    else:
        assert {name: round(row["metrics"][name], 1) for name in ("difference", "detectable")} == {
            name: each[name] for name in ("difference", "detectable")
        }


def test_the_page_shows_the_claims() -> None:
    page = text("docs/results/README.md")
    assert page == GATHER.with_claims(page)
    assert page.index("## Claims") < page.index("## Small")
    for claim in CLAIMS:
        assert f"| {claim['id']} | {claim['claim']} | " in page
    assert page.count("**not shown**") == sum(claim["verdict"] == "not shown" for claim in CLAIMS)
    shown = [claim["id"] for claim in CLAIMS if claim["verdict"] == "shown"]
    said = {0: "No claim of a paper shows yet.", 1: f"One claim of a paper shows ({', '.join(shown)})"}
    number = {2: "Two", 3: "Three", 4: "Four"}.get(len(shown), len(shown))
    assert said.get(len(shown), f"{number} claims of the papers show ({', '.join(shown)})") in page
