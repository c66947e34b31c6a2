"""Make fixtures/simcse-plus.json from a checkout of Jiahao004/SimCSE-plus-plus."""

from __future__ import annotations

from typing import Any

import recipe
import torch
from release import bert_for_cl, checkout, save, without_its_tools
from torch import nn

SOURCE = {
    "repository": "Jiahao004/SimCSE-plus-plus",
    "commit": "51d2db55cf6009445558c9c9912ec887b6eb94a4",
    "code": [
        "simcse/models_re.py:117-250 cl_forward, with its pos_ratio of run_re.sh",
        "simcse/models_vicreg.py:112-250 cl_forward",
    ],
    "patched": ["the dropout of the embeddings has the recipe's masks"],
}
POSITIVE_SCALE = 0.9


class FixedDropout(recipe.FixedDropout, nn.Dropout):
    """The recipe's dropout, which the release finds by its type to turn it off."""


def measured(release: Any, **arguments: Any) -> dict[str, Any]:
    made = bert_for_cl(release, **arguments)
    made.bert.embeddings.dropout = FixedDropout(recipe.interleaved(*recipe.dropout_masks()))
    loss = made(**{key: torch.stack([value, value], dim=1) for key, value in recipe.batch().items()}).loss
    named = [*made.bert.named_parameters()]
    named += [(f"head.{name}", parameter) for name, parameter in made.mlp.named_parameters()]
    return {"loss": loss.item(), "gradients": recipe.summary(recipe.gradients(loss, named))}


def main() -> None:
    folder = checkout(SOURCE["repository"])
    without_its_tools(folder, "simcse")
    import simcse.models_re as off_dropout
    import simcse.models_vicreg as dimensions

    cases = {
        "negatives without dropout": measured(off_dropout, pos_ratio=POSITIVE_SCALE),
        "contrast of dimensions": measured(dimensions),
    }
    save("simcse-plus", SOURCE, cases)


if __name__ == "__main__":
    main()
