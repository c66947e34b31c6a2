"""A queue of keys as negatives, as in momentum contrast (He et al. 2020; ADCL, §3.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from holdfast.adversary.equal_texts import NO_TEXT, share_a_text
from holdfast.distributed import gather_keys


class KeyQueue(nn.Module):
    """A first-in-first-out queue of the last Q keys; nothing is computed of slots that were never filled.

    The hashes of the texts of each key are stored as well, so that later duplicates can be detected. All tensors are
    buffers, so that checkpoints contain them.

    Args:
        size: Q.
        dimension: d, the length of a key.
        columns: number of texts per key: 2 if the data has sentences and their positives.
        random_start: start with Q random keys tanh(N(0, I)) that count as filled, as in ADCL's released code.
    """

    def __init__(self, size: int, dimension: int, *, columns: int = 1, random_start: bool = False) -> None:
        super().__init__()
        if size < 1:
            raise ValueError(f"a queue holds at least one key, got size {size}")
        self.keys: Tensor
        self.texts: Tensor
        self.head: Tensor
        self.filled: Tensor
        self.register_buffer(
            "keys", torch.randn(size, dimension).tanh() if random_start else torch.zeros(size, dimension)
        )
        self.register_buffer("texts", torch.full((size, columns), NO_TEXT))
        self.register_buffer("head", torch.tensor(0))
        self.register_buffer("filled", torch.tensor(size if random_start else 0))
        self._held = size if random_start else 0  # the value of `filled`, without asking a GPU
        self.register_load_state_dict_post_hook(KeyQueue._count_again)  # type: ignore[no-untyped-call]

    def _count_again(self, _: object) -> None:
        self._held = int(self.filled)

    def vectors(self) -> Tensor:
        """Return the keys, (n, d), n ≤ Q."""
        return self.keys[: self._held]

    @property
    def share(self) -> Tensor:
        """The filled share of the slots, a scalar in [0, 1]."""
        return self.filled / len(self.keys)

    def equal_to(self, texts: Tensor) -> Tensor:
        """Return which of the n keys are of an equal text, (B, n), boolean, for hashes of texts (B, columns)."""
        return share_a_text(texts, self.texts[: self._held])

    @torch.no_grad()
    def push(self, keys: Tensor, texts: Tensor | None = None) -> None:
        """Add the keys (B, d) of every process, in the order of their ranks, in place of the oldest keys.

        All processes hold the same queue afterwards. Of more than Q keys the last Q are kept. ``texts`` are the hashes
        of their texts, (B, columns); None: the keys have no texts that can occur again.
        """
        texts = self.texts.new_full((len(keys), self.texts.shape[1]), NO_TEXT) if texts is None else texts
        keys, _ = gather_keys(keys.detach())
        texts, _ = gather_keys(texts)
        size, count = len(self.keys), len(keys)
        kept = min(count, size)
        places = (self.head + torch.arange(count - kept, count, device=self.keys.device)) % size
        self.keys[places] = keys[count - kept :].to(self.keys)
        self.texts[places] = texts[count - kept :].to(self.texts)
        self.head.add_(count).remainder_(size)
        self.filled.add_(count).clamp_(max=size)
        self._held = min(self._held + count, size)
