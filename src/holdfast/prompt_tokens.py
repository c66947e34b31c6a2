"""The tokens of a prompt in a batch, which are encoded with the text and never perturbed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from holdfast.text_prompts import Role, preprocess_texts, prompt_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PROMPT_LENGTH = "prompt_length"
"""The feature of sentence-transformers with the number of tokens up to the end of the prompt, tokenised alone."""


def prompt_features(model: SentenceTransformer, role: Role | None = None) -> dict[str, int]:
    """Return the features that a batch with the chosen prompt has beside its tokens: ``{prompt_length}``, or none."""
    length = preprocess_texts(model, ["a"], role).get(PROMPT_LENGTH) if prompt_of(model, role) else None
    return {} if length is None else {PROMPT_LENGTH: int(length)}


def added_tokens(model: SentenceTransformer) -> int:
    """Return the number of tokens that the chosen prompt adds to a text, without special tokens."""
    prompt = prompt_of(model)
    tokenizer = model.tokenizer
    if not prompt or not callable(tokenizer):
        return 0
    return len(tokenizer(prompt, add_special_tokens=False)["input_ids"])


def text_mask(model: SentenceTransformer, features: Mapping[str, Any]) -> Tensor:
    """Return the attention mask (B, L) without the tokens of the prompt and those before it, such as [CLS].

    A batch without a prompt has its own mask. The last token of a prompt that is tokenised alone may be another one
    before a text (a space, which joins the text's first word): only tokens that are equal in both belong to the prompt.

    Args:
        model: the model with the prompt that ``features`` were made with.
        features: ``attention_mask`` and, of a batch with a prompt, ``input_ids`` and ``prompt_length``.
    """
    mask: Tensor = features["attention_mask"]
    length = features.get(PROMPT_LENGTH)
    if length is None:
        return mask
    length = int(length[0]) if isinstance(length, Tensor) else int(length)
    columns = torch.arange(mask.shape[1], device=mask.device) - mask.long().argmax(dim=1, keepdim=True)  # (B, L)
    inside = (columns >= 0) & (columns < length)
    prompt = None if "input_ids" not in features else prompt_of(model)
    if prompt:
        ids = model.preprocess([prompt])["input_ids"][0, :length].to(mask.device)
        expected = ids[columns.clamp(0, len(ids) - 1)]
        same = (features["input_ids"] == expected) | (columns < 0)
        equal_so_far = same.long().cumprod(dim=1).bool() & inside
        # Another prompt than the chosen one, as with a trainer's own: its length is all that is known.
        known = equal_so_far.sum(dim=1, keepdim=True) >= min(2, length)
        inside = torch.where(known, equal_so_far, inside)
    return mask.masked_fill(inside, 0)
