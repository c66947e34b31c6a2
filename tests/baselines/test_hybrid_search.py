"""The encoder and BM25 over letter groups together: against a slow reference, and its invariants."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from holdfast.baselines import hybrid_search
from holdfast.baselines.hybrid_search import HybridSettings, rank_by_both, z_scores
from holdfast.baselines.lexical_search import gram_scores, letter_grams
from holdfast.evaluation.retrieval_systems import Similarities

DOCUMENTS = [
    "The zorbelin sleeps in the old house near the park",
    "a cat eats fish; a cat sleeps",
    "the woman sings and the cat listens to her singing in the house, the park and the garden",
    "Chopin lived in Paris from 1831",
    "I",
    "",
    "the gardener sings of fish and parks, of old cats and of nothing else",
    "concatenated catalogues",
]
QUERIES = ["cat sleeps", "zorbelni in the hous", "gardne singing", "shopping in paris", "cat cat cat", "i", "zzqx"]


def grams_by_hand(text: str, letters: int) -> list[str]:
    """Walk over the letters: what is no letter or digit parts words."""
    joined = " "
    for letter in text.lower():
        if letter.isalnum():
            joined += letter
        elif joined[-1] != " ":
            joined += " "
    joined = joined.rstrip(" ") + " "
    if joined == " ":
        return []
    return ["".join(group) for group in zip(*(joined[n:] for n in range(letters)), strict=False)] or [joined]


def scores_by_hand(query: str, letters: int = 4, k1: float = 1.5, b: float = 0.75) -> npt.NDArray[np.float64]:
    counts = [Counter(grams_by_hand(text, letters)) for text in DOCUMENTS]
    mean = sum(own.total() for own in counts) / len(counts)
    scores = np.zeros(len(DOCUMENTS))
    for gram in grams_by_hand(query, letters):
        found = sum(gram in own for own in counts)
        idf = math.log(1 + (len(counts) - found + 0.5) / (found + 0.5))
        for place, own in enumerate(counts):
            scores[place] += idf * own[gram] / (own[gram] + k1 * (1 - b + b * own.total() / mean))
    return scores


def encoder(seed: int = 0) -> tuple[npt.NDArray[np.float64], Similarities]:
    """Similarities of the queries to the documents, and a function that gives them by the queries' texts."""
    matrix = np.round(np.random.default_rng(seed).uniform(-0.2, 0.9, (len(QUERIES), len(DOCUMENTS))), 6)
    return matrix, lambda queries: matrix[[QUERIES.index(query) for query in queries]]


def test_letter_grams() -> None:
    assert letter_grams("My cat!", 4) == [" my ", "my c", "y ca", " cat", "cat "]
    assert letter_grams("I", 4) == [" i "]
    assert letter_grams(" ?! ", 4) == []
    assert letter_grams("abc", 3) == [" ab", "abc", "bc "]


