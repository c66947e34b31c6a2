"""Pseudo-perplexity of texts by a masked language model: how unusual each token is, given the others.

Salazar et al. 2020, "Masked Language Model Scoring", eq. 2 and section 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from holdfast.adversary.masked_lm import MaskedLM, head_at
from holdfast.adversary.token_batches import in_batches
from holdfast.edits.words import Words

APART = 8
"""Tokens of a text whose places differ by a multiple of this are masked in one pass; the paper masks one at a time.

A text then costs 8 rows, whatever its length; a token does not see its eighth neighbours.
"""

_DECIMALS = 3  # differences due to batching are smaller


class PseudoPerplexity:
    """The pseudo-perplexity of texts; 1 is the lowest.

    Args:
        masked_lm: the model.
    """

    def __init__(self, masked_lm: MaskedLM) -> None:
        self._masked_lm, self.source = masked_lm, masked_lm.source

    @torch.no_grad()
    def of(self, texts: Sequence[str]) -> list[float]:
        """Return exp of the mean negative log-probability of the tokens of each text, rounded; ∞ without tokens.

        Only the tokens in the model's window count.
        """
        lm = self._masked_lm
        ids = lm.tokenised([Words((text,)) for text in texts])["input_ids"]
        rows, asked, owner = [], [], []
        for text, tokens in enumerate(ids):
            special = lm.tokenizer.get_special_tokens_mask(tokens, already_has_special_tokens=True)
            # An unknown token counts as special for some tokenisers, and is one that a reader sees.
            places = [p for p, mark in enumerate(special) if not mark or tokens[p] == lm.tokenizer.unk_token_id]
            for first in range(min(APART, len(places))):
                own = places[first::APART]
                rows.append([lm.tokenizer.mask_token_id if p in own else token for p, token in enumerate(tokens)])
                asked.append((own, [tokens[p] for p in own]))
                owner.append(text)
        sums, counts = [0.0] * len(texts), [0] * len(texts)
        for numbers, losses in self._losses(rows, asked):
            for number, loss in zip(numbers, losses, strict=True):
                sums[owner[number]] += loss
                counts[owner[number]] += len(asked[number][0])
        return [
            round(math.exp(min(total / count, 700.0)), _DECIMALS) if count else math.inf
            for total, count in zip(sums, counts, strict=True)
        ]

    def _losses(
        self, rows: Sequence[list[int]], asked: Sequence[tuple[list[int], list[int]]]
    ) -> list[tuple[list[int], list[float]]]:
        """Return, by batch, the numbers of the rows and the sums of the negative log-probabilities of their tokens."""
        found = []
        model, tokenizer = self._masked_lm.model, self._masked_lm.tokenizer
        encoded = {"input_ids": list(rows), "attention_mask": [[1] * len(row) for row in rows]}
        for numbers, features in in_batches(tokenizer, encoded, model.device):
            widest = max(len(asked[number][0]) for number in numbers)
            places = [asked[number][0] for number in numbers]
            here = torch.tensor([[*each, *[0] * (widest - len(each))] for each in places], device=model.device)
            with head_at(model, here):
                logs: Tensor = model(**features).logits.float().log_softmax(dim=-1).cpu()
            losses = [
                -float(own[torch.arange(len(asked[n][1])), asked[n][1]].sum())
                for n, own in zip(numbers, logs, strict=True)
            ]
            found.append((numbers, losses))
        return found
