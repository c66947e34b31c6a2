"""Typing errors that a hardened encoder was not trained on, and what an attacker reads in its folder."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_attacks import mistake

from holdfast.attacks import AdaptiveTypos, CallableTarget, Example, Resources
from holdfast.attacks.engine import Engine
from holdfast.attacks.recipes.typos import KINDS
from holdfast.attacks.training_edits import TrainingEdits, training_record
from holdfast.edits.typing_errors import TYPING_ERRORS, every_typing_error
from holdfast.errors import UserError


def known(**changed: Any) -> TrainingEdits:
    given = {"source": "s", "kinds": (), "normalise": str.lower, "vocabulary": frozenset[str](), "dictionary": None}
    return TrainingEdits(**{**given, **changed})


@pytest.mark.parametrize("kind", TYPING_ERRORS)
def test_every_result_of_a_draw_is_listed_and_no_other(kind: str) -> None:
    for word in ("because", "House", "ab", "a", "NATO", "é"):
        rng = random.Random(word)
        drawn = {TYPING_ERRORS[kind](word, rng) for _ in range(3000)} - {None, word}
        assert drawn == set(every_typing_error(word, (kind,)))


def test_errors_of_the_kind_that_was_trained_come_last() -> None:
    errors = known(kinds=("swap", "drop")).typing_errors("because", ("key", "swap", "drop"))
    trained = set(every_typing_error("because", ("swap", "drop")))
    assert set(errors[-len(trained) :]) == trained
    assert len(errors) > len(trained)
    inside = known(kinds=("swap", "drop")).typing_errors("because", ("key", "swap", "drop"), outside=False)
    assert set(inside[: len(trained)]) == trained


def test_of_peoples_typing_the_improbable_errors_come_first() -> None:
    """People leave letters out, and rarely hit the key above."""
    training = known(kinds=("typing",))
    errors = training.typing_errors("definitely", KINDS)
    probable = training.probabilities("definitely")
    shares = [probable.get(error, 0.0) for error in errors]
    assert shares == sorted(shares)
    assert shares[0] < 0.02 * shares[-1]


def test_errors_that_the_tokeniser_does_not_see_are_left_out() -> None:
    assert set(every_typing_error("House", ("case",))) == {"house", "HOUSE"}
    assert known().typing_errors("House", ("case",)) == []
    assert set(known(normalise=str).typing_errors("House", ("case",))) == {"house", "HOUSE"}


def test_entries_of_the_vocabulary_that_are_no_words_come_last() -> None:
    pytest.importorskip("symspellpy", reason="the English dictionary is in symspellpy")
    entries = frozenset({"hosue", "horse", "because"})
    errors = known(vocabulary=entries).typing_errors("house", ("swap", "drop"))
    assert errors[-1] == "hosue"
    assert known(vocabulary=entries).is_entry("hosue")
    assert not known(vocabulary=entries).is_entry("horse")  # another word has its own embedding


def test_errors_that_the_spelling_correction_undoes_come_last() -> None:
    training = known(dictionary=frozenset({"house", "hose"}), normalise=str)
    errors = training.typing_errors("house", ("drop", "case"))
    assert errors[0] == "hose"  # a known word, which is not corrected
    assert not training.is_corrected("hOuse", "house")  # capitals inside
    assert not training.is_corrected("HOUSE", "house")
    assert training.is_corrected("huse", "house")
    assert not training.is_corrected("zbcd", "zabcd")  # the word itself is unknown
    assert errors.index("HOUSE") < errors.index("huse")


def test_a_folder_is_read(tmp_path: Path, make_encoder_model: Callable[..., Any]) -> None:
    make_encoder_model("bert", pooling="mean").save_pretrained(str(tmp_path))
    assert training_record(tmp_path) is None
    record = tmp_path / "harden.json"
    write_record(record, {"edits": "typing, key"})
    (tmp_path / "spelling").mkdir()
    (tmp_path / "spelling" / "words.txt").write_text("zurich 9 9\nzurch 2 0\n")
    training = TrainingEdits.read(tmp_path)
    assert training.kinds == ("typing", "key")
    assert "woman" in training.vocabulary
    assert training.dictionary is not None
    assert "zurich" in training.dictionary
    assert "zurch" not in training.dictionary  # too rare to count as known
    assert training.record()["edits"] == ["typing", "key"]
    write_record(record, {})
    with pytest.raises(UserError, match="does not tell the edits"):
        TrainingEdits.read(tmp_path)
    write_record(record, {"edits": "typing"})
    (tmp_path / "spelling" / "words.txt").write_text("zurich\n")
    with pytest.raises(UserError, match=r"words\.txt"):
        TrainingEdits.read(tmp_path)


def write_record(path: Path, options: dict[str, Any]) -> None:
    path.write_text(json.dumps({"protocol": {"options": options}}))


def test_another_model_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = mistake(capsys, ["attack", "model", "--task", "textfooler/mnli", "--recipes", "adaptive-typos"])
    assert "is not the folder of a hardened encoder" in line
    assert "leave it out of --recipes" in line
    with pytest.raises(UserError, match="hardened encoders"):
        Resources().training_edits  # noqa: B018


def test_the_recipe_tries_as_many_errors_as_it_is_told_in_their_order(resources: Any) -> None:
    resources.training_edits = known(kinds=("drop",))
    asked: list[str] = []

    def says(texts: list[str]) -> Any:
        asked.extend(texts)
        return np.array([[0.9, 0.1]] * len(texts))

    for side in ("outside", "inside"):
        asked.clear()
        recipe = AdaptiveTypos(max_share=1.0, candidates=3, side=side)  # type: ignore[arg-type]
        list(Engine(CallableTarget(says, name="f"), resources).run(recipe, [Example(0, ("the woman",), 0, 0)]))
        expected = resources.training_edits.typing_errors("woman", KINDS, outside=side == "outside")[:3]
        assert {text.split()[1] for text in asked if len(text.split()) == 2} == {"woman", *expected}
