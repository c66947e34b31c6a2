"""Run by test_distributed.py, alone or under torchrun: a few exact training steps, whose gradients are kept.

Usage: two_processes.py MODEL CORPUS OUTPUT METHOD ACCUMULATE
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainingArguments
from transformers import TrainerCallback, set_seed

from holdfast.distributed import leave_process_group
from holdfast.encoder import Encoder, freeze_unused
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS, RobustEmbed
from holdfast.training.trainer import HoldfastTrainer

GLOBAL_BATCH = 8


class Keep(TrainerCallback):
    """Keeps the gradients of each step, and checks after it that all processes hold the same weights."""

    def __init__(self, objective: torch.nn.Module) -> None:
        self.objective = objective
        self.gradients: list[dict[str, torch.Tensor]] = []

    def named(self) -> list[tuple[str, torch.nn.Parameter]]:
        return [(name.replace("module.", ""), p) for name, p in self.objective.named_parameters() if p.requires_grad]

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.gradients.append({name: p.grad.clone() for name, p in self.named()})

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if args.world_size == 1:
            return
        for name, parameter in self.named():
            mine = parameter.detach().contiguous()
            both = [torch.empty_like(mine) for _ in range(args.world_size)]
            dist.all_gather(both, mine)
            if not torch.equal(both[0], both[1]):
                raise SystemExit(f"{name} differs between the processes at step {state.global_step}")


def main() -> None:
    path, corpus, output, method, accumulate = sys.argv[1:]
    arguments = SentenceTransformerTrainingArguments(
        output_dir=output + "/trainer",
        max_steps=3,
        gradient_accumulation_steps=int(accumulate),
        learning_rate=1e-2,
        optim="adamw_torch_fused",
        dataloader_drop_last=True,
        ddp_find_unused_parameters=False,
        ddp_broadcast_buffers=False,
        max_grad_norm=0.5,
        save_strategy="no",
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
    sentences = Path(corpus).read_text(encoding="utf-8").split("\n")[:-1]
    freeze_unused(Encoder(model), model.preprocess(sentences[:2]))
    objective = METHODS[method](model).double()
    if isinstance(objective, RobustEmbed):
        noise = torch.randn(64, 16, dtype=torch.float64) * 1e-3  # the same for each sentence, wherever it is computed
        objective.initial_noise = lambda x: noise[: x.shape[1]].expand_as(x)  # type: ignore[method-assign]
    keep = Keep(objective)
    trainer = HoldfastTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict({"sentence": sentences}),
        loss=objective,
        callbacks=[keep],
    )
    trainer.train()
    if trainer.is_world_process_zero():
        torch.save(keep.gradients, output + f"/gradients-{arguments.world_size}.pt")
    leave_process_group()


if __name__ == "__main__":
    main()
