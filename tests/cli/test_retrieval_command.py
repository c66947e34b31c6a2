"""`holdfast evaluate --tasks retrieval`: rows, the table, options, and `compare` of two results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from beir_folder import DOCUMENTS, write_collection
from holdfast.cli import main
from holdfast.results import read_result

METRICS = ["recall@1", "recall@10", "recall@100", "ndcg@10", "mrr@10"]


@pytest.fixture(autouse=True)
def here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_encoder_model: Callable[..., SentenceTransformer]
) -> Path:
    """A working folder with two models and a collection, alone and in a folder of data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    for seed, name in enumerate(("model", "other")):
        make_encoder_model(pooling="mean", seed=seed).save(name)
    write_collection(tmp_path / "data" / "pets")
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["evaluate", *words]) == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_rows_and_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", "model", "--tasks", "retrieval", "--data", "data/pets", "--systems", "bm25,spelling"]
    assert main([*words, "--output", "a.json"]) == 0
    out = capsys.readouterr().out
    result = read_result(Path("a.json"))
    rows = result["results"]
    assert [(row["system"], row["split"]) for row in rows] == [
        (system, name) for system in ("encoder", "bm25", "spelling") for name in ("queries", "queries-keyboard")
    ]
    for row in rows:
        assert (row["task"], row["data"], row["n"], list(row["items"])) == ("retrieval", "pets", 3, METRICS)
        assert set(row["metrics"]) == set(METRICS)
    clean, noisy = rows[2], rows[3]  # BM25 finds each document by its words, and "dog" and "cat" are mistyped
    assert clean["metrics"]["recall@1"] == 100.0
    assert noisy["against"]["clean"]["recall@1"]["difference"] == noisy["metrics"]["recall@1"] - 100.0
    assert "pets, qrels test: 3 queries, 4 documents; ×100" in out
    assert "keyboard" in out
    assert f"{noisy['metrics']['ndcg@10']:.1f}" in out
    protocol = result["protocol"]["retrieval"]
    assert (protocol["similarity"], list(protocol["systems"])) == ("cosine", ["encoder", "bm25", "spelling"])
    assert "index" not in result["protocol"]


