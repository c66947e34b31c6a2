"""The probability of strings of letters as words."""

from __future__ import annotations

import itertools
import math

import pytest

from holdfast.baselines.letter_model import LetterModel


@pytest.mark.parametrize("prior", [None, 5.0])
def test_the_probabilities_of_strings_sum_to_less_than_one_and_those_like_words_have_most(prior: float | None) -> None:
    model = LetterModel(["ab", "abb", "ba"], prior=prior, letters=3)
    strings = ["".join(s) for n in range(1, 7) for s in itertools.product("ab", repeat=n)]
    assert 0.5 < sum(math.exp(model.log(each)) for each in strings) < 1.0
    assert model.log("abb") > model.log("bbb") > model.log("qqq")
    assert math.log(model.probability("abb")) == pytest.approx(model.log("abb"))


def test_smoothing_by_kinds_and_by_a_prior() -> None:
    # After the beginning, "a" twice and "b" once; without context "a" 3, "b" 4 and the end 3 of 10 times.
    words = ["ab", "abb", "ba"]
    first = {prior: LetterModel(words, prior=prior, letters=20).probability("a", ended=False) for prior in (None, 5.0)}
    alone = (3 + 3 / 20) / (10 + 3)
    assert first[None] == pytest.approx((2 + 2 * (2 + 2 * alone) / (3 + 2)) / (3 + 2))
    alone = (3 + 5 / 20) / (10 + 5)
    assert first[5.0] == pytest.approx((2 + 5 * (2 + 5 * alone) / (3 + 5)) / (3 + 5))


def test_unknown_words_look_like_the_words_of_the_model() -> None:
    model = LetterModel(["farel", "marel", "varen", "karel"], prior=5.0, letters=30)
    assert model.probability("narel") > 10 * model.probability("xqzjw")
    assert model.probability("kar", ended=False) > 10 * model.probability("kar")


def test_a_model_with_more_words_is_that_of_all_words_and_leaves_the_first_as_it_is() -> None:
    words = ["farel", "marel", "varen", "karel"]
    first = LetterModel(words[:2])
    before, found = first.log("karel"), first.with_words(words[2:])
    assert found.log("karel") == LetterModel(words).log("karel") > before
    assert first.log("karel") == before
