"""An encoder with a loss of its vector and the gradients of that loss, for the Geometry Attack."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from holdfast.adversary.geometry import BatchGradients, Spans
from holdfast.adversary.token_batches import in_batches, padded, tokens_first
from holdfast.backbone import Features
from holdfast.encoder import Encoder
from holdfast.prompt_tokens import PROMPT_LENGTH, prompt_features, text_mask
from holdfast.text_prompts import Role, prompt_of, refuse_chat_template

Loss = Callable[[Tensor, Sequence[int]], Tensor]


class GradientEncoder:
    """The vector z = g(f(text)) of an encoder f and a head g, and a loss of z; use it in the encoder's ``attack_mode``.

    Args:
        encoder: f.
        head: g, (n, d) → (n, c).
        loss: returns the mean loss, a scalar, of n vectors (n, c), given the numbers of their original texts.
        finished: returns, for n vectors and numbers, True for each text that is finished; None: never.
        steer: returns the ascent direction from z and v = ∇_z ℓ; None: v.
        role: side of the texts; the prompt of this side is put before each and is not part of its offsets.

    Raises:
        UserError: the encoder puts each text into a chat template.
    """

    def __init__(
        self,
        encoder: Encoder,
        head: Callable[[Tensor], Tensor],
        loss: Loss,
        *,
        finished: Callable[[Tensor, Sequence[int]], Sequence[bool]] | None = None,
        steer: Callable[[Tensor, Tensor], Tensor] | None = None,
        role: Role | None = None,
    ) -> None:
        refuse_chat_template(encoder.model, "an attack with gradients")
        self._encoder, self._head, self.loss = encoder, head, loss
        self._finished, self._steer = finished, steer
        self._prompt = prompt_of(encoder.model, role) or ""
        self._more = prompt_features(encoder.model, role)
        # Batches of candidates are already grouped by length.
        self._scoring = Encoder(encoder.model, length_groups=1)

    @property
    def _tokenizer(self) -> Any:
        return self._encoder.model.tokenizer

    def gradients(self, texts: Sequence[str], rows: Sequence[int]) -> BatchGradients:
        """Return z, and the gradients at z and at the input of the first layer, in one pass."""
        encoded = self._tokenised(texts, return_offsets_mapping=True)
        features: dict[str, Any] = padded(self._tokenizer, encoded, range(len(texts)), self._encoder.model.device)
        features |= self._more
        with torch.no_grad():
            leaf = self._encoder.embed(features).detach().requires_grad_()
        with torch.enable_grad(), self._encoder.perturbed(embeddings=leaf):
            z = self._head(self._encoder.encode(features))
            direction, tokens = torch.autograd.grad(self.loss(z, rows), [z, leaf])
        z, tokens = z.detach(), tokens_first(tokens, features["attention_mask"])
        direction = direction if self._steer is None else self._steer(z, direction)
        return BatchGradients(z, direction, tokens, [self._in_text(spans) for spans in encoded["offset_mapping"]])

    @torch.no_grad()
    def vectors(self, texts: Sequence[str], rows: Sequence[int]) -> Tensor:
        """Return z of n texts, computed in batches of similar length; equal texts are encoded once."""
        distinct: dict[str, int] = {}
        places = [distinct.setdefault(text, len(distinct)) for text in texts]
        encoded = self._tokenised(list(distinct))
        order, vectors = [], []
        for numbers, features in in_batches(self._tokenizer, encoded, self._encoder.model.device):
            order += numbers
            vectors.append(self._head(self._scoring.encode(features | self._more)))
        return torch.cat(vectors)[torch.tensor(order).argsort()[places]]

    def _tokenised(self, texts: Sequence[str], **options: Any) -> Any:
        return self._tokenizer([self._prompt + text for text in texts], truncation=True, **options)

    def _in_text(self, spans: Spans) -> Spans:
        """Return the character spans of tokens in the text after the prompt, empty ones for the prompt's tokens."""
        if not self._prompt:
            return spans
        skipped = len(self._prompt)
        return [(max(0, begin - skipped), max(0, end - skipped)) for begin, end in spans]

    def finished(self, z: Tensor, rows: Sequence[int]) -> Sequence[bool]:
        """Return, for each text, True if it is finished."""
        return [False] * len(z) if self._finished is None else self._finished(z, rows)


_PARTED = re.compile(
    r"(?P<before>\d)(?:(?P<point>\.) (?=\d)|(?P<comma>,) (?=\d{3}(?!\d))| (?P<colon>:) (?=\d\d(?!\d)))"
    r"|(?<=[^\W\d_]) (?P<apostrophe>['’]) (?=(?:s|t|d|m|re|ve|ll)\b)"
)
"""Numbers, times and contractions that decoding, as of WordPiece, parts: "1, 000", "3. 5", "10 : 30", "don ' t"."""


def recovered_texts(model: Any, features: Features) -> list[str | None]:
    """Decode tokenised rows, without their prompt; None for a row whose text would not give the same ids again.

    Such rows hold an unknown token, or were truncated inside a word. Numbers and words that decoding has parted, as
    "1, 000" and "don ' t", are joined where that gives the same ids.
    """
    tokenizer, prompt = model.tokenizer, _prompt_in(model, features)
    ids = _unpadded(features, ["input_ids"])["input_ids"]
    own = ids
    if prompt:
        lengths = text_mask(model, features).sum(dim=1).tolist()
        own = [row[len(row) - length :] for row, length in zip(ids, lengths, strict=True)]
    texts: list[str] = tokenizer.batch_decode(own, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    if prompt:  # whose last space may be part of the text's first token
        texts = [text.lstrip() for text in texts]
    joined = [_PARTED.sub(lambda match: "".join(filter(None, match.groups())), text) for text in texts]
    found: list[str | None] = [None] * len(ids)
    for forms in (texts, joined):  # a joined text is nearer to what was written, where it gives the same ids
        rows = [row for row, text in enumerate(forms) if found[row] != text]
        again = tokenizer([prompt + forms[row] for row in rows], truncation=True)["input_ids"] if rows else []
        for row, new in zip(rows, again, strict=True):
            if new == ids[row]:
                found[row] = forms[row]
    return found


def with_texts(model: Any, features: Features, texts: dict[int, str]) -> dict[str, Any]:
    """Return the features with some rows, by number, replaced by other texts, after the same prompt."""
    if not texts:
        return dict(features)
    tokenizer = model.tokenizer
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in features]
    rows = _unpadded(features, names)
    prompt = _prompt_in(model, features)
    fresh = tokenizer([prompt + text for text in texts.values()], truncation=True)
    for i, row in enumerate(texts):
        for name in names:
            rows[name][row] = fresh[name][i]
    mask = features["attention_mask"]
    return {**features, **padded(tokenizer, rows, range(len(mask)), mask.device)}


def _prompt_in(model: Any, features: Features) -> str:
    """Return the prompt that a batch was tokenised with, "" if it has none."""
    return (prompt_of(model) or "") if PROMPT_LENGTH in features else ""


def _unpadded(features: Features, names: Sequence[str]) -> dict[str, list[list[int]]]:
    """Return some of the features as a tokeniser's lists, without padding."""
    # One copy for all, since each copy from a GPU waits.
    mask, *tensors = torch.stack([features["attention_mask"], *(features[name] for name in names)]).cpu()
    kept = mask.bool()
    return {
        name: [row[real].tolist() for row, real in zip(tensor, kept, strict=True)]
        for name, tensor in zip(names, tensors, strict=True)
    }
