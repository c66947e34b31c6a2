"""Queries drawn from passages."""

from __future__ import annotations

import pytest

from holdfast.evaluation.pseudo_queries import PseudoQuery, pseudo_queries, sentences_of

FIRST = "The old man sleeps on the bed. “Does the dog run in the park?” A cat eats."
SECOND = "One sentence only, without a second one."


@pytest.mark.parametrize(
    ("passage", "sentences"),
    [
        (FIRST, ["The old man sleeps on the bed.", "“Does the dog run in the park?", "A cat eats."]),
        ("It costs 3.50 a day, i.e. much. Who pays?", ["It costs 3.50 a day, i.e. much.", "Who pays?"]),
        ("The title\nThe first sentence.", ["The title", "The first sentence."]),
        ("Er kam. Öfter sang sie!", ["Er kam.", "Öfter sang sie!"]),
        ("Mr. Smith met J. R. R. Tolkien. Dr. Who came.", ["Mr. Smith met J. R. R. Tolkien.", "Dr. Who came."]),
        (
            "It is so in much of the U.S. Congress. At age 39. Then",
            ["It is so in much of the U.S. Congress.", "At age 39.", "Then"],
        ),
        (
            "It fell in World War I. Then came peace at 5 p.m. He left.",
            ["It fell in World War I.", "Then came peace at 5 p.m.", "He left."],
        ),
        ("It fell in Aug. Sales rose on Sept. 3 again.", ["It fell in Aug.", "Sales rose on Sept. 3 again."]),
        ("هل تسمع؟ نعم.", ["هل تسمع؟", "نعم."]),
        ("他喜欢读书。他说：“好！”周末他去公园。", ["他喜欢读书。", "他说：“好！", "周末他去公园。"]),
        ("Buses run in zones A and B. Pupils pay half.", ["Buses run in zones A and B.", "Pupils pay half."]),
        ("Er kam am 3. Mai, z. B. Montag. Er ging.", ["Er kam am 3. Mai, z. B. Montag.", "Er ging."]),
        ("वह आता है। वह जाता है।", ["वह आता है।", "वह जाता है।"]),
        ("  ", []),
    ],
)
def test_sentences(passage: str, sentences: list[str]) -> None:
    assert sentences_of(passage) == sentences


def test_a_sentence_of_a_querys_length_from_each_passage_with_several() -> None:
    passages = [SECOND, FIRST, "No. Yes.", "Tiny one. The woman sings in the house."]
    found = pseudo_queries(passages, seed=1)
    assert [query.passage for query in found] == [1, 3]
    assert found[0].text in sentences_of(FIRST)[:2]
    assert found[1].text == "The woman sings in the house."
    assert pseudo_queries(passages, seed=1, most=1) == found[:1]


def test_draws_depend_on_the_passage_and_the_seed_alone() -> None:
    passages = [f"The man {i} runs in the park. The cat {i} sleeps in the house." for i in range(30)]
    found = pseudo_queries(passages, seed=1)
    assert pseudo_queries([SECOND, *passages], seed=1) == [PseudoQuery(q.passage + 1, q.text) for q in found]
    starts = {query.text.split()[1] for query in found}
    assert starts == {"man", "cat"}
    assert pseudo_queries(passages, seed=2) != found
