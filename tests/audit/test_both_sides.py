"""Encoders whose place is known, on both sides of the card: a bag of words, random vectors, one that skips "not"."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import small_edits
from audited import by_task, run, some_texts
from small_edits import MOVES, Not, ScrambledHalf, SwappedEnds

from holdfast.audit import audit_edits, move_items
from holdfast.audit.edited_copies import HoldBeside, ReadTexts, moved_pairs
from holdfast.audit.vector_movement import Space
from holdfast.edits.case_edits import LowerCase
from holdfast.edits.edit_table import EditTable, edit_table, noise_builders
from holdfast.edits.synthetic_typos_edit import SyntheticTypos
from holdfast.errors import NotInstalled
from holdfast.evaluation.intervals import share_interval
from holdfast.evaluation.pairing.compare_inputs import ComparedResult, Side
from holdfast.evaluation.pairing.rows import compare
from holdfast.results import read_result, write_result


@pytest.fixture
def both(here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Return a function that audits one of the encoders of `small_edits` on both sides."""
    Path("mine.txt").write_text("\n".join(some_texts(400)) + "\n")
    monkeypatch.setattr(
        "holdfast.audit.audit_run.edits_of", lambda *_: edit_table({**noise_builders(), "moves": lambda: MOVES})
    )
    monkeypatch.syspath_prepend(str(Path(small_edits.__file__).parent))
    return lambda name, **more: run(f"call:small_edits:{name}", data=None, examples=1, **more)


@pytest.fixture(scope="module")
def known() -> dict[str, dict[str, Any]]:
    """What was audited already, for tests that only read it."""
    return {}


