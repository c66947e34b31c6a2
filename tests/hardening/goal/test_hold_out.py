"""What is held out of the training texts, and what is trained on."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.errors import UserError
from holdfast.hardening.goal.hold_out import hold_out, key_of, keys_of, normalised, training_rows
from holdfast.hardening.goal.mixed_texts import Held, MixedTexts

TEXTS = [f"the {number} house in the park" for number in range(100)]


def test_the_same_texts_are_held_out_in_any_order() -> None:
    held = hold_out(keys_of(TEXTS), 10)
    back = [*TEXTS[::-1], TEXTS[0].upper()]
    other = hold_out(keys_of(back), 10)
    assert [TEXTS[row] for row in held.choosing] == [back[row].lower() for row in other.choosing]
    assert [TEXTS[row] for row in held.reporting] == [back[row].lower() for row in other.reporting]
    assert len(held.choosing) == len(held.reporting) == 10
    assert not set(held.choosing) & set(held.reporting)
    assert held.keys.tolist() == sorted(key_of(TEXTS[row]) for row in held.rows[:20])
    assert sorted(held.rows.tolist()) == list(range(100))


def test_at_most_a_quarter_is_held_out() -> None:
    assert hold_out(keys_of(TEXTS), 1000).held == 25
    assert hold_out(keys_of(TEXTS), 0).held == 0


def test_near_duplicates_are_one_text() -> None:
    same = ["The house, in the park.", "the house in the park", "THE HOUSE IN  THE PARK!", "Ｔhe house in the park"]
    assert {normalised(text) for text in same} == {"the house in the park"}
    assert normalised("?!") == "?!"
    assert normalised("Ein „großes“ Haus – 5 €") == "ein grosses haus 5 €"
    assert normalised("■ Größe – 5 °C") == normalised("Größe 5 C") == "grösse 5 c"
    assert normalised("great😀!") == normalised("Great 😀") != normalised("great 😡")
    assert normalised("वह आता है।") == normalised("वह आता है") != normalised("वह आती है")
    assert len(hold_out(keys_of([*same, "another"]), 1).rows) == 2
    keys = keys_of([*same, "another"])
    assert training_rows(keys, keys[:1]).tolist() == [4]


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """1,000 texts, and 120 queries of which 40 are texts with a question mark."""
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("holdfast.hardening.goal.mixed_texts.LEAST", 20)
    texts = [f"the {number} house in the park" for number in range(1000)]
    (tmp_path / "mine.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    asked = [f"where is house {number}" for number in range(80)] + [f"The {n} house in the park?" for n in range(40)]
    (tmp_path / "asked.tsv").write_text("question\n" + "\n".join(asked) + "\n", encoding="utf-8")
    return tmp_path


def mixed(sources: Path, **given: Any) -> MixedTexts:
    settings = {"queries": str(sources / "asked.tsv"), "held_texts": 50, "held_queries": 10, "choose": Chosen, **given}
    return MixedTexts(str(sources / "mine.txt"), **settings)


class Chosen:
    """Stands in for a choice of weights."""

    def __init__(self, held: Held | None) -> None:
        self.held = held


def opened(texts: MixedTexts) -> list[str]:
    training: list[str] = texts.open(texts.read(lambda count: None)).dataset["sentence"][:]
    return training


def test_nothing_held_out_is_trained_on(sources: Path) -> None:
    texts = mixed(sources)
    training = opened(texts)
    held = texts.held
    assert held is not None
    out = [*(held.documents[place] for place in (*held.choosing, *held.reporting))]
    out += [*held.choosing_queries, *held.reporting_queries]
    assert len(out) == 2 * (50 + 10)
    trained = {normalised(text) for text in training}
    assert not trained & {normalised(text) for text in out}
    # Queries that are held-out texts but for a question mark are not trained on either.
    questions = {normalised(f"The {n} house in the park?") for n in range(40)}
    assert questions & {normalised(text) for text in out}
    assert len(set(map(normalised, held.documents))) == len(held.documents) == 1000
    # A query that is a text of the corpus would find itself: it is not held out as a query.
    queries = {normalised(text) for text in (*held.choosing_queries, *held.reporting_queries)}
    assert not queries & {normalised(text) for text in held.documents}
    choice, line = texts.choice()
    assert isinstance(choice, Chosen)
    assert choice.held is held
    assert line == "held out: 100 texts and 20 queries; half choose the weights, half measure the result"


def test_the_bank_is_bounded_but_holds_what_is_held_out(sources: Path) -> None:
    texts = mixed(sources, bank=30)
    opened(texts)
    assert texts.held is not None
    assert len(texts.held.documents) == 100
    texts = mixed(sources, bank=300)
    opened(texts)
    assert texts.held is not None
    assert len(texts.held.documents) == 300


def test_the_smaller_source_is_repeated_to_its_share(sources: Path) -> None:
    training = opened(mixed(sources, held_texts=0, held_queries=0))
    asked = [text for text in training if text.startswith("where") or text.endswith("?")]
    assert (len(training), len(asked)) == (2000, 1000)
    counts = [asked.count(text) for text in set(asked)]
    assert sorted(set(counts)) == [8, 9]
    assert len(set(asked)) == 120
    few = opened(mixed(sources, held_texts=0, held_queries=0, share=0.04))
    assert (len(few), sum(text in set(asked) for text in few)) == (3000, 120)  # now the queries are the larger source


def test_a_limited_training_takes_a_sample_of_the_seed(sources: Path) -> None:
    one, same, other = (opened(mixed(sources, limit=64, seed=seed)) for seed in (1, 1, 2))
    assert len(one) == 64
    assert sum(text.startswith("where") or text.endswith("?") for text in one) == 32
    assert one == same != other


def test_what_is_kept_out_is_neither_trained_on_nor_known(sources: Path) -> None:
    asked = (sources / "asked.tsv").read_text(encoding="utf-8").splitlines()
    labelled = [line for line in asked if line.startswith("where")][::3]
    for more in ({}, {"held_texts": 0, "held_queries": 0}, {"held_texts": 0, "held_queries": 0, "limit": 10**6}):
        texts = mixed(sources, kept_out=lambda: [f"{text.upper()}!" for text in labelled], **more)
        trained = opened(texts)
        assert set(map(key_of, labelled)).isdisjoint(map(key_of, trained))
        assert set(map(key_of, labelled)).isdisjoint(map(key_of, texts.all_texts()))
        assert set(map(key_of, labelled)) & set(map(key_of, opened(mixed(sources, **more))))


def test_queries_that_are_all_kept_out_are_refused(sources: Path) -> None:
    asked = (sources / "asked.tsv").read_text(encoding="utf-8").splitlines()
    with pytest.raises(
        UserError, match="nothing is left to train on beside the hold-out and the queries of --retrieval"
    ):
        opened(mixed(sources, kept_out=lambda: asked))


def test_words_of_held_out_queries_are_not_known_but_those_of_held_out_texts_are(sources: Path) -> None:
    texts = mixed(sources)
    opened(texts)
    assert texts.held is not None
    known = set(texts.all_texts())
    assert known.isdisjoint([*texts.held.choosing_queries, *texts.held.reporting_queries])
    assert {texts.held.documents[row] for row in (*texts.held.choosing, *texts.held.reporting)} <= known


def test_without_queries_only_the_hold_out_is_left_out(sources: Path) -> None:
    texts = mixed(sources, queries=None)
    assert len(opened(texts)) == 900
    assert texts.held is not None
    assert texts.held.choosing_queries == []
    assert len(opened(mixed(sources, queries=None, held_texts=0))) == 1000


def test_without_queries_a_limited_training_takes_a_sample_of_the_seed_too(sources: Path) -> None:
    one, same, other = (opened(mixed(sources, queries=None, limit=64, seed=seed)) for seed in (1, 1, 2))
    assert len(one) == 64
    assert one == same != other
    assert len(opened(mixed(sources, queries=None, held_texts=0, limit=64))) == 64


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"held_texts": 10}, "the corpus is too small to choose the weights by"),
        ({"held_texts": 0, "held_queries": 0}, "nothing is held out: the last step is kept, and nothing is checked"),
    ],
)
def test_too_few_texts_are_not_held_out(sources: Path, given: dict[str, Any], says: str) -> None:
    texts = mixed(sources, **given)
    assert len(opened(texts)) == 2000
    assert texts.held is None
    choice, line = texts.choice()
    assert choice is None
    assert line.startswith(says)
    assert line.endswith("nothing is checked")


def test_standard_input_is_a_source(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = (sources / "mine.txt").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))
    texts = mixed(sources)
    texts.corpus = "-"
    training = opened(texts)
    assert texts.held is not None
    by_file = mixed(sources)
    assert opened(by_file) == training
    assert by_file.held == texts.held


def test_a_corpus_smaller_than_a_batch_is_refused(sources: Path) -> None:
    with pytest.raises(UserError, match="fewer than one batch of 2,000"):
        opened(mixed(sources, at_least=2000, held_texts=0, held_queries=0, queries=None))


def test_keys_are_64_bits() -> None:
    assert keys_of(["a", "b"]).dtype == np.uint64
    assert key_of("a") != key_of("b")
