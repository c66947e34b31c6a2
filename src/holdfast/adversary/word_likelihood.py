"""The log-probability of given words at a place of a text, by a masked language model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from holdfast.adversary.masked_lm import MaskedLM, head_at
from holdfast.adversary.token_batches import in_batches
from holdfast.edits.words import Words

MOST_PIECES = 6
"""The longest word that is scored, in sub-words."""

_DECIMALS = 3  # differences due to batching are smaller
_REMEMBERED = 1 << 18  # answers


class _Masked(NamedTuple):
    """A text with the word at ``place`` replaced by ``masks`` masks, which begin at character ``begin``."""

    text: str
    begin: int
    masks: int


class WordLikelihood:
    """The log-probability of words at places of texts, by a masked language model; recent answers are cached.

    A word of k sub-words is asked for at k masks, and its log-probability is the sum of theirs (the sub-words are
    taken as independent). So all candidates of a place with equally many sub-words share one forward pass.

    Args:
        masked_lm: the model.
    """

    def __init__(self, masked_lm: MaskedLM) -> None:
        self._model, self.source = masked_lm, f"masked LM {masked_lm.source}"
        self._pieces: dict[str, tuple[int, ...]] = {}
        self._known: dict[tuple[_Masked, tuple[int, ...]], float | None] = {}

    def log_probabilities(self, questions: Sequence[tuple[Words, int, str]]) -> list[float | None]:
        """Return the natural log-probability of each word at its place.

        Args:
            questions: a text, the place of one of its words, and a word for this place.

        Returns:
            A number ≤ 0 for each question; None for a word of more than `MOST_PIECES` sub-words or none, and for a
            place beyond the model's window.
        """
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        pieces = self._pieces_of([word for _, _, word in questions])
        keys = [
            (self._masked(words, place, len(own)), own)
            for (words, place, _), own in zip(questions, pieces, strict=True)
        ]
        new = {key: None for key in keys if key not in self._known}
        self._answer([key for key in new if 1 <= key[0].masks <= MOST_PIECES])
        return [self._known.get(key) for key in keys]

    def _pieces_of(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        if len(self._pieces) > _REMEMBERED:
            self._pieces.clear()
        new = sorted(set(words) - self._pieces.keys())
        if new:
            self._pieces.update(zip(new, map(tuple, self._model.pieces(new)), strict=True))
        return [self._pieces[word] for word in words]

    def _masked(self, words: Words, place: int, count: int) -> _Masked:
        masks = str(self._model.tokenizer.mask_token) * count
        return _Masked(words.exchanged(place, masks).text, words.spans[place][0], count)

    @torch.no_grad()
    def _answer(self, keys: Sequence[tuple[_Masked, tuple[int, ...]]]) -> None:
        """Compute and cache the answers to new questions, with one row per distinct masked text."""
        wanted: dict[_Masked, list[tuple[int, ...]]] = {}
        for masked, pieces in keys:
            wanted.setdefault(masked, []).append(pieces)
        rows = list(wanted)
        if not rows:
            return
        model, tokenizer = self._model.model, self._model.tokenizer
        encoded = self._model.tokenised([Words((row.text,)) for row in rows])
        positions = [self._positions(encoded, number, row) for number, row in enumerate(rows)]
        for numbers, features in in_batches(tokenizer, encoded, model.device):
            places = [positions[number] or [] for number in numbers]
            widest = max(1, *map(len, places))
            here = torch.tensor([[*each, *[0] * (widest - len(each))] for each in places], device=model.device)
            with head_at(model, here):
                logs: Tensor = model(**features).logits.float().log_softmax(dim=-1).cpu()  # (B, K, V)
            for number, row in zip(numbers, logs, strict=True):
                for pieces in wanted[rows[number]]:
                    self._known[rows[number], pieces] = (
                        round(float(row[torch.arange(len(pieces)), list(pieces)].sum()), _DECIMALS)
                        if positions[number]
                        else None
                    )

    def _positions(self, encoded: Any, row: int, masked: _Masked) -> list[int] | None:
        """Return the token positions of the masks, or None if the model does not read all of them."""
        mask, end = self._model.tokenizer.mask_token, masked.begin
        end += masked.masks * len(mask)
        found = [
            position
            for position, (token, (first, last)) in enumerate(
                zip(encoded["input_ids"][row], encoded["offset_mapping"][row], strict=True)
            )
            # Some tokenisers count the space before a word to its first token: test for overlap.
            if token == self._model.tokenizer.mask_token_id and first < end and masked.begin < last
        ]
        return found if len(found) == masked.masks else None
