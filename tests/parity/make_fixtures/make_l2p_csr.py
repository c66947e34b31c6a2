"""Make fixtures/l2p-csr.json from a checkout of RUCAIBox/L2P-CSR."""

from __future__ import annotations

from typing import Any

import recipe
import torch
from release import bert_for_cl, checkout, drawing, recording, save

SOURCE = {
    "repository": "RUCAIBox/L2P-CSR",
    "commit": "115f216d30e5867c60ac02b5d4397065495d006b",
    "code": [
        "simcse/models.py:459-644 cl_vat_forward",
        "simcse/models.py:393-455 cl_forward_denoised",
        "simcse/models.py:48-116 BertEncoderDenoised",
    ],
    "patched": ["torch.rand: the recipe's numbers, and as many feature masks as the model is wide in place of 768"],
}


def model(release: Any) -> Any:
    made = bert_for_cl(release, layers=3)
    made.bert.embeddings.dropout = recipe.FixedDropout(recipe.interleaved(*recipe.dropout_masks()))
    return made


def start(*shape: int) -> torch.Tensor:
    """The first probabilities: squares, so that many are below the threshold or near it."""
    if shape[1:] == (1, 1, 768):
        return torch.from_numpy(recipe.numbers("features", 3, 1, 1, recipe.WIDTH)) ** 2
    tokens = torch.from_numpy(recipe.numbers("tokens", 3, 2, recipe.ROWS, recipe.LENGTH)) ** 2
    # Its rows are sentence after sentence, with both views of each.
    return tokens.transpose(1, 2).reshape(shape).contiguous()


def main() -> None:
    checkout(SOURCE["repository"])
    import simcse.models as release

    made = model(release)
    passes: list[Any] = []
    release.cl_forward_denoised = recording(release.cl_forward_denoised, passes)
    drawing("rand", start)
    sentences = recipe.batch()
    columns = {key: torch.stack([value, value], dim=1) for key, value in sentences.items()}
    forward = release.cl_vat_forward
    loss = forward(made, made.bert, **columns)[0]
    named = [*made.bert.named_parameters()]
    named += [(f"head.{name}", parameter) for name, parameter in made.mlp.named_parameters()]
    masks = [call.arguments[2] for call in passes]  # (3, 2B, L, d): the mean of a token's and a feature's mask
    last = masks[-1].unflatten(1, (recipe.ROWS, 2)).transpose(1, 2)  # layer, view, sentence, token, feature
    cases = {
        "loss": loss.item(),
        "gradients": recipe.summary(recipe.gradients(loss, named)),
        "loss of each pass": [in_batch(made, call.result[0]) for call in passes],
        "masks": [recipe.probe("masks", each) for each in by_view(masks)],
        "share of weakened values": [(1 - each).mean().item() for each in masks],
        "padding that is weakened": (last[..., 0] < 1)[..., sentences["attention_mask"] == 0].double().mean().item(),
        "paper: loss of the first masks": without_padding(made, masks[0].detach(), sentences),
    }
    save("l2p-csr", SOURCE, cases)


def without_padding(made: Any, masks: Any, sentences: dict[str, Any]) -> float:
    """The loss under given masks as the paper has it: padding is not attended to and keeps its values."""
    rows = {key: recipe.interleaved(value, value) for key, value in sentences.items()}
    real = rows["attention_mask"].double()
    whole = torch.where(real[:, :, None] > 0, masks, 1.0)
    hidden = made.bert.embeddings(input_ids=rows["input_ids"], token_type_ids=rows["token_type_ids"]) * whole[0]
    hidden = made.bert.encoder(hidden, whole, attention_mask=((1 - real) * -1e9)[:, None, None])[0]
    return in_batch(made, made.mlp(hidden[:, 0]).unflatten(0, (recipe.ROWS, 2)))


def by_view(masks: list[Any]) -> list[Any]:
    """The masks with the rows of the first view before those of the second."""
    return [each.unflatten(1, (recipe.ROWS, 2)).transpose(1, 2).flatten(1, 2) for each in masks]


def in_batch(made: Any, vectors: Any) -> float:
    similarities = made.sim(vectors[:, 0].unsqueeze(1), vectors[:, 1].unsqueeze(0))
    return torch.nn.functional.cross_entropy(similarities, torch.arange(len(similarities))).item()


if __name__ == "__main__":
    main()
