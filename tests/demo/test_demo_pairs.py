"""The graded pairs: enough of them, over the whole scale, well formed and distinct."""

from collections import Counter

import pytest

from holdfast.demo.demo_sentences import GradedPair, load_pairs

KINDS = {
    *("paraphrase", "detail", "topic", "unrelated", "question", "lure", "idiom"),
    *("negation", "roles", "antonym", "number", "quantifier", "certainty", "time", "place"),
}


@pytest.fixture(scope="module")
def pairs() -> list[GradedPair]:
    return load_pairs()


def test_the_whole_scale_is_covered_evenly(pairs: list[GradedPair]) -> None:
    bands = Counter(min(5, int(pair.score + 0.5)) for pair in pairs)
    assert len(pairs) >= 180
    assert set(bands) == {0, 1, 2, 3, 4, 5}
    assert max(bands.values()) <= 1.25 * min(bands.values())


def test_scores_are_steps_of_a_fifth_between_0_and_5(pairs: list[GradedPair]) -> None:
    for pair in pairs:
        assert 0.0 <= pair.score <= 5.0
        assert pair.score * 5 == pytest.approx(round(pair.score * 5))


def test_no_sentence_occurs_twice(pairs: list[GradedPair]) -> None:
    sentences = Counter(sentence.lower() for pair in pairs for sentence in (pair.sentence1, pair.sentence2))
    assert [sentence for sentence, count in sentences.items() if count > 1] == []


def test_sentences_are_clean(pairs: list[GradedPair]) -> None:
    for sentence in (sentence for pair in pairs for sentence in (pair.sentence1, pair.sentence2)):
        assert sentence == " ".join(sentence.split())
        assert sentence.isascii()
        assert sentence[0].isupper()
        assert sentence[-1] in ".!?"


def test_lengths_vary(pairs: list[GradedPair]) -> None:
    lengths = [len(pair.sentence1.split()) for pair in pairs]
    assert min(lengths) <= 3
    assert max(lengths) >= 25


def test_kinds_are_known_and_hard_cases_are_there(pairs: list[GradedPair]) -> None:
    kinds = Counter(pair.kind for pair in pairs)
    assert set(kinds) == KINDS
    assert all(kinds[kind] >= 10 for kind in ("negation", "roles", "antonym", "number", "lure"))


def test_overlap_of_words_alone_does_not_give_the_grade(pairs: list[GradedPair]) -> None:
    def overlap(pair: GradedPair) -> float:
        first, second = (set(s.lower().rstrip(".!?").split()) for s in (pair.sentence1, pair.sentence2))
        return len(first & second) / len(first | second)

    assert sum(pair.score >= 4.6 and overlap(pair) < 0.2 for pair in pairs) >= 15
    assert sum(pair.score <= 2.4 and overlap(pair) > 0.6 for pair in pairs) >= 10
