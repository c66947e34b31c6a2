"""Rows of a batch grouped by length: each group runs without most of its padding, on either side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Padding = Literal["right", "left", "mixed"]


@dataclass(frozen=True)
class Group:
    """Rows of a batch that are run together, the columns of the batch that they have, and the mask of their text."""

    rows: Tensor
    columns: slice
    text: Tensor


def padding_side(mask: Tensor) -> Padding:
    """Return where the rows of an attention mask (B, L) are padded; "right" if no row is. Waits for a GPU."""
    begins, ends = torch.stack([mask[:, 0], mask[:, -1]]).bool().all(dim=1).tolist()
    return "right" if begins else "left" if ends else "mixed"


def length_groups(mask: Tensor, count: int, text: Tensor, padding: Padding, least: int = 1) -> list[Group]:
    """Split the rows, shortest first, into groups of near-equal size; their number is the same in all processes.

    Rows that are padded on different sides are one group.

    Args:
        mask: (B, L), 1 at tokens.
        count: number of groups.
        text: (B, L), 1 at the tokens of the text.
        padding: where the rows are padded.
        least: number of groups if ``count`` of them would have less than two rows each, which is not worth it.
    """
    count = least if len(mask) < 2 * count else count
    if count <= 1 or padding == "mixed":
        return [Group(torch.arange(len(mask), device=mask.device), slice(None), text)]
    lengths = mask.sum(dim=1)
    groups = []
    for rows in lengths.argsort(stable=True).chunk(count):
        longest = int(lengths[rows].max())
        columns = slice(longest) if padding == "right" else slice(mask.shape[1] - longest, None)
        groups.append(Group(rows, columns, text[rows, columns]))
    return groups


def cut_to(features: dict[str, Any], group: Group) -> dict[str, Any]:
    """Return the rows and columns of a group from the features of a batch."""
    rows, width = features["attention_mask"].shape
    cut: dict[str, Any] = {}
    for key, value in features.items():
        if isinstance(value, Tensor) and value.ndim >= 1 and len(value) == rows:
            value = value[group.rows]
            if value.ndim >= 2 and value.shape[1] == width:
                value = value[:, group.columns]
        cut[key] = value
    return cut


def groups_within(mask: Tensor, text: Tensor, padding: Padding, count: int, most: int | None) -> list[Group]:
    """Return the groups of `length_groups`, of at most ``most`` rows each, also if rows are padded on both sides."""
    least = 1 if most is None else -(-len(mask) // most)
    if padding == "mixed" and least > 1:
        every = torch.arange(len(mask), device=mask.device)
        return [Group(rows, slice(None), text[rows]) for rows in torch.split(every, most or 1)]
    return length_groups(mask, max(count, least), text, padding, least)


def repeated(features: Mapping[str, Any], times: int) -> dict[str, Any]:
    """Return features whose rows are repeated: all of them once, then all of them again, and so on."""
    rows = len(features["attention_mask"])
    return {
        key: torch.cat([value] * times) if isinstance(value, Tensor) and len(value) == rows else value
        for key, value in features.items()
    }
