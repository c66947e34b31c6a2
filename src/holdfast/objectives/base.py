"""What all objectives share: the sentence-transformers loss contract and saved state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from holdfast.adversary.equal_texts import Duplicates, share_a_text, text_hashes
from holdfast.adversary.queue import KeyQueue
from holdfast.backbone import Features
from holdfast.distributed import gather_keys, mean_over_processes
from holdfast.encoder import Encoder
from holdfast.objectives.checks import check_words


class Objective(nn.Module, ABC):
    """A sentence-transformers loss over an :class:`~holdfast.encoder.Encoder`.

    Subclasses implement :meth:`forward`, which returns named terms: the trainer sums them and logs each by name.
    Everything a method keeps besides the encoder (heads, queues, copies) is a registered parameter or buffer, so that
    it is trained, saved and moved with the module.

    Some of that state follows the optimiser instead of being trained by it: a momentum copy, a queue, negatives that
    ascend. :meth:`follow` moves it on, once per optimiser step. Holdfast's trainer calls it after each. Under any other
    trainer nobody does, and each training pass begins with it (:meth:`catch_up`): the same, unless gradients are
    accumulated over several batches. No other pass moves anything (:attr:`is_training_pass`).

    Equal texts in a batch, or in a queue of old keys, are false negatives of one another. :meth:`equal_texts` and
    :meth:`equal_in_queue` find and count them for any method; with ``duplicates="mask"`` they are left out of each
    other's negatives, with "keep" they stay there, as in the papers.

    Attributes:
        model: the ``SentenceTransformer``; a trainer replaces it by its wrapped form.
        duplicates: "mask" or "keep".
        diagnostics: scalars of the last forward pass that are logged and not optimised.
        followed_by_trainer: whether a trainer calls :meth:`follow`.
    """

    TITLE: ClassVar[str]
    """The method's name as its authors write it."""

    IDEA: ClassVar[str]
    """What it does, in one line, with the equations it implements."""

    CITATION: ClassVar[str]
    """The paper."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Named sets of options, by name: what ``preset=...`` stands for."""

    COST: ClassVar[float | None] = None
    """Time of a training step, as a multiple of SimCSE's with the same batch, if measured (benchmarks/RESULTS.md)."""

    TRAINING: ClassVar[Mapping[str, Any]] = {"learning_rate": 3e-5, "batch_size": 64, "epochs": 1.0}
    """The paper's training hyper-parameters that become the trainer's defaults for this method; here SimCSE's."""

    OWN_POSITIVES: ClassVar[str | None] = None
    """What the positives are that the method makes itself; None: a second column of the data may hold them."""

    def __init__(self, model: nn.Module, *, duplicates: Duplicates = "mask") -> None:
        super().__init__()
        check_words(duplicates=(duplicates, Duplicates))
        self.model = model
        self.duplicates = duplicates
        self.diagnostics: dict[str, Tensor] = {}
        self.followed_by_trainer = False

    @property
    def encoder(self) -> Encoder:
        """The encoder over the current (possibly wrapped) model."""
        return Encoder(self.model)

    @property
    def is_training_pass(self) -> bool:
        """Whether a forward pass now is one of training.

        The mode alone does not tell: a stock trainer that evaluates sets that of the model and not of its loss.
        """
        return self.training and torch.is_grad_enabled()

    @abstractmethod
    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """The named terms of the loss for one batch. ``labels`` is ignored: no method here uses labels."""

    def check_columns(self, columns: int) -> None:
        """Refuse data of a number of columns that the method does not take: sentences, or these and their positives.

        Raises:
            ValueError: it does not.
        """
        if not 1 <= columns <= 2:
            raise ValueError(
                f"{self.TITLE} takes a column of sentences, or sentences and their positives: got {columns}"
            )
        if columns == 2 and self.OWN_POSITIVES is not None:
            raise ValueError(f"{self.TITLE} takes one column, of sentences: {self.OWN_POSITIVES}")

    def columns(self, sentence_features: Iterable[Features]) -> tuple[Features, Features | None]:
        """The features of the sentences, and of their positives where the data has a second column.

        Raises:
            ValueError: as `check_columns`.
        """
        columns = list(sentence_features)
        self.check_columns(len(columns))
        return columns[0], columns[1] if len(columns) == 2 else None

    def equal_texts(self, sentences: Features, positives: Features | None = None) -> Tensor | None:
        """Tell which keys of the joined batch belong to a text equal to the query's, (B, N); its own among them.

        What `info_nce` takes as ``equal``. Two rows are equal if they share a text, be it a sentence or a positive.
        The share of the sentences that have an equal one is logged as ``duplicates``. With several processes all must
        call it together.

        Args:
            sentences: this process's.
            positives: where the data has a second column.

        Returns:
            None with ``duplicates="keep"``.
        """
        texts = _hashes_of(sentences, positives)
        joined, _ = gather_keys(texts)
        equal = share_a_text(texts, joined)
        self.diagnostics["duplicates"] = mean_over_processes((equal.sum(dim=1) > 1).float().mean())
        return equal if self.duplicates == "mask" else None

    def equal_in_queue(
        self, queue: KeyQueue, sentences: Features, positives: Features | None = None
    ) -> tuple[Tensor, Tensor]:
        """Tell which keys of a queue count as negatives of each query, (B, Q).

        Left out are empty slots and, with ``duplicates="mask"``, the keys of texts equal to the query's. The share of
        the sentences that have an equal one in the queue is logged as ``duplicates_in_queue``. With several processes
        all must call it together.

        Args:
            queue: of old keys.
            sentences: this process's.
            positives: where the data has a second column.

        Returns:
            What counts; and the hashes of the texts, (B, columns), to push into the queue with their keys.
        """
        texts = _hashes_of(sentences, positives)
        equal = queue.equal_to(texts)
        self.diagnostics["duplicates_in_queue"] = mean_over_processes(equal.any(dim=1).float().mean())
        return (queue.valid & ~equal if self.duplicates == "mask" else queue.valid.expand_as(equal)), texts

    def follow(self) -> None:
        """Move on the state that follows the optimiser: called once after each of its steps."""

    def catch_up(self) -> None:
        """What a stateful method's training pass begins with: :meth:`follow`, unless a trainer calls that."""
        if self.is_training_pass and not self.followed_by_trainer:
            self.follow()

    def own_state(self) -> dict[str, Tensor]:
        """The state that belongs to the objective and not to the encoder: what a checkpoint must add."""
        return {name: value for name, value in self.state_dict().items() if not name.startswith("model.")}

    def load_own_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`own_state` returned.

        Raises:
            ValueError: the state is of another objective.
        """
        if set(state) != set(self.own_state()):
            raise ValueError(f"state holds {sorted(state)}, this objective has {sorted(self.own_state())}")
        self.load_state_dict(dict(state), strict=False)

    def own_parameters(self) -> list[nn.Parameter]:
        """The trainable parameters that belong to the objective and not to the encoder."""
        return [p for name, p in self.named_parameters() if not name.startswith("model.") and p.requires_grad]


def _hashes_of(sentences: Features, positives: Features | None) -> Tensor:
    return text_hashes(sentences) if positives is None else text_hashes(sentences, positives)
