"""Run by test_adcl.py, alone or under torchrun: a few exact steps of ADCL, whose gradients and queue are kept.

Usage: adcl_processes.py MASKED_LM OUTPUT
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist

from holdfast.distributed import joined, leave_process_group
from holdfast.encoder import Encoder, freeze_unused
from holdfast.launch import processes
from holdfast.models import load_sentence_transformer
from holdfast.objectives.adcl import ADCL

SENTENCES = [
    *(
        "the old man sleeps on the big red bed",
        "a dog runs on the bed",
        "the woman sings under the house",
        "child plays",
    ),
    *("the red dog eats in the park", "a big cat sleeps on a bed", "the child runs in the old house", "man eats"),
]


def main() -> None:
    path, output = sys.argv[1:]
    if processes() > 1:
        dist.init_process_group("gloo")
    rank, count = (dist.get_rank(), dist.get_world_size()) if joined() else (0, 1)
    torch.manual_seed(0)
    model = load_sentence_transformer(path, device="cpu").double()
    objective = ADCL(
        model, queue_size=12, projection_size=8, temperature=0.3, max_share=0.5, source="masked-lm", min_similarity=-1
    ).double()
    for parameter in objective.head.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    for module in objective.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    objective.train()
    freeze_unused(Encoder(model), model.preprocess(SENTENCES[:2]))
    trained = [(name, p) for name, p in objective.named_parameters() if p.requires_grad]
    kept, replaced = [], 0.0
    for _ in range(3):
        share = len(SENTENCES) // count
        rows = SENTENCES[rank * share : (rank + 1) * share]
        objective.zero_grad()
        sum(objective([dict(model.preprocess(rows))]).values()).backward()
        replaced += objective.diagnostics["replaced_words"].item() * len(rows)
        for _, parameter in trained:
            if joined():
                dist.all_reduce(parameter.grad)
                parameter.grad /= count
            parameter.data -= 0.05 * parameter.grad
        kept.append({name: p.grad.clone() for name, p in trained})
        objective.follow()
    if rank == 0:
        torch.save({"gradients": kept, "queue": objective.queue.state_dict()}, f"{output}/adcl-{count}.pt")
    if count == 1 and not replaced:
        raise SystemExit("no word was replaced: the test proves nothing")
    leave_process_group()


if __name__ == "__main__":
    main()
