"""Targets of encoders without labels: drift, scored pairs and retrieval, to the digit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_attacks import TEXTS, sentence

from holdfast.attacks import RECIPES, Geometry, Typos, encoder_targets, retrieval_target
from holdfast.attacks.classifier import load_classifier
from holdfast.attacks.encoder_targets import DriftTarget, EncoderTarget, halfway
from holdfast.attacks.engine import Engine
from holdfast.attacks.examples import Example, Verdict
from holdfast.attacks.metrics import correlations
from holdfast.attacks.retrieval_target import RetrievalTarget
from holdfast.attacks.scored_pair_target import ScoredPairTarget
from holdfast.attacks.targets import ClassifierTarget
from holdfast.edits.words import Words
from holdfast.encoding import normalised
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer
from holdfast.user_functions import VectorFunction


def unit(model: Any, text: str) -> Any:
    vector = model.encode([text])[0].astype(np.float64)
    return vector / np.linalg.norm(vector)


def steps(values: Any) -> Any:
    """A scale from cosines to 0 ... 5."""
    return np.clip((np.asarray(values, dtype=float) + 1) * 2.5, 0, 5)


@pytest.mark.parametrize(
    ("gold", "cosine", "side"),
    [
        (4.0, 0.9, -1),  # 4.75 is above gold, but 5 is no more than 0.75 + 1 above it: down
        (1.0, 0.2, +1),  # 3.0 is too high already
        (4.0, 0.2, -1),  # 3.0 is too low already
        (2.0, 0.0, +1),  # 2.5 is above gold, and there is room on both sides: up
        (3.0, 0.0, -1),  # 2.5 is below gold: down
        (2.5, 0.0, +1),  # exactly right, in the middle: up
        (3.0, 0.2, -1),  # exactly right, above the middle: down
    ],
)
def test_advsts_pushes_away_from_gold(encoder: Any, gold: float, cosine: float, side: int) -> None:
    target = ScoredPairTarget(encoder, source="e", scale=steps)
    example = Example(0, ("a dog", "a cat"), 1, gold)
    target.prepare([example])
    other = target._others[0]
    target._first[0] = cosine
    aside = np.roll(other, 1) - (np.roll(other, 1) @ other) * other
    aside /= np.linalg.norm(aside)

    def at(value: float) -> Verdict:
        return target.verdict(example, value * other + math.sqrt(1 - value**2) * aside)

    predicted = 2.5 * (cosine + 1)
    goal = gold + side * (abs(predicted - gold) + 1.0)
    edge = goal / 2.5 - 1
    assert at(edge + side * 0.01).reached
    assert not at(edge - side * 0.01).reached
    assert at(cosine + side * 0.01).score > at(cosine).score
    assert at(cosine).value == pytest.approx(cosine, abs=1e-5)


def test_advsts_skips_what_has_no_room(encoder: Any, resources: Any) -> None:
    target = ScoredPairTarget(encoder, source="e", scale=lambda c: np.full(np.shape(c), 3.0))
    given = [Example(0, ("a dog", "a cat"), 1, 3.0), Example(1, ("a dog", "a red cat sings"), 1, 2.0)]
    found = list(Engine(target, resources).run(Typos(), given))
    assert {attempt.reason for attempt in found} == {"no score is as far from gold as the goal asks for"}
    # They are pairs of the task all the same, and count in its correlations as they are.
    assert all(attempt.before == attempt.after and attempt.before["value"] < 1.0 for attempt in found)
    assert correlations(found)["spearman_before"] == correlations(found)["spearman_after"]


def test_drift_is_a_cosine_below_a_threshold(encoder: Any, resources: Any) -> None:
    target = DriftTarget(encoder, source="e", threshold=0.8)
    given = [Example(i, (text,)) for i, text in enumerate(TEXTS)]
    found = list(Engine(target, resources).run(Typos(max_share=0.5), given))
    assert {attempt.outcome for attempt in found} == {"succeeded", "failed"}
    for attempt in found:
        cosine = float(unit(encoder, attempt.original) @ unit(encoder, attempt.adversarial))
        assert attempt.after["value"] == pytest.approx(cosine, abs=2e-5)
        assert (cosine < 0.8) == (attempt.outcome == "succeeded")


def test_drift_is_nearer_the_farther_a_vector_is(encoder: Any) -> None:
    target = DriftTarget(encoder, source="e", threshold=0.5)
    example = Example(0, (TEXTS[0],))
    target.prepare([example])
    near, far = sorted((unit(encoder, text) for text in TEXTS[1:]), key=lambda v: -float(v @ unit(encoder, TEXTS[0])))[
        ::10
    ]
    assert target.verdict(example, far).score > target.verdict(example, near).score


def test_the_threshold_is_half_way_to_other_texts(encoder: Any) -> None:
    units = np.stack([unit(encoder, text) for text in TEXTS])
    cosines = units @ units.T
    mean = (cosines.sum() - len(TEXTS)) / (len(TEXTS) * (len(TEXTS) - 1))
    assert halfway(DriftTarget(encoder, source="e", threshold=0.0), TEXTS) == pytest.approx((1 + mean) / 2, abs=1e-3)
    with pytest.raises(UserError, match="--threshold"):
        halfway(DriftTarget(encoder, source="e", threshold=0.0), ["one", "one"])


def test_retrieval_is_lost_when_no_neighbour_is_left(encoder: Any, resources: Any) -> None:
    target = RetrievalTarget(encoder, source="e", corpus=TEXTS, k=2)
    given = [Example(i, (text,)) for i, text in enumerate(TEXTS[:8])]
    found = list(Engine(target, resources).run(RECIPES["pwws"](), given))
    assert any(attempt.outcome == "succeeded" for attempt in found)

    def nearest(text: str, own: str) -> list[str]:
        others = [other for other in TEXTS if other != own]
        cosines = [float(unit(encoder, text) @ unit(encoder, other)) for other in others]
        return [others[i] for i in np.argsort([-c for c in cosines])[:2]]

    for attempt in found:
        before = nearest(attempt.original, attempt.original)
        assert target.neighbours(given[attempt.number]) == before
        after = nearest(attempt.adversarial, attempt.original)
        assert (attempt.before["neighbours"], attempt.after["neighbours"]) == (before, after)
        kept = len({*before} & {*after}) / 2
        assert attempt.after["value"] == kept
        assert (kept == 0) == (attempt.outcome == "succeeded")


def test_a_corpus_too_small_for_k_is_told(encoder: Any) -> None:
    target = RetrievalTarget(encoder, source="e", corpus=TEXTS[:4], k=2)
    assert target.prepare([Example(0, (TEXTS[0],))]) == ["the corpus has no more than 4 texts"]


@pytest.mark.parametrize("goal", ["score", "drift", "neighbours"])
def test_geometry_climbs_every_goal(encoder: Any, resources: Any, goal: str) -> None:
    import random

    rng = random.Random(4)
    pairs = [(sentence(rng), sentence(rng)) for _ in range(10)]
    made: dict[str, EncoderTarget] = {
        "score": ScoredPairTarget(encoder, source="e", scale=steps, margin=0.3),
        "drift": DriftTarget(encoder, source="e", threshold=0.7),
        "neighbours": RetrievalTarget(encoder, source="e", corpus=TEXTS, k=1),
    }
    given = [
        Example(i, pair if goal == "score" else pair[1:], int(goal == "score"), 3.0) for i, pair in enumerate(pairs)
    ]
    found = list(Engine(made[goal], resources).run(Geometry(source="neighbours"), given))
    assert any(attempt.outcome == "succeeded" for attempt in found)


def test_geometry_measures_where_it_climbs() -> None:
    """A prompt model in use is without the bias of its template, which training takes off."""
    prompted = load_sentence_transformer("bundled-mlm", pooling="prompt", device="cpu")
    target, example = DriftTarget(prompted, source="e", threshold=0.5), Example(0, (TEXTS[0],))
    assert target.prepare([example]) == [None]
    (slope,), ((z, _),) = (
        target.gradients([(example, Words.of(example.text))]),
        target.vectors([(example, example.text)]),
    )
    torch.testing.assert_close(slope.z, z, rtol=0, atol=1e-5)


def test_encoders_are_left_as_they_were(encoder: Any, resources: Any) -> None:
    encoder.train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    target = DriftTarget(encoder, source="e", threshold=0.5)
    list(Engine(target, resources).run(Geometry(source="neighbours"), [Example(0, (TEXTS[0],))]))
    assert encoder.training
    assert all(parameter.grad is None and parameter.requires_grad for parameter in encoder.parameters())
    for name, value in encoder.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)


def test_geometry_attacks_a_classifier_of_the_last_token(
    classifier_folder: Path, tmp_path: Path, resources: Any
) -> None:
    from transformers import AutoTokenizer, GPT2Config, GPT2ForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(classifier_folder)
    shape = {"n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 64}
    config = GPT2Config(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, num_labels=3, **shape)
    GPT2ForSequenceClassification(config).save_pretrained(tmp_path / "decoder")
    tokenizer.save_pretrained(tmp_path / "decoder")
    target = ClassifierTarget(load_classifier(str(tmp_path / "decoder"), device="cpu"))
    label = int(target.outputs([("the dog runs",)], exact=True)[0].argmax())
    [attempt] = Engine(target, resources).run(Geometry(), [Example(0, ("the dog runs",), 0, label)])
    assert attempt.outcome in ("succeeded", "failed")
    assert attempt.queries > 1


def test_a_text_has_lost_its_neighbours_when_k_others_are_nearer_than_all_of_them(encoder: Any) -> None:
    target, example = RetrievalTarget(encoder, source="e", corpus=TEXTS[:6], k=2), Example(0, ("elsewhere",))
    target._vectors = np.eye(6, dtype=np.float32)
    target._near[0] = np.array([0, 1])

    def verdict(*cosines: float) -> Verdict:
        (output,) = target.read(np.array([cosines]))
        return target.verdict(example, output)

    one = verdict(0.5, 0.1, 0.6, 0.4, 0.2, 0.0)
    assert (one.reached, one.value) == (False, 0.5), "a single other text is nearer than the old neighbour 0"
    assert one.score == pytest.approx(0.4 - 0.5)
    assert one.neighbours == (TEXTS[2], TEXTS[0])
    two = verdict(0.5, 0.1, 0.6, 0.55, 0.2, 0.0)
    assert (two.reached, two.value) == (True, 0.0)
    assert two.score == pytest.approx(0.55 - 0.5)


def test_an_old_neighbour_that_is_far_off_counts_with_its_own_cosine(encoder: Any) -> None:
    target, example = RetrievalTarget(encoder, source="e", corpus=TEXTS[:6], k=1), Example(0, ("elsewhere",))
    target._vectors = np.eye(6, dtype=np.float32)
    target._near[0] = np.array([4])
    (output,) = target.read(np.array([[0.9, 0.8, 0.7, 0.6, -0.5, -0.6]]))
    assert 4 not in output.places
    assert target.verdict(example, output).score == pytest.approx(0.9 + 0.5)


def test_neighbours_are_the_same_however_many_are_compared_at_once(
    encoder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a sort of all exact cosines, rounded; of those that are equal the earlier text is nearer."""
    rng = np.random.default_rng(0)
    corpus = [f"text {i}" for i in range(200)]
    vectors = normalised(rng.normal(size=(200, 3)) + 50.0)  # cosines near 1, many of them equal in five digits
    monkeypatch.setattr(
        encoder_targets, "encode_sentences", lambda model, texts, **_: vectors[: len(texts)].astype("f4")
    )
    asked = vectors[50:90]
    rounded = np.round(asked @ normalised(vectors.astype("f4")).astype("f4").astype(float).T, 5)
    assert len(np.unique(rounded[0])) < 150
    for at_once in (1, 1000, 1 << 23):
        monkeypatch.setattr(retrieval_target, "_COSINES_AT_ONCE", at_once)
        target = RetrievalTarget(encoder, source="e", corpus=corpus, k=5)
        for row, found in zip(rounded, target.read(asked), strict=True):
            order = np.argsort(-row, kind="stable")[:11]
            np.testing.assert_array_equal(found.places, order)
            np.testing.assert_array_equal(found.cosines, row[order])


def test_vectors_that_are_not_finite_are_told(encoder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_targets, "encode_sentences", lambda model, texts, **_: np.full((len(texts), 4), np.inf))
    with pytest.raises(UserError, match="my-encoder gives vectors that are not finite"):
        DriftTarget(encoder, source="my-encoder", threshold=0.5).prepare([Example(0, ("a dog",))])


def test_the_claims_of_a_cheaper_form_are_confirmed_by_the_model(encoder: Any, resources: Any) -> None:
    original, asked = "the old man sleeps on the big red bed", []

    def far(texts: Sequence[str]) -> Any:
        """Claim that every text reaches the goal."""
        asked.extend(texts)
        return -encoder.encode([original] * len(texts))

    target = DriftTarget(encoder, source="e", threshold=-0.9)  # which no changed text really reaches
    target.search_model = VectorFunction(far, name="far")
    (attempt,) = Engine(target, resources, cheap_search=True).run(Typos(), [Example(0, (original,))])
    assert len(set(asked)) > 5  # the search went on after the first claim
    assert original not in asked
    assert attempt.outcome == "failed"
    exact = unit(encoder, original) @ unit(encoder, attempt.adversarial)
    assert attempt.after["value"] == pytest.approx(exact, abs=2e-5)
