"""A thin adapter around ``SentenceTransformerTrainer``: what it lacks for objectives that have state of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate.utils import DistributedType
from datasets import Dataset
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformerTrainer
from torch import Tensor, nn
from torch.utils.data import BatchSampler
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holdfast.errors import UserError
from holdfast.objectives import Objective
from holdfast.training.resumable import Resumable
from holdfast.training.sampling import EpochOrder, epoch_batches

OBJECTIVE_FILE = "objective.safetensors"


class HoldfastTrainer(Resumable, SentenceTransformerTrainer):
    """Trains a ``SentenceTransformer`` with an :class:`~holdfast.objectives.Objective`.

    Everything is inherited but this: the objective's own state is saved in checkpoints and restored, its gradients are
    averaged over processes and clipped with the model's; what in it follows the optimiser moves on once per optimiser
    step, however many batches that takes; the order of the corpus is a function of seed and epoch, so that a resumed
    run continues bit-exactly; a checkpoint is sealed with hashes when it is complete; a term of the loss that is not
    finite stops the run before it reaches the weights.

    Args:
        keep_checkpoints: how many checkpoints are kept while training.
        **kwargs: as for ``SentenceTransformerTrainer``; ``loss`` must be an ``Objective``.
    """

    def __init__(self, *, keep_checkpoints: int = 2, **kwargs: Any) -> None:
        self._order: EpochOrder | None = None
        self.keep_checkpoints = keep_checkpoints
        super().__init__(**kwargs)
        if not isinstance(self.loss, Objective):
            raise TypeError(f"loss must be an Objective, got {type(self.loss).__name__}")
        self.objective: Objective = self.loss
        self.objective.followed_by_trainer = True
        self.add_callback(_RunOrder(self))

    # --- data -------------------------------------------------------------------------------------------------------

    def get_batch_sampler(self, dataset: Dataset, batch_size: int, *args: Any, **kwargs: Any) -> BatchSampler:
        """Batches in an order that depends on the seed and the epoch alone."""
        sampler = epoch_batches(len(dataset), batch_size, self.args.seed)
        assert isinstance(sampler.sampler, EpochOrder)
        self._order = sampler.sampler
        return sampler

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Nothing: the model card is written by holdfast, once, at the end."""

    # --- one step ---------------------------------------------------------------------------------------------------

    def track_loss_components(self, loss: dict[str, Tensor]) -> None:
        """Stop before the backward pass when a term is not finite: the weights are still good."""
        for name, value in loss.items():
            if not torch.isfinite(value):
                raise UserError(
                    f"the {name!r} term of the loss became {value.item()} at step {self.state.global_step + 1}; "
                    f"{self._last_good()}; try a lower --learning-rate"
                )
        super().track_loss_components(loss)

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        """A step as inherited, after which the objective's gradients are averaged over the processes."""
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        if self.args.world_size > 1 and self.accelerator.sync_gradients:
            for parameter in self.objective.own_parameters():
                if parameter.grad is None:  # every process must take part in every reduction
                    parameter.grad = torch.zeros_like(parameter)
                dist.all_reduce(parameter.grad)
                parameter.grad /= self.args.world_size
        return loss

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        if self.accelerator.distributed_type in (DistributedType.FSDP, DistributedType.DEEPSPEED):
            return super()._clip_grad_norm(model)  # these shard the model and clip it their own way
        parameters = [*model.parameters(), *self.objective.own_parameters()]
        return self.accelerator.clip_grad_norm_(parameters, self.args.max_grad_norm)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the objective's diagnostics of the last step beside its terms."""
        if "loss" in logs:
            logs = {**logs, **{name: value.item() for name, value in self.objective.diagnostics.items()}}
        super().log(logs, start_time)

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        folder = Path(output_dir or self.args.output_dir)
        self.model.save_pretrained(str(folder), create_model_card=False)
        state = {name: value.detach().contiguous() for name, value in self.objective.own_state().items()}
        save_file(state, folder / OBJECTIVE_FILE)

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:
        super()._load_from_checkpoint(checkpoint_path)
        self.objective.load_own_state(load_file(Path(checkpoint_path) / OBJECTIVE_FILE))


class _RunOrder(TrainerCallback):
    """Tells the corpus order its epoch and the objective of each optimiser step; gives each process a random stream."""

    def __init__(self, trainer: HoldfastTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        # All processes were seeded alike to build the same head; alike dropout would make their views alike too. On
        # resume the checkpoint's state replaces this.
        if args.process_index:
            torch.manual_seed(args.seed + 7919 * args.process_index)

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.trainer.objective.follow()

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        assert self.trainer._order is not None
        self.trainer._order.epoch = int(state.epoch or 0)
