"""A momentum encoder: a copy of an encoder that follows it slowly (He et al. 2020; AdCSE, eq. 4; ADCL, §3.2)."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.backbone import Features
from holdfast.encoder import Encoder, unwrap


class MomentumEncoder(nn.Module):
    """Copies f_k of an encoder and g_k of its head, which follow them: θ_k ← m·θ_k + (1−m)·θ_q.

    The copy is made of finished weights: what it starts from is the encoder as it was loaded. It never gets a
    gradient. Like any module it starts in training mode, whatever mode the model is in: its dropout is on.

    Args:
        model: the ``SentenceTransformer`` to follow, or a wrapped one.
        head: the head to follow; (rows, d) → (rows, d'). ``nn.Identity()`` where it has no copy.
        momentum: m in [0, 1].
    """

    def __init__(self, model: nn.Module, head: nn.Module, *, momentum: float) -> None:
        super().__init__()
        if not 0.0 <= momentum <= 1.0:
            raise ValueError(f"momentum must lie in [0, 1], got {momentum}")
        self.momentum = momentum
        # Not called "model": sentence-transformers' trainer puts the model it trains in every place of that name.
        self.followed_model = copy.deepcopy(unwrap(model)).requires_grad_(False)
        self.followed_head = copy.deepcopy(head).requires_grad_(False)
        self.train()  # a loaded model is in evaluation mode, and a trainer only sets the mode of the one it trains

    @torch.no_grad()
    def update(self, model: nn.Module, head: nn.Module) -> None:
        """One step towards the encoder and head that are followed; buffers are copied."""
        for mine, theirs in ((self.followed_model, unwrap(model)), (self.followed_head, head)):
            for own, leader in zip(mine.parameters(), theirs.parameters(), strict=True):
                own.lerp_(leader.detach(), 1.0 - self.momentum)
            for buffer, source in zip(mine.buffers(), theirs.buffers(), strict=True):
                buffer.copy_(source)

    @torch.no_grad()
    def keys(self, features: Features) -> Tensor:
        """Projected vectors of the rows, (B, d'), detached."""
        keys: Tensor = self.followed_head(Encoder(self.followed_model).encode(features))
        return keys

    def randomise(self) -> None:
        """Forget the encoder's weights: those of a new one of its class and configuration; the head stays.

        Drawn by the backbone's own initialisation from the global random state.
        """
        backbone: Any = Encoder(self.followed_model).backbone.model
        fresh = type(backbone)(copy.deepcopy(backbone.config))
        backbone.load_state_dict(fresh.state_dict())
