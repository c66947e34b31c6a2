"""Tokenised texts in batches of a fixed number of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from holdfast.data.batching import CPU_TOKENS_PER_BATCH, GPU_TOKENS_PER_BATCH, plan_batches


def padded(
    tokenizer: Any, encoded: Mapping[str, Sequence[Any]], rows: Sequence[int], device: torch.device
) -> dict[str, Tensor]:
    """Return some rows of a tokeniser's unpadded lists as tensors (len(rows), longest row), on ``device``."""
    fill = {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id, "attention_mask": 0}
    names = [name for name in fill if name in encoded]
    columns = [
        # A row without tokens would have floats.
        pad_sequence(
            [torch.tensor(encoded[name][row], dtype=torch.long) for row in rows],
            True,
            fill[name],
            tokenizer.padding_side,
        )
        for name in names
    ]
    # One copy for all, since each copy to a GPU waits.
    return dict(zip(names, torch.stack(columns).to(device), strict=True))


def tokens_first(values: Tensor, mask: Tensor) -> Tensor:
    """Return values (n, L, e) with those of a row's tokens at its begin, and those of its padding behind them.

    A tokeniser's unpadded lists, such as character offsets, then have the same order as the values of a batch that is
    padded on the left.
    """
    order = (mask == 0).long().argsort(dim=1, stable=True)
    return values.gather(1, order.unsqueeze(-1).expand_as(values))


def in_batches(
    tokenizer: Any, encoded: Mapping[str, Sequence[Any]], device: torch.device
) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
    """Yield row numbers and features of batches of similar length, longest first; on a CPU batches are smaller."""
    tokens = CPU_TOKENS_PER_BATCH if device.type == "cpu" else GPU_TOKENS_PER_BATCH
    for rows in plan_batches([len(ids) for ids in encoded["input_ids"]], tokens):
        yield rows, padded(tokenizer, encoded, rows, device)
