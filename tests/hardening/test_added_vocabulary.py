"""Misspellings as entries of an encoder's vocabulary: tokens, vectors, and the saved folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from holdfast.errors import UserError
from holdfast.hardening.added_vocabulary import add_misspellings_of, add_typo_vocabulary, without_beginnings
from holdfast.hardening.plain_vocabulary import PlainVocabulary
from holdfast.models import load_sentence_transformer

CLEAN = ["the big dog sleeps in the house", "a woman sings", "under the red bed"]
TYPED = ["the big dog slepes in the huose", "a woamn sings", "under the red bed"]
PAIRS = {"slepes": "sleeps", "huose": "house", "woamn": "woman", "dog": "cat", "wrold": "world"}


@pytest.fixture
def model(masked_lm: Path) -> SentenceTransformer:
    return load_sentence_transformer(str(masked_lm), pooling="mean")


def test_a_mistyped_text_gets_the_vector_of_the_right_one(model: SentenceTransformer, tmp_path: Path) -> None:
    before = model.encode(CLEAN)
    apart = np.abs(model.encode(TYPED) - before).max(axis=1)
    assert (apart > 1e-3).tolist() == [True, True, False]
    assert add_typo_vocabulary(model, PAIRS) == 3  # "dog" is an entry already, "world" is none
    for encoder in (model, _saved(model, tmp_path / "new")):
        np.testing.assert_allclose(encoder.encode(CLEAN), before, atol=1e-6)
        np.testing.assert_allclose(encoder.encode(TYPED), before, atol=1e-6)
    tokenizer, backbone = (kind.from_pretrained(tmp_path / "new") for kind in (AutoTokenizer, AutoModel))
    assert backbone.config.vocab_size == len(backbone.get_input_embeddings().weight) == len(tokenizer)
    ids = tokenizer(TYPED[0])["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == TYPED[0]
    assert len(ids) == len(CLEAN[0].split()) + 2


def _saved(model: SentenceTransformer, folder: Path) -> SentenceTransformer:
    model.save_pretrained(str(folder))
    return SentenceTransformer(str(folder), device="cpu")


def test_the_vocabulary_can_be_as_it_was(model: SentenceTransformer) -> None:
    plain, before = PlainVocabulary.of(model), model.encode(TYPED)
    add_typo_vocabulary(model, PAIRS)
    with plain.used(model):
        np.testing.assert_array_equal(model.encode(TYPED), before)
    assert np.abs(model.encode(TYPED) - before).max() > 1e-3
    plain.restore(model)
    np.testing.assert_array_equal(model.encode(TYPED), before)
    assert model[0].auto_model.config.vocab_size == len(model.tokenizer) == plain.rows


def test_words_that_begin_with_a_misspelling_are_split_as_before() -> None:
    vocabulary, pairs = {"inter", "interstate", "interest"}, {"interst": "interest", "intrest": "interest"}
    assert set(without_beginnings(pairs, vocabulary, ["interstice"])) == {"intrest"}
    assert without_beginnings(pairs, vocabulary, ["interstate", "interstates"]) == pairs
    assert without_beginnings(pairs, vocabulary | {"intersti"}, ["interstice"]) == pairs


def test_misspellings_come_from_texts(model: SentenceTransformer) -> None:
    pytest.importorskip("symspellpy", reason="the guards use symspellpy's English dictionary")
    tokens = [model.tokenizer.tokenize(text) for text in CLEAN]
    number = add_misspellings_of(model, [text.title() for text in CLEAN * 400], 30)
    assert 0 < number <= 30
    assert len(model.tokenizer) == 26 + number
    assert [model.tokenizer.tokenize(text) for text in CLEAN] == tokens
    rows = model[0].auto_model.get_input_embeddings().weight
    assert len(rows) == 26 + number
    assert all((rows[5:26] == row).all(dim=1).any() for row in rows[26:])


def test_capitals_of_a_cased_tokeniser(model: SentenceTransformer) -> None:
    from tokenizers import normalizers

    model.tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    add_typo_vocabulary(model, {"The": "the"})
    assert add_typo_vocabulary(model, {"teh": "the"}) == 2
    assert model.tokenizer.tokenize("Teh dog") == ["Teh", "dog"]


def test_words_with_a_capital_are_split_as_before(model: SentenceTransformer, monkeypatch: pytest.MonkeyPatch) -> None:
    from tokenizers import normalizers

    from holdfast.hardening.typo_vocabulary import Misspelling

    add_typo_vocabulary(model, {"houston": "house"})  # a whole word, but not with a capital
    model.tokenizer.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    assert add_typo_vocabulary(model, {"House": "house"}) == 1
    monkeypatch.setattr("holdfast.hardening.added_vocabulary.english_words", lambda: {"houston"})
    found = [Misspelling("hous", "house", 1.0), Misspelling("huose", "house", 1.0)]
    monkeypatch.setattr("holdfast.hardening.added_vocabulary.typo_vocabulary", lambda *_, **__: found)
    before = set(model.tokenizer.get_vocab())
    assert add_misspellings_of(model, ["the house"], 2) == 3
    new = set(model.tokenizer.get_vocab()) - before
    assert new == {"hous", "huose", "Huose"}, "Hous would part Houston in another way"


def test_other_tokenisers_are_refused(make_encoder_model: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match="need a fast WordPiece tokeniser"):
        add_typo_vocabulary(make_encoder_model("bert"), PAIRS)
