"""ADCL (Meng, Dong, Sachan and Wattenhofer, Findings of NAACL 2022)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from holdfast.adversary.candidate_words import Source, candidate_words, synonyms_option, with_synonyms
from holdfast.adversary.equal_texts import Duplicates
from holdfast.adversary.geometry import Attacked, GeometryAttack
from holdfast.adversary.gradient_encoder import GradientEncoder, recovered_texts, with_texts
from holdfast.adversary.key_queue import KeyQueue
from holdfast.adversary.loss_rise import loss_rise
from holdfast.adversary.masked_lm import MaskedLM
from holdfast.adversary.momentum import MomentumEncoder
from holdfast.backbone import Features
from holdfast.devices import random_numbers_kept, random_states, set_random_states
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.models import evaluating
from holdfast.objectives.adcl_projection import Projection, ProjectionKind, mean_cosine
from holdfast.objectives.contrastive import info_nce
from holdfast.objectives.objective import Objective
from holdfast.objectives.option_checks import check_positive, check_words
from holdfast.objectives.own_idea import attributes_replaced

Positives = Literal["geometry", "dropout", "given"]
Roles = Literal["paper", "swapped"]


class ADCL(Objective):
    r"""Momentum contrast; the positive is the sentence with words replaced so that the loss rises most.

    A query encoder f_q with projection g_q is trained; momentum copies f_k, g_k compute the keys, and a queue holds the
    last Q of them (§3.2). With :math:`z_i = g_q(f_q(x_i))` and :math:`z_i' = g_k(f_k(x_i'))` (eq. 1)

    .. math::
        \ell_i = -\log \frac{e^{z_i \cdot z_i'/\tau}}{e^{z_i \cdot z_i'/\tau} + \sum_{k \in \text{queue}}
        e^{z_i \cdot z_k/\tau}}, \qquad \theta_k \leftarrow m\,\theta_k + (1-m)\,\theta_q

    where z are scaled to unit length unless ``normalize`` is false. The queue holds only earlier batches, so that the
    positive counts exactly once; the keys of the batch are enqueued after the optimiser's step, as in MoCo. The paper
    differs (§3.2): it compares by inner products, and enqueues the batch's keys before the
    loss, so that the other examples of the batch are negatives too. x' is computed during training by the Geometry
    Attack (§3.3, Algorithm 1; :class:`~holdfast.adversary.geometry.GeometryAttack`), which moves z_i away from the key
    of x_i itself, with dropout off and all weights frozen. While the queue is empty the loss is constant, and x' = x.

    Args:
        positives: "geometry" (x' from the attack), "given" (x' is the data's second column: precomputed adversarial
            sentences, or back-translations for BTCL) or "dropout" (x' = x, with other dropout masks).
        roles: "paper": x is the query and x' the key; "swapped": x' is the query, with gradient, and x the key.
        queue_size: Q, the number of keys; before so many were enqueued, all that were.
        momentum: m in [0, 1].
        momentum_warm_up: start from a small momentum: update k uses min(m, (1 + k) / (10 + k)). In short runs it
            makes the encoder worse (``docs/methods/adcl.md``).
        temperature: τ.
        normalize: scale z to unit length: cosines, instead of the paper's inner products.
        projection: g: "linear" for Linear(d, c), Tanh, as in the release; "mlp" for the paper's Linear(d, d), Sigmoid,
            Linear(d, c), Tanh, whose z are nearly parallel at the start.
        projection_size: c.
        iterations: N, iterations of the attack (15 for IMDB in the paper).
        max_share: at most min(N, max_share · words) words are replaced; if this is below 1, there is no attack.
        candidates: T, maximum number of candidates to try for a word.
        min_similarity: ε, minimum cosine of the word vectors of candidate and original; −1 for no filter.
        source: "neighbours": the candidates are the synonyms of the word, and a word without any uses up no iteration;
            "masked-lm": words that a masked language model proposes and that are near the original; "auto": as the
            recipe ``geometry``, the synonyms if word_vectors holds lists, and the masked LM's words if it holds
            vectors, or if there are no synonyms.
        masked_lm: folder or hub name of the masked language model; by default the trained model with its original
            weights, which must have a masked-LM head. Not used with synonyms.
        word_vectors: file of synonyms: word vectors (text, .npz), or neighbour lists (.tsv, .tsv.gz, without cosines,
            so min_similarity does not apply); "neighbours": the lists of the data folder. By default these lists, if
            they are there; otherwise, and with source="masked-lm", the input embeddings of the masked LM.
        duplicates: "mask": keys of equal texts in the queue are not used as negatives; "keep": they are, as in the
            paper.
        as_released: reproduce the other differences of the authors' code; see ``PRESETS["as_released"]``.

    Sources of the defaults, and differences from the release: ``docs/methods/adcl.md``.

    Inputs:
        A column of sentences, (B,), and for positives="given" a second one. Returns ``{"contrastive"}``.
    """

    TITLE: ClassVar = "ADCL"
    IDEA: ClassVar = "momentum contrast; the positive is the sentence with words exchanged to raise the loss (eq. 1)"
    OWN_IDEA: ClassVar = "words replaced in the positive"
    IDEA_SHARE: ClassVar = 0.94
    CITATION: ClassVar = (
        "Meng, Dong, Sachan and Wattenhofer. Self-Supervised Contrastive Learning with Adversarial Perturbations for "
        "Defending Word Substitution-based Attacks. Findings of NAACL 2022."
    )
    PRESETS: ClassVar = {
        # Else the defaults are the paper's wherever it gives a value.
        "paper": {
            "source": "masked-lm",
            "projection": "mlp",
            "normalize": False,
            "duplicates": "keep",
        },
        "as_released": {
            "roles": "swapped",
            "queue_size": 65536,
            "projection": "linear",
            "normalize": False,
            "source": "masked-lm",
            "candidates": 26,
            "min_similarity": -1.0,
            "duplicates": "keep",
            "as_released": True,
        },
    }
    FILE_OPTIONS: ClassVar = ("masked_lm", "word_vectors")
    COST: ClassVar = 4.1
    TRAINING: ClassVar = {"learning_rate": 2e-5, "batch_size": 64, "epochs": 1.0}

    def __init__(
        self,
        model: nn.Module,
        *,
        positives: Positives = "geometry",
        roles: Roles = "paper",
        queue_size: int = 32768,
        momentum: float = 0.999,
        momentum_warm_up: bool = False,
        temperature: float = 0.07,
        normalize: bool = True,
        projection: ProjectionKind = "linear",
        projection_size: int = 128,
        iterations: int = 10,
        max_share: float = 0.2,
        candidates: int = 25,
        min_similarity: float = 0.5,
        source: Source = "auto",
        masked_lm: str | None = None,
        word_vectors: str | None = None,
        duplicates: Duplicates = "mask",
        as_released: bool = False,
    ) -> None:
        super().__init__(model, duplicates=duplicates)
        check_words(positives=(positives, Positives), roles=(roles, Roles), source=(source, Source))
        check_positive(temperature=temperature)
        self.positives, self.roles, self.as_released = positives, roles, as_released
        self.temperature, self.normalize = temperature, normalize
        self.head = Projection(self.encoder.dimension, projection_size, projection)
        self.follower = MomentumEncoder(model, self.head, momentum=momentum, warm_up=momentum_warm_up)
        columns = 2 if positives == "given" else 1
        self.queue = KeyQueue(queue_size, projection_size, columns=columns, random_start=as_released)
        self._pending: list[tuple[Tensor, Tensor]] = []
        self.attack: GeometryAttack | None = None
        self._masked_lm: MaskedLM | None = None
        if positives == "geometry":
            if self.encoder.prompt is not None:
                raise UserError(
                    "the attack cannot separate a prompt from its sentence: train a model without prompt pooling"
                )
            found = candidate_words(
                source,
                word_vectors,
                lambda: _masked_lm(self.encoder, masked_lm),
                minimum_cosine=min_similarity,
                limit=candidates,
            )
            self._masked_lm = found.masked_lm
            self.notices += [found.notice] if found.notice else []
            self.attack = GeometryAttack(
                found.proposer,
                iterations,
                max_share,
                "sum-l1" if as_released else "mean-l2",
                skip_freely=found.masked_lm is None,
            )

    @classmethod
    def completed_options(cls, options: Mapping[str, Any], data: Path | None) -> dict[str, Any]:
        """Return the options with the file of the attack's synonyms written out."""
        return with_synonyms(options, data) if _attacks(options) else dict(options)

    @classmethod
    def candidates_option(cls, options: Mapping[str, Any]) -> str | None:
        """Return the option of the synonyms, unless there is no attack, or its candidates are known."""
        return synonyms_option(options) if _attacks(options) else None

    def check_columns(self, columns: int) -> None:
        """Check the number of columns: two with positives=given, otherwise one."""
        super().check_columns(columns)
        if columns == 1 and self.positives == "given":
            raise ValueError("ADCL takes two columns with positives=given: sentences and their positives")
        if columns == 2 and self.positives != "given":
            raise ValueError(f"ADCL takes one column, of sentences, with positives={self.positives}")

    def needs_dropout(self, columns: int) -> bool:
        """Return True with positives=dropout."""
        return self.positives == "dropout"

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Run the attack, one pass of f_q and one of f_k; return ``{"contrastive": scalar}``."""
        self.catch_up()
        sentences, given = self.columns(sentence_features)
        encoder = self.encoder
        self.equal_texts(sentences, given)  # only for the diagnostic: the other keys of the batch are not negatives
        counts, texts = self.equal_in_queue(self.queue, sentences, given)
        with self._modes(encoder):
            queries, keys = self._queries_and_keys(encoder, sentences, given, counts)
            h = encoder.encode(queries)
        if self.is_training_pass:
            self._pending.append((keys, texts))
        self.diagnostics["queue_filled"] = self.queue.share
        with torch.no_grad():
            self.diagnostics["vector_cosine"] = mean_cosine(self.head(h))
        # The keys are whole, like those in the queue: a shortened query learns to find the key of its whole vector.
        return self.at_each_dimension(lambda cut: {"contrastive": self.compute_loss(self.head(cut(h)), keys, counts)})

    def compute_loss(self, z: Tensor, keys: Tensor, counts: Tensor | None = None) -> Tensor:
        """Compute eq. 1 for queries z and their own keys, both (B, c), with the current queue as negatives.

        ``counts``, (B, n), is true for the queued keys that are negatives of a query (`equal_in_queue`); None: all.
        """
        return info_nce(
            z,
            [keys],
            temperature=self.temperature,
            extra_negatives=self.queue.vectors(),
            extra_mask=counts,
            in_batch_negatives=False,
            similarity="cosine" if self.normalize else "dot",
        )

    def helper_models(self) -> Sequence[nn.Module]:
        """Return the masked language model that proposes candidates, if there is one."""
        return () if self._masked_lm is None else (self._masked_lm.model,)

    def follow(self) -> None:
        """Make the momentum step, and enqueue the keys of the batches since the last one."""
        if not self._pending:
            return
        self.follower.update(self.model, self.head)
        for keys, texts in self._pending:
            self.queue.push(keys, texts)
        self._pending.clear()

    def hard_positives(
        self, encoder: Encoder, sentences: Features, keys: Tensor, counts: Tensor | None = None
    ) -> Features:
        """Return the sentences with words replaced so that the loss against their own keys (B, c) rises.

        The texts are decoded from the token ids. A row whose text would not give the same ids again (an unknown token,
        a truncated word) is not attacked; the share of such rows is the diagnostic ``unattacked``.
        """
        recovered = recovered_texts(encoder.model, sentences)
        rows = [row for row, text in enumerate(recovered) if text is not None]
        known = [text for text in recovered if text is not None]
        attacked = self.attack_texts(encoder, known, keys[rows], None if counts is None else counts[rows])
        changed = {rows[i]: text for i, text in enumerate(attacked.texts) if attacked.replaced[i]}
        seconds = sum(attacked.cost.seconds.values())
        self.diagnostics |= {
            "unattacked": torch.tensor(1 - len(rows) / len(recovered)),
            "replaced_words": torch.tensor(sum(attacked.replaced) / len(recovered)),
            "attack_seconds": torch.tensor(seconds / len(recovered)),
            **loss_rise(attacked.loss_before, attacked.loss_after),
        }
        return with_texts(encoder.model, sentences, changed)

    def attack_texts(
        self, encoder: Encoder, texts: Sequence[str], keys: Tensor, counts: Tensor | None = None
    ) -> Attacked:
        """Run the Geometry Attack on texts with keys (len(texts), c); model and random state are left unchanged.

        ``counts`` is (len(texts), n), as for `compute_loss`.
        """
        assert self.attack is not None

        def loss(z: Tensor, rows: Sequence[int]) -> Tensor:
            chosen = torch.tensor(list(rows), device=keys.device)
            return self.compute_loss(z, keys[chosen], None if counts is None else counts[chosen])

        def before_tanh(z: Tensor, slope: Tensor) -> Tensor:
            return slope * (1.0 - z.square())

        if self._masked_lm is not None:
            self._masked_lm.to(encoder.model.device)
        model = GradientEncoder(encoder, self.head, loss, steer=before_tanh if self.as_released else None)
        with encoder.attack_mode():
            return self.attack.run(texts, model)

    def _queries_and_keys(
        self, encoder: Encoder, sentences: Features, given: Features | None, counts: Tensor
    ) -> tuple[Features, Tensor]:
        """Return the input of f_q, and the positive keys."""
        if self.positives == "geometry" and self.roles == "swapped":
            keys = self.follower.keys(sentences)
            return self.hard_positives(encoder, sentences, keys, counts), keys
        other = sentences if given is None else given
        if self.positives == "geometry":
            with evaluating(self.follower):
                clean = self.follower.keys(sentences)
            other = self.hard_positives(encoder, sentences, clean, counts)
        queries, keyed = (sentences, other) if self.roles == "paper" else (other, sentences)
        return queries, self.follower.keys(keyed)

    @contextlib.contextmanager
    def _modes(self, encoder: Encoder) -> Iterator[None]:
        """Turn dropout off everywhere inside the block with ``as_released``."""
        with contextlib.ExitStack() as stack:
            if self.as_released:
                stack.enter_context(evaluating(encoder.model))
                stack.enter_context(evaluating(self.follower))
            yield

    @contextlib.contextmanager
    def without_idea(self) -> Iterator[None]:
        """Compute the loss of x' = x inside the block."""
        with_idea = self._queries_and_keys

        def unchanged(encoder: Encoder, sentences: Features, *given: Any) -> tuple[Features, Tensor]:
            states = random_states(encoder.model.device)
            with_idea(encoder, sentences, *given)  # so that the query's pass has the same dropout
            with random_numbers_kept(encoder.model.device):
                set_random_states(encoder.model.device, states)
                return sentences, self.follower.keys(sentences)

        with attributes_replaced(self, _queries_and_keys=unchanged):
            yield


def _attacks(options: Mapping[str, Any]) -> bool:
    return bool(options.get("positives", "geometry") == "geometry")


def _masked_lm(encoder: Encoder, name: str | None) -> MaskedLM:
    """Load the masked LM of that name, by default that of the model to train."""
    backbone: Any = encoder.backbone.model
    name = name or str(backbone.name_or_path)
    if not name:
        raise UserError("the model does not know where it was loaded from: name a masked language model by masked_lm=")
    return MaskedLM(name)
