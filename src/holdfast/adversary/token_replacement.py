"""Token ids of which some are replaced by the predictions of a frozen masked language model (ELECTRA, DiffCSE)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from holdfast.adversary.masked_lm import MaskedLM, head_at
from holdfast.backbone import token_positions
from holdfast.errors import UserError

_ROWS = 32
"""Rows of a pass of the generator, whose logits are as wide as the vocabulary."""
_MASKED, _KEPT = 0.8, 0.9
"""Shares of the chosen tokens: 80 % become [MASK], 10 % a random token, and 10 % stay."""

Draw = Callable[[int, tuple[int, ...], torch.device], Tensor]
"""``draw(number, shape, device)``: uniform numbers in [0, 1), the first, second or third of a batch."""


def check_vocabulary(generator: MaskedLM, tokenizer: object) -> None:
    """Check that a generator's tokens are those of the model to train.

    Raises:
        UserError: they are not.
    """
    own: dict[str, int] = tokenizer.get_vocab()  # type: ignore[attr-defined]
    if own != generator.tokenizer.get_vocab():
        raise UserError(
            f"{generator.source} has another vocabulary than the model to train, whose tokens it is to replace: name a "
            "masked language model with the same vocabulary by generator="
        )


def chosen_and_masked(
    ids: Tensor, replaceable: Tensor, ratio: float, mask_id: int, vocabulary: int, draw: Draw
) -> tuple[Tensor, Tensor]:
    """Return which tokens are chosen, (rows, L), and the ids with these hidden, for a masked language model.

    Args:
        ids: token ids, (rows, L).
        replaceable: true at tokens that may be chosen, (rows, L).
        ratio: probability to choose such a token.
        mask_id: the id of [MASK].
        vocabulary: number of ids, of which random tokens are drawn.
        draw: the random numbers.
    """
    shape = tuple(ids.shape)
    chosen = replaceable & (draw(0, shape, ids.device) < ratio)
    fate = draw(1, shape, ids.device)
    other = (draw(2, shape, ids.device) * vocabulary).long().clamp(max=vocabulary - 1)
    hidden = torch.where(fate < _MASKED, mask_id, torch.where(fate < _KEPT, other, ids))
    return chosen, torch.where(chosen, hidden, ids)


@torch.no_grad()
def predicted(generator: MaskedLM, hidden: Tensor, mask: Tensor, wanted: Tensor) -> Tensor:
    """Return ``hidden`` (rows, L) with the most probable token at each place of ``wanted`` (rows, L).

    ``mask`` (rows, L) is 1 at real tokens. The generator reads without dropout.
    """
    result = hidden.clone()
    # Rows of similar length are read together, without most of their padding.
    for rows in torch.split(mask.sum(dim=1).argsort(stable=True), _ROWS):
        columns = mask[rows].any(dim=0).nonzero().flatten()
        part = (rows[:, None], columns)
        ids, here = hidden[part], wanted[part]
        most = int(here.sum(dim=1).max())
        if not most:
            continue
        # The wanted places of each row first, in their order, then others up to the largest number of them.
        places = (~here).int().argsort(dim=1, stable=True)[:, :most]
        with head_at(generator.model, places):
            positions = {} if bool(mask[part][:, 0].all()) else token_positions(generator.model, mask[part])
            logits = generator.model(input_ids=ids, attention_mask=mask[part], **positions).logits
        found = torch.where(here.gather(1, places), logits.argmax(dim=-1), ids.gather(1, places))
        result[part] = ids.scatter(1, places, found)
    return result