@pytest.fixture
def audited(both: Callable[..., dict[str, Any]], known: dict[str, dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    """Return a function that returns the audit of an encoder, which is made once."""

    def audit_of(name: str) -> dict[str, Any]:
        if name not in known:
            known[name] = both(name)
        return copy.deepcopy(known[name])

    return audit_of


def test_a_bag_of_words_is_blind_to_roles_and_case(audited: Callable[[str], dict[str, Any]]) -> None:
    result = audited("bag_of_words")
    items = by_task(result)
    for case in ("audit-case-lower", "audit-case-upper"):
        assert items[case]["metrics"]["cosine"] == 1.0
    roles = items["audit-roles"]
    assert roles["metrics"]["cosine_move"] == 1.0, "the same words in another order"
    assert roles["metrics"]["p_hold_nearer"] == 0.0, "every mistyped copy is further"
    assert roles["verdict"] == "breaks"
    assert roles["side"] == "move"
    assert items["audit-name-other"]["metrics"]["cosine_move"] < 0.95, "a replaced word moves the vector"
    assert items["audit-meaning"]["verdict"] == "breaks"


def test_one_random_vector_per_text_is_a_coin(audited: Callable[[str], dict[str, Any]]) -> None:
    items = by_task(audited("at_random"))
    for task in ("audit-meaning", "audit-roles", "audit-negation", "audit-name-other"):
        metrics = items[task]["metrics"]
        assert metrics["p_hold_nearer_low"] <= 0.5 <= metrics["p_hold_nearer_high"], (task, metrics)
        assert items[task]["verdict"] == "breaks"
        assert items[task]["told"].endswith("no better than a coin")
    assert items["audit-case-lower"]["metrics"]["stability"] == pytest.approx(0.0, abs=0.05), "holds nothing"
    assert items["audit-noise"]["verdict"] == "breaks"


def test_an_encoder_blind_to_not_breaks(audited: Callable[[str], dict[str, Any]]) -> None:
    items = by_task(audited("blind_to_not"))
    assert items["audit-negation"]["metrics"]["cosine_move"] == 1.0
    assert items["audit-negation"]["verdict"] == "breaks"
    assert items["audit-negation"]["metrics"]["p_hold_nearer"] == 0.0


def test_every_pair_is_shown_with_both_edits(audited: Callable[[str], dict[str, Any]]) -> None:
    result = audited("blind_to_not")
    write_result(Path("both.json"), result)
    shown = [example for example in result["examples"] if example["item"] == "audit-negation"]
    assert len(shown) == 20
    for example in shown:
        assert example["adversarial"] == Not()(example["original"], random.Random(0)).text  # type: ignore[union-attr]
        assert example["hold"]["edit"] == "typos"
        assert example["hold"]["text"] not in (example["original"], example["adversarial"])
        assert example["hold"]["value"] < example["after"]["value"] == 1.0
        assert example["outcome"] == "succeeded"
    (row,) = [row for row in result["results"] if row["task"] == "audit-negation"]
    assert row["beside"]["typos"]["n"] == row["n"] == len(row["items"]["text"]) == 400
    assert row["metrics"]["share_hold"] == pytest.approx(row["metrics"]["share_move"], rel=0.05), "edits of like size"


def test_the_mean_of_all_kinds_is_over_texts(audited: Callable[[str], dict[str, Any]]) -> None:
    items = by_task(audited("bag_of_words"))
    own: dict[int, list[float]] = {}
    for task in ("audit-roles", "audit-negation", "audit-name-other"):
        for text, nearer in zip(*items[task]["items"].values(), strict=True):
            own.setdefault(text, []).append(nearer)
    mean = np.mean([np.mean(values) for values in own.values()])
    assert items["audit-meaning"]["metrics"]["p_hold_nearer"] == pytest.approx(mean)
    assert items["audit-meaning"]["n"] == len(own)


def test_two_audits_are_compared_text_by_text_on_both_sides(audited: Callable[[str], dict[str, Any]]) -> None:
    audits = {name: audited(name) for name in ("bag_of_words", "at_random")}
    sides = []
    for name, result in audits.items():
        write_result(Path(f"{name}.json"), result)
        sides.append(Side(name, (ComparedResult(Path(f"{name}.json"), read_result(Path(f"{name}.json"))),)))
    rows, _ = compare(*sides)
    found = {row["task"]: row for row in rows}
    roles = found["audit-roles"]
    bag, rnd = (by_task(result)["audit-roles"]["metrics"]["p_hold_nearer"] for result in audits.values())
    assert roles["metric"] == "p_hold_nearer"
    assert roles["metrics"]["difference"] == pytest.approx(rnd - bag, abs=1e-4)
    assert roles["metrics"]["p"] < 0.01
    assert found["audit-meaning"]["metric"] == "p_hold_nearer"


def test_in_another_language_edits_of_english_are_left_out(both: Callable[..., dict[str, Any]]) -> None:
    result = both("bag_of_words", language="de")
    items = by_task(result)
    assert items["audit-negation"]["told"] == "needs English texts, these are in de"
    assert items["audit-synonyms"]["told"] == "needs English texts, these are in de"
    assert items["audit-adversarial-synonyms"]["told"] == "needs English texts, these are in de"
    assert items["audit-roles"]["verdict"] == "breaks", "an edit of any language"
    assert result["protocol"]["language"]["code"] == "de"
    german = [f"Der Hund Nummer {n} läuft durch den großen Park und bellt die schwarze Katze an." for n in range(40)]
    Path("de.txt").write_text("\n".join(german) + "\n")
    detected = both("bag_of_words", texts="de.txt")
    assert detected["protocol"]["language"]["code"] == "de"
    assert detected["protocol"]["language"]["confidence"] == 1.0
    assert by_task(detected)["audit-negation"]["told"] == "needs English texts, these are in de"


# --- pairs -------------------------------------------------------------------------------------------------------


def read(texts: list[str], seen: int | None = None) -> ReadTexts:
    space: Any = SimpleNamespace(texts=texts, numbers=list(range(len(texts))), model=SimpleNamespace(tokenizer=None))
    return ReadTexts(space, [len(text) if seen is None else seen for text in texts], 1)


def test_ties_count_half() -> None:
    hold, move = np.array([0.9, 0.8, 0.8, 0.80001]), np.array([0.8, 0.9, 0.8, 0.8])
    assert move_items.outcomes(hold, move).tolist() == [1.0, 0.0, 0.5, 0.5]
    assert share_interval(np.array([1.0] * 10), seed=1)[0] == pytest.approx(0.025**0.1)
    assert share_interval(np.array([0.5] * 10), seed=1) == (0.5, 0.5)


def test_the_hold_edit_is_of_like_size() -> None:
    texts = read(["The big elephant watches another little elephant near houses and gardens"])
    (pair,) = moved_pairs(
        texts, SwappedEnds(), HoldBeside(texts, [SyntheticTypos()], []), most=9, deadline=float("inf")
    )
    assert pair.move.share == pytest.approx(2 / 11)
    assert pair.hold.share == pair.move.share
    assert pair.beside == "typos"
    (pair,) = moved_pairs(texts, Not(), HoldBeside(texts, [SyntheticTypos()], []), most=9, deadline=float("inf"))
    assert pair.hold.share == pair.move.share == pytest.approx(1 / 11)


def test_a_hold_edit_leaves_three_quarters_of_the_words() -> None:
    texts = read(["The elephant watches another elephant near gardens today"])
    swap = ScrambledHalf()
    (pair,) = moved_pairs(texts, swap, HoldBeside(texts, [SyntheticTypos()], []), most=9, deadline=float("inf"))
    assert pair.move.share == pytest.approx(4 / 8)
    assert pair.hold.share == pytest.approx(2 / 8)


def test_a_change_of_form_stands_beside_where_no_word_can_be_changed() -> None:
    texts = read(["It is of the", "Dogs of the few"])
    pairs = moved_pairs(
        texts, Not(), HoldBeside(texts, [SyntheticTypos()], [LowerCase()]), most=9, deadline=float("inf")
    )
    assert [pair.beside for pair in pairs] == ["case.lower", "typos"]
    assert moved_pairs(texts, Not(), HoldBeside(texts, [], []), most=9, deadline=float("inf")) == []


def test_what_the_model_does_not_read_is_not_changed() -> None:
    texts = read(["one two three four five six seven"], seen=len("one two three four"))
    (pair,) = moved_pairs(
        texts, SwappedEnds(), HoldBeside(texts, [SyntheticTypos()], []), most=9, deadline=float("inf")
    )
    assert pair.move.text == "one four three two five six seven"
    assert pair.hold.text.endswith(" five six seven")


def test_pairs_do_not_depend_on_other_texts() -> None:
    all_texts = some_texts(30)
    beside = lambda texts: HoldBeside(texts, [SyntheticTypos()], [])  # noqa: E731
    whole = read(all_texts)
    few = moved_pairs(whole, Not(), beside(whole), most=7, deadline=float("inf"))
    many = moved_pairs(whole, Not(), beside(whole), most=30, deadline=float("inf"))
    assert len(few) == 7
    assert few == many[:7]
    assert moved_pairs(whole, Not(), beside(whole), most=7, deadline=0.0) == []


def test_an_unbuildable_family_is_absent_with_the_reason(
    both: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = EditTable(edit_table(noise_builders()).edits, {"antonym": "pip install 'holdfast[attacks]'"})
    monkeypatch.setattr("holdfast.audit.audit_run.edits_of", lambda *_: table)
    items = by_task(both("bag_of_words", items="antonym,meaning"))
    assert (items["audit-antonym"]["verdict"], items["audit-antonym"]["told"]) == (
        "absent",
        "pip install 'holdfast[attacks]'",
    )
    assert items["audit-meaning"]["verdict"] == "absent"


def test_an_edit_whose_library_is_not_installed_is_absent(
    both: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise NotInstalled("look-alikes need a library: pip install it")

    monkeypatch.setattr("holdfast.edits.evasion.look_alikes", missing)
    items = by_task(both("bag_of_words", items="confusables,leetspeak"))
    assert items["audit-confusables"]["verdict"] == "absent"
    assert items["audit-confusables"]["told"] == "look-alikes need a library: pip install it"
    assert items["audit-leetspeak"]["verdict"] != "absent", "the others are measured"


def test_two_edits_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="roles"):
        edit_table({"one": lambda: (SwappedEnds(),), "two": lambda: (SwappedEnds(),)})
    assert {edit.NAME for edit in edit_table(noise_builders()).side("hold")} >= set(audit_edits.WITH_OWN_ITEM) - {
        "synonyms",
        "blank",
    }


def test_a_space_compares_pairs_by_the_vectors_that_it_has() -> None:
    units = np.eye(2)
    space = Space(None, ["a", "b"], [0, 1], units, lambda texts: np.stack([units[int(t == "b")] for t in texts]))  # type: ignore[arg-type]
    from holdfast.audit.vector_movement import Copy

    assert space.cosines([Copy(0, "a", (), 1.0), Copy(0, "b", (), 1.0)]).tolist() == [1.0, 0.0]


def test_a_prompt_takes_part_of_what_the_model_reads(make_masked_lm: Callable[..., Path], tmp_path: Path) -> None:
    from holdfast.models import load_sentence_transformer

    model = load_sentence_transformer(str(make_masked_lm(tmp_path / "short", max_positions=8)), device="cpu")
    text = "dog runs dog runs dog runs dog runs"
    space: Any = SimpleNamespace(texts=[text], numbers=[0], model=model)
    assert text[: ReadTexts.of(space, 1).seen[0]] == "dog runs dog runs dog runs"
    model.prompts, model.default_prompt_name = {"p": "dog runs "}, "p"
    assert text[: ReadTexts.of(space, 1).seen[0]] == "dog runs dog runs"
