"""A thin adapter around ``transformers.Trainer``: batches of like length, a defence's loss, trusted checkpoints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from holdfast.attacks.classifier import compute_logits, tokenise
from holdfast.classifiers.batches import Collate, LengthOrder
from holdfast.classifiers.defences import Defence
from holdfast.classifiers.material import Part
from holdfast.classifiers.scores import accuracy
from holdfast.encoding import Precision
from holdfast.errors import UserError
from holdfast.training.progress import TrainingProgress
from holdfast.training.resumable import Resumable

ACCURACY = "eval_accuracy"


class ClassifierTrainer(Resumable, Trainer):  # type: ignore[misc]
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
