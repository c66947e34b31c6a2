"""Make fixtures/simcse.json from a checkout of princeton-nlp/SimCSE."""

from __future__ import annotations

from typing import Any

import recipe
import torch
from release import bert_for_cl, checkout, save

SOURCE = {
    "repository": "princeton-nlp/SimCSE",
    "commit": "49fa580a853752ede55b8c76d9debf748e214d3f",
    "code": ["simcse/models.py:97-230 cl_forward"],
    "patched": [],
}


def measured(made: Any, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    made.bert.embeddings.dropout = recipe.FixedDropout(recipe.interleaved(*recipe.dropout_masks()))
    loss = made(**{key: torch.stack([first[key], second[key]], dim=1) for key in first}).loss
    named = [*made.bert.named_parameters()]
    if made.pooler_type == "cls":
        named += [(f"head.{name}", parameter) for name, parameter in made.mlp.named_parameters()]
    return {"loss": loss.item(), "gradients": recipe.summary(recipe.gradients(loss, named))}


def main() -> None:
    checkout(SOURCE["repository"])
    import simcse.models as release

    sentences, positives = recipe.batch(), recipe.batch(recipe.POSITIVES)
    repeated = recipe.batch([*recipe.SENTENCES[:4], *recipe.SENTENCES[:2]])
    first = bert_for_cl(release)
    cases = {
        "two views of a sentence": measured(first, sentences, sentences),
        "pairs": measured(first, sentences, positives),
        "repeated sentences": measured(first, repeated, repeated),
        "mean pooling, no head": measured(bert_for_cl(release, pooler="avg"), sentences, sentences),
    }
    first.eval()
    vectors = first(**sentences, sent_emb=True).pooler_output
    cases["sentence vectors"] = {"probe": recipe.probe("vectors", vectors)}
    save("simcse", SOURCE, cases)


if __name__ == "__main__":
    main()
