"""Make fixtures/robustembed.json from a checkout of jasl1/RobustEmbed."""

from __future__ import annotations

from typing import Any

import recipe
import torch
from release import bert_for_cl, checkout, recording, save
from torch.nn import functional as F

SOURCE = {
    "repository": "jasl1/RobustEmbed",
    "commit": "f33224d21fc350ba4441f22f5c1c3a2de67d4939",
    "code": [
        "robust_model2.py:159-314 cl_forward",
        "robust_model2.py:444-654 GeneratePerturbation",
        "robust_model2.py:368-441 generate_representation",
    ],
    "patched": ["Tensor.normal_: the recipe's numbers"],
}


def model(release: Any) -> Any:
    made = bert_for_cl(release)
    first, second, third = recipe.dropout_masks(3)
    rows = recipe.interleaved(first, second)
    made.bert.embeddings.dropout = recipe.FixedDropout(rows, torch.cat([second, third]), rows, third)
    return made


def main() -> None:
    checkout(SOURCE["repository"])
    import robust_model2 as release

    made = model(release)
    normal = torch.Tensor.normal_

    def drawn(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if self.shape != (recipe.ROWS, recipe.LENGTH, recipe.WIDTH):
            return normal(self, *args, **kwargs)
        return self.copy_(recipe.centred("noise", *self.shape))

    torch.Tensor.normal_ = drawn  # type: ignore[method-assign]
    attacks: list[Any] = []
    slopes: list[Any] = []
    vectors: list[Any] = []
    release.GeneratePerturbation.calculate_PGD_perturbation = recording(
        release.GeneratePerturbation.calculate_PGD_perturbation, attacks
    )
    release.generate_representation = recording(release.generate_representation, vectors)
    differentiate = torch.autograd.grad
    torch.autograd.grad = recording(differentiate, slopes)
    sentences = recipe.batch()
    output = made(**{key: torch.stack([value, value], dim=1) for key, value in sentences.items()})
    torch.autograd.grad = differentiate
    perturbed, adversarial = attacks[0].result
    first, second, _ = recipe.dropout_masks(3)
    made.bert.embeddings.dropout = recipe.FixedDropout(recipe.interleaved(first, second))
    rows = recipe.interleaved(sentences["input_ids"], sentences["input_ids"])
    delta = perturbed - made.bert.embeddings(rows)[: recipe.ROWS]
    (_, z, z_positive), (_, z_adversarial) = vectors[-2].result, vectors[-1].result
    clean, mixed = contrast(made, z, z_positive), contrast(made, z, z_adversarial)
    cases = {
        "robust": (output.loss - adversarial).item(),
        "its half of clean positives": clean.item(),
        "its half of adversarial positives": mixed.item(),
        "paper: half of adversarial positives, the perturbation at 0": contrast(made, z, z).item(),
        "adversarial": adversarial.item(),
        "largest coordinate of the perturbation": delta.abs().max().item(),
        "updates": len(slopes),
        "share of coordinates along the gradient": (delta.sign() == slopes[-1].result[0].sign()).double().mean().item(),
    }
    save("robustembed", SOURCE, cases)


def contrast(made: Any, queries: Any, keys: Any) -> Any:
    similarities = made.sim(queries.unsqueeze(1), keys.unsqueeze(0))
    return F.cross_entropy(similarities, torch.arange(len(similarities)))


if __name__ == "__main__":
    main()
