"""Make fixtures/adcse.json from a checkout of lirenhao1997/AdCSE."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import recipe
import torch
from release import checkout, save
from torch.nn import functional as F
from transformers import BertConfig

SOURCE = {
    "repository": "lirenhao1997/AdCSE",
    "commit": "080944facc72683e2cc5233bc6ba9bdd4e592724",
    "code": ["adcse/models.py:175-277 adcse_forward", "adcse/models.py:108-114 _momentum_update_key_encoder"],
    "patched": [],
}
NEGATIVES, STEPS, LEARNING_RATE = 8, 3, 0.02


def model(release: Any) -> Any:
    arguments = SimpleNamespace(
        pooler_type="cls",
        mlp_only_train=True,
        moco_m=0.995,
        moco_t=0.05,
        mem_m=0.9,
        mem_t=0.05,
        mem_lr=3e-3,
        mem_wd=1e-4,
        neg_num=NEGATIVES,
        sym=False,
        model_name_or_path="bert",
    )
    made = release.BertForAdCSE(BertConfig(num_hidden_layers=2, **recipe.CONFIG), model_args=arguments).double().train()
    recipe.fill(made.bert)
    recipe.fill(made.encoder_k, "key encoder.")  # as if its random weights were these
    recipe.fill(made.mlp, "head.")
    made.adversary_model.W.copy_(recipe.centred("negatives", NEGATIVES, recipe.WIDTH).T)
    first, second = recipe.dropout_masks()
    made.bert.embeddings.dropout = recipe.FixedDropout(first)
    made.encoder_k.embeddings.dropout = recipe.FixedDropout(second)
    return made


def main() -> None:
    checkout(SOURCE["repository"])
    import adcse.models as release

    made = model(release)
    sentences = recipe.batch()
    named = [*made.bert.named_parameters()]
    named += [(f"head.{name}", parameter) for name, parameter in made.mlp.named_parameters()]
    steps = []
    for _ in range(STEPS):
        before = F.normalize(made.adversary_model.W, dim=0).T.clone()
        output = made(**{key: torch.stack([value, value], dim=1) for key, value in sentences.items()})
        gradients = recipe.gradients(output.loss, named)
        after = F.normalize(made.adversary_model.W, dim=0).T
        steps.append(
            {
                "loss": output.loss.item(),
                "paper: loss (eq. 5)": without_batch(output.logits).item(),
                "gradients": recipe.summary(gradients),
                "negatives": recipe.probe("negatives", made.adversary_model.W.T),
                "velocity": recipe.probe("velocity", -made.adversary_model.v.T),
                "largest turn of a negative, degrees": turned(before, after),
                "key encoder": recipe.probe("key", made.encoder_k.encoder.layer[0].output.dense.weight),
            }
        )
        with torch.no_grad():
            for name, parameter in named:
                if name in gradients:
                    parameter.sub_(gradients[name], alpha=LEARNING_RATE)
    save("adcse", SOURCE, {"steps": steps})


def without_batch(logits: torch.Tensor) -> torch.Tensor:
    """The paper's loss, of the release's logits: only the own key and the learned negatives are compared."""
    rows = torch.arange(len(logits))
    own, negatives = logits[rows, rows], logits[:, len(logits) :]
    return (torch.cat([own[:, None], negatives], dim=1).logsumexp(dim=1) - own).mean()


def turned(before: torch.Tensor, after: torch.Tensor) -> float:
    return torch.rad2deg(2 * ((before - after).norm(dim=1) / 2).asin()).max().item()


if __name__ == "__main__":
    main()
