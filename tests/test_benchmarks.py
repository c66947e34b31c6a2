"""What the benchmarks' scripts share: claims, and the table of all of them."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SHARED = {"claims", "noiseqa_questions", "hardening_cells", "hardening_variants"}
"""Modules that the scripts share."""


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_a_claim_is_met_by_the_median_of_its_values(tmp_path: Path) -> None:
    from claims import Claim, read, save

    claim = Claim("a / b", [1.0, 9.0, 4.0], at_least=3.5, floor="none")
    assert claim.value == 4.0
    assert claim.met
    assert not Claim("a / b", [1.0, 9.0, 4.0], at_least=3.5, at_most=3.9).met
    assert Claim("a", [2.0], at_most=2.0).met
    assert Claim("a", [2.0]).met is None
    assert Claim("a", [2.0], at_least=1.0, at_most=3.0).bound == "≥ 1 and ≤ 3"
    save(tmp_path / "claims.json", [claim], seconds={"a": [1.0]})
    assert read(tmp_path / "claims.json") == [claim]


def test_all_benchmarks_are_run_with_what_is_given_and_others_left_out() -> None:
    from claims import Claim
    from run_all import BENCHMARKS as ALL
    from run_all import row

    scripts = {path.stem for path in BENCHMARKS.glob("*.py")} - SHARED - {"run_all"}
    # These train for hours, or settle a choice once (what they found is in RESULTS.md), or print texts to be read.
    others = {
        "positive_controls",
        "train_methods",
        "calibrate_similarity",
        "edit_samples",
        "fit_typing",
        "harden_seeds",
        "hardening_study",
        "noise_likeness",
        "normaliser",
        "spelling_correction",
        "synonym_validity",
    }
    assert {benchmark.name for benchmark in ALL} == scripts - others
    evaluation = next(benchmark for benchmark in ALL if benchmark.name == "sts_evaluation")
    words = evaluation.command({"encoder": "a model", "data": Path("d")}, short=True)
    assert words == ["--model", "a model", "--data", "d", "--rounds", "1", "--limit", "200"]
    with pytest.raises(KeyError, match="data"):
        evaluation.command({"encoder": "a model"}, short=False)
    message = row("script", Claim("a / b", [1.0, 3.0], at_least=3.5, floor="5"))
    assert message == "| script | a / b | ≥ 3.5 | 2 (1-3) | **no** | 5 |"


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_every_script_says_how_it_is_called(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert path.stem in SHARED or f"python benchmarks/{path.name} " in text
    importlib.import_module(path.stem)  # what it takes from holdfast is there
