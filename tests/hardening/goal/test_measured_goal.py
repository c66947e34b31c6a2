"""The measure of the goal, against a slow computation and on encoders whose outcome is known."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_up import made_up_texts
from sentence_transformers import SentenceTransformer

from holdfast.edits.noise import Noise
from holdfast.evaluation.evaluation_run import evaluate_tasks
from holdfast.hardening.goal.goal_queries import GoalTexts, goal_texts, labelled_collection
from holdfast.hardening.goal.meaning_pairs import MeaningPair
from holdfast.hardening.goal.measured_goal import Goal
from holdfast.hardening.goal.old_index import OldIndex
from holdfast.models import load_sentence_transformer
from holdfast.text_prompts import RolePromptOptions


@pytest.fixture(scope="module")
def documents() -> list[str]:
    return made_up_texts(120, 8, 5)


@pytest.fixture
def model(old_encoder: Path) -> SentenceTransformer:
    return load_sentence_transformer(str(old_encoder))


def texts_of(documents: list[str]) -> GoalTexts:
    pairs = [MeaningPair(place, documents[place].upper(), f"old {documents[place + 1]}") for place in range(0, 20, 2)]
    queries = made_up_texts(30, 4, 6)
    return goal_texts(documents, range(60), queries, [Noise("typing", 0.4)], seed=1, pairs=pairs)


def moved(model: SentenceTransformer) -> SentenceTransformer:
    """Another encoder."""
    other = copy.deepcopy(model)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return other


def test_it_equals_a_slow_computation(model: SentenceTransformer, documents: list[str]) -> None:
    texts, other = texts_of(documents), moved(model)
    goal = Goal(model, OldIndex.of(model, documents), texts)
    index = model.encode(documents, normalize_embeddings=True)

    def ranked(encoder: SentenceTransformer, queries: Any) -> Any:
        return np.argsort(-(encoder.encode(list(queries), normalize_embeddings=True) @ index.T), axis=1)

    before, after = goal.original_outcomes, goal.measure(other)
    for encoder, found in ((model, before), (other, after)):
        for group in texts.groups:
            similar = model.encode(list(group.versions["clean"]), normalize_embeddings=True) @ index.T
            first, mean = similar.max(axis=1, keepdims=True), similar.mean(axis=1, keepdims=True)
            gold, asked = similar >= first - 0.05 * (first - mean), np.full(len(similar), True)
            if group.relevant is None:
                asked = gold.sum(axis=1) < 10
                assert 1.0 < gold[asked].sum(axis=1).mean() < 9.0
            else:
                gold = np.arange(len(documents)) == group.relevant
            for name, queries in group.versions.items():
                finds = np.take_along_axis(gold, ranked(encoder, queries)[:, :1], axis=1)[:, 0]
                assert (found.found[group.name, name] == finds[asked]).all()
    assert 0.3 < before.clean().mean() < 1.0
    assert before.labelled == ("texts",)
    assert before.nearness is None
    assert after.nearness is not None
    clean = [query for group in texts.groups for query in group.versions["clean"]]
    same = [encoder.encode(clean, normalize_embeddings=True) for encoder in (model, other)]
    assert after.nearness.cosine == pytest.approx((same[0] * same[1]).sum(axis=1), abs=1e-5)
    first = [ranked(encoder, clean) for encoder in (model, other)]
    assert (after.nearness.same_top1 == (first[0][:, 0] == first[1][:, 0])).all()
    tens = [len(set(one[:10]) & set(two[:10])) / 10 for one, two in zip(*first, strict=True)]
    assert after.nearness.same_top10 == pytest.approx(tens)
    held, changed = ([getattr(pair, side) for pair in texts.pairs] for side in ("hold", "move"))
    places = [pair.document for pair in texts.pairs]
    near = [(other.encode(each, normalize_embeddings=True) * index[places]).sum(axis=1) for each in (held, changed)]
    assert (after.nearer == (near[0] > near[1])).all()
    assert 0.0 < after.nearer.mean() <= 1.0


def test_queries_with_too_many_documents_that_are_about_as_near_are_not_asked(
    model: SentenceTransformer, documents: list[str]
) -> None:
    texts = texts_of(documents)
    same = [f"{documents[0]} {'!' * i}" for i in range(12)]  # the encoder's vocabulary has no marks of their own
    index = OldIndex(same, np.repeat(OldIndex.of(model, documents[:1]).vectors, 12, axis=0))
    goal = Goal(model, index, GoalTexts(texts.groups[1:]))
    assert goal.original_outcomes.found == {}
    assert goal.left_out == [
        "queries are left out: of 30 only 0 have documents in the old index that are clearly nearer than the others, "
        "and 30 are needed"
    ]
    assert goal.measure(model).nearness is not None


def test_what_is_about_as_near_follows_from_the_lead() -> None:
    similar = np.array([[0.9, 0.89, 0.86, 0.5, *[0.1] * 6]], dtype=np.float32)  # mean 0.375, 5 % of the lead 0.026
    for constant in (0.0, 5.0):  # which all similarities have in common
        index = OldIndex(list("abcdefghij"), (similar + constant).T, "dot")
        query = np.ones((1, 1), dtype=np.float32)
        assert index.about_as_near(query, np.array([[0, 1, 2, 3]]), 0.05).tolist() == [[0, 1, -1, -1]]
        assert index.about_as_near(query, np.array([[0, 1, 2, 3]]), 0.08).tolist() == [[0, 1, 2, -1]]
    apart = OldIndex(list("abc"), np.array([[0.0], [0.1], [9.0]], dtype=np.float32), "euclidean")
    found = apart.about_as_near(np.zeros((1, 1), dtype=np.float32), np.array([[0, 1, 2]]), 0.05)
    assert found.tolist() == [[0, 1, -1]]


def test_measuring_leaves_model_and_random_state_alone(model: SentenceTransformer, documents: list[str]) -> None:
    model.train()
    before, weights = torch.get_rng_state(), copy.deepcopy(model.state_dict())
    goal = Goal(model, OldIndex.of(model, documents), texts_of(documents), max_seq_length=16)
    goal.measure(model)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training
    assert model.max_seq_length == 64
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())


def test_the_original_measured_again_is_the_same(model: SentenceTransformer, documents: list[str]) -> None:
    goal = Goal(model, OldIndex.of(model, documents), texts_of(documents))
    again = goal.measure(model)
    for key, found in goal.original_outcomes.found.items():
        assert (again.found[key] == found).all()
    assert again.nearness is not None
    assert again.nearness.cosine == pytest.approx(np.ones(90), abs=1e-6)
    assert again.nearness.same_top10.min() == 1.0
    assert goal.original_outcomes.found["queries", "clean"].all()
    assert not goal.original_outcomes.found["queries", "typing"].all()


def test_a_destroyed_encoder_is_measured(model: SentenceTransformer, documents: list[str]) -> None:
    goal = Goal(model, OldIndex.of(model, documents), texts_of(documents))
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    found = goal.measure(model)
    assert found.found["queries", "clean"].mean() < 0.2
    assert found.nearness is not None
    assert (found.nearness.cosine == 0.0).all()


def test_a_correction_is_applied_to_queries_only(model: SentenceTransformer, documents: list[str]) -> None:
    texts = texts_of(documents)
    goal = Goal(model, OldIndex.of(model, documents), texts)
    seen: list[str] = []

    def correct(text: str) -> str:
        seen.append(text)
        return "man"

    found = goal.measure(model, correct)
    assert not set(seen) & set(documents)
    assert not found.nearer.size
    assert not set(seen) & {pair.move for pair in texts.pairs}
    assert set(texts.groups[0].versions["typing"]) <= set(seen)
    assert found.found["texts", "clean"].sum() <= 1


def test_queries_and_documents_have_their_prompts(prompted: Callable[..., Path], documents: list[str]) -> None:
    options = RolePromptOptions(query_prompt="the old ", document_prompt="under ")
    model = load_sentence_transformer(str(prompted()), prompts=options)
    index = OldIndex.of(model, documents)
    expected = model.encode(documents, prompt="under ", normalize_embeddings=True)
    assert index.vectors == pytest.approx(expected, abs=1e-5)
    goal = Goal(model, index, texts_of(documents))
    queries = list(goal.texts.groups[0].versions["clean"])
    found = (model.encode(queries, prompt="the old ", normalize_embeddings=True) @ expected.T).argmax(axis=1)
    assert goal.texts.groups[0].relevant is not None
    assert (goal.original_outcomes.found["texts", "clean"] == (found == goal.texts.groups[0].relevant[:, 0])).all()


def test_other_similarities_are_searched_too(documents: list[str]) -> None:
    vectors = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    queries = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)
    dot = OldIndex(documents[:30], vectors, "dot").nearest(queries, 3)
    assert (dot == np.argsort(-(queries @ vectors.T), axis=1)[:, :3]).all()
    apart = np.linalg.norm(queries[:, None] - vectors, axis=2)
    assert (OldIndex(documents[:30], vectors, "euclidean").nearest(queries, 3) == np.argsort(apart)[:, :3]).all()


def test_a_query_that_is_a_document_does_not_find_itself(
    model: SentenceTransformer, documents: list[str], tmp_path: Path
) -> None:
    changed = [f"{text.rpartition(' ')[0]} {documents[-1]}" for text in documents[:30]]  # counter-arguments
    rows = [{"_id": f"a{i}", "text": text} for i, text in enumerate(documents[:30])]
    corpus = [*rows, *({"_id": f"b{i}", "text": text} for i, text in enumerate(changed))]
    for name, lines in (("corpus", corpus), ("queries", rows)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    (tmp_path / "qrels").mkdir()
    relevant = ["a0\ta0\t1", *(f"a{i}\tb{i}\t1" for i in range(1, 30))]  # the first is relevant for itself
    (tmp_path / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *relevant]) + "\n")
    texts = goal_texts(documents, [], [], [], collection=labelled_collection(tmp_path))
    before = Goal(model, OldIndex.of(model, documents), texts).original_outcomes
    found = before.found["collection", "clean"]
    (row,) = evaluate_tasks(model, ["retrieval"], data=tmp_path)
    assert found.tolist() == [value == 1.0 for value in row["items"]["recall@1"]]
    assert found[0]
    assert 3 <= found[1:].sum() <= 25
