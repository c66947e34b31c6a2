"""The choice of misspellings for a vocabulary, and its guards."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("symspellpy", reason="the guards use symspellpy's English dictionary")

from holdfast.edits.word_frequency import english_words
from holdfast.hardening.typo_vocabulary import Misspelling, count_words, typo_vocabulary, unseen_share

COUNTS = Counter({"government": 500, "letter": 300, "form": 200, "from": 900, "zorbleflux": 1})
WORDS = {"government", "letter", "form", "from"}


def chosen(**changed: object) -> dict[str, str]:
    given: dict[str, object] = {"size": 5000, "vocabulary": WORDS, "error_rate": 1.0, **changed}
    return {each.typed: each.word for each in typo_vocabulary(COUNTS, **given)}  # type: ignore[arg-type]


def test_words_are_counted_in_lower_case_after_the_normalisation() -> None:
    assert count_words(["The dog's DOG, 3rd", "a_b"]) == Counter("the dog s dog rd a b".split())
    assert count_words(["é"], lambda text: text.replace("é", "e")) == Counter("e")


def test_the_most_probable_come_first() -> None:
    found = typo_vocabulary(COUNTS, size=50, vocabulary=WORDS, error_rate=1.0)
    assert len(found) == 50
    assert [each.share for each in found] == sorted((each.share for each in found), reverse=True)
    assert isinstance(found[0], Misspelling)
    assert found == typo_vocabulary(COUNTS, size=5000, vocabulary=WORDS, error_rate=1.0)[:50]
    pairs = chosen()
    assert pairs["goverment"] == "government"
    assert pairs["lettre"] == "letter"


def test_no_entry_is_a_word() -> None:
    pairs = chosen()
    assert all(len(typed) >= 4 for typed in pairs)
    assert not pairs.keys() & english_words()
    assert not any(word.startswith(typed) for typed, word in pairs.items())
    assert "fetter" in english_words()
    seen = next(iter(pairs))
    again = typo_vocabulary(COUNTS | Counter({seen: 1}), size=5000, vocabulary=WORDS, error_rate=1.0)
    assert seen not in {each.typed for each in again}
    assert seen not in chosen(vocabulary={*WORDS, seen})


def test_one_that_may_be_two_words_is_left_out() -> None:
    assert "frmo" in chosen()  # from, not form
    both = Counter({"form": 500, "from": 500})
    pairs = {each.typed for each in typo_vocabulary(both, size=5000, vocabulary=WORDS, error_rate=1.0)}
    assert "fform" in pairs
    assert "frm" not in pairs
    assert "fomr" in pairs
    assert "forrm" in pairs
    rare = {each.typed for each in typo_vocabulary(both, size=5000, vocabulary={"form"}, error_rate=1.0)}
    assert "frrom" not in rare  # its word is no entry


def test_unknown_words_weigh_against_rare_errors() -> None:
    many, few = chosen(), chosen(error_rate=1e-4)
    assert set(few) < set(many)
    assert few


def test_the_share_of_unknown_words() -> None:
    assert unseen_share({"a": 1, "b": 1, "c": 8}) == pytest.approx(0.2)
    assert unseen_share({"a": 4}) == pytest.approx(0.25)


def test_listed_misspellings_count_as_the_most_probable() -> None:
    assert "lttrzz" not in chosen()
    assert chosen(listed={"letter": ["lttrzz"]})["lttrzz"] == "letter"
