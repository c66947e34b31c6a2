"""Make fixtures/consert.json from a checkout of yym6472/ConSERT, with the libraries that it brings."""

from __future__ import annotations

import collections
import collections.abc
import random
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import recipe
from release import checkout, save, stand_in

SOURCE = {
    "repository": "yym6472/ConSERT",
    "commit": "03c9e8ffc5ed28f3efe61f1b32523ac6fe07de86",
    "code": [
        "sentence_transformers/losses/AdvCLSoftmaxLoss.py:454-801 forward, 378-427 its loss, 429-452 its views",
        "transformers/modeling_bert.py:886-1006 the views, 830-844 where they enter",
        "sentence_transformers/models/Pooling.py:47-90",
    ],
    "patched": ["random.shuffle: the recipe's orders", "packages that only other parts need are empty stand-ins"],
}
RATE, CUT, TEMPERATURE = 0.15, 0.2, 0.1


def model(folder: Path) -> Any:
    """The release's encoder: BERT without dropout, and the mean over the tokens of the last layer."""
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel, BertTokenizer

    BertModel(BertConfig(num_hidden_layers=2, **recipe.CONFIG)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(recipe.VOCABULARY))
    BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    transformer = models.Transformer(str(folder), attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0)
    recipe.fill(transformer.auto_model)
    pooling = models.Pooling(recipe.WIDTH, pooling_mode_mean_tokens=True)
    made = SentenceTransformer(modules=[transformer, pooling]).double().train()
    made.tensorboard_writer = SimpleNamespace(add_scalar=lambda *_, **__: None)
    made.global_step, made.num_steps_total = 0, 1
    return made


class Orders:
    """``random.shuffle`` by the recipe's numbers: one row of them for each call."""

    def __init__(self, names: list[str], *, framed: bool) -> None:
        self.rows = [(name, row) for name in names for row in range(recipe.ROWS)]
        self.framed = framed  # leave [CLS] and [SEP] at their places, as holdfast does

    def __call__(self, items: list[int]) -> None:
        name, row = self.rows.pop(0)
        if name == "shuffle":
            drawn = recipe.numbers("draws of shuffle", recipe.ROWS, recipe.LENGTH)[row]
            inner = items[1:-1] if self.framed else list(items)
            moved = sorted(inner, key=lambda place: drawn[place])
            # The token at place moved[k] goes to the k-th place: the release permutes the places of the tokens.
            places = [inner[moved.index(place)] for place in inner]
            items[:] = [items[0], *places, items[-1]] if self.framed else places
        else:
            columns = recipe.WIDTH if name == "feature_cutoff" else recipe.LENGTH
            drawn = recipe.numbers(f"draws of {name}", recipe.ROWS, columns)[row]
            items.sort(key=lambda place: drawn[place])


def measured(made: Any, first: str, second: str, *, framed: bool = True) -> dict[str, Any]:
    from sentence_transformers.losses import AdvCLSoftmaxLoss

    loss_of = AdvCLSoftmaxLoss(
        made,
        recipe.WIDTH,
        num_labels=2,
        use_contrastive_loss=True,
        contrastive_loss_only=True,
        no_pair=True,
        contrastive_loss_rate=RATE,
        temperature=TEMPERATURE,
        data_augmentation_strategy_final_1=first,
        data_augmentation_strategy_final_2=second,
        cutoff_rate_final_1=CUT,
        cutoff_rate_final_2=CUT,
    ).train()
    random.shuffle = Orders([name for name in (first, second) if name != "none"], framed=framed)
    loss = loss_of([recipe.batch()], None)
    named = [*made[0].auto_model.named_parameters()]
    return {"loss": loss.item(), "gradients": recipe.summary(recipe.gradients(loss, named))}


def main() -> None:
    checkout(SOURCE["repository"])
    collections.Sequence = collections.abc.Sequence  # type: ignore[attr-defined]
    stand_in("sacremoses", "sentencepiece", "torch.utils.tensorboard", "transformers.utils.sentencepiece_model_pb2")
    with tempfile.TemporaryDirectory() as folder:
        made = model(Path(folder))
        cases = {
            "feature cutoff and shuffle": measured(made, "feature_cutoff", "shuffle"),
            "token cutoff and none": measured(made, "token_cutoff", "none"),
            "none and shuffle": measured(made, "none", "shuffle"),
            "none and shuffle, with [CLS] and [SEP]": measured(made, "none", "shuffle", framed=False),
            "two equal views": measured(made, "none", "none"),
        }
    save("consert", SOURCE, cases)


if __name__ == "__main__":
    main()
