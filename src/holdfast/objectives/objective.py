"""The base class of objectives: interface of sentence-transformers losses, saved state, duplicates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from holdfast.adapters import has_adapters, is_adapter_weight
from holdfast.adversary.equal_texts import Duplicates, share_a_text, text_hashes
from holdfast.adversary.key_queue import KeyQueue
from holdfast.adversary.momentum import MomentumEncoder
from holdfast.adversary.training_attack_options import TrainingAttackOptions
from holdfast.backbone import Features
from holdfast.distributed import gather_keys, mean_over_processes
from holdfast.encoder import Encoder
from holdfast.objectives.dimensions import Cut, Terms, fitted_dimensions, joined_terms, whole
from holdfast.objectives.option_checks import check_words
from holdfast.precision import ResolvedPrecision


class Objective(TrainingAttackOptions, nn.Module, ABC):
    """A sentence-transformers loss over an :class:`~holdfast.encoder.Encoder`.

    Subclasses implement :meth:`forward`, which returns named terms: the trainer sums them and logs each by name.
    All further state of a method (heads, queues, copies) is a registered parameter or buffer, so that it is trained,
    saved and moved with the module.

    Some state is updated after each optimiser step, not trained by the optimiser: a momentum copy, a queue, learned
    negatives. :meth:`follow` updates it. Holdfast's trainer calls it after each step. With other trainers each training
    pass begins with it (:meth:`catch_up`), which is equivalent without gradient accumulation. Passes in evaluation
    update nothing (:attr:`is_training_pass`).

    Equal texts in a batch, or in a queue of old keys, are false negatives of each other. :meth:`equal_texts` and
    :meth:`equal_in_queue` find and count them for any method; with ``duplicates="mask"`` they are not used as negatives
    of each other, with "keep" they are, as in the papers.

    Args:
        model: the ``SentenceTransformer`` to train; a trainer replaces it by its wrapped form.
        duplicates: "mask": equal texts are not used as negatives of each other; "keep": they are, as in the paper.

    Attributes:
        diagnostics: scalars of the last forward pass that are logged and not optimised.
        notices: lines for the user at the begin of a run.
        followed_by_trainer: True if a trainer calls :meth:`follow`.
        length_groups: groups by length into which the encoder splits a batch; None: the encoder's default.
        mini_batch_size: rows per pass of an encoder at most, see `use_mini_batches`; None: all.
        dimensions: weight of the loss by the number of dimensions of the vectors, see `use_dimensions`; empty: whole
            vectors alone.
    """

    TITLE: ClassVar[str]
    """The name of the method, as written by its authors."""

    IDEA: ClassVar[str]
    """Summary of the method in one line, with the equations it implements."""

    CITATION: ClassVar[str]
    """The paper."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Sets of options by name, for ``preset=...``."""

    COST: ClassVar[float | None] = None
    """Time of a training step relative to SimCSE with the same batch, if measured (benchmarks/RESULTS.md)."""

    OWN_IDEA: ClassVar[str | None] = None
    """The part of the method that `without_idea` switches off, in words; None: the method is a baseline."""

    IDEA_SHARE: ClassVar[float | None] = None
    """Share of the encoder's gradient that the idea contributes, if measured (benchmarks/idea_share.py)."""

    TRAINING: ClassVar[Mapping[str, Any]] = {"learning_rate": 3e-5, "batch_size": 64, "epochs": 1.0}
    """The trainer's defaults for this method: hyper-parameters of the paper; here those of SimCSE."""

    OWN_POSITIVES: ClassVar[str | None] = None
    """The positives that the method makes itself, for messages; None: a second column of the data may hold them."""

    FILE_OPTIONS: ClassVar[tuple[str, ...]] = ()
    """Options that name a model or a file: tables of experiments record the hashes of what they name."""

    SYNONYMS_OPTION: ClassVar[str | None] = None
    """Option that names sources of synonyms; tables of experiments look them up in the data folder, and hash them."""

    DROPOUT_OPTION: ClassVar[str | None] = None
    """Option that turns the encoder's dropout on, which is off by default; None: the method trains with it."""

    PAPER_OPTIONS: ClassVar[Mapping[str, Any]] = {"duplicates": "keep"}
    """Options whose defaults are not the papers'. Tables of experiments use these values unless they set others; the
    values are no part of a training's identity there."""

    WANTED_TEXTS: ClassVar[int] = 0
    """Maximum number of training texts for `see_texts`; 0: none are read."""

    def __init__(self, model: nn.Module, *, duplicates: Duplicates = "mask") -> None:
        super().__init__()
        check_words(duplicates=(duplicates, Duplicates))
        self.model = model
        self.duplicates = duplicates
        self.diagnostics: dict[str, Tensor] = {}
        self.notices: list[str] = []
        self.followed_by_trainer = False
        self._has_trained = False
        self.length_groups: int | None = None
        self.mini_batch_size: int | None = None
        self.used_encoder = False
        self.dimensions: dict[int, float] = {}
        self.used_dimensions = False

    @property
    def encoder(self) -> Encoder:
        """The encoder over the current (possibly wrapped) model."""
        self.used_encoder = True
        return self.encoder_of(self.model)

    def encoder_of(self, model: nn.Module) -> Encoder:
        """Return an encoder over a model, such as a copy, with the groups and mini-batches of this objective."""
        if self.length_groups is None:
            return Encoder(model, mini_batch_size=self.mini_batch_size)  # with the encoder's own default
        return Encoder(model, length_groups=self.length_groups, mini_batch_size=self.mini_batch_size)

    def use_mini_batches(self, size: int) -> None:
        """Encode at most ``size`` rows in a pass; the loss is still that of the whole batch, and so is its gradient.

        The activations of a pass are computed again for its gradient (:mod:`holdfast.recomputation`).
        """
        self.mini_batch_size, self.used_encoder = size, False
        for module in self.modules():
            if isinstance(module, MomentumEncoder):
                module.mini_batch_size = size

    @property
    def is_training_pass(self) -> bool:
        """True if a forward pass now belongs to training.

        The mode alone is not enough: in evaluation a stock trainer sets the mode of the model, not of its loss.
        """
        return self.training and torch.is_grad_enabled()

    def use_dimensions(self, weights: Mapping[int, float]) -> None:
        """Compute the loss also from vectors that are shortened to their first dimensions, and normalised again.

        Args:
            weights: relative weight by number of dimensions; that of the whole vector is 1 if it is not given.

        Raises:
            UserError: a number is larger than that of the model's vectors.
        """
        self.dimensions, self.used_dimensions = fitted_dimensions(weights, self.encoder.dimension), False

    def at_each_dimension(self, terms: Terms) -> dict[str, Tensor]:
        """Return the terms that ``terms`` computes from vectors, as a weighted sum over `use_dimensions`' sizes.

        ``terms`` is called with a function, through which it passes the sentence vectors (rows, d) on their way to a
        head or a loss: they are encoded once. The diagnostics are those of whole vectors.
        """
        self.used_dimensions = True
        if not self.dimensions:
            return terms(whole)
        before = self.diagnostics
        whole_vectors: dict[str, Tensor] | None = None

        def counted(cut: Cut) -> dict[str, Tensor]:
            nonlocal whole_vectors
            found = terms(cut)
            if whole_vectors is None:  # the largest size comes first
                whole_vectors = dict(self.diagnostics)
            return found

        total = joined_terms(counted, self.dimensions)
        self.diagnostics = before
        self.diagnostics.update(whole_vectors or {})
        return total

    @abstractmethod
    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Return the named terms of the loss for one batch. ``labels`` (B, d) are a teacher's vectors, for
        methods that accept `use_labels`; others ignore labels."""

    def check_columns(self, columns: int) -> None:
        """Check the number of data columns: sentences, or sentences and their positives.

        Raises:
            ValueError: the method does not support this number of columns.
        """
        if not 1 <= columns <= 2:
            raise ValueError(
                f"{self.TITLE} takes a column of sentences, or sentences and their positives: got {columns}"
            )
        if columns == 2 and self.OWN_POSITIVES is not None:
            raise ValueError(f"{self.TITLE} takes one column, of sentences: {self.OWN_POSITIVES}")

    def needs_dropout(self, columns: int) -> bool:
        """Return True if the two views of a sentence differ by dropout alone, for data of this many columns."""
        return False

    def use_labels(self) -> None:
        """Prepare for a training whose batches bring a teacher's vectors as ``labels`` (B, d).

        Raises:
            ValueError: the method uses no labels.
        """
        raise ValueError(f"{self.TITLE} learns no vectors of a teacher")

    def see_texts(self, texts: Sequence[str], vectors: Tensor | None, *, precision: ResolvedPrecision = "fp32") -> None:
        """Take a sample of the training texts, once before the training, also of a resumed one; here nothing is done.

        Args:
            texts: at most `WANTED_TEXTS` training texts, drawn with the seed of the run.
            vectors: their vectors by the teacher, (len(texts), d), if they were computed for the whole corpus.
            precision: the precision of the training, with which others are computed.
        """

    def columns(self, sentence_features: Iterable[Features]) -> tuple[Features, Features | None]:
        """Return the features of the sentences and, if the data has a second column, of their positives.

        Raises:
            ValueError: as in `check_columns`.
        """
        columns = list(sentence_features)
        self.check_columns(len(columns))
        return columns[0], columns[1] if len(columns) == 2 else None

    def equal_texts(self, sentences: Features, positives: Features | None = None) -> Tensor | None:
        """Return which keys of the joined batch have a text equal to the query's, (B, N); its own key included.

        The result is the argument ``equal`` of `info_nce`. Two rows are equal if they share a text, sentence or
        positive. The share of sentences with a duplicate is logged as ``duplicates``. With several processes all must
        call it together. With ``duplicates="keep"`` the result is None.
        """
        texts = _hashes_of(sentences, positives)
        joined, _ = gather_keys(texts)
        equal = share_a_text(texts, joined)
        self.diagnostics["duplicates"] = mean_over_processes((equal.sum(dim=1) > 1).float().mean())
        return equal if self.duplicates == "mask" else None

    def equal_in_queue(
        self, queue: KeyQueue, sentences: Features, positives: Features | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return which of the n keys in a queue are negatives of each query, (B, n), and the hashes of the texts.

        With ``duplicates="mask"``, keys of texts equal to the query's are excluded. The share of sentences with a
        duplicate in the queue is logged as ``duplicates_in_queue``. With several processes all must call it together.
        The hashes (B, columns) are to be pushed into the queue with their keys.
        """
        texts = _hashes_of(sentences, positives)
        equal = queue.equal_to(texts)
        self.diagnostics["duplicates_in_queue"] = mean_over_processes(equal.any(dim=1).float().mean())
        return (~equal if self.duplicates == "mask" else torch.ones_like(equal)), texts

    def without_idea(self) -> AbstractContextManager[None]:
        """Return a context in which `forward` computes the loss without what the method adds, its `OWN_IDEA`.

        All else is equal: inside, `forward` draws the same random numbers until the last pass with gradient begins, so
        that a batch has the same dropout masks with and without the idea. The difference of both gradients is the
        idea's contribution (:mod:`holdfast.objectives.own_idea`).

        Raises:
            NotImplementedError: the method is a baseline.
        """
        raise NotImplementedError(f"{self.TITLE} has nothing to switch off")

    @property
    def has_idea(self) -> bool:
        """True if the method implements `without_idea`."""
        return type(self).without_idea is not Objective.without_idea

    def follow(self) -> None:
        """Update the state that follows the optimiser; called once after each optimiser step."""

    def catch_up(self) -> None:
        """Call :meth:`follow` at the begin of a training pass, unless the trainer calls it after each step."""
        if not self.is_training_pass or self.followed_by_trainer:
            return
        if self._has_trained:  # before the first pass there was no step to follow
            self.follow()
        self._has_trained = True

    def own_state(self) -> dict[str, Tensor]:
        """Return the state of the objective without that of the encoder, for checkpoints.

        Of the copies of an encoder with adapters only the adapters: the rest follows from the model to start from.
        """
        frozen = self._frozen_in_copies()
        state = self.state_dict().items()
        return {name: value for name, value in state if not name.startswith("model.") and name not in frozen}

    def load_own_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`own_state` returned.

        Raises:
            ValueError: the state belongs to another objective.
        """
        if set(state) != set(self.own_state()):
            raise ValueError(f"state holds {sorted(state)}, this objective has {sorted(self.own_state())}")
        self.load_state_dict(dict(state), strict=False)
        self._has_trained = True

    def _frozen_in_copies(self) -> set[str]:
        """Return the names of the weights under adapters in copies of the encoder, which are never trained."""
        names: set[str] = set()
        for place, module in self.named_modules():
            if place.startswith("model") or not isinstance(module, SentenceTransformer) or not has_adapters(module):
                continue
            names |= {f"{place}.{name}" for name in module.state_dict() if not is_adapter_weight(name)}
        return names

    def helper_models(self) -> Sequence[nn.Module]:
        """Return models that the objective uses and does not hold as its modules, for the plan of its memory."""
        return ()

    def own_parameters(self) -> list[nn.Parameter]:
        """Return the trainable parameters of the objective without those of the encoder."""
        return [p for name, p in self.named_parameters() if not name.startswith("model.") and p.requires_grad]


def _hashes_of(sentences: Features, positives: Features | None) -> Tensor:
    return text_hashes(sentences) if positives is None else text_hashes(sentences, positives)
