"""Run by test_distributed.py, alone or under torchrun: a few exact steps of each method, whose gradients are kept.

Usage: two_processes.py MODEL CORPUS OUTPUT WAY METHOD..., where WAY is "whole", "sharded" for sharded
weights, "mini-batches" for passes of at most three rows, "adapters" for those of LoRA alone, or "adapters-mini-batches"
for these in such passes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from datasets import Dataset
from methods import exact_objective
from sentence_transformers import SentenceTransformerTrainingArguments
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback, set_seed

from holdfast.adapters import Lora, add_lora, is_adapter_weight
from holdfast.distributed import leave_process_group
from holdfast.encoder import Encoder, freeze_unused
from holdfast.models import load_sentence_transformer
from holdfast.objectives import Objective
from holdfast.training.trainer import HoldfastTrainer

GLOBAL_BATCH = 8
STEPS = 3
# Batches are not split: each process holds half of every one, so accumulating two adds the same terms.
ACCUMULATE = {"simcse": 2, "adcse": 2, "adcl": 2, "combined": 2}


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Of a shard the whole, which is joined from all processes."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.detach().clone()


class Keep(TrainerCallback):
    """Keeps the gradients of each step, and checks after it that all processes hold the same weights and state."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.gradients: list[dict[str, torch.Tensor]] = []
        self.shares: list[float] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        named = [(name.replace("module.", ""), p) for name, p in self.objective.named_parameters() if p.requires_grad]
        self.gradients.append({name: whole(p.grad) for name, p in named if p.grad is not None})

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        self.shares += [logs["idea_gradient_share"]] if "idea_gradient_share" in logs else []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if args.world_size == 1:
            return
        for name, value in self.objective.state_dict().items():
            mine = whole(value).contiguous()
            both = [torch.empty_like(mine) for _ in range(args.world_size)]
            dist.all_gather(both, mine)
            if not torch.equal(both[0], both[1]):
                raise SystemExit(f"{name} differs between the processes at step {state.global_step}")


def train(method: str, path: str, sentences: list[str], output: str, way: str) -> dict[str, Any]:
    """The gradients of each step, and the objective's state at the end."""
    arguments = SentenceTransformerTrainingArguments(
        output_dir=output + "/trainer",
        max_steps=STEPS,
        gradient_accumulation_steps=ACCUMULATE.get(method, 1),
        learning_rate=1e-2,
        optim="adamw_torch_fused",
        dataloader_drop_last=True,
        ddp_find_unused_parameters=False,
        ddp_broadcast_buffers=False,
        max_grad_norm=0.5,
        save_strategy="no",
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=1,
    )
    arguments.per_device_train_batch_size = GLOBAL_BATCH // arguments.world_size
    set_seed(1)
    model = load_sentence_transformer(path, device="cpu").double()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    freeze_unused(Encoder(model), model.preprocess(sentences[:2]))
    if way.startswith("adapters"):
        add_lora(model, Lora(r=2), path)
        for name, parameter in model.named_parameters():
            if is_adapter_weight(name):
                torch.nn.init.normal_(parameter, std=0.1)
        model.double()
    objective = exact_objective(method, model)
    if way.endswith("mini-batches"):
        objective.use_mini_batches(3)
    keep = Keep(objective)
    trainer = HoldfastTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict({"sentence": sentences}),
        loss=objective,
        callbacks=[keep],
        shard=way == "sharded",
    )
    trainer.idea.least_steps = 1
    trainer.train()
    weights = {f"model.{name}": value.clone() for name, value in trainer.plain_model().state_dict().items()}
    return {"gradients": keep.gradients, "shares": keep.shares, "state": {**objective.own_state(), **weights}}


def main() -> None:
    path, corpus, output, way, *methods = sys.argv[1:]
    sentences = Path(corpus).read_text(encoding="utf-8").split("\n")[:-1]
    kept = {method: train(method, path, sentences, output, way) for method in methods}
    world = dist.get_world_size() if dist.is_initialized() else 1
    if world == 1 or dist.get_rank() == 0:
        torch.save(kept, output + f"/kept-{world}-{way}.pt")
    leave_process_group()


if __name__ == "__main__":
    main()
