"""Audit items of retrieval: without labels from passages, and with a labelled collection."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from audited import SEEN, run, some_texts

from beir_folder import write_collection
from holdfast.audit.retrieval_items import NOISE
from holdfast.errors import UserError
from holdfast.results import examples_of, write_result

SMALL: dict[str, Any] = {"examples": 1, "texts_per_item": 30}


def rows_of(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["split"]: row for row in result["results"] if row["task"] == "audit-retrieval"}


def passages(count: int) -> list[str]:
    rng = random.Random(3)
    return [" ".join(f"The {' '.join(rng.choices(SEEN, k=6))} {number}." for _ in range(3)) for number in range(count)]


@pytest.fixture
def collection(here: Path) -> Path:
    texts = some_texts(30, seed=5)
    documents = [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(texts)]
    queries = {
        "queries": {f"q{i}": text for i, text in enumerate(texts)},
        "queries-asr": {f"q{i}": texts[(i + 1) % 30] if i < 10 else text for i, text in enumerate(texts)},
    }
    return write_collection(here / "pets", documents, queries, [(f"q{i}", f"d{i}", 1) for i in range(30)])


def test_a_query_is_its_own_document_and_noise_is_judged_by_what_is_lost(collection: Path) -> None:
    """Clean queries equal their documents; ten of the dictated ones equal another document."""
    result = run(retrieval=collection, **SMALL)
    rows = rows_of(result)
    assert list(rows) == ["clean", *NOISE, "asr"]
    assert (rows["clean"]["metrics"]["found"], rows["clean"]["verdict"]) == (100.0, "too few")
    assert rows["clean"]["between"] == ["holds", "bends"], "30 queries: up to 11.6 % may be lost"
    asr = rows["asr"]
    assert asr["metrics"]["found"] == pytest.approx(200 / 3)
    assert (asr["metrics"]["lost"], asr["n"], asr["verdict"]) == (pytest.approx(100 / 3), 30, "bends")
    assert sum(asr["items"]["correct"]) == 20
    assert rows["typos"]["metrics"]["found"] < 100.0
    assert result["protocol"]["retrieval"]["documents"] == 30
    assert result["protocol"]["retrieval"]["queries"] == f"30 of 30 of {collection}"
    lost = [row for row in result["examples"] if row["recipe"] == "retrieval.asr"]
    assert len(lost) == 10
    assert all(row["neighbours"] == [row["original"], row["adversarial"]] for row in lost)
    write_result(Path("a.json"), result)
    assert examples_of(result, Path("a.json"))


@pytest.mark.parametrize("items", ["retrieval.asr", "hold", "retrieval"])
def test_a_further_version_of_the_queries_can_be_chosen(collection: Path, items: str) -> None:
    rows = rows_of(run(retrieval=collection, items=items, **SMALL))
    assert rows["asr"]["metrics"]["found"] == pytest.approx(200 / 3)
    assert list(rows) == (["asr"] if items == "retrieval.asr" else ["clean", *NOISE, "asr"])


def test_a_query_that_is_a_document_does_not_find_itself(here: Path) -> None:
    """As in ArguAna: each text is the query of the next one, which answers it, and both are documents."""
    texts = [f"{text} {i // 2}" for i, text in enumerate(some_texts(60, seed=5))]
    for place in range(0, 60, 2):
        texts[place + 1] = f"{texts[place]} too"
    documents = [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(texts)]
    queries = {"queries": {f"d{i}": texts[i] for i in range(0, 60, 2)}}
    folder = write_collection(here / "itself", documents, queries, [(f"d{i}", f"d{i + 1}", 1) for i in range(0, 60, 2)])
    clean = rows_of(run(retrieval=folder, **SMALL))["clean"]
    assert clean["metrics"]["found"] > 50.0


def test_nothing_is_lost_where_nothing_is_found(here: Path) -> None:
    texts = some_texts(60, seed=5)
    documents = [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(texts)]
    queries = {"queries": {f"q{i}": texts[i] for i in range(30)}}
    folder = write_collection(here / "far", documents, queries, [(f"q{i}", f"d{i + 30}", 1) for i in range(30)])
    rows = rows_of(run(retrieval=folder, **SMALL))
    assert rows["clean"]["metrics"]["found"] == 0.0
    assert {rows[name]["verdict"] for name in NOISE} == {"absent"}
    assert "no query finds its document when clean" in rows["typing"]["told"]


def test_every_passage_that_holds_the_sentence_is_relevant(here: Path) -> None:
    shared = "Please read the old terms of use with care."
    rng = random.Random(3)
    Path("alike.txt").write_text("".join(f"{shared} The {' '.join(rng.sample(SEEN, k=2))}.\n" for _ in range(30)))
    clean = rows_of(run(texts="alike.txt", **SMALL))["clean"]
    assert (clean["metrics"]["found"], clean["metrics"]["chance"]) == (100.0, 100.0)


def test_passages_without_labels(here: Path) -> None:
    Path("passages.txt").write_text("\n".join(passages(40)) + "\n")
    rows = rows_of(run(texts="passages.txt", **SMALL))
    assert list(rows) == ["clean", *NOISE]
    clean = rows["clean"]
    assert (clean["n"], clean["metrics"]["chance"]) == (30, 2.5)
    assert clean["metrics"]["found"] == pytest.approx(100 * sum(clean["items"]["correct"]) / 30)
    again = rows_of(run(texts="passages.txt", **SMALL))
    assert again == rows


def test_texts_of_one_sentence_are_no_passages(here: Path) -> None:
    rows = rows_of(run(**SMALL))
    assert {row["verdict"] for row in rows.values()} == {"absent"}
    assert "0 of the texts have two sentences or more: retrieval needs 20 passages" in rows["clean"]["told"]


def test_a_collection_that_takes_too_long_is_left_out(collection: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.audit.audit_context import AuditContext

    monkeypatch.setattr(AuditContext, "seconds_of", lambda self, texts: 1000.0)
    rows = rows_of(run(retrieval=collection, **SMALL))
    assert "30 documents take about 30,000 s: raise --max-seconds, or use holdfast" in rows["clean"]["told"]


def test_a_folder_that_is_no_collection_is_refused_at_once(here: Path) -> None:
    with pytest.raises(UserError, match=r"data has no corpus\.jsonl, so it is no retrieval collection"):
        run(retrieval=here / "data")
