"""Adversarial examples on the page: their order, their number, their pieces, and their JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from small_results import attack, audit, example, write

from holdfast.cli.diff import marked
from holdfast.edits.words import pieces
from holdfast.errors import UserError
from holdfast.report.examples import LONG, ShownExamples, as_json, collect_examples, script_json
from holdfast.report.result_sources import read_sources
from holdfast.terminal import visible


def collected(folder: Path, *made: dict[str, Any], most: int = 100) -> ShownExamples:
    return collect_examples(read_sources([write(folder / f"{n}.json", one) for n, one in enumerate(made)]), most)


def test_pieces_put_together_are_both_texts() -> None:
    original, adversarial = "A man, cutting fish!", "A guy, cutting up  Pisces!"
    found = pieces(original, adversarial, [[3, "fish", "Pisces"], [1, "man", "guy"], [2, "cutting", "cutting up "]])
    assert found == ["A ", ("man", "guy"), ", ", ("cutting", "cutting up "), " ", ("fish", "Pisces"), "!"]
    assert "".join(p if isinstance(p, str) else p[0] for p in found) == original
    assert "".join(p if isinstance(p, str) else p[1] for p in found) == adversarial
    assert pieces("It works.", "It works", []) == ["It works", (".", "")]
    assert pieces("same", "same", []) == ["same"]


def test_successes_first_and_attacks_take_turns(tmp_path: Path) -> None:
    rows = [example(n, "pwws") for n in range(3)] + [example(9, "pwws", "skipped", reason="no word")]
    rows += [example(n, "typos", "failed") for n in range(2)] + [example(n, "bae") for n in range(2)]
    found = collected(tmp_path, attack("a", 50, examples=rows), attack("b", 50, examples=[example(0, "pwws")]))
    assert [(e.recipe, e.model, e.outcome) for e in found.shown] == [
        *[("pwws", "a", "succeeded"), ("bae", "a", "succeeded"), ("pwws", "b", "succeeded")],
        *[("pwws", "a", "succeeded"), ("bae", "a", "succeeded"), ("pwws", "a", "succeeded")],
        *[("typos", "a", "failed"), ("typos", "a", "failed"), ("pwws", "a", "skipped")],
    ]
    assert found.shown[-1].message == "no word"
    assert found.options()["recipe"] == ["pwws", "bae", "typos"]


def test_no_more_than_asked_for_and_told_how_many_there_are(tmp_path: Path) -> None:
    rows = [example(n, recipe) for recipe in ("pwws", "bae") for n in range(10)]
    found = collected(tmp_path, attack("a", 50, examples=rows), most=6)
    assert (len(found.shown), found.total) == (6, 20)
    assert [e.recipe for e in found.shown].count("bae") == 3


def test_what_is_told_of_each(tmp_path: Path) -> None:
    found = collected(tmp_path, attack("a", 50, examples=[example(0, other="the other")]), audit())
    first, of_audit = found.shown
    assert first.message == "class 1 (right one 0.900) → class 0 (right one 0.200), 30 queries"
    assert (first.other, first.task) == ("the other", "mr")
    assert of_audit.neighbours == ("near", "far")
    assert of_audit.task == "audit-adversarial-typos"


def test_the_nearest_texts_of_an_attack_on_neighbours_are_shown(tmp_path: Path) -> None:
    lost = {when: {"value": 1.0, "neighbours": [f"nearest {when}", "second"]} for when in ("before", "after")}
    skipped = example(1, outcome="skipped", before={}, after={}, reason="no word")
    first, second = collected(tmp_path, attack("a", 50, examples=[example(0, **lost), skipped])).shown
    assert first.neighbours == ("nearest before", "nearest after")
    assert second.neighbours == ()


def test_places_count_the_characters_of_the_text_as_it_was_read(tmp_path: Path) -> None:
    text = "We met \u2028 at the old bridge today"
    row = example(0, original=text, adversarial=text.replace("bridge", "viaduct"), changed=[[5, "bridge", "viaduct"]])
    spanned = {**row, "changed": [], "spans": [[text.index("bridge"), text.index("bridge") + 6, "viaduct"]]}
    expected = ("We met \\u2028 at the old ", ("bridge", "viaduct"), " today")
    found = collected(tmp_path, attack("a", 50, examples=[row, spanned]))
    assert [each.pieces for each in found.shown] == [expected] * 2
    for each in (row, spanned):
        assert "old [-bridge-]{+viaduct+} today" in marked({**each, "passes": 1, "words": 6}).plain


def test_long_texts_keep_their_changes(tmp_path: Path) -> None:
    words = [f"word{n}" for n in range(LONG // 3)]
    text = " ".join(words)
    changed = [[500, words[500], "OTHER"]]
    rows = [example(0, original=text, adversarial=text.replace(words[500], "OTHER"), changed=changed), example(1)]
    found = collected(tmp_path, attack("a", 50, examples=rows))
    assert found.shortened == 1
    before, exchanged, after = found.shown[0].pieces
    assert exchanged == ("word500", "OTHER")
    assert before.startswith("word0 ")
    assert before.endswith("word499 ")
    assert "[…]" in before
    assert len(before) + len(after) < 1000
    assert "[…]" not in "".join(map(str, found.shown[1].pieces))


def test_changes_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="example 1: a change is"):
        collected(tmp_path, attack("a", 50, examples=[example(0, changed=[["x"]])]))


def test_json_ends_no_script(tmp_path: Path) -> None:
    wild = "</script><!--<script>\u2028\u2029&\"'\\"
    text = script_json([wild])
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == [wild]
    found = collected(tmp_path, attack("a", 50, examples=[example(0, original=wild, adversarial="b", changed=[])]))
    read = json.loads(as_json(found))
    assert read["options"]["recipe"] == ["pwws"]
    assert read["rows"][0][4] == [[visible(wild), "b"]]


def test_a_changed_meaning_is_shown_with_the_edit_beside_it(tmp_path: Path) -> None:
    held = {"edit": "typos", "text": "a man is cuttign fish", "value": 0.6}
    moved = example(
        1,
        "negation",
        item="audit-negation",
        original="a man is cutting fish",
        adversarial="a man is not cutting fish",
        changed=[],
        spans=[[8, 8, " not"]],
        before={"value": 1.0},
        after={"value": 0.9},
        queries=1,
        hold=held,
    )
    (shown,) = collected(tmp_path, {**audit(), "examples": [moved]}).shown
    assert shown.pieces == ("a man is", ("", " not"), " cutting fish")
    assert shown.message == "1.000 → 0.900, beside (typos, 0.600): a man is cuttign fish"
