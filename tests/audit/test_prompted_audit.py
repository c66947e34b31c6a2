"""Audits of encoders with prompts."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audited import SEEN, by_task, run

from holdfast.audit.audit_inputs import matches
from holdfast.audit.audit_settings import AuditSettings
from holdfast.errors import UserError


def test_an_audit_uses_the_chosen_prompt_and_shows_texts_without_it(here: Path, prompted: Callable[..., Path]) -> None:
    model = str(prompted())
    with pytest.raises(UserError, match="has prompts and no default: query 'the old ', passage 'under '; choose"):
        run(model)
    with pytest.raises(UserError, match="--prompt-name is for a model, and call:services:embed is a function"):
        run("call:services:embed", prompt_name="query")
    result = run(model, query_prompt_name="query", document_prompt_name="passage", examples=4)
    protocol = result["protocol"]
    assert [protocol[name] for name in ("prompt", "query_prompt", "document_prompt")] == [
        "the old ",
        "the old ",
        "under ",
    ]
    mine = set((here / "mine.txt").read_text().splitlines())
    own = [row for row in result["examples"] if not row["item"].startswith(("audit-advsts", "audit-poisoning"))]
    assert {row["original"] for row in own} <= mine
    assert all(not row["adversarial"].lower().startswith("the old the") for row in own)
    assert by_task(result)["audit-neighbours"]["verdict"] != "not measured"
    settings = {"texts": "mine.txt", "examples": 4, "tagger": "textblob", "data": here / "data"}
    sides = {"query_prompt_name": "query", "document_prompt_name": "passage"}
    assert matches(result, AuditSettings(model, **settings, **sides))
    assert not matches(result, AuditSettings(model, **settings))

    # Neighbours that are encoded with the query's prompt are others.
    alike = run(model, prompt_name="query", examples=4)
    assert (alike["protocol"]["prompt"], "document_prompt" in alike["protocol"]) == ("the old ", False)
    first, second = (
        [row["before"]["neighbours"] for row in each["examples"] if row["item"] == "audit-neighbours"]
        for each in (result, alike)
    )
    assert first != second
    assert by_task(alike)["audit-typos"]["metrics"] == by_task(result)["audit-typos"]["metrics"]


@pytest.mark.parametrize("kind", ["words of an attack", "edits", "random changes"])
def test_what_is_read_is_counted_with_the_prompt(kind: str, prompted: Callable[..., Path]) -> None:
    """The three places that change only what the model reads take the end from the same function."""
    from holdfast.attacks.encoder_targets import DriftTarget, characters_read
    from holdfast.attacks.examples import Example
    from holdfast.audit import changed_copies
    from holdfast.audit.edited_copies import ReadTexts
    from holdfast.audit.vector_movement import NumberedTexts
    from holdfast.models import load_sentence_transformer
    from holdfast.text_prompts import PromptOptions

    chosen = PromptOptions(prompt="the old dog sleeps in a ")
    model = load_sentence_transformer(str(prompted()), prompts=chosen)
    model.max_seq_length = model.tokenizer.model_max_length = 12
    text = "dog cat house park bed man woman child"
    end = characters_read(model, text)
    assert text[:end] == "dog cat house park", "12 tokens without two special ones and the six of the prompt"
    if kind == "words of an attack":
        assert DriftTarget(model, source="x", threshold=0.5).seen(Example(0, (text,))) == end
        return
    space: Any = NumberedTexts(model, [text], [0])
    if kind == "edits":
        assert list(ReadTexts.of(space, 0).seen) == [end]
        return
    copies = changed_copies.exchanged_words(space, lambda words, place, rng: "x", kind="y", seed=0)
    places = {
        place
        for seed in range(30)
        for copy in changed_copies.exchanged_words(space, lambda *_: "x", kind="y", seed=seed)
        for place, _, _ in copy.changed
    }
    assert places == {0, 1, 2, 3}
    assert len(copies) == 1


def test_a_text_that_is_read_in_part_is_changed_as_that_part_is(make_encoder_model: Callable[..., Any]) -> None:
    """Sizes and shares are those of the words that are read: the rest changes no vector."""
    from small_edits import Not

    from holdfast.attacks.encoder_targets import characters_read
    from holdfast.audit import changed_copies
    from holdfast.audit.edited_copies import HoldBeside, ReadTexts, edited_copies, moved_pairs
    from holdfast.audit.vector_movement import NumberedTexts
    from holdfast.edits.casing_and_spacing import toggle_full_stop, upper_case
    from holdfast.edits.synthetic_typos_edit import SyntheticTypos

    model = make_encoder_model("bert")
    model.max_seq_length = model.tokenizer.model_max_length = 22
    draw = random.Random(0)
    whole = [" ".join(draw.choices(SEEN, k=200)) for _ in range(5)]
    read = [text[: characters_read(model, text)] for text in whole]
    assert {len(text.split()) for text in read} == {20}
    kinds: dict[str, list[Any]] = {}
    for texts in (read, whole):
        space: Any = NumberedTexts(model, texts, list(range(5)))
        of_read = ReadTexts.of(space, 0)
        kinds.setdefault("exchanged", []).append(
            changed_copies.exchanged_words(space, lambda *_: "x", kind="y", seed=0)
        )
        for edit in (SyntheticTypos(), Not()):
            made = edited_copies(of_read, edit, strength=0.2, most=5, deadline=float("inf"))
            kinds.setdefault(edit.NAME, []).append(made)
        form = edited_copies(of_read, Not(), strength=0.2, most=5, deadline=float("inf"), of_one_word=True)
        kinds.setdefault("form", []).append(form)
        pairs = moved_pairs(of_read, Not(), HoldBeside(of_read, [SyntheticTypos()], []), most=5, deadline=float("inf"))
        kinds.setdefault("moved", []).append([pair.move for pair in pairs])
        kinds.setdefault("held", []).append([pair.hold for pair in pairs])
        kinds.setdefault("upper", []).append(changed_copies.changed_texts(space, upper_case))
    for kind, (short, long) in kinds.items():
        assert len(short) == len(long) == 5, kind
        for one, other in zip(short, long, strict=True):
            rest = whole[one.index][len(read[one.index]) :]
            assert other.text == one.text + (rest.upper() if kind == "upper" else rest), kind
            assert (one.share, one.spans) == (other.share, other.spans), kind
            assert one.changed == other.changed[: len(one.changed)], kind
    assert kinds["exchanged"][1][0].share == pytest.approx(2 / 20)
    assert kinds["upper"][1][0].share == 1 / 20
    # The end of a text that is read in part is not read.
    assert len(changed_copies.changed_texts(NumberedTexts(model, read, list(range(5))), toggle_full_stop)) == 5
    assert changed_copies.changed_texts(NumberedTexts(model, whole, list(range(5))), toggle_full_stop) == []
