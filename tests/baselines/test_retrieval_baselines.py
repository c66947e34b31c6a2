"""BM25 and spelling correction beside an encoder."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest

from holdfast.baselines.lexical_search import rank_by_bm25
from holdfast.baselines.retrieval_baselines import retrieval_systems
from holdfast.baselines.spelling import SpellingCorrection
from holdfast.errors import UserError

DOCUMENTS = [
    "the zorbelin sleeps in the old house near the park",
    "a cat eats fish; a cat sleeps",
    "the woman sings and the cat listens to her singing in the house, the park and the garden",
]


def bm25_by_hand(query: str, k1: float = 1.5, b: float = 0.75) -> list[float]:
    """The formula of Lucene, with the words of bm25s but for its stop words, which the queries have none of."""
    stop = {"the", "in", "and", "to", "a"}
    words = [[w.strip(";,") for w in d.split() if len(w.strip(";,")) > 1 and w not in stop] for d in DOCUMENTS]
    mean = sum(map(len, words)) / len(words)
    scores = []
    for own in words:
        score = 0.0
        for word in query.split():
            found = sum(word in other for other in words)
            idf = math.log(1 + (len(words) - found + 0.5) / (found + 0.5))
            count = own.count(word)
            score += idf * count / (count + k1 * (1 - b + b * len(own) / mean))
        scores.append(score)
    return scores


@pytest.mark.parametrize("query", ["cat", "cat house", "sleeps cat", "house park garden"])
def test_bm25_ranks_as_its_formula(query: str) -> None:
    scores = bm25_by_hand(query)
    expected = sorted((i for i in range(3) if scores[i] > 0), key=lambda i: -scores[i])
    (found,) = rank_by_bm25(DOCUMENTS, [query], 3)
    assert found.tolist() == [*expected, *[-1] * (3 - len(expected))]


def test_bm25_finds_nothing_without_a_common_word_and_keeps_ties_in_order() -> None:
    found = rank_by_bm25(["a dog", "a dog", "a house"], ["whale", "", "dog"], 2)
    assert found.tolist() == [[-1, -1], [-1, -1], [0, 1]]
    assert rank_by_bm25(["", "?"], ["whale"], 2).tolist() == [[-1, -1]]


def test_systems_by_name() -> None:
    assert [system.name for system in retrieval_systems("")] == ["encoder"]
    found = retrieval_systems("bm25, spelling,bm25")
    assert [system.name for system in found] == ["encoder", "bm25", "spelling"]
    assert "no stemming" in found[1].record
    assert "SymSpell" in found[2].record
    both = retrieval_systems("bm25+spelling")[1]
    assert (both.rank, both.correction) == (rank_by_bm25, SpellingCorrection.of)
    with pytest.raises(UserError, match=r"--systems does not take 'bm52' \(did you mean 'bm25'\?\)"):
        retrieval_systems("bm52")


def test_the_hybrid_and_its_weight() -> None:
    plain, heavy, corrected = retrieval_systems("hybrid,hybrid=0.8,hybrid+spelling")[1:]
    assert (plain.rank, plain.correction) == (None, None)
    assert "0.5 x z-score of BM25" in plain.record
    assert (heavy.name, "0.8 x z-score of BM25" in heavy.record) == ("hybrid=0.8", True)
    # By the letters alone the second document is nearest, by the encoder the first, by little.
    near = ["a whale", "a house by the sea"], ["hous by teh sea"], lambda _: np.array([[0.51, 0.5]]), 1
    for system, best in ((plain, 0), (heavy, 0), (retrieval_systems("hybrid=2")[1], 1)):
        assert system.rank_with_encoder is not None
        assert system.rank_with_encoder(*near).tolist() == [[best]]
    assert corrected.correction == SpellingCorrection.of
    assert "SymSpell" in corrected.record
    assert "z-score" in corrected.record
    for wrong in ("x", "-1", "nan", ""):
        with pytest.raises(UserError, match=f"--systems hybrid={wrong} (takes a number|must be from 0 to 1000)"):
            retrieval_systems(f"hybrid={wrong}")
    with pytest.raises(UserError, match="bm25=2: only spelling takes a folder"):
        retrieval_systems("bm25=2")


@pytest.mark.parametrize("system", ["bm25", "hybrid"])
def test_a_missing_library_is_named_before_any_work(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "bm25s" else find(name))
    with pytest.raises(UserError, match=r"needs bm25s: pip install 'holdfast\[retrieval\]'"):
        retrieval_systems(system)
