"""The queries of the goal: parts of texts, held-out queries, a labelled collection, pairs of changed texts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from holdfast.attacks.resource_names import SETS
from holdfast.attacks.resources import Resources
from holdfast.edits.noise import Noise, noisy
from holdfast.edits.tagging import Tagger
from holdfast.edits.words import Words
from holdfast.errors import UserError
from holdfast.hardening.goal.goal_queries import goal_texts, labelled_collection, part_of, usable_noise
from holdfast.hardening.goal.meaning_pairs import meaning_pairs

LONG = "The old man in the red house of the big park near the river sings under the bed of a child"
PASSAGE = "The old man sings in the park. A dog runs under the bed of the child."


def test_a_query_is_a_part_of_its_text() -> None:
    parts = {part_of(LONG, seed) for seed in range(40)}
    assert len(parts) > 10
    for part in parts:
        assert part is not None
        assert part in LONG
        assert 5 <= len(Words.of(part).words) <= 10
    short = {part_of("the red house of a child", seed) for seed in range(20)}
    assert {len(Words.of(part or "").words) for part in short} <= {3, 4}
    assert part_of(LONG, 3) == part_of(LONG, 3)
    assert {part_of(PASSAGE, seed) for seed in range(20)} == {
        "The old man sings in the park.",
        "A dog runs under the bed of the child.",
    }
    assert part_of("red house", 0) == "red house"
    assert part_of("?!", 0) is None


def test_groups_versions_and_gold() -> None:
    noise = [Noise("typing", 0.5), Noise("case.upper", 1.0)]
    texts = goal_texts([LONG, "?!", PASSAGE], [2, 1, 0], ["where is the dog"], noise, seed=4)
    of_texts, of_queries = texts.groups
    assert of_texts.relevant is not None
    assert of_texts.relevant.tolist() == [[2], [0]]
    assert of_texts.versions["clean"] == [part_of(PASSAGE, 4), part_of(LONG, 4)]
    assert of_queries.relevant is None
    assert list(of_queries.versions) == ["clean", "typing", "case.upper"]
    assert of_queries.versions["case.upper"] == ["WHERE IS THE DOG"]
    assert of_queries.versions["typing"] == noisy(["where is the dog"], "typing", 0.5, 4)
    assert texts.queries == 3
    assert [group.name for group in goal_texts([LONG], [0], [], noise).groups] == ["texts"]


def test_noise_that_cannot_be_made_is_named() -> None:
    asked = [Noise("typing", 0.1), Noise("speech", 0.1)]
    assert usable_noise(asked, english=True) == (asked, {})
    assert usable_noise(asked, english=False) == (asked[:1], {"speech": "the texts are not in English"})


def collection(folder: Path, *, clean: bool = True) -> Path:
    rows = {
        "corpus.jsonl": [{"_id": f"d{i}", "title": "", "text": f"document {i}"} for i in range(4)],
        "queries.jsonl": [{"_id": f"q{i}", "text": f"query {i}"} for i in range(40)],
        "queries-keyboard.jsonl": [{"_id": f"q{i}", "text": f"qeury {i}"} for i in range(40)],
        "queries-some.jsonl": [{"_id": "q1", "text": "only one"}],
    }
    folder.mkdir()
    for name, lines in rows.items():
        (folder / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    if not clean:
        (folder / "queries.jsonl").rename(folder / "queries-other.jsonl")
    (folder / "qrels").mkdir()
    qrels = [f"q{i}\td{i % 4}\t1" for i in range(38)] + ["q0\td3\t1"]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *qrels]) + "\n")
    return folder


def test_a_labelled_collection_brings_its_documents_and_versions(tmp_path: Path) -> None:
    read = labelled_collection(collection(tmp_path / "beir"))
    halves = [
        goal_texts([LONG], [], [], [Noise("case.upper", 1.0)], collection=read, half=half).groups[0] for half in (0, 1)
    ]
    whole = goal_texts([LONG], [], [], [Noise("case.upper", 1.0)], collection=read).groups[0]
    assert list(whole.versions) == ["clean", "case.upper", "keyboard"]
    assert whole.versions["clean"] == [f"query {i}" for i in range(38)]  # the others have no relevant document
    assert whole.versions["keyboard"][3] == "qeury 3"
    assert whole.relevant is not None
    assert whole.relevant[:3].tolist() == [[0, 3], [1, -1], [2, -1]]
    assert whole.collection == [f"document {i}" for i in range(4)]
    parts = [set(half.versions["clean"]) for half in halves]
    assert not parts[0] & parts[1]
    assert parts[0] | parts[1] == set(whole.versions["clean"])
    assert min(map(len, parts)) > 5


def test_a_file_of_queries_replaces_neither_the_clean_ones_nor_a_noise(tmp_path: Path) -> None:
    folder = collection(tmp_path / "beir")
    for name, word in (("clean", "CLEANED"), ("typing", "TYPED")):
        lines = [json.dumps({"_id": f"q{i}", "text": f"{word} {i}"}) for i in range(40)]
        (folder / f"queries-{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    group = goal_texts([LONG], [], [], [Noise("typing", 1.0)], collection=labelled_collection(folder)).groups[0]
    assert list(group.versions) == ["clean", "typing", "queries-clean", "keyboard", "queries-typing"]
    assert group.versions["clean"][0] == "query 0"
    assert group.versions["queries-clean"][0] == "CLEANED 0"
    assert group.versions["typing"][0] not in ("query 0", "TYPED 0")


def test_a_collection_without_clean_queries_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no queries\.jsonl"):
        labelled_collection(collection(tmp_path / "beir", clean=False))


def test_pairs_of_changed_texts() -> None:
    texts = ["A dog sleeps in the park.", "?!", "He was born in 1912 in a house.", "The 12 children were not singing."]
    tagger = lambda: Resources(SETS["light"]).tagger  # noqa: E731
    pairs = meaning_pairs(texts, [3, 2, 1, 0], tagger, most=9, seed=1)
    assert [pair.document for pair in pairs][:2] == [3, 2]
    for pair in pairs:
        assert len({texts[pair.document], pair.hold, pair.move}) == 3
    assert meaning_pairs(texts, [3, 2], tagger, most=1, seed=1) == pairs[:1]

    def missing() -> Tagger:
        raise UserError("no tagger")

    numbers = meaning_pairs(texts, [0, 2, 3], missing, most=9)
    assert [pair.document for pair in numbers] == [2, 3]
    assert "1912" not in numbers[0].move


def test_pairs_are_changed_where_the_encoder_reads() -> None:
    def missing() -> Tagger:
        raise UserError("no tagger: only numbers change the meaning")

    documents = ["A dog was born in 1912 in a house. It was sold.", "A dog sleeps in the park. It was sold in 1950."]
    ends = {text: text.index(" It was") for text in documents}
    assert [pair.document for pair in meaning_pairs(documents, [0, 1], missing, most=9)] == [0, 1]
    (pair,) = meaning_pairs(documents, [0, 1], missing, most=9, read=ends.__getitem__)
    assert pair.document == 0, "the number of the other one is not read"
    for changed in (pair.hold, pair.move):
        assert changed.endswith(" It was sold.")
        assert changed != documents[0]


def test_gold_is_an_array_of_positions() -> None:
    relevant = goal_texts([LONG, PASSAGE], [0, 1], [], []).groups[0].relevant
    assert relevant is not None
    assert relevant.dtype == np.int64
