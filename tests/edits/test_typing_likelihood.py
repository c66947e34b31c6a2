"""The likelihood of typing errors under the rates that make them."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from holdfast.edits.typing_alignment import operations
from holdfast.edits.typing_edit import PeoplesTyping
from holdfast.edits.typing_likelihood import TypingLikelihood


@pytest.mark.parametrize(
    ("word", "likely", "unlikely"),
    [
        ("garden", "gardn", "gardenx"),
        ("garden", "gsrden", "gprden"),  # a key beside the right one
        ("definite", "definate", "defindte"),  # as people misspell
        ("garden", "garedn", "gazzen"),
        ("garden", "gardenn", "gardenz"),
        ("address", "adress", "addpess"),
        ("government", "goverment", "governpent"),
    ],
)
def test_likely_errors_are_likelier(word: str, likely: str, unlikely: str) -> None:
    found = TypingLikelihood()
    assert found.log(word, likely) > found.log(word, unlikely)


def test_the_likelihood_is_near_the_frequency_of_the_errors_that_the_rates_make() -> None:
    typing, likelihood, word = PeoplesTyping(), TypingLikelihood(), "garden"
    rng = random.Random("likelihood")
    made = Counter(typing(word, rng, 1.0).text for _ in range(4000))  # type: ignore[union-attr]
    frequent = [
        (new, count) for new, count in made.most_common(25) if " " not in new and len(operations(word, new)) == 1
    ]
    assert len(frequent) > 10
    for new, count in frequent:
        assert abs(likelihood.log(word, new) - math.log(count / 4000)) < 1.1, new
    assert sum(math.exp(likelihood.log(word, new)) for new in made if " " not in new and new != word) < 1.0


def test_every_string_is_possible_and_blanks_have_their_share() -> None:
    found = TypingLikelihood()
    assert math.isfinite(found.log("garden", "xyzxyz"))
    assert found.log_split("garden") == pytest.approx(found.log_split("a") - math.log(5))
    assert found.log_join() < 0.0
