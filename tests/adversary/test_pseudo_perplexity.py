"""Pseudo-perplexity against a slow reference, and what it says of a text."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from holdfast.adversary import pseudo_perplexity
from holdfast.adversary.masked_lm import MaskedLM
from holdfast.adversary.pseudo_perplexity import PseudoPerplexity


@pytest.fixture
def lm(masked_lm: Path) -> MaskedLM:
    return MaskedLM(str(masked_lm))


@torch.no_grad()
def slow(lm: MaskedLM, text: str, apart: int) -> float:
    """The same by its definition: for each token, a pass in which it is masked, with those of its group."""
    ids = lm.tokenizer(text)["input_ids"]
    places = range(1, len(ids) - 1)
    losses = []
    for place in places:
        masked = [
            lm.tokenizer.mask_token_id if p in places and (p - place) % apart == 0 else t for p, t in enumerate(ids)
        ]
        logs = lm.model(input_ids=torch.tensor([masked])).logits[0, place].log_softmax(dim=-1)
        losses.append(-float(logs[ids[place]]))
    return math.exp(sum(losses) / len(losses))


@pytest.mark.parametrize("apart", [2, 3, 50])
def test_it_is_what_a_slow_reference_gives(
    lm: MaskedLM, sentences: list[str], apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pseudo_perplexity, "APART", apart)
    found = PseudoPerplexity(lm).of(sentences)
    assert found == pytest.approx([slow(lm, text, apart) for text in sentences], abs=1e-3)


def test_an_empty_text_has_none_and_a_mask_is_no_free_token(lm: MaskedLM) -> None:
    empty, text = PseudoPerplexity(lm).of(["", "the dog"])
    assert empty == math.inf
    assert math.isfinite(text)
    (unknown,) = PseudoPerplexity(lm).of(["zzz"])  # the unknown token is a token that a reader sees
    assert math.isfinite(unknown)
