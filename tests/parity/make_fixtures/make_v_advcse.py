"""Make fixtures/v-advcse.json from a checkout of ko120/Adversarial-SimCSE."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import recipe
import torch
from release import bert_for_cl, checkout, drawing, recording, save
from torch.nn import functional as F

SOURCE = {
    "repository": "ko120/Adversarial-SimCSE",
    "commit": "90128916b5fd11a65b2e902a6bdf3b126c277a20",
    "code": [
        "simcse/models.py:250-444 cl_forward",
        "simcse/models.py:107-158 SMARTLoss",
        "simcse/models.py:41-91 the divergences and the sphere",
    ],
    "patched": ["torch.randn_like: the recipe's numbers", "log_softmax and softmax: not cast to fp32"],
}
RADIUS, STEP = 1.0, 1e-3


def model(release: Any) -> Any:
    return bert_for_cl(release, adv_weight=1.0, radius=RADIUS, reduction="batchmean", step_size=STEP)


def measured(made: Any, step: float) -> dict[str, Any]:
    """One step of the release, with λ = 1: what each term and the attack are."""
    # The release encodes the second view first.
    made.bert.embeddings.dropout = recipe.FixedDropout(*reversed(recipe.dropout_masks()))
    made.model_args.step_size = step
    projected: list[Any] = []  # h of the second view, of the first, h + r at the start, h + r at the end
    made.mlp.register_forward_pre_hook(lambda _, inputs: projected.append(inputs[0].detach()))
    losses: list[Any] = []
    adversary = made.smart_loss
    adversary.loss_fn = recording(adversary.loss_fn, losses)
    adversary.loss_last_fn = recording(adversary.loss_last_fn, losses)
    sentences = recipe.batch()
    total = made(**{key: torch.stack([value, value], dim=1) for key, value in sentences.items()}).loss
    regulariser = losses[-1].result
    named = [*made.bert.named_parameters()]
    named += [(f"head.{name}", parameter) for name, parameter in made.mlp.named_parameters()]
    z_perturbed, z = losses[-1].arguments
    return {
        "contrastive": (total - regulariser).item(),
        "regulariser": regulariser.item(),
        "attack loss at the start": losses[0].result.item(),
        "h + r": recipe.probe("h + r", projected[3]),
        "moved": (projected[3] - projected[2]).norm(dim=-1).max().item(),
        "gradients": recipe.summary(recipe.gradients(total, named)),
        "gradients of the regulariser": recipe.summary(recipe.gradients(regulariser, named)),
        "paper: divergence (eq. 13) of the same vectors": paper_divergence(z, z_perturbed).item(),
    }


def paper_divergence(z: Any, z_perturbed: Any) -> Any:
    """Jensen-Shannon as the paper prints it: KL(P‖M)/2 + KL(Q‖M)/2."""
    p, q = F.softmax(z, dim=-1), F.softmax(z_perturbed, dim=-1)
    m = (p + q) / 2
    return ((p * (p / m).log()).sum(dim=1) + (q * (q / m).log()).sum(dim=1)).mean() / 2


def main() -> None:
    checkout(SOURCE["repository"])
    import simcse.models as release

    release.F = SimpleNamespace(
        log_softmax=lambda x, dim, dtype: F.log_softmax(x, dim=dim),
        softmax=lambda x, dim, dtype: F.softmax(x, dim=dim),
        kl_div=F.kl_div,
    )
    drawing("randn_like", lambda *shape: recipe.centred("noise", *shape))
    cases = {"as released": measured(model(release), STEP), "a step that turns r": measured(model(release), 100.0)}
    save("v-advcse", SOURCE, cases)


if __name__ == "__main__":
    main()
