"""DiffCSE (Chuang, Dangovski, Luo, Zhang, Chang, Soljačić, Li, Yih, Kim and Glass, NAACL 2022)."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.adversary.equal_texts import Duplicates
from holdfast.adversary.masked_lm import MaskedLM
from holdfast.adversary.token_replacement import check_vocabulary, chosen_and_masked, predicted
from holdfast.backbone import Backbone, Features, token_positions
from holdfast.distributed import mean_over_processes
from holdfast.encoder import unwrap
from holdfast.errors import UserError
from holdfast.length_groups import Padding, cut_to, groups_within, padding_side
from holdfast.objectives.contrastive import full_precision
from holdfast.objectives.contrastive_objective import ContrastiveObjective
from holdfast.objectives.dimensions import Cut
from holdfast.objectives.heads import AnyHeadKind
from holdfast.objectives.option_checks import check_not_negative
from holdfast.objectives.own_idea import attributes_replaced
from holdfast.recomputation import recomputed

_READ = ("input_ids", "attention_mask", "token_type_ids", "position_ids")


class DiffCSE(ContrastiveObjective):
    r"""SimCSE whose vectors must also tell a sentence from an edited one: which of its tokens were replaced.

    A frozen masked language model replaces some tokens of x, which gives x''. A discriminator D, a second encoder,
    reads x'' with z, the projected vector of x, in the place of its first token's embedding, and says for each token
    whether it was replaced:

    .. math::
        L = L_{\mathrm{SimCSE}} + \lambda L_{\mathrm{RTD}}, \qquad
        L_{\mathrm{RTD}} = -\frac{1}{T} \sum_{t} \Big( [x''_t = x_t] \log D(x'', z, t)
            + [x''_t \ne x_t] \log\big(1 - D(x'', z, t)\big) \Big)

    with the T real tokens of both views of all sentences. The gradient of L_RTD reaches the encoder through z alone. D
    starts as a copy of the encoder, is trained with it, and is dropped afterwards.

    Args:
        generator: folder or name of the masked language model; its vocabulary must be the trained model's. By default
            the trained model with its original weights, which must have a masked-LM head.
        masking: probability that a token is chosen, to be replaced by the generator's most probable one.
        weight: λ; 0: SimCSE, without a second encoder.
        head: "tanh", "none" or "bn", the default: V-advCSE's head, which is DiffCSE's.
        as_released: reproduce the other differences of the authors' code; see ``PRESETS["as_released"]``.

    Sources of the defaults, and differences from the release: ``docs/methods/diffcse.md``.

    Inputs:
        A column of sentences, (B,). Returns ``{"contrastive", "difference"}``, without the second if λ is 0.
    """

    TITLE: ClassVar = "DiffCSE"
    OWN_POSITIVES: ClassVar = "their positives are dropout views"
    IDEA: ClassVar = "SimCSE whose vectors help a discriminator to find tokens that a masked LM replaced (RTD)"
    OWN_IDEA: ClassVar = "the replaced tokens to be found"
    HEADS: ClassVar = AnyHeadKind
    CITATION: ClassVar = (
        "Chuang, Dangovski, Luo, Zhang, Chang, Soljačić, Li, Yih, Kim and Glass. DiffCSE: Difference-based Contrastive "
        "Learning for Sentence Embeddings. NAACL 2022."
    )
    PRESETS: ClassVar = {
        "paper": {"duplicates": "keep"},
        "as_released": {"duplicates": "keep", "as_released": True},
    }
    COST: ClassVar = 2.53
    IDEA_SHARE: ClassVar = 0.0088
    FILE_OPTIONS: ClassVar = ("generator",)
    TRAINING: ClassVar = {"learning_rate": 7e-6, "batch_size": 64, "epochs": 2.0}

    special_tokens: Tensor

    def __init__(
        self,
        model: nn.Module,
        *,
        temperature: float = 0.05,
        generator: str | None = None,
        masking: float = 0.3,
        weight: float = 0.005,
        head: AnyHeadKind = "bn",
        duplicates: Duplicates = "mask",
        as_released: bool = False,
    ) -> None:
        super().__init__(model, temperature=temperature, head=head, duplicates=duplicates)
        check_not_negative(weight=weight)
        if not 0.0 < masking < 1.0:
            raise ValueError(f"masking must lie between 0 and 1, got {masking}")
        self.masking, self.weight, self.as_released = masking, weight, as_released
        self.generator: MaskedLM | None = None
        # Not named "model": sentence-transformers' trainer replaces every attribute of that name by its model.
        self.discriminator: nn.Module | None = None
        self.detector: nn.Linear | None = None
        own = self.encoder.model
        special = torch.tensor(sorted(own.tokenizer.all_special_ids))
        self.register_buffer("special_tokens", special, persistent=False)  # it follows from the tokeniser
        if weight:
            self._prepare(own, generator)

    def _prepare(self, own: Any, generator: str | None) -> None:
        backbone: Any = self.encoder.backbone.model
        if self.encoder.prompt is not None:
            raise UserError("the generator would replace tokens of a prompt: choose another --pooling")
        width, dimension = int(backbone.config.hidden_size), self.encoder.dimension
        if dimension > width:
            raise UserError(f"DiffCSE needs vectors no longer than the model's embeddings, {width}, not {dimension}")
        name = generator or str(backbone.name_or_path)
        if not name:
            raise UserError("the model does not know where it was loaded from: name a masked LM by generator=")
        try:
            self.generator = MaskedLM(name)
        except UserError as error:
            raise UserError(str(error).replace("masked_lm=", "generator=")) from error
        check_vocabulary(self.generator, own.tokenizer)
        self.discriminator = copy.deepcopy(unwrap(self.model)).train()
        self.detector = nn.Linear(width, 2)

    def needs_dropout(self, columns: int) -> bool:
        """Return True: the positives are dropout views."""
        return True

    def helper_models(self) -> Sequence[nn.Module]:
        """Return the generator."""
        return () if self.generator is None else (self.generator.model,)

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Run the passes of both views, of the generator and of the discriminator; return the terms, scalars."""
        sentences, _ = self.columns(sentence_features)
        h = self.encoder.encode(sentences, views=2)
        equal = self.equal_texts(sentences)
        whole: list[Tensor] = []

        def terms(cut: Cut) -> dict[str, Tensor]:
            z = self.head(cut(h), views=1 if self.as_released else 2)  # batches that are normalised
            whole.append(z)  # whole vectors come first
            first, second = z.chunk(2)
            return {"contrastive": self.compute_loss(first, second, equal)}

        found = self.at_each_dimension(terms)
        if self.weight:
            replaced, of_text = self.edited(sentences)
            found["difference"] = self.weight * self.detection_loss(whole[0], sentences, replaced, of_text)
        return found

    def compute_loss(self, z: Tensor, z_positive: Tensor, equal: Tensor | None = None) -> Tensor:
        """Return InfoNCE of projected vectors z and their positives, both (B, d); ``equal`` is from `equal_texts`."""
        return self.in_batch_loss(z, z_positive, equal)

    @torch.no_grad()
    def edited(self, sentences: Features) -> tuple[Tensor, Tensor]:
        """Return the token ids x'' of both views, (2B, L), and which tokens count in the loss, (2B, L)."""
        assert self.generator is not None
        ids: Tensor = sentences["input_ids"].repeat(2, 1)
        real: Tensor = sentences["attention_mask"].repeat(2, 1).bool()
        text = self.encoder.text_mask(sentences).repeat(2, 1).bool()
        generator = self.generator.to(ids.device)
        chosen, hidden = chosen_and_masked(
            ids,
            text & ~torch.isin(ids, self.special_tokens),
            self.masking,
            generator.tokenizer.mask_token_id,
            len(generator.tokenizer),
            self.draw,
        )
        wanted, counted = chosen, real
        if self.as_released:  # at every place but the first; padding counts, as a token that was not replaced
            wanted, counted = torch.ones_like(real), torch.ones_like(real)
            wanted[:, 0] = False
        edited = torch.where(wanted, predicted(generator, hidden, real.long(), wanted), ids)
        edited = torch.where(real, edited, ids)
        self.diagnostics["replaced_tokens"] = (edited != ids).sum() / real.sum()
        return edited, counted

    def draw(self, number: int, shape: tuple[int, ...], device: torch.device) -> Tensor:
        """Draw random numbers U(0, 1) of the given shape: which tokens are hidden, how, and by which."""
        return torch.rand(shape, device=device)

    def detection_loss(self, z: Tensor, sentences: Features, edited: Tensor, counted: Tensor) -> Tensor:
        """Return L_RTD, a scalar: the mean over the counted tokens of all processes.

        Args:
            z: projected vectors of both views, (2B, d), which the discriminator reads in place of the first token.
            sentences: the features of the sentences.
            edited: x'', (2B, L).
            counted: the tokens that count, (2B, L).
        """
        losses = self.token_losses(z, sentences, edited, counted)
        # Over all processes it is the mean over the tokens of the whole batch.
        return (losses * counted).sum() / mean_over_processes(counted.sum().to(losses))

    def token_losses(self, z: Tensor, sentences: Features, edited: Tensor, counted: Tensor) -> Tensor:
        """Return the cross-entropy of each token of both views, (2B, L); the arguments are `detection_loss`'s."""
        changed = edited != sentences["input_ids"].repeat(2, 1)
        features = {name: sentences[name].repeat(2, 1) for name in _READ if name in sentences}
        features |= {"input_ids": edited, "changed": changed.long()}
        rows, losses, answers = [], [], []
        mask, most = features["attention_mask"], self.mini_batch_size
        side = padding_side(mask)
        if side != "right":
            assert self.discriminator is not None
            features |= token_positions(Backbone.of(unwrap(self.discriminator)).model, mask)
        padding: Padding = "mixed" if self.as_released else side  # the release's padding counts
        in_parts = most is not None and len(z) > most
        for group in groups_within(mask, mask, padding, self.encoder.length_groups, most):
            part = cut_to(features, group)
            logits = self._detect(z[group.rows], part, in_parts=in_parts)
            with full_precision(logits):
                loss = F.cross_entropy(logits.flatten(0, 1), part["changed"].flatten(), reduction="none")
            begin, end, _ = group.columns.indices(changed.shape[1])
            around = (begin, changed.shape[1] - end)
            rows.append(group.rows)
            losses.append(F.pad(loss.view(part["changed"].shape), around))
            answers.append(F.pad(logits.detach().argmax(dim=-1), around))
        order = torch.cat(rows).argsort()
        self._diagnose(torch.cat(answers)[order].bool(), changed, counted)
        return torch.cat(losses)[order]

    def _detect(self, z: Tensor, features: dict[str, Tensor], *, in_parts: bool) -> Tensor:
        """Return the logits of "as it was" and "replaced" of each token, (rows, L, 2)."""
        first = features["attention_mask"].int().argmax(dim=1)
        read = {name: value for name, value in features.items() if name in _READ}

        def run() -> Tensor:
            assert self.discriminator is not None
            assert self.detector is not None
            backbone = Backbone.of(unwrap(self.discriminator))
            at = torch.arange(len(first), device=first.device)

            def conditioned(_module: nn.Module, _args: Any, output: Tensor) -> Tensor:
                given = F.pad(z, (0, output.shape[-1] - z.shape[-1]))  # of a model with a truncate_dim
                return output.index_put((at, first), given.to(output.dtype))

            handle = backbone.embedding.register_forward_hook(conditioned)
            try:
                hidden: Tensor = backbone.run(dict(read))["token_embeddings"]
            finally:
                handle.remove()
            with full_precision(hidden):
                logits: Tensor = self.detector(hidden.to(self.detector.weight.dtype))
                return logits

        if in_parts:
            return recomputed(run, contextlib.nullcontext, features["attention_mask"])
        return run()

    def _diagnose(self, answers: Tensor, changed: Tensor, counted: Tensor) -> None:
        """Log the shares of replaced and of other tokens that are found."""
        for name, of_kind in (("replaced_found", changed & counted), ("kept_found", ~changed & counted)):
            right = ((answers == changed) & of_kind).sum()
            self.diagnostics[name] = right / of_kind.sum().clamp_min(1)

    def without_idea(self) -> AbstractContextManager[None]:
        """Return a context in which the loss is SimCSE's."""
        return attributes_replaced(self, weight=0.0)
