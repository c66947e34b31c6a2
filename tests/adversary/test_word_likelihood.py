"""Log-probabilities of words at their places, against the full output of the masked LM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from holdfast.adversary import word_likelihood
from holdfast.adversary.masked_lm import MaskedLM
from holdfast.adversary.word_likelihood import WordLikelihood
from holdfast.edits.words import Words


@pytest.fixture
def lm(masked_lm: Path) -> MaskedLM:
    return MaskedLM(str(masked_lm))


def by_hand(lm: MaskedLM, text: str, pieces: list[int]) -> float:
    encoded = lm.tokenizer(text, return_tensors="pt")
    places = (encoded["input_ids"][0] == lm.tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    assert len(places) == len(pieces)
    with torch.no_grad():
        logs = lm.model(**encoded).logits[0].log_softmax(dim=-1)
    return float(sum(logs[place, piece] for place, piece in zip(places, pieces, strict=True)))


def test_words_are_scored_at_as_many_masks_as_they_have_pieces(lm: MaskedLM, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"dog": lm.pieces(["dog"])[0], "doghouse": lm.pieces(["dog"])[0] + lm.pieces(["house"])[0]}
    monkeypatch.setattr(lm, "pieces", lambda words: [known[word] for word in words])
    words = Words.of("the old man sleeps")
    one, two = WordLikelihood(lm).log_probabilities([(words, 2, "dog"), (words, 2, "doghouse")])
    assert one == pytest.approx(by_hand(lm, "the old [MASK] sleeps", known["dog"]), abs=2e-3)
    assert two == pytest.approx(by_hand(lm, "the old [MASK][MASK] sleeps", known["doghouse"]), abs=2e-3)
    assert one != two


def test_a_batch_of_many_is_as_each_alone(lm: MaskedLM) -> None:
    words = ["man", "woman", "dog", "cat", "house", "park", "bed"]
    texts = [
        Words.of(f"the {a} sleeps on a {b} " + "in the park " * (i % 4)) for i, a in enumerate(words) for b in words
    ]
    asked = [(text, place, word) for text in texts for place in (1, 5) for word in words[:3]]
    together = WordLikelihood(lm).log_probabilities(asked)
    assert len({*together}) > 50
    for i in range(0, len(asked), 29):
        (alone,) = WordLikelihood(lm).log_probabilities([asked[i]])
        assert together[i] == pytest.approx(alone, abs=2e-3)


def test_what_is_known_is_not_computed_again_and_candidates_share_a_pass(lm: MaskedLM) -> None:
    rows: list[int] = []
    lm.model.register_forward_hook(lambda _module, _args, out: rows.append(len(out.logits)))
    likelihood, words = WordLikelihood(lm), Words.of("the old man sleeps")
    first = likelihood.log_probabilities([(words, 2, word) for word in ("dog", "cat", "dog")])
    assert rows == [1], "one masked text"
    assert first[0] == first[2] != first[1]
    assert likelihood.log_probabilities([(words, 2, "cat")]) == [first[1]]
    assert rows == [1]


def test_what_the_model_does_not_read_or_has_too_many_pieces_is_none(
    lm: MaskedLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = Words.of("the old man sleeps " * 40)
    first, last = WordLikelihood(lm).log_probabilities([(long, 2, "dog"), (long, 150, "dog")])
    assert first is not None
    assert last is None
    many: Any = {"few": [5] * word_likelihood.MOST_PIECES, "many": [5] * (word_likelihood.MOST_PIECES + 1), "none": []}
    monkeypatch.setattr(lm, "pieces", lambda words: [many[word] for word in words])
    short = Words.of("the old man")
    few, more, none = WordLikelihood(lm).log_probabilities([(short, 2, word) for word in many])
    assert few is not None
    assert more is None
    assert none is None


def test_a_word_is_none_if_the_window_ends_inside_it(lm: MaskedLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lm, "pieces", lambda words: [[5] * len(word) for word in words])
    long = Words.of("man " * 70)
    inside, across = WordLikelihood(lm).log_probabilities([(long, 61, "x"), (long, 61, "xx")])
    assert inside is not None, "62 words, a token before them and one behind"
    assert across is None


def test_other_masks_of_the_text_are_not_read(lm: MaskedLM) -> None:
    likelihood = WordLikelihood(lm)
    (value,) = likelihood.log_probabilities([(Words.of("the [MASK] dog eats the cat"), 5, "man")])
    encoded = lm.tokenizer("the [MASK] dog eats the [MASK]", return_tensors="pt")
    with torch.no_grad():
        logs = lm.model(**encoded).logits[0, 6].log_softmax(dim=-1)
    assert value == pytest.approx(float(logs[lm.pieces(["man"])[0][0]]), abs=2e-3)
