"""Masking: selection of the tokens to predict, and their replacement."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import UserError
from holdfast.pretraining.tokens import Ids

_MASKED, _RANDOM = 0.8, 0.1
"""Shares of the chosen tokens replaced by [MASK] and by a random token; the rest stays (BERT, §3.1)."""


class Masking:
    """Dynamic masking: the tokens to predict are drawn again each time a sentence is seen (RoBERTa, §4.1).

    Special tokens, including [UNK], are never chosen, and except for [MASK] never inserted.

    Args:
        tokenizer: a fast tokeniser with a mask token.
        share: probability that a token, or a word, is chosen.
        whole_words: choose words with all their pieces, not single tokens.

    Raises:
        UserError: ``whole_words`` is set, and the tokeniser is not WordPiece.
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
        self.is_continuation = np.zeros(size, dtype=bool)
        if whole_words:
            if type(tokenizer.backend_tokenizer.model).__name__ != "WordPiece":
                raise UserError("--whole-words needs a WordPiece tokeniser, such as BERT's: leave it out")
            self.is_continuation[[number for piece, number in vocabulary.items() if piece.startswith("##")]] = True

    def draw(self, ids: Ids, generator: np.random.Generator) -> tuple[Ids, npt.NDArray[np.bool_]]:
        """Return the masked token ids, and the mask of the positions to predict, both (n,).

        ``ids`` are those of one or more whole sentences. At least one token, or word, is chosen if any can be chosen.
        """
        maskable = self.maskable[ids]
        if self.whole_words:
            word = np.cumsum(~self.is_continuation[ids]) - 1
            chosen = (generator.random(len(ids)) < self.share)[word] & maskable
        else:
            chosen = (generator.random(len(ids)) < self.share) & maskable
        if not chosen.any() and maskable.any():
            place = generator.choice(np.flatnonzero(maskable))
            chosen = (word == word[place]) & maskable if self.whole_words else np.arange(len(ids)) == place
        places = np.flatnonzero(chosen)
        chance = generator.random(len(places))
        seen = ids.copy()
        seen[places[chance < _MASKED]] = self.mask_id
        others = places[(chance >= _MASKED) & (chance < _MASKED + _RANDOM)]
        seen[others] = generator.choice(self.ordinary, len(others))
        return seen, chosen
