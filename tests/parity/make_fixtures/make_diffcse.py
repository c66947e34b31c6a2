"""Make fixtures/diffcse.json from a checkout of voidism/DiffCSE."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import recipe
import torch
from release import bert_for_cl, checkout, save, without_its_tools
from torch import Tensor, nn

SOURCE = {
    "repository": "voidism/DiffCSE",
    "commit": "f724b2cc921efdfb4e4bd85cd7ca13a8f0d1f0cf",
    "code": ["diffcse/models.py:33-46 ProjectionMLP", "diffcse/models.py:110-262 cl_forward"],
    "patched": [
        "modeling_bert.py's cls_input, which replaces the first token's embedding, is a hook",
        "the id of [CLS] is the recipe's; the generator is a BERT of one layer with the recipe's weights",
        "which tokens are hidden comes from the recipe's numbers",
    ],
}


def generator() -> Any:
    from transformers import BertConfig, BertForMaskedLM

    made = BertForMaskedLM(BertConfig(num_hidden_layers=1, **recipe.CONFIG)).double().eval()
    recipe.fill(made, "generator.")
    return made


def conditioned(discriminator: Any) -> Any:
    """Return a function that calls the discriminator with ``cls_input`` in place of the first token's embedding."""

    def call(ids: Tensor, *, cls_input: Tensor, **named: Any) -> Any:
        handle = discriminator.embeddings.register_forward_hook(
            lambda _module, _args, output: torch.cat([cls_input[:, None], output[:, 1:]], dim=1)
        )
        try:
            return discriminator(ids, **named)
        finally:
            handle.remove()

    return call


def measured(release: Any, *, batchnorm: bool) -> dict[str, Any]:
    made = bert_for_cl(
        release, batchnorm=batchnorm, before_mlp=False, lambda_weight=0.005, generator_name="", head=not batchnorm
    )
    if batchnorm:
        first, norm, _, second, _ = made.mlp.net
        for name, part in (("wide", first), ("wide_norm", norm), ("narrow", second)):
            recipe.fill(part, f"head.{name}.")
    discriminator = made.discriminator
    recipe.fill(discriminator, "discriminator.")
    made.electra_head = nn.Linear(recipe.WIDTH, 2).double()
    recipe.fill(made.electra_head, "detector.")
    made.bert.embeddings.dropout = recipe.FixedDropout(recipe.interleaved(*recipe.dropout_masks()))
    del made.discriminator
    vars(made)["discriminator"] = conditioned(discriminator)
    views = recipe.masked_views().chunk(2)
    sentences = recipe.batch()
    pairs = {key: torch.stack([value, value], dim=1) for key, value in sentences.items()}
    found: dict[str, Any] = {}
    for name, more in (("contrastive", {}), ("loss", {"mlm_input_ids": torch.stack(views, dim=1)})):
        made.bert.embeddings.dropout.calls = 0
        labels = {"mlm_labels": torch.zeros(1)} if more else {}
        loss = made(**pairs, **more, **labels).loss
        found[name] = loss.item()
    named = [*made.bert.named_parameters()]
    named += [(f"discriminator.{name}", parameter) for name, parameter in discriminator.named_parameters()]
    named += [(f"detector.{name}", parameter) for name, parameter in made.electra_head.named_parameters()]
    found["replaced found"] = made.electra_rep_acc
    found["gradients"] = recipe.summary(recipe.gradients(loss, named))
    return found


def main() -> None:
    folder = checkout(SOURCE["repository"])
    without_its_tools(folder, "diffcse")
    import diffcse.models as release

    release.transformers = SimpleNamespace(AutoModelForMaskedLM=SimpleNamespace(from_pretrained=lambda _: generator()))
    original = release.cl_forward
    release.cl_forward = lambda *given, **named: original(
        *given, **{**named, "cls_token": recipe.VOCABULARY.index("[CLS]")}
    )
    cases = {
        "linear head": measured(release, batchnorm=False),
        "batch normalisation": measured(release, batchnorm=True),
    }
    save("diffcse", SOURCE, cases)


if __name__ == "__main__":
    main()