def test_a_folder_of_the_data_beside_other_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    Path("data/stsb").mkdir()
    pairs = [f"the {a} runs\tthe {b} runs\t{i}\n" for i, (a, b) in enumerate([("dog", "man"), ("cat", "dog")] * 3)]
    Path("data/stsb/test.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(pairs))
    assert main(["evaluate", "model", "--tasks", "retrieval:pets,stsb", "--data", "data", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert [(row["task"], row["split"]) for row in rows] == [
        ("stsb", "test"),
        ("retrieval", "queries"),
        ("retrieval", "queries-keyboard"),
    ]


def test_noise_in_the_clean_queries(capsys: pytest.CaptureFixture[str]) -> None:
    """BM25 reads capitals as it reads small letters, and does not find mistyped words."""
    words = ["evaluate", "model", "--tasks", "retrieval:pets", "--data", "data", "--systems", "bm25"]
    assert main([*words, "--noise", "case.upper,typos=1", "--output", "a.json"]) == 0
    out = capsys.readouterr().out
    rows = {(row["system"], row["split"]): row for row in read_result(Path("a.json"))["results"]}
    upper, mistyped = "queries case.upper=1", "queries typos=1"
    assert [split for _, split in rows] == ["queries", "queries-keyboard", upper, mistyped] * 2
    clean, noisy = rows["bm25", "queries"], rows["bm25", upper]
    assert (noisy["noise"], noisy["items"]) == ("case.upper=1", clean["items"])
    assert noisy["against"]["clean"]["recall@1"]["difference"] == 0.0
    assert rows["bm25", mistyped]["against"]["clean"]["recall@1"]["difference"] < 0.0
    model, texts = SentenceTransformer("model"), [f"{d.get('title', '')} {d['text']}".strip() for d in DOCUMENTS]
    cosines = model.similarity(model.encode(["THE DOG SLEEPS"]), model.encode(texts)).numpy()[0]
    expected = 1 / (1 + int((cosines > cosines[0]).sum()))
    assert rows["encoder", upper]["items"]["mrr@10"][0] == pytest.approx(expected, abs=1e-6)
    assert "case.upper=1" in out
    assert "in noise" not in out


def test_the_encoder_and_letters_together(capsys: pytest.CaptureFixture[str]) -> None:
    """With a large weight the letters decide: each mistyped query finds its document, also by another index."""
    words = ["evaluate", "model", "--tasks", "retrieval:pets", "--data", "data", "--systems", "hybrid=0,hybrid=50"]
    for index in ([], ["--index", "other"]):
        assert main([*words, *index, "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        rows = {(row["system"], row["split"]): row for row in result["results"]}
        for split in ("queries", "queries-keyboard"):
            assert rows["hybrid=0", split]["items"] == rows["encoder", split]["items"]
            assert rows["hybrid=50", split]["metrics"]["recall@1"] == 100.0
            assert rows["hybrid=50", split]["against"]["encoder"]["n"] == 3
        assert "50 x z-score of BM25" in result["protocol"]["retrieval"]["systems"]["hybrid=50"]


def test_documents_of_an_older_index(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", "model", "--tasks", "retrieval:pets", "--data", "data", "--json"]
    assert main(words) == 0
    own = json.loads(capsys.readouterr().out)
    assert main([*words, "--index", "other"]) == 0
    mixed = json.loads(capsys.readouterr().out)
    assert mixed["protocol"]["index"]["model"] == "other"
    assert mixed["protocol"]["index"]["model_sha256"] != mixed["model_sha256"] == own["model_sha256"]
    assert [row["items"] for row in mixed["results"]] != [row["items"] for row in own["results"]]
    assert main([*words, "--index", "model"]) == 0
    same = json.loads(capsys.readouterr().out)
    assert [row["items"] for row in same["results"]] == [row["items"] for row in own["results"]]


def test_documents_and_queries_have_prompts_of_their_own(
    capsys: pytest.CaptureFixture[str], make_encoder_model: Callable[..., SentenceTransformer]
) -> None:
    """With the prompts the vectors are those of ``encode_query`` and ``encode_document``."""
    model = make_encoder_model(pooling="mean", seed=3)
    model.prompts = {"query": "the big red ", "document": "under the old "}
    model.save("prompted")
    assert main(["evaluate", "prompted", "--tasks", "retrieval:pets", "--data", "data", "--json"]) == 0
    (clean, noisy) = json.loads(capsys.readouterr().out)["results"]
    texts = [f"{document.get('title', '')} {document['text']}".strip() for document in DOCUMENTS]
    documents = model.encode_document(texts)
    for row, queries in ((clean, ["the dog sleeps", "a cat eats", "the woman sings"]),):
        cosines = model.similarity(model.encode_query(queries), documents).numpy()
        ranks = [int((own > own[i]).sum()) + 1 for i, own in enumerate(cosines)]
        assert row["items"]["mrr@10"] == pytest.approx([1 / rank for rank in ranks], abs=1e-6)
    words = ["evaluate", "prompted", "--tasks", "retrieval:pets", "--data", "data", "--json", "--no-prompt"]
    assert main(words) == 0
    without = json.loads(capsys.readouterr().out)["results"]
    plain = model.similarity(model.encode(["the dog sleeps"]), model.encode(texts)).numpy()[0]
    assert without[0]["items"]["mrr@10"][0] == pytest.approx(1 / (1 + int((plain > plain[0]).sum())), abs=1e-6)
    assert noisy["n"] == 3


def test_compare_pairs_queries_by_collection_and_system(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--tasks", "retrieval:pets", "--data", "data", "--systems", "bm25,spelling"]
    for name in ("model", "other"):
        assert main(["evaluate", name, *words, "--output", f"{name}.json"]) == 0
    capsys.readouterr()
    assert main(["compare", "model.json", "other.json", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert [(row["split"], row["recipe"], row["metric"]) for row in rows] == [
        (split, system, metric)
        for system in ("pets", "pets spelling")
        for split in ("queries", "queries-keyboard")
        for metric in METRICS
    ]
    first, second = (read_result(Path(f"{name}.json"))["results"] for name in ("model", "other"))
    for row in rows:
        a, b = (
            next(
                r for r in own if (r["split"], r["system"] == "spelling") == (row["split"], "spelling" in row["recipe"])
            )
            for own in ([r for r in results if r["system"] != "bm25"] for results in (first, second))
        )
        assert row["metrics"]["baseline"] == pytest.approx(a["metrics"][row["metric"]], abs=1e-4)
        assert row["metrics"]["other"] == pytest.approx(b["metrics"][row["metric"]], abs=1e-4)
    write_collection(Path("data/pets"), qrels=[("q1", "d2", 1), ("q2", "d1", 1)])
    assert main(["evaluate", "other", *words, "--output", "changed.json"]) == 0
    capsys.readouterr()
    assert main(["compare", "model.json", "changed.json"]) == 2
    assert "retrieval queries has other data than in model.json (data_sha256)" in capsys.readouterr().err


WRONG = {
    "--systems bm25 is for retrieval: add --tasks retrieval": ["model", "--systems", "bm25"],
    "--index other is for retrieval: add --tasks retrieval": ["model", "--index", "other"],
    "--systems does not take 'bm'": ["model", "--tasks", "retrieval:pets", "--data", "data", "--systems", "bm"],
    "retrieval:pest: data/pest has no corpus.jsonl (did you mean 'pets'?)": [
        *("model", "--tasks", "retrieval:pest", "--data", "data"),
    ],
    "name one of its folders, retrieval:pets": ["model", "--tasks", "retrieval", "--data", "data"],
    "--qrels of data/pets does not take 'dev'": [
        *("model", "--tasks", "retrieval:pets", "--data", "data", "--qrels", "dev"),
    ],
}


@pytest.mark.parametrize("message", WRONG)
def test_a_mistake_is_one_line(message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refused(capsys, *WRONG[message])
