"""The demo's passages, questions and changed meanings: enough of them, distinct, and never measured after training."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.demo.demo_texts import (
    Town,
    audited_texts,
    load_changed_meanings,
    load_town,
    rows_of,
    training_corpus,
)
from holdfast.edits.words import Words
from holdfast.evaluation.pseudo_queries import sentences_of

KINDS = {"negation", "antonym", "number", "name", "roles", "quantity"}


def plain(text: str) -> str:
    return " ".join("".join(letter if letter.isalnum() else " " for letter in text.lower()).split())


@pytest.fixture(scope="module")
def town() -> Town:
    return load_town()


def test_there_are_enough_passages_and_questions(town: Town) -> None:
    assert len(town.passages) >= 120
    assert len(town.questions) >= 150
    assert len(town.training) >= 120
    assert {question.passage for question in town.questions} == set(range(len(town.passages)))
    assert {kind for kind, _, _ in rows_of("town.tsv")} == {"passage", "query", "training"}


def test_every_question_has_one_passage(town: Town) -> None:
    texts = Counter(plain(text) for text in (*(each.text for each in town.questions), *town.training))
    assert [text for text, count in texts.items() if count > 1] == []
    names = [name for kind, name, _ in rows_of("town.tsv") if kind == "passage"]
    assert len(set(names)) == len(names)
    assert len({plain(passage) for passage in town.passages}) == len(town.passages)


def test_no_question_stands_in_a_passage(town: Town) -> None:
    passages = [plain(passage) for passage in town.passages]
    for text in (*(each.text for each in town.questions), *town.training):
        assert not any(plain(text) in passage for passage in passages), text


def test_passages_have_several_sentences_and_are_of_like_length(town: Town) -> None:
    lengths = [len(Words.of(passage).words) for passage in town.passages]
    assert min(lengths) >= 20
    assert max(lengths) <= 60
    assert all(len(sentences_of(passage)) >= 2 for passage in town.passages)


def test_texts_are_clean(town: Town) -> None:
    changed = [text for each in load_changed_meanings() for text in (each.text, each.same, each.other)]
    for text in (*town.passages, *town.training, *changed, *(each.text for each in town.questions)):
        assert text == " ".join(text.split())
        assert text.isascii()
    assert all(text[-1] in ".!?" for text in (*town.passages, *changed))


def test_changed_meanings_share_more_words_with_the_text_than_the_other_wordings_do() -> None:
    def overlap(first: str, second: str) -> float:
        a, b = (set(plain(text).split()) for text in (first, second))
        return len(a & b) / len(a | b)

    meanings = load_changed_meanings()
    counts = Counter(each.kind for each in meanings)
    assert set(counts) == KINDS
    assert min(counts.values()) >= 10
    assert len({text for each in meanings for text in (each.text, each.same, each.other)}) == 3 * len(meanings)
    harder = sum(overlap(each.text, each.other) > overlap(each.text, each.same) for each in meanings)
    assert harder >= 0.9 * len(meanings), "words alone must not give the answer"


def test_what_is_measured_or_audited_is_not_trained_on(town: Town) -> None:
    prose = [f"Sentence number {number} of the documentation." for number in range(5000)]
    measured = [question.text for question in town.questions]
    corpus = training_corpus([*prose, measured[0]], seed=1)
    assert set(corpus).isdisjoint(audited_texts())
    assert set(audited_texts()) >= {*measured, *(each.text for each in load_changed_meanings())}
    assert set(corpus) >= set(town.passages)
    assert set(town.training).isdisjoint({*corpus, *audited_texts()})
    assert len(set(corpus)) == len(corpus)
    drawn = set(corpus) & set(prose)
    assert 2000 <= len(drawn) < len(prose)
    assert training_corpus(prose, seed=1) == training_corpus(prose, seed=1)
    assert drawn != set(training_corpus(prose, seed=2)) & set(prose)
