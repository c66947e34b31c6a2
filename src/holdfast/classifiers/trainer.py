"""A thin adapter around ``transformers.Trainer``: batches of like length, a defence's loss, trusted checkpoints."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME

from holdfast.attacks.classifier import compute_logits, tokenise
from holdfast.classifiers.batches import Collate, LengthOrder
from holdfast.classifiers.defences import Defence
from holdfast.classifiers.material import Part
from holdfast.classifiers.scores import accuracy
from holdfast.encoding import Precision
from holdfast.errors import UserError
from holdfast.files import telling_write_errors
from holdfast.training.checkpoints import checkpoints, keep_newest, latest_intact, seal
from holdfast.training.cpu import _eager_with_cheap_dropout, _freed_memory_kept
from holdfast.training.progress import TrainingProgress
from holdfast.training.selection import METRIC, KeepBest

ACCURACY = "eval_accuracy"
_CHECKPOINTS_KEPT = 2


class ClassifierTrainer(Trainer):  # type: ignore[misc]
    """Trains a Hugging Face sequence classifier on a defence's loss.

    Inherited but for this: the order of the texts is a function of seed and epoch, so that a resumed run continues
    bit-exactly; a checkpoint is sealed with hashes when it is complete; a loss that is not finite stops the run before
    it reaches the weights; an evaluation gives the accuracy on the selection part.

    Args:
        model: the classifier.
        tokenizer: its tokeniser.
        defence: what the loss is.
        train: what is trained on.
        dev: what is evaluated on.
        max_length: tokens per text or pair.
        precision: of the evaluations, "fp32" or "bf16". (A training in bf16 evaluates in bf16 whatever is asked for.)
        **kwargs: as for ``transformers.Trainer``.
    """

    def __init__(
        self,
        *,
        model: Any,
        tokenizer: Any,
        defence: Defence,
        train: Part,
        dev: Part,
        max_length: int,
        precision: Precision,
        **kwargs: Any,
    ) -> None:
        encoded = tokenise(tokenizer, train.texts, max_length)
        lengths = [len(ids) for ids in encoded["input_ids"]]
        self._order = LengthOrder(lengths, kwargs["args"].per_device_train_batch_size, kwargs["args"].seed)
        self._defence, self._dev, self._dev_precision = defence, dev, precision
        self._dev_encoded = tokenise(tokenizer, dev.texts, max_length)
        collate = Collate(tokenizer, encoded, train.labels)
        rows = range(len(train))
        super().__init__(
            model=model, train_dataset=rows, eval_dataset=rows[:0], data_collator=collate,
            processing_class=tokenizer, **kwargs,
        )  # fmt: skip
        self.add_callback(_TellEpoch(self._order))

    def train_from(self, checkpoint: Path | None) -> None:
        """Train to the end, from the start or from a checkpoint.

        The inherited loop makes one step too many when the checkpoint is of the last step.
        """
        if checkpoint is None:
            self.train()
            return
        state = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME))
        if state.global_step < state.max_steps:
            self.train(resume_from_checkpoint=str(checkpoint))
        else:
            self.state = state
            self._load_from_checkpoint(str(checkpoint))

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Batches in an order that depends on the seed and the epoch alone."""
        batches = BatchSampler(self._order, self._order.batch_size, drop_last=False)
        loader: DataLoader[Any] = DataLoader(
            self.train_dataset,
            batch_sampler=batches,
            collate_fn=self.data_collator,
            pin_memory=self.args.device.type == "cuda",
        )
        prepared: DataLoader[Any] = self.accelerator.prepare(loader)
        return prepared

    def compute_loss_context_manager(self) -> contextlib.ExitStack:
        """One autocast region for the whole loss, so that a defence's several passes cast the weights once."""
        stack: contextlib.ExitStack = super().compute_loss_context_manager()
        if self.args.bf16:
            stack.enter_context(torch.autocast(self.args.device.type, dtype=torch.bfloat16))
        return stack

    def compute_loss(self, model: nn.Module, inputs: dict[str, Tensor], *_: Any, **__: Any) -> Tensor:
        """The defence's loss; stops before the backward pass when it is not finite: the weights are still good."""
        loss = self._defence(model, inputs)
        if not torch.isfinite(loss):
            raise UserError(
                f"the loss became {loss.item()} at step {self.state.global_step + 1}; {self._last_good()}; "
                "try a lower --learning-rate"
            )
        return loss

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """The accuracy ×100 and the cross-entropy on the selection part."""
        logits = compute_logits(
            self.model, self.processing_class, self._dev_encoded, precision=self._dev_precision
        )  # fmt: skip
        loss = nn.functional.cross_entropy(torch.from_numpy(logits), torch.tensor(self._dev.labels)).item()
        metrics = {ACCURACY: accuracy(logits, self._dev.labels), "eval_loss": loss}
        self.log(metrics)
        self.control: TrainerControl = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = Path(self.args.output_dir)
        checkpoint = folder / f"checkpoint-{self.state.global_step}"
        try:
            with telling_write_errors(checkpoint):
                super()._save_checkpoint(model, trial)
            seal(checkpoint)
            keep_newest(folder, _CHECKPOINTS_KEPT)
        except UserError as error:
            shutil.rmtree(checkpoint, ignore_errors=True)
            raise UserError(f"{error}; {self._last_good()}; continue with --resume") from error

    def _last_good(self) -> str:
        if not checkpoints(Path(self.args.output_dir)):
            return "no checkpoint was written yet"
        newest, _ = latest_intact(Path(self.args.output_dir))
        return f"last good checkpoint: {newest}" if newest else "no good checkpoint exists"


class KeepBestEpoch(KeepBest):
    """Keeps the weights of the evaluation with the best accuracy so far; of equal ones those of the earlier."""

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Save the model when its accuracy beats the best so far."""
        kwargs["metrics"] = {METRIC: kwargs["metrics"][ACCURACY]}
        super().on_evaluate(args, state, control, **kwargs)


class FinetuneProgress(TrainingProgress):
    """The progress of a training run, with the accuracy on the selection part."""

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Show the accuracy that epochs are selected by."""
        self._best = f"dev accuracy {kwargs['metrics'][ACCURACY]:.2f}"
        if not self.console.is_terminal:
            self.console.print(f"step {state.global_step}/{state.max_steps}  {self._best}", highlight=False)


class _TellEpoch(TrainerCallback):  # type: ignore[misc]
    """Tells the order its epoch."""

    def __init__(self, order: LengthOrder) -> None:
        self.order = order

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        self.order.epoch = int(state.epoch or 0)


@contextlib.contextmanager
def fast_on_cpu(model: Any) -> Iterator[None]:
    """What `holdfast.training.cpu.fast_on_cpu` does, for a bare Hugging Face model."""
    if model.device.type != "cpu":
        yield
        return
    with _freed_memory_kept(), _eager_with_cheap_dropout(model):
        yield
