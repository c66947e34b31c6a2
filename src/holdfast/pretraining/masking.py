"""Which tokens a masked language model has to predict, and what stands in their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import UserError
from holdfast.pretraining.tokens import Ids

_MASKED, _RANDOM = 0.8, 0.1
"""Of the chosen tokens: the share that becomes [MASK], and that becomes any token; the rest stays (BERT, §3.1)."""


class Masking:
    """Draws the tokens to predict: dynamic masking, anew each time a sentence is seen (RoBERTa, §4.1).

    Special tokens, [UNK] among them, are never chosen, and never put in a token's place but for [MASK].

    Args:
        tokenizer: a fast tokeniser with a mask token.
        share: the probability that a token, or a word, is chosen.
        whole_words: choose words, with all their pieces, instead of tokens.

    Raises:
        UserError: whole words of a tokeniser that is not WordPiece.
    """

    def __init__(self, tokenizer: Any, *, share: float, whole_words: bool = False) -> None:
        self.share, self.whole_words = share, whole_words
        self.mask_id = int(tokenizer.mask_token_id)
        vocabulary: dict[str, int] = tokenizer.get_vocab()
        size = max(vocabulary.values()) + 1
        self.maskable = np.zeros(size, dtype=bool)
        self.maskable[list(vocabulary.values())] = True
        self.maskable[list(tokenizer.all_special_ids)] = False
        self.ordinary = np.flatnonzero(self.maskable)
        self.goes_on = np.zeros(size, dtype=bool)
        if whole_words:
            if type(tokenizer.backend_tokenizer.model).__name__ != "WordPiece":
                raise UserError("--whole-words needs a WordPiece tokeniser, such as BERT's: leave it out")
            self.goes_on[[number for piece, number in vocabulary.items() if piece.startswith("##")]] = True

    def draw(self, ids: Ids, generator: np.random.Generator) -> tuple[Ids, npt.NDArray[np.bool_]]:
        """What the model sees, and where it has to predict what was there.

        At least one token is chosen wherever one may be.

        Args:
            ids: the tokens of one or more whole sentences, one after another, (n,).
            generator: where the chances come from.
        """
        maskable = self.maskable[ids]
        if self.whole_words:
            word = np.cumsum(~self.goes_on[ids]) - 1
            chosen = (generator.random(len(ids)) < self.share)[word] & maskable
        else:
            chosen = (generator.random(len(ids)) < self.share) & maskable
        if not chosen.any() and maskable.any():
            chosen[generator.choice(np.flatnonzero(maskable))] = True
        places = np.flatnonzero(chosen)
        chance = generator.random(len(places))
        seen = ids.copy()
        seen[places[chance < _MASKED]] = self.mask_id
        others = places[(chance >= _MASKED) & (chance < _MASKED + _RANDOM)]
        seen[others] = generator.choice(self.ordinary, len(others))
        return seen, chosen
