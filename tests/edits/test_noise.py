"""The noise: seeded, pure, never empty, always visible, and no more than it promises."""

import random
import re
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.edits.noise import _MIN_LETTERS, character_noise, word_noise

Noise = Callable[..., str]
BOTH = pytest.mark.parametrize("noise", [character_noise, word_noise])

words = st.text(alphabet="abcdefghijklmnopqrstuvwxyzABCéßж'-,.1", min_size=1, max_size=9)
texts = st.lists(words, max_size=8).map(" ".join)
long_words = st.text(alphabet="aabcdefghijkéж", min_size=4, max_size=9)
changeable = st.lists(long_words, min_size=2, max_size=8).map(" ".join)
seeds = st.integers(0, 2**32)
rates = st.floats(0.001, 1.0)


@BOTH
@given(text=texts, seed=seeds, rate=rates)
def test_the_same_seed_gives_the_same_text_and_global_chance_is_left_alone(
    noise: Noise, text: str, seed: int, rate: float
) -> None:
    before = random.getstate()
    assert noise(text, random.Random(seed), rate=rate) == noise(text, random.Random(seed), rate=rate)
    assert random.getstate() == before


@BOTH
@given(text=texts.filter(str.strip), seed=seeds, rate=rates)
def test_a_text_never_becomes_empty(noise: Noise, text: str, seed: int, rate: float) -> None:
    assert noise(text, random.Random(seed), rate=rate).strip()


@BOTH
@given(text=changeable, seed=seeds, rate=rates)
def test_a_text_with_two_long_words_always_changes(noise: Noise, text: str, seed: int, rate: float) -> None:
    assert noise(text, random.Random(seed), rate=rate) != text


@BOTH
@given(text=st.text(max_size=30), seed=seeds)
def test_rate_zero_changes_nothing_and_no_text_is_refused(noise: Noise, text: str, seed: int) -> None:
    assert noise(text, random.Random(seed), rate=0.0) == text
    noise(text, random.Random(seed), rate=1.0)


@BOTH
@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_out_of_range_is_refused(noise: Noise, rate: float) -> None:
    with pytest.raises(ValueError, match="rate"):
        noise("Some text here", random.Random(0), rate=rate)


@given(text=texts, seed=seeds)
def test_each_misspelt_word_keeps_its_first_letter_and_has_one_edit(text: str, seed: int) -> None:
    pattern = re.compile(r"[^\W\d_]+")
    noisy = character_noise(text, random.Random(seed), rate=1.0)
    before, after = pattern.findall(text), pattern.findall(noisy)
    assert pattern.split(text) == pattern.split(noisy)
    for old, new in zip(before, after, strict=True):
        assert (old != new) == (len(old) >= _MIN_LETTERS)
        assert new[0] == old[0]
        assert abs(len(new) - len(old)) <= 1
        assert sum((Counter(old) - Counter(new)).values()) <= 1


@given(text=texts.filter(str.strip), seed=seeds)
def test_word_noise_uses_only_the_words_that_are_there(text: str, seed: int) -> None:
    noisy = word_noise(text, random.Random(seed), rate=0.5).split()
    assert set(noisy) <= set(text.split())


def test_equal_words_and_a_single_word_change_too() -> None:
    for seed in range(200):
        assert word_noise("same same", random.Random(seed), rate=1.0) != "same same"
        assert word_noise("alone", random.Random(seed), rate=1.0) == "alone alone"
        assert character_noise("aaaa", random.Random(seed)) not in {"aaaa", ""}


@pytest.mark.parametrize(
    ("noise", "text", "expected"),
    [
        (character_noise, "brave", {"barve", "brvae", "brve", "bravee", "brace"}),
        (word_noise, "one two three", {"two three", "two one three", "one two two three", "one three two"}),
    ],
)
def test_every_kind_of_edit_is_made(noise: Noise, text: str, expected: set[str]) -> None:
    assert expected <= {noise(text, random.Random(seed)) for seed in range(500)}


@pytest.mark.parametrize("noise_and_share", [(character_noise, 0.3), (word_noise, 0.3)])
def test_the_rate_is_the_share_of_words_touched(noise_and_share: tuple[Noise, float]) -> None:
    noise, rate = noise_and_share
    distinct = [f"{a}{b}word" for a in "abcdefghijklmnopqrst" for b in "abcdefghijklmnopqrst"]
    noisy = Counter(noise(" ".join(distinct), random.Random(7), rate=rate).split())
    changed = sum(noisy[word] != 1 for word in distinct)
    # Character noise changes every touched word; of word noise only drops and doubles show in the counts.
    expected = rate if noise is character_noise else rate * 2 / 3
    assert changed / len(distinct) == pytest.approx(expected, abs=0.1)
