"""The sentences of a batch as another encoder reads them: the same token ids, or its own of the decoded texts."""

from __future__ import annotations

import json
from typing import Any

from holdfast.backbone import Features
from holdfast.encoder import Encoder
from holdfast.prompt_tokens import PROMPT_LENGTH, text_mask
from holdfast.text_prompts import prompt_of


def reads_equal_tokens(model: Any, other: Any) -> bool:
    """Return True if two SentenceTransformers give every text the same token ids, and the other adds no prompt."""
    first, second = (_rules(each.tokenizer) for each in (model, other))
    return first is not None and first == second and not prompt_of(other)


def features_for(other: Any, model: Any, sentences: Features, *, same_tokens: bool) -> Features:
    """Return the sentences, tokenised by ``model``, as ``other`` reads them.

    With other tokens the texts are decoded and tokenised again: a text that ``model`` truncated is read as far, and
    without what its tokeniser does not keep, such as capital letters.
    """
    if same_tokens and (PROMPT_LENGTH not in sentences or prompt_of(model) == prompt_of(other)):
        return sentences
    texts = [
        model.tokenizer.decode(ids[kept], skip_special_tokens=True, clean_up_tokenization_spaces=False).strip()
        for ids, kept in zip(sentences["input_ids"], text_mask(model, sentences).bool(), strict=True)
    ]
    return Encoder(other).tokenise(texts)


def _rules(tokenizer: Any) -> dict[str, Any] | None:
    """Return all that a fast tokeniser does, without its limits of length; None for a slow one."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    found = json.loads(backend.to_str())
    return {name: value for name, value in found.items() if name not in ("truncation", "padding")}
