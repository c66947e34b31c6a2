"""Evasion edits: what each does to a word, and how many words of a text it changes."""

from __future__ import annotations

import random
import unicodedata

import pytest

from holdfast.edits.display_order import BIDI_CONTROLS, PDF, RLO
from holdfast.edits.edit import Edit
from holdfast.edits.evasion import EMOJI, EVASIONS, LEET, ZERO_WIDTH, evasion_edits
from holdfast.edits.words import Words

TEXT = "The old committee answered every single question about that report today"
EDITS = {edit.NAME: edit for edit in evasion_edits()}


def drawn(name: str, word: str) -> set[str | None]:
    return {EVASIONS[name](word, random.Random(number)) for number in range(300)}


def without(text: str, characters: str) -> str:
    return "".join(c for c in text if c not in characters)


def test_all_kinds_are_edits() -> None:
    kinds = ["zero-width", "confusables", "bidi", "bidi.reversed", "spaced-letters", "leetspeak", "emoji"]
    assert list(EDITS) == kinds
    assert set(EVASIONS) == set(kinds)
    assert all((edit.SIDE, edit.LANGUAGE) == ("hold", None) for edit in EDITS.values())


def test_zero_width_characters_are_between_letters() -> None:
    found = drawn("zero-width", "bad")
    assert all(w is not None and w != "bad" and without(w, ZERO_WIDTH) == "bad" for w in found)
    assert {c for w in found for c in str(w)} == {*ZERO_WIDTH, *"bad"}
    assert all(w[0] == "b" and w[-1] == "d" for w in map(str, found))


def test_confusables_are_single_letters_outside_ascii() -> None:
    for word in map(str, drawn("confusables", "Loan")):
        assert len(word) == 4
        assert word != "Loan"
        for new, old in zip(word, "Loan", strict=True):
            assert new == old or (not new.isascii() and new.isalpha() and unicodedata.bidirectional(new) == "L")
    assert "Loa\u0578" in drawn("confusables", "Loan")
    assert drawn("confusables", "этот") == {None}


def test_letters_are_set_apart() -> None:
    assert drawn("spaced-letters", "bad") == {"b a d", "b.a.d"}


def test_bidi_controls_change_nothing_else() -> None:
    for word in map(str, drawn("bidi", "bad")):
        assert without(word, BIDI_CONTROLS) == "bad"
        assert len(word) == 5
    assert drawn("bidi", "שלום") == {None}
    assert drawn("bidi.reversed", "bad") == {f"{RLO}dab{PDF}"}
    assert drawn("bidi.reversed", "level") == drawn("bidi.reversed", "שלום") == {None}


def test_leetspeak() -> None:
    assert {"l3et", "le3t", "1337", "l33t"} <= drawn("leetspeak", "leet")
    assert drawn("leetspeak", "rhythm") == {"rhy7hm"}
    assert drawn("leetspeak", "dumb") == {"dum8"}
    assert "4BC" in drawn("leetspeak", "ABC"), "capitals have the signs of small letters"
    assert not any(map(str.isalpha, "".join(LEET.values())))


def test_emoji_are_beside_or_inside() -> None:
    found = {without(str(word), EMOJI) for word in drawn("emoji", "bad")}
    assert found == {"bad", "bad "}
    assert all(unicodedata.category(sign) == "So" for sign in EMOJI)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_strength_is_the_share_of_words(edit: Edit) -> None:
    count = len(Words.of(TEXT).words)
    for strength, words in ((0.0, 1), (0.3, 3), (1.0, count)):
        made = edit(TEXT, random.Random(1), strength)
        assert made is not None
        able = [word for word in Words.of(TEXT).words if drawn(edit.NAME, word) != {None}]
        assert len(made.changes) == min(words, len(able))
    assert edit(TEXT, random.Random(1), 0.5) == edit(TEXT, random.Random(1), 0.5)
    assert edit(TEXT, random.Random(1), 0.5) != edit(TEXT, random.Random(2), 0.5)
    assert edit("7 + 8 = 15 .", random.Random(1), 0.5) is None
