"""Random edits: the words that they change, and their dependence on nothing but the random generator."""

from __future__ import annotations

import random

import pytest

from holdfast.edits.misspellings import Misspellings
from holdfast.edits.random_edits import RandomEdits
from holdfast.edits.synonyms import ListedNeighbours
from holdfast.edits.typing_errors import TYPING_ERRORS
from holdfast.edits.words import Words, is_content_word

TEXT = "The weary captain didn't trust the weather forecast, so the ship stayed in the harbour until Tuesday morning."
NEAR = ListedNeighbours({"old": ["ancient", "aged"], "ship": ["vessel"]}, source="test")


@pytest.mark.parametrize("share", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("edit", sorted(TYPING_ERRORS))
def test_the_share_of_content_words_and_nothing_else(edit: str, share: float) -> None:
    edits = RandomEdits((edit,), share)
    content = [word for word in Words.of(TEXT).words if is_content_word(word)]
    for seed in range(20):
        changed = edits.of(TEXT, random.Random(seed))
        if edit == "space":  # one word has become two
            assert len(changed) - len(TEXT) == max(1, round(share * len(content)))
            continue
        before, after = Words.of(TEXT).parts, Words.of(changed).parts
        touched = [one for one, other in zip(before, after, strict=True) if one != other]
        assert len(touched) == max(1, round(share * len(content)))
        assert all(is_content_word(word) for word in touched)


def test_each_edit_has_its_turn_and_is_that_edit() -> None:
    edits = RandomEdits(("case", "look-alike", "synonym"), 0.1, NEAR)
    found = {edits.of("ship", random.Random(seed)) for seed in range(200)}
    assert {"Ship", "SHIP", "vessel"} < found
    assert any(not word.isascii() for word in found)
    assert all(word in ("Ship", "SHIP", "vessel") or not word.isascii() for word in found)


def test_half_of_the_words_get_a_synonym_and_typing_errors_share_the_rest() -> None:
    edits = RandomEdits(("key", "swap", "drop", "case", "synonym"), 1.0, NEAR)
    found = [edits.of("ship", random.Random(seed)) for seed in range(1000)]
    assert 430 < found.count("vessel") < 570, "of a fair coin 1 in 100,000 is further off"
    assert 85 < sum(word in ("Ship", "SHIP") for word in found) < 170, "a quarter of the other half"


def test_an_edit_that_does_not_apply_leaves_the_word_to_another() -> None:
    edits = RandomEdits(("synonym", "case"), 1.0, NEAR)
    for seed in range(20):
        assert edits.of("harbour", random.Random(seed)) in ("Harbour", "HARBOUR"), "no synonym is known"


def test_synonyms_are_of_the_word_and_in_its_case() -> None:
    edits = RandomEdits(("synonym",), 1.0, NEAR)
    found = {edits.of("Old ship of the harbour", random.Random(seed)) for seed in range(50)}
    assert found == {"Ancient vessel of the harbour", "Aged vessel of the harbour"}


def test_the_same_chance_gives_the_same_text_and_another_another() -> None:
    edits = RandomEdits(tuple(TYPING_ERRORS), 0.3)
    texts = [edits.of(TEXT, random.Random(seed)) for seed in (1, 1, 2, 3, 4)]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 4


@pytest.mark.parametrize("text", ["", "it is not", "?!", "42", "a b c"])
def test_a_text_without_content_words_stays(text: str) -> None:
    assert RandomEdits(tuple(TYPING_ERRORS), 1.0).of(text, random.Random(0)) == text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((("swop",), 0.3), "unknown edit 'swop'"),
        (((), 0.3), "at least one edit"),
        ((("swap",), 0.0), "share must be above 0"),
        ((("swap",), 1.1), "share must be above 0 and at most 1"),
        ((("synonym",), 0.3), "needs a source of synonyms"),
    ],
)
def test_wrong_use_is_refused(arguments: tuple[tuple[str, ...], float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        RandomEdits(*arguments)


def test_the_eight_nearest_synonyms_are_drawn_from() -> None:
    near = ListedNeighbours({"ship": [f"boat{letter}" for letter in "abcdefghij"]}, source="test")
    edits = RandomEdits(("synonym",), 1.0, near)
    found = {edits.of("ship", random.Random(seed)) for seed in range(300)}
    assert found == {f"boat{letter}" for letter in "abcdefgh"}


def test_noise_is_drawn_beside_changes_of_words_as_often_as_any_other_name() -> None:
    edits = RandomEdits(("case.upper", "key"), 0.4)
    text = "every curious engineer measured another bridge"
    made = [edits.of(text, random.Random(seed)) for seed in range(200)]
    upper = made.count(text.upper())
    assert upper == pytest.approx(100, abs=30)
    assert all(text.upper() == new or sum(a != b for a, b in zip(text, new, strict=True)) <= 2 for new in made)


def test_noise_changes_as_many_words_as_the_share_of_content_words() -> None:
    edits = RandomEdits(("whitespace",), 0.5)
    text = "the curious engineer of the town measured a bridge"  # five content words
    for seed in range(20):
        new = edits.of(text, random.Random(seed))
        assert new.split() == text.split()
        assert sum(new.count(mark) for mark in ("  ", "\t", "\xa0")) + (new[:1] == " ") + (new[-1:] == " ") == 2


def test_an_unknown_name_lists_words_edits_and_noise() -> None:
    with pytest.raises(ValueError, match=r"unknown edit 'typnig'; edits: key, .*synonym, typing, speech"):
        RandomEdits(("typnig",), 0.4)


def test_misspellings_without_typing_are_refused() -> None:
    known = Misspellings({"letter": ("lettre",)}, 1.0)
    with pytest.raises(ValueError, match="misspellings are for the edit 'typing'"):
        RandomEdits(("swap",), 0.3, misspellings=known)
    assert RandomEdits(("swap", "typing"), 0.3, misspellings=known).misspellings is known
