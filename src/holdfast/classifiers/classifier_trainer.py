"""A thin adapter of ``transformers.Trainer``: batches of similar lengths, a defence's losses, verified checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader
from transformers import Trainer

from holdfast.attacks.classifier import compute_logits, tokenise
from holdfast.classifiers.batches import Collate, LengthOrder
from holdfast.classifiers.defences import Defence, Moment, TaskBatch, Training
from holdfast.classifiers.labelled_texts import Part
from holdfast.classifiers.losses import task_loss
from holdfast.classifiers.scores import accuracy, spearman
from holdfast.input_limits import Cuts
from holdfast.precision import ResolvedPrecision
from holdfast.runs.resumable import Resumable

ACCURACY = "eval_accuracy"
SPEARMAN = "eval_spearman"
DEFENCE_FILE = "defence.safetensors"


def selection_metric(dev: Part) -> str:
    """Return the name of the metric that selects epochs: the accuracy, or Spearman's correlation for scores."""
    return SPEARMAN if dev.graded else ACCURACY


class ClassifierTrainer(Resumable, Trainer):  # type: ignore[misc]
    """Trainer of a Hugging Face sequence classifier on a defence's losses.

    Differences from the base class: a step calls backward on each loss that the defence yields for a batch, and the
    defence's state is saved in checkpoints and restored; the order of the texts depends on seed and epoch only, so that
    a resumed run continues bit-exactly; an evaluation gives the score on the selection part.

    Args:
        model: the classifier.
        tokenizer: its tokeniser.
        defence: the defence that gives the losses.
        train: the training part.
        dev: the selection part.
        max_length: tokens per text or pair.
        precision: precision of the evaluations, "fp32" or "bf16". (A training in bf16 always evaluates in bf16.)
        **kwargs: as for ``transformers.Trainer``.

    Attributes:
        cuts: the counter of training texts longer than ``max_length``.
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
        precision: ResolvedPrecision,
        **kwargs: Any,
    ) -> None:
        self.cuts = Cuts()
        encoded = tokenise(tokenizer, train.texts, max_length, self.cuts)
        lengths = [len(ids) for ids in encoded["input_ids"]]
        self._order = LengthOrder(lengths, kwargs["args"].per_device_train_batch_size, kwargs["args"].seed)
        self._defence, self._dev, self._dev_precision = defence, dev, precision
        self._dev_encoded = tokenise(tokenizer, dev.texts, max_length)
        collate, rows = Collate(tokenizer, encoded, train.labels), range(len(train))
        super().__init__(
            model=model, train_dataset=rows, eval_dataset=rows[:0], data_collator=collate, processing_class=tokenizer,
            **kwargs,
        )  # fmt: skip
        self._steps_in_epoch = -(-len(train) // self._order.batch_size)
        steps = self.args.max_steps
        epochs = steps / self._steps_in_epoch if steps > 0 else self.args.num_train_epochs
        defence.begin(Training(model, tokenizer, train.texts, max_length, epochs))

    def get_train_dataloader(self) -> DataLoader[Any]:
        """Return a loader of batches in an order that depends only on the seed and the epoch."""
        batches = BatchSampler(self._order, self._order.batch_size, drop_last=False)
        return self.loader(self.train_dataset, batches, self.data_collator)

    def training_step(self, model: nn.Module, inputs: dict[str, Any], *_: Any, **__: Any) -> Tensor:
        """Make the backward passes of the defence's losses, as `backward_each`."""
        model.train()
        inputs = self._prepare_inputs(inputs)
        rows, labels = inputs.pop("rows"), inputs.pop("labels")
        batch, moment = TaskBatch(inputs, labels, rows), self.moment(self.state.global_step)
        return self.backward_each(self._defence.losses(model, batch, moment))

    def moment(self, step: int) -> Moment:
        """Return the progress of the training after ``step`` optimiser steps."""
        return Moment(step, self.state.max_steps, step / self._steps_in_epoch)

    def diagnostics(self) -> dict[str, Tensor]:
        """Return the defence's diagnostics."""
        return self._defence.diagnostics

    def begin_epoch(self, epoch: int) -> None:
        """Set the epoch of the order."""
        self._order.epoch = epoch

    def follow(self) -> None:
        """Update the defence."""
        self._defence.follow(self.model, self.moment(self.state.global_step + 1))

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Tensor] | None = None) -> None:
        super()._save(output_dir, state_dict)
        state = {name: value.contiguous() for name, value in self._defence.state().items()}
        if state:
            save_file(state, Path(output_dir or self.args.output_dir) / DEFENCE_FILE)

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:
        super()._load_from_checkpoint(checkpoint_path)
        path = Path(checkpoint_path) / DEFENCE_FILE
        if self._defence.state():
            self._defence.load_state(load_file(path))

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Return the accuracy, or Spearman's correlation, ×100 and the task's loss on the selection part."""
        logits = compute_logits(
            self.model, self.processing_class, self._dev_encoded, precision=self._dev_precision
        )  # fmt: skip
        labels = self._dev.labels
        score = spearman(logits[:, 0], labels) if self._dev.graded else accuracy(logits, labels)
        loss = task_loss(torch.from_numpy(logits), torch.tensor(labels)).item()
        return self.log_evaluation({selection_metric(self._dev): score, "eval_loss": loss})
