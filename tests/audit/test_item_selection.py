"""The choice of items: their names, groups, and that nothing else is measured or opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from audited import run

from holdfast.attacks import LIGHT, Resources
from holdfast.audit.audit_steps import ATTACKS
from holdfast.audit.item_names import item_name
from holdfast.audit.item_selection import (
    ATTACKED,
    GRAMMAR_HOLDS,
    GRAMMAR_MOVES,
    GROUPS,
    ITEMS,
    LABELLED,
    WORD_HOLDS,
    WORD_MOVES,
    ItemSelection,
)
from holdfast.audit.labelled_items import INFERENCE_SETS
from holdfast.cli import main
from holdfast.edits.edit_table import family_builders
from holdfast.edits.noise import NOISE
from holdfast.errors import NotInstalled, UserError
from holdfast.results import read_result


def test_the_names_are_those_of_the_edits_attacks_and_sets() -> None:
    pytest.importorskip("textblob")
    tagger = Resources(LIGHT).tagger
    named: dict[str, set[str]] = {}
    builders = family_builders(tagger=lambda: tagger, wordnet=lambda: None, texts=["The dog saw Anna in Paris."])
    for family, build in builders.items():
        try:
            named[family] = {edit.NAME for edit in build()}
        except NotInstalled:
            named[family] = {family}
    assert named["grammar"] == {*GRAMMAR_MOVES, *GRAMMAR_HOLDS}
    assert named["words"] == {*WORD_MOVES, *WORD_HOLDS}
    assert named["evasion"] == set(GROUPS["evasion"])
    assert set().union(*named.values()) <= set(ITEMS)
    assert tuple(item_name({"task": t, "split": s}) for step in ATTACKS for t, s in step.rows) == ATTACKED
    assert tuple(each.name for each in INFERENCE_SETS) == LABELLED
    assert len(set(ITEMS)) == len(ITEMS)
    assert set().union(*GROUPS.values()) == set(ITEMS)


def test_names_and_groups_are_joined_and_the_nearest_name_is_told() -> None:
    assert ItemSelection.parse(None).has("anything")
    chosen = ItemSelection.parse("typos, space,retrieval.asr", ["clean", "asr"])
    assert chosen.record() == ["quality", "retrieval.asr", "typos", "vectors"]
    assert ItemSelection.parse("retrieval", ["asr"]).has("retrieval.asr")
    with pytest.raises(UserError, match=r"--items does not take 'negatoin' \(did you mean 'negation'\?\)"):
        ItemSelection.parse("typos,negatoin")
    with pytest.raises(UserError, match="--items names no item"):
        ItemSelection.parse(" ,")


def test_families_that_no_item_needs_are_left_out() -> None:
    families = (*NOISE, "evasion", "grammar", "words", "synonyms")

    def needed(names: str) -> set[str]:
        selection = ItemSelection.parse(names)
        return {family for family in families if selection.needs_family(family)}

    assert needed("typing,blank,attacks") == {"typing"}
    assert needed("retrieval.speech") == {"speech"}
    assert needed("contraction") == {"grammar"}
    assert (
        needed("negation") == needed("meaning") == {"typos", "full-stop", "case.lower", "grammar", "words", "synonyms"}
    )


def names_of(result: dict[str, Any]) -> list[str]:
    return [item_name(row) for row in result["results"]]


def test_only_these_items_are_measured_and_only_their_resources_opened(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {item_name(row): row for row in run(texts_per_item=20)["results"]}
    for name in ("tagger", "wordnet", "masked_lm", "synonyms"):
        monkeypatch.setattr(Resources, name, property(lambda self: pytest.fail("a resource was opened")))
    items = "typing,noise,adversarial-typos,advsts-typos,quality"
    result = run(texts_per_item=20, tagger=None, items=items)  # a named resource must exist, and is opened
    assert names_of(result) == ["quality", "noise", "typing", "adversarial-typos", "advsts-typos"]
    for row in result["results"]:  # of the same texts; the last digits depend on the batches
        other = whole[item_name(row)]
        assert row["metrics"] == pytest.approx(other["metrics"], abs=1e-3), item_name(row)
        assert (row["n"], row["verdict"]) == (other["n"], other["verdict"])
    assert result["protocol"]["items"] == ["adversarial-typos", "advsts-typos", "noise", "quality", "typing"]
    assert result["protocol"]["opened_resources"] == {}


def test_the_command_takes_names(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", "lm", "--texts", "mine.txt", "--output", "r.json"]
    assert main([*words, "--items", "blank,vectors"]) == 0
    assert names_of(read_result(Path("r.json"))) == ["vectors", "blank"]
    assert main([*words, "--items", "blnk"]) == 2
    assert "did you mean 'blank'" in capsys.readouterr().err
