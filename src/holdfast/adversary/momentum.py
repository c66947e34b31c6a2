"""A momentum encoder: a moving-average copy of an encoder (He et al. 2020; AdCSE, eq. 4; ADCL, §3.2)."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.adapters import has_adapters
from holdfast.backbone import Features
from holdfast.encoder import Encoder, unwrap


class MomentumEncoder(nn.Module):
    """The momentum copies f_k of an encoder and g_k of its head: θ_k ← m·θ_k + (1−m)·θ_q.

    The copy starts from the loaded weights of the encoder and never gets a gradient. Like any new module it is in
    training mode, whatever the mode of the model: its dropout is on.

    Args:
        model: the ``SentenceTransformer`` to copy, which may be wrapped.
        head: the head to copy, (rows, d) → (rows, d'); ``nn.Identity()`` for no head.
        momentum: m in [0, 1].
        warm_up: start from a small momentum: update k, from 0, uses min(m, (1 + k) / (10 + k)). With a constant m
            the copy lags 1 / (1 - m) steps behind, and a run that is not much longer trains against its first weights.

    Attributes:
        mini_batch_size: rows per pass at most; None: all.
        updates: the number k of updates so far, saved in checkpoints; no buffer, so that no device is waited for.
    """

    def __init__(self, model: nn.Module, head: nn.Module, *, momentum: float, warm_up: bool = False) -> None:
        super().__init__()
        if not 0.0 <= momentum <= 1.0:
            raise ValueError(f"momentum must lie in [0, 1], got {momentum}")
        self.momentum, self.warm_up = momentum, warm_up
        self.updates = 0
        self.mini_batch_size: int | None = None
        # Not named "model": sentence-transformers' trainer replaces every attribute of that name by its model.
        self.followed_model = copy.deepcopy(unwrap(model)).requires_grad_(False)
        self.followed_head = copy.deepcopy(head).requires_grad_(False)
        self.train()  # a loaded model is in evaluation mode, and a trainer only sets the mode of its own model

    @property
    def current_momentum(self) -> float:
        """Return the momentum of the next update."""
        if not self.warm_up:
            return self.momentum
        return min(self.momentum, (1 + self.updates) / (10 + self.updates))

    @torch.no_grad()
    def update(self, model: nn.Module, head: nn.Module) -> None:
        """Update the copies by one step towards ``model`` and ``head``; buffers are copied."""
        momentum = self.current_momentum
        for mine, theirs in ((self.followed_model, unwrap(model)), (self.followed_head, head)):
            for own, leader in zip(mine.parameters(), theirs.parameters(), strict=True):
                own.lerp_(leader.detach(), 1.0 - momentum)
            for buffer, source in zip(mine.buffers(), theirs.buffers(), strict=True):
                buffer.copy_(source)
        self.updates += 1

    def get_extra_state(self) -> Tensor:
        """Return the number of updates, for checkpoints."""
        return torch.tensor(self.updates)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the number of updates."""
        self.updates = int(state)

    @torch.no_grad()
    def keys(self, features: Features) -> Tensor:
        """Return the projected vectors of the rows, (B, d'), detached."""
        keys: Tensor = self.followed_head(self._encoder().encode(features))
        return keys

    def _encoder(self) -> Encoder:
        return Encoder(self.followed_model, mini_batch_size=self.mini_batch_size)

    def randomise(self) -> None:
        """Replace the backbone's weights by random ones; the head stays.

        They are drawn by the backbone's own initialisation from the global random state.

        Raises:
            ValueError: the encoder has adapters, and only these follow it.
        """
        if has_adapters(self.followed_model):
            raise ValueError("a copy of an encoder with adapters does not start from random weights")
        backbone: Any = Encoder(self.followed_model).backbone.model
        fresh = type(backbone)(copy.deepcopy(backbone.config))
        backbone.load_state_dict(fresh.state_dict())
