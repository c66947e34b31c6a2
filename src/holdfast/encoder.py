"""Sentence vectors with temporary perturbations: encode, perturb, freeze.

An :class:`Encoder` wraps a ``SentenceTransformer`` for objectives and attacks, with every backbone of a known
structure. It gives sentence vectors, the embeddings that enter the first layer, and three context managers
(:meth:`Encoder.perturbed`, :meth:`Encoder.recording`, :meth:`Encoder.attack_mode`) that restore the model in any case.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device, truncate_embeddings
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from holdfast.backbone import Backbone, Features, is_bert_shaped, one_token_alone, token_positions
from holdfast.errors import UserError
from holdfast.frozen_parameters import attacking, freeze_unused
from holdfast.layer_perturbations import Affected, Perturbation, Weakener, perturbed_layers, rows_of
from holdfast.length_groups import Group, Padding, cut_to, groups_within, padding_side, repeated
from holdfast.models import load_sentence_transformer
from holdfast.prompt import Prompt, freeze_pooling, pools_one_token
from holdfast.prompt_tokens import PROMPT_LENGTH, text_mask
from holdfast.recomputation import Pass, modes_set, module_modes, recomputed
from holdfast.text_prompts import PromptOptions, preprocess_texts

__all__ = ["Encoder", "Recording", "Weakener", "attacking", "freeze_unused", "unwrap"]


@dataclass
class Recording:
    """The input of the first layer in :meth:`Encoder.recording`, (rows, L, d), after dropout, attached to the graph."""

    embeddings: Tensor = field(default_factory=lambda: torch.empty(0))


class Encoder:
    """A ``SentenceTransformer`` as an encoder with temporary perturbations.

    The vectors are those in use: a model with a ``truncate_dim`` is trained on the dimensions that it keeps. Of a
    prompt model (:mod:`holdfast.prompt`) they are the training vectors of PromptBERT: each view has its own template,
    and the vector of the template alone is subtracted. The evaluation always uses the model itself.

    Args:
        model: a ``SentenceTransformer``, or one wrapped by a trainer (DistributedDataParallel and the like), or the
            name of a model to load (a folder, a hub name): a raw masked LM is pooled at [CLS].
        length_groups: number of groups of equal size into which the rows of a batch are split by length, each padded
            only to its own longest row. The result is the same, with less work for padding. Default: 4 on a CPU, 1
            elsewhere.
        first_token_only: compute the last layer only for the pooled token, if one token is pooled (the first, or a
            prompt's [MASK]) and the layer is BERT-shaped. The result is the same up to rounding.
        template_bias: subtract the vector of the template alone from a prompt model's vectors.
        prompts: the choice of a prompt before every text, for a model that is given by its name.
        mini_batch_size: number of rows in a pass at most. A larger batch is encoded in several passes whose activations
            are not kept: they are computed again, with the same dropout masks and perturbations, when the gradient
            arrives (GradCache; :mod:`holdfast.recomputation`). None: all rows, whose activations are kept.
    """

    def __init__(
        self,
        model: nn.Module | str | Path,
        *,
        length_groups: int | None = None,
        first_token_only: bool = True,
        template_bias: bool = True,
        prompts: PromptOptions | None = None,
        mini_batch_size: int | None = None,
    ) -> None:
        if isinstance(model, (str, Path)):
            model = load_sentence_transformer(str(model), prompts=prompts)
        self._wrapped = model
        self.model = unwrap(self._wrapped)
        self.backbone = Backbone.of(self.model)
        on_cpu = self.model.device.type == "cpu"
        self._length_groups = length_groups if length_groups is not None else (4 if on_cpu else 1)
        self.prompt = Prompt.of(self.model)
        freeze_pooling(self.model)
        self._template_bias = template_bias
        last = self.backbone.layers[-1] if len(self.backbone.layers) else None
        shortens = last is not None and pools_one_token(self.model) and is_bert_shaped(last)
        self._first_token_only = first_token_only and shortens
        self._pooled_at: Tensor | None = None
        self._attacking = False
        self._template_alone = False
        self._group: Group | None = None
        self._prompted = False
        self._given_embeddings: Tensor | None = None
        self._recording: Recording | None = None
        self._padding: tuple[Tensor, Padding] | None = None
        self._mini_batch_size = mini_batch_size
        self._perturbations: list[Perturbation] = []
        self._muted: tuple[Perturbation, ...] = ()

    @property
    def dimension(self) -> int:
        """The dimension d of a sentence vector, after ``truncate_dim``."""
        dimension = self.model.get_embedding_dimension()
        assert dimension is not None
        return int(dimension)

    @property
    def length_groups(self) -> int:
        """The number of groups by length into which the rows of a batch are split."""
        return self._length_groups

    def tokenise(self, sentences: Sequence[str]) -> Features:
        """Return features of B sentences for :meth:`encode`, on the model's device, with the chosen prompt."""
        return dict(batch_to_device(preprocess_texts(self.model, sentences), self.model.device))

    def text_mask(self, features: Features) -> Tensor:
        """Return the mask (B, L) of the tokens that may be perturbed: all real ones, without those of a prompt."""
        return text_mask(self.model, features)

    def encode(self, features: Features, *, views: int = 1) -> Tensor:
        """Return sentence vectors, (views·B, d): all rows in their first view, then all in their second, and so on.

        In training mode each view draws its own dropout masks. A prompt model uses its templates in turn; a single view
        has the first one.

        Args:
            features: as returned by :meth:`tokenise` for B sentences: ``input_ids`` (B, L), ``attention_mask`` …
            views: number of encodings of each sentence.

        Raises:
            ValueError: the rows of a prompt model were not tokenised with its template.
            UserError: a prompt model was given embeddings in place of token ids.
        """
        padding = self._padding_of(features["attention_mask"])
        self._prompted = PROMPT_LENGTH in features
        text = self.text_mask(features).repeat(views, 1)  # of the first view: the others' templates are as long
        features = self._in_views(features, views)
        mask: Tensor = features["attention_mask"]
        in_parts = self._mini_batch_size is not None and len(mask) > self._mini_batch_size
        groups = groups_within(mask, text, padding, self._length_groups, self._mini_batch_size)
        shortened = padding == "right"
        with self._embedded_once(features, groups) as embeddings, self._shortened_last_layer(enabled=shortened):
            if in_parts:
                now = tuple(self._perturbations)
                kept = Pass(embeddings, now, module_modes(self.model), self._prompted, shortened)
                parts = [self._recomputed(cut_to(features, group), group, kept) for group in groups]
            else:
                parts = [self._vectors(cut_to(features, group), group) for group in groups]
        order = torch.cat([group.rows for group in groups])
        vectors = torch.cat(parts)[order.argsort()]
        if self.prompt is not None and self._template_bias:
            vectors = vectors - self._biases(mask, views)
        used: Tensor = truncate_embeddings(vectors, self.model.truncate_dim)  # which the model's modules do not apply
        return used

    def embed(self, features: Features, *, views: int = 1) -> Tensor:
        """Return the input of the first layer for the rows of all views, (views·B, L, d), after dropout, unperturbed.

        Pass it to ``perturbed(embeddings=...)`` around ``encode(features, views=views)`` to avoid a second computation.
        """
        return self.backbone.embed(self._in_views(features, views))

    @contextlib.contextmanager
    def perturbed(
        self,
        *,
        delta: Tensor | None = None,
        weakening: Sequence[Weakener] | None = None,
        embeddings: Tensor | None = None,
    ) -> Iterator[None]:
        """Perturb the inputs of layers, for every :meth:`encode` inside the context.

        Args:
            delta: (rows, L, d), added to the input of the first layer; padding and prompts are not perturbed.
            weakening: k masks: the first multiplies the input of the first layer (after ``delta``), the i-th the output
                of layer i−1 (L2P-CSR, eq. 5-6). A mask is a tensor that broadcasts to (rows, L, d), or a pair of
                tensors (rows or 1, L or 1, 1) and (rows or 1, 1, d), whose sum is used, with 1 at padding. Both have no
                effect on prompts.
            embeddings: (rows, L, d), replaces the output of the embedding module, for example by a recording in order
                to keep its dropout masks.
        """
        this = Perturbation(delta, weakening)

        def affected() -> Affected | None:
            return None if self._template_alone or this in self._muted else (self._running(), self._prompted)

        before = self._given_embeddings
        with perturbed_layers(self.backbone, this, affected):
            self._perturbations.append(this)
            try:
                self._given_embeddings = before if embeddings is None else embeddings
                yield
            finally:
                self._given_embeddings = before
                self._perturbations.remove(this)

    @contextlib.contextmanager
    def recording(self) -> Iterator[Recording]:
        """Record the input of the first layer of the single :meth:`encode` inside the context."""
        self._recording = Recording()
        try:
            yield self._recording
        finally:
            self._recording = None

    @contextlib.contextmanager
    def attack_mode(self, *, dropout: bool = False) -> Iterator[None]:
        """Apply `attacking` to the model: freeze parameters and turn dropout off, and restore everything afterwards.

        Passes inside the context use the model itself, not a data-parallel wrapper: their gradients with respect to
        perturbations are not shared with other processes.
        """
        with attacking(self.model, dropout=dropout):
            try:
                self._attacking = True
                yield
            finally:
                self._attacking = False

    def _padding_of(self, mask: Tensor) -> Padding:
        """Return where the rows of ``mask`` (B, L) are padded; cached, to wait for a GPU once per batch."""
        if self._padding is not None and self._padding[0] is mask:
            return self._padding[1]
        self._padding = mask, padding_side(mask)
        return self._padding[1]

    def _in_views(self, features: Features, views: int) -> dict[str, Any]:
        """Return the rows of all views; in a prompt model each view has its own template.

        Rows that begin with padding get their positions: those of the tokens, so that padding changes nothing.
        """
        padding = self._padding_of(features["attention_mask"])
        features = repeated(features, views)
        if self.prompt is not None:
            if "input_ids" not in features:
                raise UserError("a prompt model finds its [MASK] by token id and cannot be given embeddings instead")
            features["input_ids"] = self.prompt.in_views(features["input_ids"], views)
        elif "position_ids" not in features and padding != "right":
            features |= token_positions(self.backbone.model, features["attention_mask"])
        return features

    def _biases(self, mask: Tensor, views: int) -> Tensor:
        """Return the vectors of a prompt's templates alone, (views·B, d), for the rows with ``mask`` (views·B, L).

        The input is the template without a sentence, with the positions after the gap shifted by the sentence's length:
        once per view and per length in the batch, in one pass, with gradient and never perturbed. With relative
        positions (DeBERTa) the vector is the same for all lengths.
        """
        assert self.prompt is not None
        row_lengths = mask.sum(dim=1) - self.prompt.length
        lengths, row_length = row_lengths.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        templates: dict[str, Any] = self.prompt.alone(lengths, views, self.backbone.first_position())
        if not self.backbone.takes_positions():
            del templates["position_ids"]
        try:
            self._template_alone = True
            with self._shortened_last_layer(enabled=True):
                biases = self._forward(templates)["sentence_embedding"]
        finally:
            self._template_alone = False
        biases = biases.view(-1, len(lengths), biases.shape[-1])  # (views or fewer, lengths, d)
        row_view = torch.arange(len(mask), device=mask.device) // (len(mask) // views) % len(biases)
        vectors: Tensor = biases[row_view, row_length]
        return vectors

    def _vectors(self, features: dict[str, Any], group: Group) -> Tensor:
        """Return the vectors of a group, (rows, d), from its part of the features."""
        before, self._group = self._group, group
        try:
            vectors: Tensor = self._forward(features)["sentence_embedding"]
        finally:
            self._group = before
        return vectors

    def _recomputed(self, features: dict[str, Any], group: Group, kept: Pass) -> Tensor:
        """Return the vectors of a group, (rows, d), without its activations: a backward pass computes them again."""
        return recomputed(lambda: self._vectors(features, group), lambda: self._as_at(kept), features["attention_mask"])

    @contextlib.contextmanager
    def _as_at(self, kept: Pass) -> Iterator[None]:
        """Restore modes and perturbations of an earlier pass; those that are active now have no effect inside.

        Passes inside use the model itself: a data-parallel wrapper must not see a forward pass within a backward pass.
        """
        before = self._muted, self._prompted, self._attacking
        self._muted = (*self._muted, *self._perturbations)
        self._prompted, self._attacking = kept.prompted, True
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(modes_set(self.model, kept.modes))
                for each in kept.perturbations:
                    stack.enter_context(self.perturbed(delta=each.delta, weakening=each.weakening))
                if kept.embeddings is not None:
                    stack.enter_context(self._embedded_as(kept.embeddings))
                stack.enter_context(self._shortened_last_layer(enabled=kept.shortened))
                yield
        finally:
            self._muted, self._prompted, self._attacking = before

    def _forward(self, features: dict[str, Any]) -> dict[str, Any]:
        if self.prompt is not None:
            self._pooled_at = self.prompt.mask_positions(features["attention_mask"].sum(dim=1))
        bypass = self._attacking and isinstance(self._wrapped, DistributedDataParallel)
        result: dict[str, Any] = (self.model if bypass else self._wrapped)(features)
        return result

    def _running(self) -> Group:
        """Return the group whose pass is running."""
        assert self._group is not None
        return self._group

    @contextlib.contextmanager
    def _embedded_once(self, features: Features, groups: Sequence[Group]) -> Iterator[Tensor | None]:
        """Embed all rows in one pass: each pass through the embedding has a gradient of the vocabulary's size.

        Yield the embeddings (rows, L, d), or None if the only group embeds its rows itself.
        """
        if len(groups) == 1 and self._given_embeddings is None and self._recording is None:
            yield None
            return
        embeddings = self.backbone.embed(features) if self._given_embeddings is None else self._given_embeddings
        if self._recording is not None:
            self._recording.embeddings = embeddings
        with self._embedded_as(embeddings):
            yield embeddings

    @contextlib.contextmanager
    def _embedded_as(self, embeddings: Tensor) -> Iterator[None]:
        """Let the embedding module return the running group's rows of ``embeddings`` (rows, L, d)."""
        module: Any = self.backbone.embedding
        module.forward = lambda *_, **__: rows_of(embeddings, self._running())
        try:
            yield
        finally:
            del module.forward

    @contextlib.contextmanager
    def _shortened_last_layer(self, *, enabled: bool) -> Iterator[None]:
        """Let the last layer compute only the pooled token."""
        if not (enabled and self._first_token_only):
            yield
            return
        with one_token_alone(self.backbone.layers[-1], lambda: self._pooled_at):
            yield


def unwrap(model: nn.Module) -> SentenceTransformer:
    """Return the ``SentenceTransformer`` inside a trainer's wrappers."""
    while not isinstance(model, SentenceTransformer):
        inner = getattr(model, "module", None) or getattr(model, "_orig_mod", None)
        if not isinstance(inner, nn.Module):
            raise TypeError(f"expected a SentenceTransformer, got {type(model).__name__}")
        model = inner
    return model
