"""The normaliser in a tokeniser: the rules that it holds, and models that need no holdfast."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.normalizers import Lowercase

from holdfast.edits.display_order import LRI, PDF, PDI, RLO
from holdfast.edits.evasion import EVASIONS
from holdfast.edits.tokenizer_normaliser import is_normalised, with_normaliser
from holdfast.errors import UserError

EVADED = {
    "p\u0430yp\u0430l": "paypal",
    "the с\u043eру of it": "the copy of it",
    "ιt was on thе ρоst": "it was on the post",
    "a \u0261irl": "a girl",
    "ｗｏｒｌｄ": "world",
    "hydro∣y n\u0be6vel wi\U0001d7cfl": "hydroly novel will",
    "th\u0435 fai\u04cfed": "the failed",
    "\u03f2ity": "city",
    "z\u200be\u200cr\u200do w\u2060i\u00add\ufefft\u034fh": "zero width",
    f"{LRI}all{PDI}": "all",
    f"{RLO}lla{PDF}": "lla",  # the order stays
}
STAY = [
    "Привет, это обычный русский текст о погоде и о том, как мы живём.",
    "Ελληνικά: η γλώσσα είναι όμορφη και ο καιρός καλός.",
    "これは普通の日本語の文章です。シャツを買った",
    "هذا نص عربي عادي، وفيه فاصلة.",
    "می‌خواهم بروم",
    "हिन्दी में क्‍या",
    "Bu kızın adı Yıldırım",
    "TNFα and NFκB, β-carotene, Kα, σx, the letters α and ρ",
    "👨‍👩‍👧 family 🏴󠁧󠁢󠁥󠁮󠁧󠁿 1️⃣ ❤️",
    "the Russian word карта means map",
    "Nokia сделала это, от",
    "ϲ",
]


def static(normalizer: Any = None) -> SentenceTransformer:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "dog": 1, "paypal": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    weights = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")


@pytest.fixture(scope="module")
def normalizer() -> normalizers.Normalizer:
    return with_normaliser(static())[0].tokenizer.normalizer


@pytest.mark.parametrize(("written", "read"), EVADED.items())
def test_evasion_is_undone(written: str, read: str, normalizer: normalizers.Normalizer) -> None:
    assert normalizer.normalize_str(written) == read


@pytest.mark.parametrize("text", STAY)
def test_an_honest_text_stays_as_it_is(text: str, normalizer: normalizers.Normalizer) -> None:
    assert normalizer.normalize_str(text) == text


def test_evaded_words_of_a_sentence_are_restored(normalizer: normalizers.Normalizer) -> None:
    words = "the committee said that nobody would be able to answer every question about the report".split()
    for kind in ("zero-width", "confusables", "bidi"):
        found = []
        for number in range(40):
            rng = random.Random(f"{kind}/{number}")
            evaded = [(rng.random() < 0.3 and EVASIONS[kind](word, rng)) or word for word in words]
            found.append(normalizer.normalize_str(" ".join(evaded)).casefold() == " ".join(words))
        assert np.mean(found) >= 0.95, kind


def test_a_saved_model_normalises_without_holdfast(make_encoder_model: Callable[..., Any], tmp_path: Path) -> None:
    texts = ["the dog sleeps", "a woman sings in the park"]
    evaded = ["the d\u043e\u200bg sl\u0435eps", f"a w\u043eman {LRI}sings{PDI} in th\u0435 park"]
    model = make_encoder_model(layers=1)
    plain = model.encode(texts)
    assert not np.allclose(model.encode(evaded), plain, atol=1e-3)
    limit = model.max_seq_length
    with_normaliser(model).save(str(tmp_path / "model"))
    loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(loaded.encode(texts), plain, atol=1e-6)
    np.testing.assert_allclose(loaded.encode(evaded), plain, atol=1e-6)
    assert loaded.max_seq_length == limit
    assert loaded.tokenizer.model_input_names == model.tokenizer.model_input_names
    long = " ".join(["the dog"] * 200)
    assert loaded.preprocess([long])["input_ids"].shape == model.preprocess([long])["input_ids"].shape


def test_the_tokenisers_own_normaliser_comes_after(normalizer: normalizers.Normalizer) -> None:
    model = static(Lowercase())
    before = model.encode(["paypal"])
    assert not np.allclose(model.encode(["P\u0430yPal"]), before)
    np.testing.assert_allclose(with_normaliser(model).encode(["P\u0430yPal"]), before)


def test_a_model_is_normalised_once() -> None:
    model = static()
    assert not is_normalised(model[0].tokenizer)
    assert is_normalised(with_normaliser(model)[0].tokenizer)
    with pytest.raises(UserError, match="mine normalises its texts already"):
        with_normaliser(model, name="mine")


def test_a_slow_tokeniser_is_refused(make_encoder_model: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_encoder_model(layers=1)
    monkeypatch.setattr(type(model[0].tokenizer), "is_fast", False)
    with pytest.raises(UserError, match="mine: normalising needs a fast tokeniser"):
        with_normaliser(model, name="mine")
