"""A thin adapter around ``SentenceTransformerTrainer``: what it lacks for objectives that have state of their own."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from datasets import Dataset
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformerTrainer
from torch import Tensor, nn
from torch.utils.data import BatchSampler
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from holdfast.errors import UserError
from holdfast.limits import Cuts, cut_rows, input_limit
from holdfast.objectives import Objective
from holdfast.training.resumable import Resumable
from holdfast.training.sampling import EpochOrder, epoch_batches
from holdfast.training.sharding import Sharded, clip_norm, load_whole_state, split_groups, whole_state

OBJECTIVE_FILE = "objective.safetensors"
_CUT = "cut_texts"


class HoldfastTrainer(Resumable, SentenceTransformerTrainer):
    """Trains a ``SentenceTransformer`` with an :class:`~holdfast.objectives.Objective`.

    Everything is inherited but this: the objective's own state is saved in checkpoints and restored, its gradients are
    averaged over processes and clipped with the model's; what in it follows the optimiser moves on once per optimiser
    step, however many batches that takes; the order of the corpus is a function of seed and epoch, so that a resumed
    run continues bit-exactly; a checkpoint is sealed with hashes when it is complete; a term of the loss that is not
    finite stops the run before it reaches the weights.

    Args:
        keep_checkpoints: how many checkpoints are kept while training.
        shard: share weights, gradients and the optimiser's state out over the processes
            (:mod:`holdfast.training.sharding`); what is computed and what is saved stay the same.
        **kwargs: as for ``SentenceTransformerTrainer``; ``loss`` must be an ``Objective``.
    """

    def __init__(self, *, keep_checkpoints: int = 2, shard: bool = False, **kwargs: Any) -> None:
        self._order: EpochOrder | None = None
        self._sharded: Sharded | None = None
        self.keep_checkpoints = keep_checkpoints
        super().__init__(**kwargs)
        self._plain = copy.deepcopy(self.model).cpu() if shard else None
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

    def get_data_collator(self, model: Any, *given: Any, **named: Any) -> Any:
        """As inherited, and a batch says how many of its texts were cut."""
        collator: Any = super().get_data_collator(model, *given, **named)
        collator.preprocess_fn = functools.partial(_counting_cut, model)
        return collator

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Nothing: the model card is written by holdfast, once, at the end."""

    # --- one step ---------------------------------------------------------------------------------------------------

    def track_loss_components(self, loss: dict[str, Tensor]) -> None:
        """Stop before the backward pass when a term is not finite: the weights are still good."""
        # One question for all terms, since the answer is waited for; their names where it is no.
        finite = torch.isfinite(sum((value.detach() for value in loss.values()), torch.zeros(())))
        for name, value in {} if finite else loss.items():
            if not torch.isfinite(value):
                raise UserError(
                    f"the {name!r} term of the loss became {value.item()} at step {self.state.global_step + 1}; "
                    f"{self._last_good()}; try a lower --learning-rate"
                )
        super().track_loss_components(loss)

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        """A step as inherited, after which the objective's gradients are averaged over the processes."""
        self._count_cut(inputs)
        with self._whole(reduce=self.accelerator.sync_gradients):
            loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        if self.args.world_size > 1 and self.accelerator.sync_gradients:
            for parameter in self.objective.own_parameters():
                if parameter.grad is None:  # every process must take part in every reduction
                    parameter.grad = torch.zeros_like(parameter)
                dist.all_reduce(parameter.grad)
                parameter.grad /= self.args.world_size
        return loss

    def cut_texts(self, tokens: int) -> Cuts:
        """Return how many of the texts that this process trained on were cut at ``tokens``; a text counts each time."""
        counted = self._counted()
        return Cuts(tokens, counted["of"], counted["texts"])

    def _counted(self) -> dict[str, int]:
        """The counts, which are kept in the trainer's state, and so in its checkpoints."""
        counted: dict[str, int] = self.state.stateful_callbacks.setdefault(_CUT, {"texts": 0, "of": 0})
        return counted

    def _count_cut(self, inputs: dict[str, Any]) -> None:
        """Take the counts out of a batch. It is counted when it is trained on: the next one has been read already."""
        counted = self._counted()
        for name in [name for name in inputs if name.endswith(_CUT)]:
            cut, of = inputs.pop(name)
            counted["texts"] += cut
            counted["of"] += of

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        parameters = [*model.parameters(), *self.objective.own_parameters()]
        if self._sharded is not None:
            return clip_norm(parameters, self.args.max_grad_norm)
        return self.accelerator.clip_grad_norm_(parameters, self.args.max_grad_norm)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the objective's diagnostics of the last step beside its terms."""
        if "loss" in logs:
            logs = {**logs, **{name: value.item() for name, value in self.objective.diagnostics.items()}}
        super().log(logs, start_time)

    # --- shards -----------------------------------------------------------------------------------------------------

    def plain_model(self) -> Any:
        """The model with whole weights: itself, or a copy where it is sharded; all processes must call it together."""
        return self.model if self._sharded is None else self._sharded.plain(self.args.device)

    def follow(self) -> None:
        """Move on what in the objective follows the optimiser."""
        with self._whole() if type(self.objective).follow is not Objective.follow else contextlib.nullcontext():
            self.objective.follow()

    def evaluate(self, *given: Any, **named: Any) -> dict[str, float]:
        """As inherited, of the whole model."""
        with self._plain_in_place(self.args.device):
            metrics: dict[str, float] = super().evaluate(*given, **named)
            return metrics

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """As inherited, of shards where the model is sharded: that happens here, once a checkpoint's weights are in."""
        if self._plain is not None and self._sharded is None:
            self._sharded = Sharded(self.model, self._plain)
        optimizer: torch.optim.Optimizer = super().create_optimizer(model)
        if self._sharded is not None:
            split_groups(optimizer)
        return optimizer

    def _wrap_model(self, model: nn.Module, training: bool = True, dataloader: Any = None) -> nn.Module:
        if self._sharded is None:
            wrapped: nn.Module = super()._wrap_model(model, training, dataloader)
            return wrapped
        return self._sharded if training else model

    def _whole(self, *, reduce: bool = True) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._sharded is None else self._sharded.whole(reduce=reduce)

    @contextlib.contextmanager
    def _plain_in_place(self, device: torch.device | str = "cpu") -> Iterator[None]:
        """The whole model in place of the shards, for the trainer and its callbacks, inside the block."""
        if self._sharded is None:
            yield
            return
        plain: Any = self._sharded.plain(device)
        shards = self.model
        self.model = self.callback_handler.model = plain
        try:
            yield
        finally:
            self.model = self.callback_handler.model = shards
            plain.to("cpu")

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """As inherited, of the whole model."""
        with self._plain_in_place():
            super().save_model(output_dir, _internal_call)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self._sharded is None:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        state = whole_state(self.optimizer)
        if self.args.should_save:
            torch.save(state, Path(output_dir) / OPTIMIZER_NAME)
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / SCHEDULER_NAME)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if self._sharded is None or checkpoint is None:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        state, schedule = (
            torch.load(Path(checkpoint) / name, map_location="cpu", weights_only=True)
            for name in (OPTIMIZER_NAME, SCHEDULER_NAME)
        )
        load_whole_state(self.optimizer.optimizer, state)
        self.lr_scheduler.load_state_dict(schedule)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        if not self.args.should_save:
            return
        folder = Path(output_dir or self.args.output_dir)
        self.model.save_pretrained(str(folder), create_model_card=False)
        state = {name: value.detach().contiguous() for name, value in self.objective.own_state().items()}
        save_file(state, folder / OBJECTIVE_FILE)

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:
        super()._load_from_checkpoint(checkpoint_path)
        self.objective.load_own_state(load_file(Path(checkpoint_path) / OBJECTIVE_FILE))


def _counting_cut(model: Any, inputs: list[str], **named: Any) -> Any:
    """Tokenise a column of a batch, and say how many of its texts were cut, and of how many."""
    features = model.preprocess(inputs, **named)
    prompt = named.get("prompt") or ""
    cut = cut_rows(model.tokenizer, [f"{prompt}{text}" for text in inputs], features, input_limit(model))
    features[_CUT] = (len(cut), len(inputs))
    return features


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
        self.trainer.follow()

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        assert self.trainer._order is not None
        self.trainer._order.epoch = int(state.epoch or 0)
