"""Make fixtures/rankcse.json from a checkout of perceptiveshawty/RankCSE."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import recipe
import torch
from release import Call, bert_for_cl, checkout, recording, save, without_its_tools
from torch.nn import functional as F

SOURCE = {
    "repository": "perceptiveshawty/RankCSE",
    "commit": "17c5226be5962803f893b80f63e409eea20f27a3",
    "code": [
        "rankcse/models.py:48-113 Divergence, ListNet, ListMLE",
        "rankcse/models.py:172-317 cl_forward",
        "rankcse/trainers.py:440-454 the two teachers' mean",
    ],
    "patched": ["the teachers' vectors are the recipe's numbers", "torch.randperm of ListMLE returns arange"],
}
TAU, ALPHA = 0.05, 0.33


def teacher_cosines() -> torch.Tensor:
    """Return the weighted mean of two teachers' cosines, (rows, rows), not divided by a temperature."""
    cosines = []
    for number in (1, 2):
        unit = F.normalize(recipe.centred(f"teacher {number}", recipe.ROWS, 24), dim=1)
        cosines.append(unit @ unit.T)
    return ALPHA * cosines[0] + (1 - ALPHA) * cosines[1]


def measured(release: Any, distillation: str) -> dict[str, Any]:
    made = bert_for_cl(release, beta_=1.0, gamma_=1.0, tau2=TAU, distillation_loss=distillation)
    made.bert.embeddings.dropout = recipe.FixedDropout(recipe.interleaved(*recipe.dropout_masks()))
    calls: dict[str, list[Call]] = {"ranking": [], "consistency": []}
    for name, module in (("ranking", made.distillation_loss_fct), ("consistency", made.div)):
        module.forward = recording(module.forward, calls[name])
    sentences = recipe.batch()
    pairs = {key: torch.stack([value, value], dim=1) for key, value in sentences.items()}
    loss = made(**pairs, teacher_top1_sim_pred=teacher_cosines() / TAU).loss
    named = [*made.bert.named_parameters()]
    named += [(f"head.{name}", parameter) for name, parameter in made.mlp.named_parameters()]
    first, second = calls["consistency"][0].arguments
    mean = (first + second) / 2
    divergence = ((first * (first / mean).log()).sum() + (second * (second / mean).log()).sum()) / 2 / len(first)
    return {
        "loss": loss.item(),
        "ranking": calls["ranking"][0].result.item(),
        "consistency": calls["consistency"][0].result.item(),
        "Jensen-Shannon divergence of the same shares": divergence.item(),
        "gradients": recipe.summary(recipe.gradients(loss, named)),
    }


def main() -> None:
    folder = checkout(SOURCE["repository"])
    without_its_tools(folder, "rankcse")
    import rankcse.models as release

    release.torch = SimpleNamespace(**{**vars(torch), "randperm": torch.arange})
    save("rankcse", SOURCE, {name: measured(release, name) for name in ("listmle", "listnet")})


if __name__ == "__main__":
    main()
