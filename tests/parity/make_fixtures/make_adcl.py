"""Make fixtures/adcl.json from a checkout of LotusDYH/ssl_robust."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import recipe
import torch
from release import checkout, recording, save, stand_in
from torch import distributed
from torch.nn import functional as F
from transformers import BertConfig, BertForSequenceClassification, BertModel, BertTokenizer

SOURCE = {
    "repository": "LotusDYH/ssl_robust",
    "commit": "58d3a3b933c9cc6ee9eefb53f92e1312cf1bc766",
    "code": [
        "moco/builder.py:10-129 MoCo",
        "moco_gready_attack.py:7-242 GreedyAttack",
        "utils.py:166-291 BaseAttack",
        "deepfool.py:8-177 DeepFool, the direction of ADV",
    ],
    "patched": [
        "stop words, neighbours and the masked LM: the recipe's, in place of downloads",
        "gradcheck.zero_gradients, which torch no longer has",
        "packages of training loops are empty stand-ins; one process of torch.distributed",
    ],
}
SIZE, QUEUE, STEPS, LEARNING_RATE = 8, 12, 3, 0.02


def moco_of(release: Any, folder: Path) -> Any:
    made = release.MoCo(str(folder), recipe.WIDTH, dim=SIZE, K=QUEUE).double().eval()
    recipe.fill(made.encoder_q)
    recipe.fill(made.encoder_q_linear, "head.")
    made.encoder_k.load_state_dict(made.encoder_q.state_dict())
    made.encoder_k_linear.load_state_dict(made.encoder_q_linear.state_dict())
    made.queue = recipe.centred("queue", QUEUE, SIZE).T.contiguous()
    return made


def joined(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    return {key: torch.cat([first[key], second[key]]) for key in ("input_ids", "attention_mask")}


def training(made: Any) -> list[dict[str, Any]]:
    """Steps on given adversarial sentences, which are the queries."""
    named = [*made.encoder_q.named_parameters()]
    named += [(f"head.{name}", parameter) for name, parameter in made.encoder_q_linear.named_parameters()]
    steps = []
    for _ in range(STEPS):
        loss = F.cross_entropy(*made(**joined(recipe.batch(recipe.POSITIVES), recipe.batch())))
        gradients = recipe.gradients(loss, named)
        steps.append(
            {
                "loss": loss.item(),
                "gradients": recipe.summary(gradients),
                "queue": recipe.probe("queue", made.queue.T),
                "key encoder": recipe.probe("key", made.encoder_k.encoder.layer[0].output.dense.weight),
            }
        )
        with torch.no_grad():
            for name, parameter in named:
                if name in gradients:
                    parameter.sub_(gradients[name], alpha=LEARNING_RATE)
    return steps


def attacked(made: Any, module: Any, tokenizer: Any, loops: int) -> dict[str, Any]:
    """The attack on the sentences: what it computes in its first iteration, and its last texts."""
    settings = SimpleNamespace(
        ngpu=1,
        n_classes=2,
        max_length=recipe.LENGTH,
        n_candidates=4,
        max_loops=loops,
        sim_thred=0.5,
        splits=128,
        synonym="cos_sim",
        cos_sim=False,
    )
    attack = module.GreedyAttack(settings, tokenizer, torch.nn.CrossEntropyLoss())
    attack.sim_word2id = {word: number for number, word in enumerate(recipe.CONTENT_WORDS)}
    attack.cos_sim_dict = {number: recipe.candidates(word) for word, number in attack.sim_word2id.items()}
    ranked: list[Any] = []
    encoded: list[Any] = []
    offered: list[Any] = []
    attack.compute_word_importance = recording(attack.compute_word_importance, ranked)
    attack.split_forward = recording(attack.split_forward, encoded)
    attack.construct_new_samples = recording(attack.construct_new_samples, offered)
    with contextlib.redirect_stdout(io.StringIO()):
        words = attack.adv_attack_samples(made, "cpu", recipe.batch()["input_ids"])
    _, slope, z = ranked[0].result
    counts, _ = offered[0].result
    moved = [
        (candidates - own) @ direction / direction.norm()
        for candidates, own, direction in zip(encoded[0].result.split(counts), z, slope, strict=True)
    ]
    return {
        "losses": attack.loss_set,
        "z": recipe.probe("z", z),
        "direction": recipe.probe("direction", F.normalize(slope, dim=1)),
        "places": [[int(place) for place in call.result[0]] for call in ranked],
        "displacements": [row.tolist() for row in moved],
        "texts": [[recipe.VOCABULARY.index(word) for word in row] for row in words],
    }


def directions(module: Any, classes: int) -> dict[str, Any]:
    """Where ADV's attack moves the vectors of the sentences, for a classifier of that many classes."""
    made = BertForSequenceClassification(BertConfig(num_hidden_layers=2, num_labels=classes, **recipe.CONFIG))
    recipe.fill(made.double().eval())
    sentences = recipe.batch()
    with torch.no_grad():
        vectors = made.bert(**sentences).pooler_output
    logits = made.classifier(vectors)
    normals, fooled, labels = module.DeepFool(num_classes=classes, max_iters=20)(vecs=vectors, net_=made.classifier)
    return {
        "vectors": recipe.probe("vectors", vectors),
        "classes": labels.tolist(),
        "nearest classes": made.classifier(fooled).argmax(dim=1).tolist(),
        "normals": recipe.probe("normals", normals),
        "logits": recipe.probe("logits", logits),
    }


def main() -> None:
    checkout(SOURCE["repository"])
    stand_in("pytorch_lightning", "deepspeed", "deepspeed.ops", "deepspeed.ops.adam", "diffdist", "diffdist.functional")
    gradcheck: Any = sys.modules["torch.autograd.gradcheck"]
    gradcheck.zero_gradients = lambda x: x.grad.zero_()
    import deepfool
    import moco.builder
    import moco_gready_attack
    import utils

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)
        BertModel(BertConfig(num_hidden_layers=2, **recipe.CONFIG)).save_pretrained(folder)
        (folder / "vocab.txt").write_text("\n".join(recipe.VOCABULARY))
        tokenizer = BertTokenizer(str(folder / "vocab.txt"), model_max_length=recipe.LENGTH)
        utils.stopwords = SimpleNamespace(words=lambda _: list(recipe.STOP_WORDS))
        utils.BertForMaskedLM = SimpleNamespace(from_pretrained=lambda _: torch.nn.Identity())
        query_is_original = moco_of(moco.builder, folder)
        paper = F.cross_entropy(*query_is_original(**joined(recipe.batch(), recipe.batch(recipe.POSITIVES))))
        cases = {
            "steps": training(moco_of(moco.builder, folder)),
            "paper: loss of the first step, the original is the query": paper.item(),
            "attack of one iteration": attacked(moco_of(moco.builder, folder), moco_gready_attack, tokenizer, 1),
            "attack of three iterations": attacked(moco_of(moco.builder, folder), moco_gready_attack, tokenizer, 3),
        }
        cases |= {f"ADV with {classes} classes": directions(deepfool, classes) for classes in (2, 4)}
        distributed.destroy_process_group()
    save("adcl", SOURCE, cases)


if __name__ == "__main__":
    main()
