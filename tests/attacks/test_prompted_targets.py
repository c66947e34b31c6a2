"""Attacks on encoders with prompts: the text is a query, what is searched are documents, and results hold the text."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from holdfast.attacks.attack_inputs import cut_texts
from holdfast.attacks.attack_run import attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.encoder_targets import DriftTarget
from holdfast.attacks.examples import Example
from holdfast.attacks.resource_names import LIGHT
from holdfast.attacks.retrieval_target import RetrievalTarget
from holdfast.attacks.scored_pair_target import ScoredPairTarget, fitted_scale
from holdfast.edits.words import Words
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer
from holdfast.text_prompts import PromptOptions, RolePromptOptions

WORDS = "the a man woman child dog cat runs sleeps eats plays sings on under in park house bed red big old".split()


def texts(count: int) -> list[str]:
    draw = random.Random(0)
    return list(dict.fromkeys(" ".join(draw.choices(WORDS, k=draw.randint(4, 9))) for _ in range(count)))


def units(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def load(folder: Path, options: PromptOptions) -> SentenceTransformer:
    return load_sentence_transformer(str(folder), device="cpu", prompts=options)


def test_retrieval_has_queries_and_documents(prompted: Callable[..., Path]) -> None:
    corpus = texts(30)
    plain = SentenceTransformer(str(prompted("query")), device="cpu")
    target = RetrievalTarget(load(prompted("query"), PromptOptions()), source="m", corpus=corpus, k=3)
    np.testing.assert_allclose(target.units(corpus), units(plain.encode_query(corpus)), atol=1e-5)
    np.testing.assert_allclose(target._vectors, units(plain.encode(corpus, prompt_name="passage")), atol=1e-5)
    alike = RetrievalTarget(load(prompted(prompts={}), PromptOptions()), source="m", corpus=corpus, k=3)
    np.testing.assert_allclose(alike.units(corpus), alike._vectors, atol=1e-5)


def test_scored_pairs_have_sides_only_if_the_user_names_one(prompted: Callable[..., Path]) -> None:
    first, second = texts(12)[:6], texts(12)[6:12]
    scores = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    plain = SentenceTransformer(str(prompted("query")), device="cpu")
    named = load(prompted("query"), RolePromptOptions(query_prompt="a ", document_prompt="big red "))
    examples = [Example(i, pair, 1, 2.0) for i, pair in enumerate(zip(first, second, strict=True))]
    for model, of_first, of_second in (
        (load(prompted("query"), RolePromptOptions()), "the old ", "the old "),
        (named, "big red ", "a "),
    ):
        a, b = units(plain.encode(first, prompt=of_first)), units(plain.encode(second, prompt=of_second))
        cosines = (a * b).sum(axis=1)
        scale = fitted_scale(model, first, second, scores)
        target = ScoredPairTarget(model, source="m", scale=scale)
        target.prepare(examples)
        np.testing.assert_allclose(list(target._first.values()), cosines, atol=1e-4)
        np.testing.assert_allclose(target.units(second), b, atol=1e-5)
        order = np.argsort(cosines)
        assert (np.diff(scale(cosines[order])) >= 0).all()
        from sklearn.isotonic import IsotonicRegression

        expected = IsotonicRegression(y_min=0.0, y_max=5.0, out_of_bounds="clip").fit(cosines.round(5), scores)
        np.testing.assert_allclose(scale(cosines), expected.predict(cosines), atol=1e-2)


def test_what_is_read_and_the_words_importance_are_of_the_text(prompted: Callable[..., Path]) -> None:
    model = load(prompted(), PromptOptions(prompt="big red "))
    target = DriftTarget(model, source="m", threshold=0.5)
    assert target.seen(Example(0, ("dog " * 70,))) == 4 * (64 - 2 - 2) - 1  # without [CLS], [SEP] and the prompt
    counts = [cut_texts(target, [Example(0, ("dog " * words,))]).texts for words in (60, 61)]  # type: ignore[union-attr]
    assert counts == [0, 1]
    example = Example(0, ("the woman sings",))
    target.prepare([example])
    (found,) = target.gradients([(example, Words.of(example.text))])
    assert len(found.importance) == 3
    assert all(importance > 0 for importance in found.importance)
    np.testing.assert_allclose(found.z, target.units([example.text])[0], atol=1e-5)


def test_an_attack_shows_texts_without_the_prompt(
    prompted: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = texts(30)
    (tmp_path / "mine.txt").write_text("\n".join(corpus) + "\n")
    given = {"texts": str(tmp_path / "mine.txt"), "recipes": ["typos"], "resources": LIGHT, "examples": 4}
    settings = AttackSettings(str(prompted()), goal="neighbours", k=2, precision="fp32", **given)
    result = attack(settings)  # its texts are queries and documents: no other choice is needed
    assert result["protocol"]["query_prompt"] == "the old "
    assert result["protocol"]["document_prompt"] == "under "
    assert "prompt" not in result["protocol"]
    assert {row["original"] for row in result["examples"]} <= set(corpus)
    assert not any(
        row["adversarial"].startswith("the old ") != row["original"].startswith("the old ")
        for row in result["examples"]
    )
    drift = AttackSettings(str(prompted()), **given)
    with pytest.raises(UserError, match="has prompts and no default: query 'the old ', passage 'under '"):
        attack(drift)
    chosen = attack(AttackSettings(str(prompted()), prompt_name="passage", **given))
    assert chosen["protocol"]["prompt"] == "under "


def test_a_function_takes_no_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "services.py").write_text("def embed(texts):\n    return [[float(len(t)), 1.0] for t in texts]\n")
    (tmp_path / "mine.txt").write_text("\n".join(texts(30)) + "\n")
    monkeypatch.chdir(tmp_path)
    settings = AttackSettings("call:services:embed", texts="mine.txt", recipes=["typos"], resources=LIGHT, prompt="a ")
    with pytest.raises(UserError, match="--prompt is for a model, and call:services:embed is a function"):
        attack(settings)
