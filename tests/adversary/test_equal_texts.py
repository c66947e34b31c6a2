"""The hashes by which equal texts are told, against Python's unbounded integers and a look at the ids themselves."""

from __future__ import annotations

import torch

from holdfast.adversary.equal_texts import share_a_text, text_hashes


def slow_hash(ids: list[int]) -> int:
    """The sum of SplitMix64 over place and id, modulo 2⁶⁴, as a signed number."""
    total, whole = 0, (1 << 64) - 1
    for place, token in enumerate(ids, start=1):
        x = ((place << 32) + token + 0x9E3779B97F4A7C15) & whole
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & whole
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & whole
        total += x ^ (x >> 31)
    return (total + (1 << 63)) % (1 << 64) - (1 << 63)


def features(rows: list[list[int]], width: int, side: str = "right") -> dict[str, torch.Tensor]:
    """Rows of ids, padded with the id 7, which texts hold too."""
    ids, mask = torch.full((len(rows), width), 7), torch.zeros(len(rows), width, dtype=torch.long)
    for i, row in enumerate(rows):
        place = slice(0, len(row)) if side == "right" else slice(width - len(row), width)
        ids[i, place], mask[i, place] = torch.tensor(row), 1
    return {"input_ids": ids, "attention_mask": mask}


ROWS = [[2, 5, 3], [2, 5, 3, 7], [5, 2, 3], [2, 5, 3], [2, 7, 3], [0, 2, 5, 3], [2, 5, 3, 0], [7], [2, 250_001, 3]]


def test_the_hash_is_the_sum_over_the_real_tokens() -> None:
    assert text_hashes(features(ROWS, 6))[:, 0].tolist() == [slow_hash(row) for row in ROWS]


def test_neither_padding_nor_its_side_counts() -> None:
    hashes = text_hashes(features(ROWS, 4))
    for width, side in ((9, "right"), (4, "left"), (9, "left")):
        assert torch.equal(text_hashes(features(ROWS, width, side)), hashes), (width, side)


def test_rows_are_equal_where_their_ids_are() -> None:
    hashes = text_hashes(features(ROWS, 6))
    expected = [[one == other for other in ROWS] for one in ROWS]
    assert share_a_text(hashes, hashes).tolist() == expected


def test_many_texts_that_differ_little_have_hashes_of_their_own() -> None:
    rows = [[2, a, b, c, 3] for a in range(30) for b in range(30) for c in range(30)]
    assert len(text_hashes(features(rows, 5)).unique()) == len(rows)


def test_pairs_share_a_text_where_any_two_are_equal() -> None:
    first = text_hashes(features([[1], [2], [3]], 3), features([[10], [20], [30]], 2))
    second = text_hashes(features([[1], [4], [20], [5]], 5), features([[6], [10], [7], [8]], 4))
    assert share_a_text(first, second).tolist() == [
        [True, True, False, False],
        [False, False, True, False],
        [False, False, False, False],
    ]
