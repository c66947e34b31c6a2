"""An adapter of ``SentenceTransformerTrainer`` for objectives with their own state."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from datasets import Dataset
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformerTrainer
from torch import Tensor, nn
from torch.utils.data import BatchSampler
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from holdfast.adapters import has_adapters, load_adapter_weights, save_with_base
from holdfast.errors import UserError
from holdfast.input_limits import Cuts, count_tokens, input_limit
from holdfast.objectives import Objective
from holdfast.runs.resumable import Resumable
from holdfast.text_prompts import prompt_of
from holdfast.training.idea_measurement import IdeaMeasurement
from holdfast.training.sampling import EpochOrder, epoch_batches
from holdfast.training.sharding import Sharded, clip_norm, load_whole_state, split_groups, whole_state
from holdfast.training.teacher_vectors import TeacherVectors

OBJECTIVE_FILE = "objective.safetensors"
_CUT = "cut_texts"
_ROW = "label"  # the column that sentence-transformers gives to the loss as labels
_COUNTS = ("texts", "of", "read", "lost")
"""The counts of `Cuts`, as stored in the state."""


class HoldfastTrainer(Resumable, SentenceTransformerTrainer):
    """Trainer of a ``SentenceTransformer`` with an :class:`~holdfast.objectives.Objective`.

    Differences from ``SentenceTransformerTrainer``: the objective's own state is saved in checkpoints and restored; its
    gradients are averaged over processes and clipped together with the model's; its :meth:`Objective.follow` is called
    once per optimiser step, also with gradient accumulation; the order of the corpus is a function of seed and epoch,
    so that a resumed run continues bit-exactly.

    Args:
        keep_checkpoints: as in `Resumable`.
        vectors: a teacher's vectors of the corpus; they become the ``labels`` of the batches.
        shard: shard weights, gradients and optimiser state over the processes (:mod:`holdfast.training.sharding`);
            computations and saved files stay the same.
        **kwargs: as for ``SentenceTransformerTrainer``; ``loss`` must be an ``Objective``.
    """

    def __init__(
        self, *, keep_checkpoints: int = 2, vectors: TeacherVectors | None = None, shard: bool = False, **kwargs: Any
    ) -> None:
        if vectors is not None:
            rows = np.arange(len(kwargs["train_dataset"]), dtype=np.int64)
            kwargs["train_dataset"] = kwargs["train_dataset"].add_column(_ROW, rows)
        self._vectors = vectors
        self._order: EpochOrder | None = None
        self._sharded: Sharded | None = None
        self.keep_checkpoints = keep_checkpoints
        super().__init__(**kwargs)
        self._plain = copy.deepcopy(self.model).cpu() if shard else None
        if not isinstance(self.loss, Objective):
            raise TypeError(f"loss must be an Objective, got {type(self.loss).__name__}")
        self.objective: Objective = self.loss
        self.objective.followed_by_trainer = True
        self.idea = IdeaMeasurement(self.objective)

    # --- data -------------------------------------------------------------------------------------------------------

    def get_batch_sampler(self, dataset: Dataset, batch_size: int, *args: Any, **kwargs: Any) -> BatchSampler:
        """Return a sampler whose order depends only on seed and epoch."""
        sampler = epoch_batches(len(dataset), batch_size, self.args.seed)
        assert isinstance(sampler.sampler, EpochOrder)
        self._order = sampler.sampler
        return sampler

    def get_data_collator(self, model: Any, *given: Any, **named: Any) -> Any:
        """Return the inherited collator; its batches also hold the number of truncated texts."""
        collator: Any = super().get_data_collator(model, *given, **named)
        collator.preprocess_fn = functools.partial(_counting_cut, model)
        return collator

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Do nothing: holdfast writes the model card once, at the end."""

    # --- one step ---------------------------------------------------------------------------------------------------

    def track_loss_components(self, loss: dict[str, Tensor]) -> None:
        """Raise UserError before the backward pass if a term is not finite, so that the weights stay valid."""
        # One check of the sum, since it synchronises with the device; single terms only if it fails.
        finite = torch.isfinite(sum((value.detach() for value in loss.values()), torch.zeros(())))
        for name, value in {} if finite else loss.items():
            self.check_finite(value, f"the {name!r} term of the loss")
        super().track_loss_components(loss)

    def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
        """Make a step as inherited, then average the gradients of the objective over the processes."""
        self._count_cut(inputs)
        if self._vectors is not None:
            inputs[_ROW] = self._vectors.of(inputs[_ROW])
        with self._idea_measured(), self._whole(reduce=self.accelerator.sync_gradients):
            loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        self._check_encoding()
        if self.args.world_size > 1 and self.accelerator.sync_gradients:
            for parameter in self.objective.own_parameters():
                if parameter.grad is None:  # every process must take part in every reduction
                    parameter.grad = torch.zeros_like(parameter)
                dist.all_reduce(parameter.grad)
                parameter.grad /= self.args.world_size
        return loss

    def _idea_measured(self) -> contextlib.AbstractContextManager[None]:
        """Measure the share of the method's idea, if the step is due, in the first of the batches it accumulates."""
        if any(parameter.grad is not None for parameter in self.objective.model.parameters()):
            return contextlib.nullcontext()
        self.idea.diagnostics = {}
        state = self.state
        due = self.idea.is_due(state.global_step + 1, state.logging_steps, state.max_steps)
        if self._sharded is not None or not due:
            return contextlib.nullcontext()
        return self.idea.of_step(self.compute_loss_context_manager, self.current_gradient_accumulation_steps)

    def _check_encoding(self) -> None:
        """Refuse settings that had no effect, since the objective encodes or computes its loss in a way of its own."""
        objective = self.objective
        if objective.dimensions and not objective.used_dimensions:
            raise UserError(
                f"--matryoshka: {objective.TITLE} does not compute its loss with self.at_each_dimension, "
                "which shortens the vectors"
            )
        if objective.mini_batch_size is not None and not objective.used_encoder:
            raise UserError(
                f"--mini-batch-size: {objective.TITLE} does not encode with self.encoder, which makes the mini-batches"
            )

    def cut_texts(self, tokens: int) -> Cuts:
        """Return how many texts were truncated at ``tokens`` in the training, by all processes; repeats count again."""
        counted = self._counted()
        return Cuts(tokens, counted["of"], counted["texts"], counted["read"], counted["lost"])

    def _counted(self) -> dict[str, int]:
        """Return the counts, which are stored in the trainer's state and thus in its checkpoints."""
        counted: dict[str, int] = self.state.stateful_callbacks.setdefault(_CUT, dict.fromkeys(_COUNTS, 0))
        return counted

    def _count_cut(self, inputs: dict[str, Any]) -> None:
        """Move the counts from a batch to the state, when it is trained on: the next batch is already loaded."""
        counted = self._counted()
        own = [inputs.pop(name) for name in [name for name in inputs if name.endswith(_CUT)]]
        if not own:
            return
        total = torch.tensor(own, device=self.args.device).sum(dim=0)
        if self.args.world_size > 1:
            dist.all_reduce(total)
        for count, value in zip(_COUNTS, total.tolist(), strict=True):
            counted[count] += value

    def _clip_grad_norm(self, model: nn.Module) -> Any:
        parameters = [*model.parameters(), *self.objective.own_parameters()]
        if self._sharded is not None:
            return clip_norm(parameters, self.args.max_grad_norm)
        return self.accelerator.clip_grad_norm_(parameters, self.args.max_grad_norm)

    def diagnostics(self) -> dict[str, Tensor]:
        """Return the objective's diagnostics and, if it was measured, the share of the method's idea."""
        return {**self.objective.diagnostics, **self.idea.diagnostics}

    def begin_training(self) -> None:
        """Give each process its own random numbers.

        All processes had the same seed, to build the same head; but their dropout masks must differ. On resume, the
        state in the checkpoint replaces this seed.
        """
        if self.args.process_index:
            torch.manual_seed(self.args.seed + 7919 * self.args.process_index)

    def begin_epoch(self, epoch: int) -> None:
        """Set the epoch of the order."""
        assert self._order is not None
        self._order.epoch = epoch

    # --- shards -----------------------------------------------------------------------------------------------------

    def plain_model(self) -> Any:
        """Return the model, or an unsharded copy if it is sharded; all processes must call it together."""
        return self.model if self._sharded is None else self._sharded.plain(self.args.device)

    def follow(self) -> None:
        """Update the objective."""
        with self._whole() if type(self.objective).follow is not Objective.follow else contextlib.nullcontext():
            self.objective.follow()

    def evaluate(self, *given: Any, **named: Any) -> dict[str, float]:
        """Evaluate the unsharded model, as inherited."""
        with self._plain_in_place(self.args.device):
            metrics: dict[str, float] = super().evaluate(*given, **named)
            return metrics

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Create the optimiser as inherited; shard the model first if asked for, after a checkpoint was loaded."""
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
        """Replace the sharded model by the unsharded one, for trainer and callbacks, inside the block."""
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
        """Save the unsharded model, as inherited."""
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
        save_with_base(self.model, folder)
        state = {name: value.detach().contiguous() for name, value in self.objective.own_state().items()}
        save_file(state, folder / OBJECTIVE_FILE)

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:
        if has_adapters(self.model):  # the checkpoint holds nothing else
            load_adapter_weights(self.model, Path(checkpoint_path))
        else:
            super()._load_from_checkpoint(checkpoint_path)
        self.objective.load_own_state(load_file(Path(checkpoint_path) / OBJECTIVE_FILE))


def _counting_cut(model: Any, inputs: list[str], **named: Any) -> Any:
    """Tokenise a column of a batch with the chosen prompt, and add its `_COUNTS`."""
    prompt = named.pop("prompt", None) or prompt_of(model) or ""
    features = model.preprocess(inputs, prompt=prompt or None, **named)
    counts = count_tokens(model.tokenizer, [f"{prompt}{text}" for text in inputs], features, input_limit(model))
    features[_CUT] = (len(counts.lost), len(inputs), sum(counts.read), sum(counts.lost.values()))
    return features
