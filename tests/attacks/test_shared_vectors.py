"""An attacked encoder that also measures the similarity: one computation for both, and nothing else changes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.adversary.masked_lm import MaskedLM
from holdfast.attacks import LIGHT, BERTAttack, DriftTarget, Example, Resources
from holdfast.attacks.engine import Engine
from holdfast.attacks.examples import Attempt
from holdfast.attacks.shared_vectors import share_vectors
from holdfast.attacks.vector_memo import VectorMemo
from holdfast.model_lookup import model_identity
from holdfast.models import load_sentence_transformer


@pytest.fixture
def folder(make_encoder_model: Callable[..., Any], tmp_path: Path) -> Path:
    make_encoder_model("bert", pooling="mean").save_pretrained(str(tmp_path / "encoder"))
    return tmp_path / "encoder"


def prepared(folder: Path, similarity: Path, lm: MaskedLM) -> tuple[DriftTarget, Resources, Counter[str]]:
    """A target and resources, and how often the target's model encoded each text."""
    target = DriftTarget(load_sentence_transformer(str(folder), device="cpu"), source="e", threshold=0.9)
    resources = Resources(dataclasses.replace(LIGHT, similarity=f"{similarity}@0.3"), device="cpu")
    resources.__dict__["masked_lm"] = lm
    resources.require(["similarity"])
    computed: Counter[str] = Counter()
    encoded = target.encoded

    def noting(texts: Any, *rest: Any, **more: Any) -> Any:
        computed.update(texts)
        return encoded(texts, *rest, **more)

    target.encoded = noting  # type: ignore[method-assign]
    return target, resources, computed


def attack(target: DriftTarget, resources: Resources, example: Example) -> Attempt:
    (attempt,) = Engine(target, resources).run(BERTAttack(), [example])
    return attempt


def test_each_text_is_encoded_once_for_both_uses_with_the_same_result(
    folder: Path, small_lm: MaskedLM, examples: list[Example]
) -> None:
    sha256 = model_identity(folder)["model_sha256"]
    example = max(examples, key=lambda each: len(each.text))
    target, resources, computed = prepared(folder, folder, small_lm)
    alone = attack(target, resources, example)
    without = sum(computed.values())
    target, resources, computed = prepared(folder, folder, small_lm)
    assert share_vectors(target, resources, sha256)

    assert isinstance(resources.similarity.encode, VectorMemo)
    assert attack(target, resources, example) == alone
    assert set(computed.values()) == {1}
    assert sum(computed.values()) >= without - 2  # the original, which was encoded twice for its own attack


def test_another_encoder_is_not_shared(
    folder: Path, make_encoder_model: Callable[..., Any], tmp_path: Path, small_lm: MaskedLM
) -> None:
    make_encoder_model("bert", pooling="mean", seed=1).save_pretrained(str(tmp_path / "other"))
    target, resources, _ = prepared(folder, tmp_path / "other", small_lm)
    assert not share_vectors(target, resources, model_identity(folder)["model_sha256"])
    assert target.shared is None
    target, resources, _ = prepared(folder, folder, small_lm)
    target.role = "query"  # as of a model that tells sides apart
    assert not share_vectors(target, resources, model_identity(folder)["model_sha256"])


def test_vectors_are_remembered_and_copies() -> None:
    asked: list[list[str]] = []

    def encode(texts: Any) -> Any:
        asked.append(list(texts))
        return np.array([[float(len(text))] for text in texts], dtype=np.float32)

    shared = VectorMemo(encode, 8)
    assert shared(["a", "bb"]).tolist() == [[1.0], [2.0]]
    assert shared(["ccc", "a"]).tolist() == [[3.0], [1.0]]
    assert asked == [["a", "bb"], ["ccc"]]
    assert len(shared([])) == 0