@pytest.mark.parametrize("letters", [3, 4, 5])
def test_scores_are_those_of_the_formula(letters: int) -> None:
    scores = gram_scores(iter(DOCUMENTS), letters)
    for query in [*QUERIES, "?"]:
        np.testing.assert_allclose(scores(query), scores_by_hand(query, letters), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("weight", [0.0, 0.2, 0.5, 1.0, 5.0])
@pytest.mark.parametrize("candidates", [2, 4, 8])
@pytest.mark.parametrize("seed", range(3))
def test_the_ranking_is_that_of_the_sum_of_z_scores(
    weight: float, candidates: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hybrid_search, "_QUERIES_AT_ONCE", 3)
    matrix, similarities = encoder(seed)
    expected = []
    for query, own in zip(QUERIES, matrix, strict=True):
        lexical = scores_by_hand(query)
        nearest = sorted(range(8), key=lambda place: -own[place])[:candidates]
        by_letters = sorted((n for n in range(8) if lexical[n] > 0), key=lambda place: -lexical[place])
        ranked = {*nearest, *by_letters[:candidates]}
        total = dict.fromkeys(ranked, 0.0)
        for scores, factor in ((own, 1.0), (lexical, weight)):
            mean = sum(scores[n] for n in ranked) / len(ranked)
            deviation = math.sqrt(sum((scores[n] - mean) ** 2 for n in ranked) / len(ranked))
            for n in ranked:
                total[n] += factor * (scores[n] - mean) / deviation if deviation else 0.0
        expected.append(sorted(ranked, key=lambda n: -total[n])[:2])
    found = rank_by_both(iter(DOCUMENTS), QUERIES, similarities, 2, HybridSettings(weight, candidates=candidates))
    np.testing.assert_array_equal(found, expected)
    other = rank_by_both(DOCUMENTS, QUERIES[:1], similarities, 8, HybridSettings(weight=100.0, letters=3))
    by_threes = np.round(scores_by_hand(QUERIES[0], 3), 6)
    assert by_threes[other[0]].tolist() == sorted(by_threes, reverse=True)
    if (weight, candidates) == (0.5, 8):
        np.testing.assert_array_equal(rank_by_both(DOCUMENTS, QUERIES, similarities, 2), expected)


def test_there_are_at_least_as_many_candidates_as_places() -> None:
    _, similarities = encoder()
    first, second = (rank_by_both(DOCUMENTS, QUERIES, similarities, 8, HybridSettings(candidates=n)) for n in (1, 8))
    np.testing.assert_array_equal(first, second)
    assert (first >= 0).all()


def test_a_query_without_a_known_group_has_the_encoders_ranking() -> None:
    for query in ("zzqx", "?"):
        similar = {query: np.array([0.3, 0.1, 0.3, 0.9, -0.5, 0.2, 0.3, 0.0])}
        (found,) = rank_by_both(DOCUMENTS, [query], lambda texts, own=similar: np.stack([own[t] for t in texts]), 8)  # type: ignore[misc]
        assert found.tolist() == [3, 0, 2, 6, 5, 1, 7, 4]
    assert rank_by_both(["", "?"], ["cat"], lambda _: np.array([[0.1, 0.2]]), 3).tolist() == [[1, 0, -1]]


def test_an_encoder_that_tells_nothing_leaves_the_order_to_the_letters() -> None:
    (found,) = rank_by_both(DOCUMENTS, ["cat sleeps"], lambda _: np.full((1, len(DOCUMENTS)), 0.7), 8)
    scores = np.round(scores_by_hand("cat sleeps"), 6)
    assert found.tolist() == np.argsort(-scores, kind="stable").tolist()


def test_another_order_of_the_documents_gives_the_same_documents() -> None:
    """Equal documents keep the order of the file, the others do not depend on it."""
    matrix, similarities = encoder()
    first = rank_by_both(DOCUMENTS, QUERIES, similarities, len(DOCUMENTS))
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(DOCUMENTS))

        def moved(queries: Sequence[str], order: npt.NDArray[np.int64] = order) -> npt.NDArray[np.float64]:
            return matrix[[QUERIES.index(query) for query in queries]][:, order]

        found = rank_by_both([DOCUMENTS[i] for i in order], QUERIES, moved, len(DOCUMENTS))
        np.testing.assert_array_equal(order[found], first)
    twice = rank_by_both(DOCUMENTS * 2, QUERIES, lambda queries: np.tile(similarities(queries), 2), 16)
    np.testing.assert_array_equal(twice[:, ::2] + len(DOCUMENTS), twice[:, 1::2])


def test_equal_sums_of_other_parts_are_a_tie() -> None:
    """Of two documents one is nearer by the encoder, the other by its letters: with weight 1 the sums are equal."""
    settings = HybridSettings(weight=1.0)
    for low in np.arange(0.0, 0.9, 0.01).round(6):
        for documents, similar in ((["a cat", "a whale"], [low, 0.95]), (["a whale", "a cat"], [0.95, low])):
            own = np.array([similar])
            (found,) = rank_by_both(documents, ["cat"], lambda _, own=own: own, 2, settings)  # type: ignore[misc]
            assert found.tolist() == [0, 1]


def test_z_scores() -> None:
    np.testing.assert_allclose(z_scores(np.array([1.0, 2.0, 3.0, 6.0])), np.array([-2, -1, 0, 3]) / math.sqrt(3.5))
    assert z_scores(np.full(3, 0.1)).tolist() == [0.0, 0.0, 0.0]


def test_the_record_has_the_settings() -> None:
    record = HybridSettings(weight=0.25, letters=3).record()
    assert "0.25 x z-score of BM25" in record
    assert "letter 3-grams" in record
