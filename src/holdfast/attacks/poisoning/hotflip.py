"""The recipe hotflip: tokens exchanged by the gradient of the mean similarity."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from holdfast.adversary.token_flips import TokenFlips, best_tokens, flip
from holdfast.attacks.encoder_targets import is_differentiable
from holdfast.attacks.poisoning.poison_recipe import NOISE, Group, Passage, PassageSearch, PoisonRecipe
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.text_prompts import prompt_of

if TYPE_CHECKING:
    from holdfast.attacks.resources import Resources

_SPARE = 4
"""So many times the candidates are looked at, since the texts of some do not tokenise to them."""


@dataclass(frozen=True)
class HotFlip(PoisonRecipe):
    """In each step, exchange a random token for the best of those with the largest first-order increase.

    Zhong et al. 2023, section 3. Different from the released code: the passage begins as text of the corpus, not as
    masks; special tokens are never placed; a candidate counts only if its text tokenises to exactly its tokens, and the
    model reads it as any text, with its special tokens; a step never lowers the mean similarity.
    """

    NAME: ClassVar[str] = "hotflip"
    IDEA: ClassVar[str] = "passages: a token exchanged for those that the gradient prefers, the best one kept"
    PAPER: ClassVar[str] = "Zhong et al. 2023"
    GRADIENTS: ClassVar[bool] = True

    def search(self, group: Group, resources: Resources, bound: float | None = None) -> PassageSearch:
        """Return the search for the passage of a group."""
        return _HotFlipSearch(group, self.candidates)


class _HotFlipSearch(PassageSearch):
    def __init__(self, group: Group, candidates: int) -> None:
        space = group.objective.space
        model: Any = space.model
        if not is_differentiable(model, space.document_role):
            raise UserError(f"{space.source} gives no gradients: leave hotflip out of --recipes")
        self._tokenizer = model.tokenizer
        if not self._tokenizer.is_fast:
            raise UserError(f"{space.source}: its tokeniser has no offsets: leave hotflip out of --recipes")
        self._prompt = prompt_of(model, space.document_role) or ""
        centre = torch.tensor(group.objective.centre)
        self._flips = TokenFlips(
            Encoder(model, length_groups=1), centre, normalise=space.is_cosine, role=space.document_role
        )
        self._allowed = placeable(self._tokenizer, len(self._flips.table))
        self._candidates = candidates

    def scores(self, texts: Sequence[str]) -> list[float]:
        """Return the mean similarity of each text."""
        found: list[float] = self._flips.similarities([self._ids(text) for text in texts]).tolist()
        return found

    def begins(self, texts: Sequence[str]) -> list[str | None]:
        """Return the text of those tokens that may be placed; None if it does not tokenise to them."""
        found: list[str | None] = []
        for text in texts:
            ids, places = self._tokenised(text)
            kept = [place for place in places if self._allowed[ids[place]]]
            begin = self._decoded(ids, kept)
            left = [token for place, token in enumerate(ids) if place in kept or place not in places]
            found.append(begin if kept and self._ids(begin) == left else None)
        return found

    def step(self, passage: Passage, rng: random.Random) -> Passage:
        """Exchange a random token for the best candidate, if that increases the mean similarity."""
        ids, places = self._tokenised(passage.text)
        place = rng.choice(places)
        wanted = best_tokens(
            self._flips.gradient(ids)[place], self._flips.table, _SPARE * self._candidates, self._allowed
        )
        tokens, lost = self._kept(ids, places, place, [token for token in wanted if token != ids[place]])
        made = flip(self._flips, ids, place, tokens, passage.similarity, NOISE)
        text = self._decoded(made.ids, places) if made.accepted else passage.text
        return passage.stepped(text, made.similarity, encoded=len(tokens) + 1, lost=lost)

    def _kept(self, ids: list[int], places: list[int], place: int, tokens: Sequence[int]) -> tuple[list[int], int]:
        """Return the first candidates whose texts tokenise to their tokens, and how many before them do not."""
        rows = [[*ids[:place], token, *ids[place + 1 :]] for token in tokens]
        texts = [self._decoded(row, places) for row in rows]
        again = self._tokenizer([self._prompt + text for text in texts], truncation=True)["input_ids"] if texts else []
        kept: list[int] = []
        for looked, (token, row, new) in enumerate(zip(tokens, rows, again, strict=True)):
            if len(kept) == self._candidates:
                return kept, looked - len(kept)
            if row == new:
                kept.append(token)
        return kept, len(tokens) - len(kept)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(self._prompt + text, truncation=True)["input_ids"]
        return ids

    def _tokenised(self, text: str) -> tuple[list[int], list[int]]:
        """Return the tokens with those of the prompt, and the places of the text's own tokens."""
        found = self._tokenizer(
            self._prompt + text, truncation=True, return_offsets_mapping=True, return_special_tokens_mask=True
        )
        marks = zip(found["offset_mapping"], found["special_tokens_mask"], strict=True)
        places = [place for place, (span, mark) in enumerate(marks) if not mark and span[1] > len(self._prompt)]
        return found["input_ids"], places

    def _decoded(self, ids: Sequence[int], places: Sequence[int]) -> str:
        own = [ids[place] for place in places]
        text: str = self._tokenizer.decode(own, clean_up_tokenization_spaces=False)
        return text.strip()


def placeable(tokenizer: Any, count: int) -> torch.Tensor:
    """Return True for each of ``count`` tokens that a text may hold, (count,): no special and no added token."""
    allowed = torch.zeros(count, dtype=torch.bool)
    known = [token for token in tokenizer.get_vocab().values() if token < count]
    allowed[known] = True
    without = {*tokenizer.all_special_ids, *tokenizer.get_added_vocab().values()}
    allowed[[token for token in without if token < count]] = False
    return allowed


def random_token_texts(tokenizer: Any, count: int, tokens: int, *, seed: int) -> list[str]:
    """Return texts of random tokens that a text may hold, as a control.

    Args:
        tokenizer: of the model.
        count: number of texts.
        tokens: tokens of each.
        seed: random seed.
    """
    allowed = np.flatnonzero(placeable(tokenizer, len(tokenizer)).numpy())
    drawn = np.random.default_rng(seed).choice(allowed, (count, tokens))
    return [str(tokenizer.decode(row.tolist(), clean_up_tokenization_spaces=False)).strip() for row in drawn]
