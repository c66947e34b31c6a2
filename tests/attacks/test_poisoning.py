"""Passages made to be near many queries: invariants of the searches, groups, controls and measures."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_attacks import sentence

from holdfast.adversary.masked_lm import MaskedLM
from holdfast.adversary.pseudo_perplexity import PseudoPerplexity
from holdfast.attacks.poisoning.hotflip import HotFlip, placeable, random_token_texts
from holdfast.attacks.poisoning.mean_similarity import MeanSimilarity, SearchSpace
from holdfast.attacks.poisoning.passage_making import Attacked, make_passage, query_groups
from holdfast.attacks.poisoning.passage_measures import Fluency
from holdfast.attacks.poisoning.poison_queries import first_words, grouped, split_queries
from holdfast.attacks.poisoning.poison_recipe import Passage, PoisonRecipe
from holdfast.attacks.poisoning.proposed_words import MaskedLMWords, NaturalText
from holdfast.attacks.poisoning.retrieved_share import mean_share, ordinary_share, ranks_of, share_within, won_queries
from holdfast.errors import UserError

SMALL = {"words": 8, "steps": 25, "candidates": 6, "patience": 25}


@pytest.fixture
def texts() -> list[str]:
    rng = random.Random(0)
    return list(dict.fromkeys(sentence(rng) for _ in range(60)))


@pytest.fixture
def space(encoder: Any) -> SearchSpace:
    return SearchSpace(encoder, source="tiny")


@pytest.fixture
def attacked(space: SearchSpace, texts: list[str]) -> Attacked:
    return attack_on(space, texts[:30], texts[30:], 2)


def attack_on(space: SearchSpace, corpus: list[str], fitted: list[str], count: int) -> Attacked:
    groups = query_groups(space, fitted, space.queries(fitted), count, seed=0)
    return Attacked(space, corpus, space.documents(corpus), groups, seed=0)


@pytest.fixture
def resources(masked_lm: Path) -> Any:
    return SimpleNamespace(masked_lm=MaskedLM(str(masked_lm)))


@pytest.fixture
def fluency(resources: Any, attacked: Attacked) -> Fluency:
    return Fluency.of(PseudoPerplexity(resources.masked_lm), attacked.corpus, SMALL["words"], seed=0)


RECIPES = [HotFlip(**SMALL), MaskedLMWords(**SMALL), NaturalText(**SMALL)]


def each_step(recipe: PoisonRecipe, attacked: Attacked, resources: Any, bound: float | None) -> list[Passage]:
    """The passage of the first group after every step."""
    found: list[Passage] = []
    made = make_passage(recipe, 0, attacked, resources, bound=bound, keep=found.append, stopped=lambda: False)
    assert found[-1] == made
    return found


@pytest.fixture(params=RECIPES, ids=[recipe.NAME for recipe in RECIPES])
def recipe(request: pytest.FixtureRequest) -> PoisonRecipe:
    made: PoisonRecipe = request.param
    return made


def test_the_mean_similarity_never_falls_and_is_that_of_the_text(
    recipe: PoisonRecipe, attacked: Attacked, resources: Any, fluency: Fluency, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.attacks.poisoning.passage_making.KEPT_EVERY", 1)
    objective = attacked.groups[0].objective
    passages = each_step(recipe, attacked, resources, fluency.bound(95))
    assert [passage.step for passage in passages] == list(range(len(passages)))
    increases = passages[-1].increases
    assert len(increases) >= 3
    assert all(after > before for before, after in itertools.pairwise(increases))
    for passage in passages:
        assert passage.similarity == passage.increases[-1]
        assert passage.similarity == pytest.approx(float(objective.of([passage.text])[0]), abs=1e-5)
    queries = attacked.space.queries(attacked.groups[0].texts)
    assert objective.of([passages[-1].text])[0] == pytest.approx(
        float((attacked.space.documents([passages[-1].text]) @ queries.T).mean()), abs=1e-9
    )


def test_hotflip_places_no_special_token_and_its_text_gives_its_tokens_again(
    attacked: Attacked, resources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.attacks.poisoning.passage_making.KEPT_EVERY", 1)
    tokenizer = attacked.space.model.tokenizer  # type: ignore[union-attr]
    flipped: list[list[int]] = []

    def spy(*arguments: Any) -> Any:
        made = real(*arguments)
        flipped.append(made.ids)
        return made

    import holdfast.attacks.poisoning.hotflip as module

    real = module.flip
    monkeypatch.setattr(module, "flip", spy)
    passages = each_step(RECIPES[0], attacked, resources, None)
    special = set(tokenizer.all_special_ids)
    assert len(flipped) == len(passages) - 1
    for ids, passage in zip(flipped, passages[1:], strict=True):
        assert tokenizer(passage.text)["input_ids"] == ids
        assert not special & set(ids[1:-1])


def test_candidates_whose_text_gives_other_tokens_are_left_out_and_counted(
    attacked: Attacked, resources: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import holdfast.attacks.poisoning.hotflip as module

    search = RECIPES[0].search(attacked.groups[0], resources)
    passage = Passage.begin("the old dog runs", 0.0, 1)
    whole = search.step(passage, random.Random(1))
    assert whole.lost == 0
    decode, real = search._tokenizer.decode, module.flip
    tried: list[Sequence[int]] = []
    monkeypatch.setattr(module, "flip", lambda *arguments: tried.append(arguments[3]) or real(*arguments))
    cat = search._tokenizer.convert_tokens_to_ids("cat")

    class Tokenizer:
        """Decodes "cat" as "dog"."""

        def __call__(self, *arguments: Any, **named: Any) -> Any:
            return attacked.space.model.tokenizer(*arguments, **named)  # type: ignore[union-attr]

        def decode(self, ids: Sequence[int], **named: Any) -> str:
            return str(decode(ids, **named)).replace("cat", "dog")

    search._tokenizer = Tokenizer()  # type: ignore[attr-defined]
    search._candidates = 30  # type: ignore[attr-defined]
    changed = search.step(passage, random.Random(1))
    assert changed.lost == 1
    assert cat not in tried[0]


def test_a_natural_passage_stays_within_the_bound(
    attacked: Attacked, resources: Any, fluency: Fluency, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.attacks.poisoning.passage_making.KEPT_EVERY", 1)
    bound = fluency.bound(60)
    passages = each_step(RECIPES[2], attacked, resources, bound)
    assert len(passages[-1].increases) >= 2
    assert max(fluency.perplexity.of([passage.text for passage in passages])) <= bound
    free = each_step(RECIPES[1], attacked, resources, None)
    assert max(fluency.perplexity.of([passage.text for passage in free])) > bound  # the bound binds
    assert free[-1].similarity >= passages[-1].similarity
    with pytest.raises(UserError, match="above the bound on the perplexity"):
        each_step(RECIPES[2], attacked, resources, 0.5)


def test_a_passage_that_was_begun_ends_like_one_made_at_once(
    recipe: PoisonRecipe, attacked: Attacked, resources: Any, fluency: Fluency
) -> None:
    bound, kept = fluency.bound(95), []
    whole = make_passage(recipe, 1, attacked, resources, bound=bound, keep=kept.append)
    for state in kept:
        again = Passage.from_row(json.loads(json.dumps(state.row())))
        assert again == state
        assert make_passage(recipe, 1, attacked, resources, bound=bound, begun=again) == whole


def test_a_search_leaves_the_model_and_random_numbers_as_they_were(
    recipe: PoisonRecipe, attacked: Attacked, resources: Any, fluency: Fluency
) -> None:
    model: Any = attacked.space.model
    model.train()
    before, python_before = torch.get_rng_state(), random.getstate()
    make_passage(recipe, 0, attacked, resources, bound=fluency.bound(95))
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert all(module.training for module in model.modules())
    assert torch.equal(torch.get_rng_state(), before)
    assert random.getstate() == python_before


def test_a_passage_ends_after_its_steps_or_without_a_change(attacked: Attacked, resources: Any) -> None:
    made = make_passage(HotFlip(words=8, steps=3, candidates=4), 0, attacked, resources)
    assert made.step == 3
    made = make_passage(HotFlip(words=3, steps=10_000, candidates=4, patience=5), 0, attacked, resources)
    assert made.idle == 5
    assert made.step < 10_000
    with pytest.raises(ValueError, match="steps must be at least 1"):
        HotFlip(steps=0)


def test_the_model_needs_gradients_for_hotflip_only(texts: list[str], resources: Any, encoder: Any) -> None:
    from holdfast.user_functions import VectorFunction

    space = SearchSpace(VectorFunction(lambda batch: encoder.encode(batch), name="call:f"), source="call:f")
    attacked = attack_on(space, texts[:30], texts[30:], 1)
    with pytest.raises(UserError, match="leave hotflip out"):
        make_passage(HotFlip(**SMALL), 0, attacked, resources)
    made = make_passage(MaskedLMWords(**SMALL), 0, attacked, resources)
    assert made.similarity > made.increases[0]


def test_only_cosine_and_dot_product_have_a_mean_query(encoder: Any) -> None:
    encoder.similarity_fn_name = "euclidean"
    with pytest.raises(UserError, match="euclidean"):
        SearchSpace(encoder, source="m")
    encoder.similarity_fn_name = "dot"
    space = SearchSpace(encoder, source="m")
    queries = space.queries(["a dog runs", "the cat"])
    expected = (encoder.encode(["the child"]) @ encoder.encode(["a dog runs", "the cat"]).T).mean()
    assert MeanSimilarity(space, queries).of(["the child"])[0] == pytest.approx(float(expected), rel=1e-5)


def test_the_two_parts_of_the_queries_have_no_text_in_common(texts: list[str]) -> None:
    split = split_queries([*texts, *texts], seed=1)
    assert not set(split.fitted) & set(split.held_out)
    assert {*split.fitted, *split.held_out} == set(texts)
    assert abs(len(split.fitted) - len(split.held_out)) <= 1
    assert split == split_queries([*texts, *texts], seed=1) != split_queries(texts, seed=2)
    fewer = split_queries(texts, seed=1, most=24)
    assert len(fewer.fitted) + len(fewer.held_out) == 24
    with pytest.raises(UserError, match="19 different queries; at least 20"):
        split_queries(texts[:19], seed=1)


def test_groups_are_those_of_near_queries() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[9.0, 0, 0], [0, 9.0, 0], [0, 0, 9.0]])
    of = rng.integers(0, 3, 40)
    labels = grouped(centres[of] + rng.normal(size=(40, 3)), 3, seed=0)
    assert {(a, b) for a, b in zip(of.tolist(), labels.tolist(), strict=True)} == {
        (a, int(labels[of == a][0])) for a in range(3)
    }
    with pytest.raises(UserError, match="2 different query vectors"):
        grouped(np.array([[0.0, 1.0]] * 5 + [[1.0, 0.0]]), 3, seed=0)


def test_ranks_count_the_documents_before_the_best_passage_and_ties_count_against_it() -> None:
    corpus = np.eye(3)
    queries = np.array([[0.9, 0.5, 0.1], [0.1, 0.2, 0.3]])
    passages = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    assert ranks_of(queries, corpus, passages).tolist() == [3, 1]  # 0.5 ties with a document; 0.6 is above all
    assert ranks_of(queries, corpus, passages[1:]).tolist() == [3, 1]  # 0.2
    metrics = share_within("success", np.array([1, 5, 11, 21]), seed=0)
    assert [metrics[f"success@{k}"] for k in (1, 10, 20)] == [25.0, 50.0, 75.0]
    assert metrics["success@10_low"] <= 50.0 <= metrics["success@10_high"]
    both = mean_share("x", [np.array([1, 1, 2, 2]), np.array([1, 2, 2, 2])], seed=0)
    assert both["x@1"] == 37.5
    assert won_queries(queries, corpus, passages, ["a", "b"]) == [(2, "a"), (2, "b")]


def test_the_control_of_ordinary_documents_is_their_own_share(texts: list[str]) -> None:
    rng = np.random.default_rng(0)
    corpus, queries = rng.normal(size=(100, 16)), rng.normal(size=(200, 16))
    found = ordinary_share(queries, corpus, 5, seed=0)
    for k in (1, 10, 20):  # of 5 random documents none is in the top k with about (1 - k/100)^5
        assert found[f"ordinary@{k}"] == pytest.approx(100 * (1 - (1 - k / 100) ** 5), abs=3)


def test_random_texts_hold_tokens_that_a_text_may_hold(encoder: Any) -> None:
    tokenizer = encoder.tokenizer
    texts = random_token_texts(tokenizer, 6, 9, seed=0)
    assert texts == random_token_texts(tokenizer, 6, 9, seed=0) != random_token_texts(tokenizer, 6, 9, seed=1)
    allowed = placeable(tokenizer, len(tokenizer))
    ids = {token for text in texts for token in tokenizer(text, add_special_tokens=False)["input_ids"]}
    assert len(ids) > 5
    assert all(bool(allowed[token]) for token in ids)
    assert not any(bool(allowed[token]) for token in tokenizer.all_special_ids)


def test_texts_are_cut_after_words() -> None:
    assert first_words("The old dog, the cat.", 3) == "The old dog"
    assert first_words("a dog.", 9) == "a dog."


def test_a_short_document_is_continued_with_the_next_ones(attacked: Attacked, resources: Any) -> None:
    made = make_passage(MaskedLMWords(words=25, steps=1, candidates=2), 0, attacked, resources)
    assert len(made.original.split()) >= 25
    assert max(map(len, attacked.corpus)) < len(made.original)
