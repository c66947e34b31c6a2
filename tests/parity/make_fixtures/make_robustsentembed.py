"""Make fixtures/robustsentembed.json from a checkout of jasl1/RobustSentEmbed."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import recipe
import torch
import transformers
from release import bert_for_cl, checkout, recording, save
from transformers.models.bert import modeling_bert
from transformers.models.roberta import modeling_roberta

SOURCE = {
    "repository": "jasl1/RobustSentEmbed",
    "commit": "34b89d38ad86779f56c4b94d4138f851223409e9",
    "code": [
        "models.py:177-356 cl_forward",
        "models.py:486-864 GeneratePerturbation",
        "models.py:358-431 generate_representation",
    ],
    "patched": [
        "modeling_bert and modeling_roberta, which the repository lacks: transformers' own",
        "the generator of replaced tokens, a download: left out with its loss",
        "Tensor.normal_ and the table of token perturbations: the recipe's numbers",
        "Tensor.index_put_: takes the perturbations of all tokens, whose shape torch 2.13 refuses on the CPU",
        "batchnorm = False in the first case: the head that holdfast has too",
    ],
}


def model(release: Any, *, batchnorm: bool) -> Any:
    release.batchnorm = batchnorm
    made = bert_for_cl(release, generator_name=None, before_mlp=False)
    first, second, third = recipe.dropout_masks(3)
    rows = recipe.interleaved(first, second)
    made.bert.embeddings.dropout = recipe.FixedDropout(rows, torch.cat([second, third]), rows)
    return made


def measured(release: Any, *, batchnorm: bool = False) -> dict[str, Any]:
    made = model(release, batchnorm=batchnorm)
    release.delta_global_embedding = recipe.centred("token table", len(recipe.VOCABULARY), recipe.WIDTH, scale=0.02)
    attacks: list[Any] = []
    slopes: list[Any] = []
    attack = release.GeneratePerturbation.calculate_PGD_perturbation
    differentiate = torch.autograd.grad
    release.GeneratePerturbation.calculate_PGD_perturbation = recording(attack, attacks)
    torch.autograd.grad = recording(differentiate, slopes)
    sentences = recipe.batch()
    total = made(**{key: torch.stack([value, value], dim=1) for key, value in sentences.items()}).loss
    torch.autograd.grad = differentiate
    release.GeneratePerturbation.calculate_PGD_perturbation = attack
    perturbed, adversarial, embedding, _, tokens = attacks[0].result
    delta, slope = perturbed - embedding, slopes[-1].result[0]
    named = [*made.bert.named_parameters()]
    named += [(f"head.{name}", parameter) for name, parameter in made.mlp.named_parameters()]
    leaked = {name: parameter.grad for name, parameter in named if parameter.grad is not None}
    return {
        "robust": (total - adversarial).item(),
        "adversarial": adversarial.item(),
        "paper: adversarial term, the perturbation at 0": (total - adversarial).item() / release.cl_adv_weight,
        "gradients of the robust term": recipe.summary(recipe.gradients(total - adversarial, named)),
        "gradients of the adversarial term": recipe.summary(recipe.gradients(adversarial, named)),
        "gradients that the attack leaves behind": recipe.summary(leaked),
        "largest coordinate of the perturbation": delta.abs().max().item(),
        "updates": len(slopes),
        "share of coordinates along the gradient": (delta.sign() == slope.sign()).double().mean().item(),
        "token perturbation": recipe.probe("token perturbation", tokens),
    }


def main() -> None:
    checkout(SOURCE["repository"])
    import sys

    for name, theirs in (("modeling_bert", modeling_bert), ("modeling_roberta", modeling_roberta)):
        module = ModuleType(name)
        vars(module).update({key: value for key, value in vars(theirs).items() if not key.startswith("__")})
        sys.modules[name] = module
    transformers.DistilBertForMaskedLM = SimpleNamespace(from_pretrained=lambda *_: torch.nn.Identity())
    import models as release

    normal = torch.Tensor.normal_

    def drawn(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if self.shape != (recipe.ROWS, recipe.LENGTH, recipe.WIDTH):
            return normal(self, *args, **kwargs)
        return self.copy_(recipe.centred("noise", *self.shape))

    put = torch.Tensor.index_put_

    def reshaped(self: torch.Tensor, places: Any, values: torch.Tensor, accumulate: bool) -> torch.Tensor:
        return put(self, places, values.reshape(len(places[0]), -1), accumulate)

    torch.Tensor.index_put_ = reshaped  # type: ignore[method-assign, assignment]
    torch.Tensor.normal_ = drawn  # type: ignore[method-assign]
    cases = {"head of a linear map and tanh": measured(release), "as released": measured(release, batchnorm=True)}
    save("robustsentembed", SOURCE, cases)


if __name__ == "__main__":
    main()
