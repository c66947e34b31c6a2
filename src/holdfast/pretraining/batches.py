"""Masked batches of sentences for the training and evaluation of a masked language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.pretraining.masking import Masking
from holdfast.pretraining.step_order import StepOrder, cut_into_groups
from holdfast.pretraining.tokens import Ids, TokenisedCorpus

Group = dict[str, Tensor]
"""Sentences of similar length: ``input_ids`` (B, L); ``attention_mask`` (B, L), only if there is padding; ``places``
(M,), the flat positions in (B·L) to predict; and ``labels`` (M,), the original token ids there."""

_HELD_OUT_SEED = 20_240_601  # all runs use the same masks
HELD_OUT_SHARE = 0.15
"""Share of the held-out tokens to predict, for any `mask_share`: perplexities can be compared."""


class TrainingSteps(torch.utils.data.Dataset[list[Group]]):
    """The masked groups of each optimiser step; the masks depend only on seed and step.

    Args:
        corpus: the sentences.
        masking: draws the tokens to predict.
        order: gives the sentences of each step.
        pad_id: id of the padding token.
        steps: number of steps.
    """

    def __init__(self, corpus: TokenisedCorpus, masking: Masking, order: StepOrder, pad_id: int, steps: int) -> None:
        self.corpus, self.masking, self.order, self.pad_id, self.steps = corpus, masking, order, pad_id, steps

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> list[Group]:
        generator = np.random.default_rng([self.order.seed, step, 1])  # the 1 distinguishes it from orders
        groups = []
        for rows in self.order.groups(step):
            sentences = [self.corpus.sentence(row) for row in rows]
            ids, chosen = self.masking.draw(np.concatenate(sentences), generator)
            groups.append(as_group(sentences, ids, chosen, self.pad_id))
        return groups


def held_out_groups(corpus: TokenisedCorpus, masking: Masking, pad_id: int, group_tokens: int) -> list[Group]:
    """Return all held-out sentences, with the same masks for every run with this tokeniser, whatever its seed."""
    ids, chosen = masking.draw(np.asarray(corpus.ids, dtype=np.int64), np.random.default_rng(_HELD_OUT_SEED))
    lengths = corpus.lengths
    groups = []
    for rows in cut_into_groups(np.argsort(lengths, kind="stable"), lengths, group_tokens):
        spans = [slice(int(corpus.starts[row]), int(corpus.starts[row + 1])) for row in rows]
        seen = np.concatenate([ids[span] for span in spans])
        where = np.concatenate([chosen[span] for span in spans])
        groups.append(as_group([corpus.sentence(row) for row in rows], seen, where, pad_id))
    return groups


def as_group(sentences: Sequence[Ids], seen: Ids, chosen: Any, pad_id: int) -> Group:
    """Return sentences as a group of tensors; ``seen`` (masked ids) and ``chosen`` (mask) are concatenated."""
    lengths = np.array([len(sentence) for sentence in sentences])
    longest = int(lengths.max())
    filled = np.arange(longest) < lengths[:, None]
    inputs = np.full(filled.shape, pad_id, dtype=np.int64)
    inputs[filled] = seen
    predicted = np.zeros(filled.shape, dtype=bool)
    predicted[filled] = chosen
    group = {
        "input_ids": torch.from_numpy(inputs),
        "places": torch.from_numpy(np.flatnonzero(predicted)),
        "labels": torch.from_numpy(np.concatenate(sentences)[chosen]),
    }
    if not filled.all():
        group["attention_mask"] = torch.from_numpy(filled.astype(np.int64))
    return group
