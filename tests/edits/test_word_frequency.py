"""Frequencies of words on a logarithmic scale."""

from __future__ import annotations

import pytest

from holdfast.edits.word_frequency import WordFrequency, english_frequency


def test_a_word_is_counted_per_billion_and_unknown_ones_are_the_rarest() -> None:
    counts = WordFrequency({"the": 10**7, "seldom": 10, "once": 1}, 1e9, source="counted")
    assert counts.per_billion("The") == pytest.approx(7.0)
    assert counts.per_billion("seldom") == pytest.approx(1.0)
    assert counts.per_billion("once") == counts.per_billion("never") == 0.0


def test_english_words_are_in_the_order_of_their_use() -> None:
    counts = english_frequency()
    assert counts.per_billion("the") > counts.per_billion("couch") > counts.per_billion("fille") == 0.0
    assert 3.0 < counts.per_billion("couch") < 5.0
    assert "symspellpy" in counts.source
