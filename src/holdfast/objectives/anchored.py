"""Anchored hardening: the encoder learns to give a changed text the original vector of the clean text."""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.adversary.ascent import MixedAscent, gaussian
from holdfast.adversary.balls import Norm, sentence_norm
from holdfast.adversary.gradient_encoder import recovered_texts, with_texts
from holdfast.adversary.loss_rise import loss_rise
from holdfast.backbone import Features
from holdfast.distributed import gather_keys
from holdfast.edits.misspellings import read_misspellings
from holdfast.edits.random_edits import SYNONYM, RandomEdits
from holdfast.edits.synonyms import JoinedSynonyms, read_synonyms
from holdfast.encoder import Encoder, unwrap
from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.files import expanded, paths_in
from holdfast.input_limits import limited_to
from holdfast.models import evaluating
from holdfast.objectives.contrastive import at_least_fp32, full_precision
from holdfast.objectives.dimensions import Cut, whole
from holdfast.objectives.objective import Objective
from holdfast.objectives.option_checks import check_not_negative, check_words
from holdfast.objectives.own_idea import attributes_replaced
from holdfast.precision import ResolvedPrecision
from holdfast.text_prompts import refuse_chat_template

Forms = Literal["one", "both"]

_SAME_TEXT = 0.999
"""Cosine from which a text of the bank is the sentence itself, whose vectors may be of two precisions."""


class Anchored(Objective):
    r"""Keep the vectors and the neighbours of clean sentences, and give them to changed sentences too.

    f₀ is a frozen copy of the encoder as loaded, or a teacher; x̃ is the sentence with noise or other changes in some of
    its words. Half of a batch's sentences are read clean, half changed: y is the form that is read. With
    d(a, b) = 1 − cos(a, b), and p_f(x) = softmax over the texts b of a bank of cos(f(x), f₀(b))/τ,

    .. math::
        L = w_c \sum_{y = x} d\big(f(x), f_0(x)\big)/B + w_n \sum_{y = \tilde x} d\big(f(\tilde x), f_0(x)\big)/B
            + w_r\, \mathrm{KL}\big(p_{f_0}(x) \,\|\, p_f(y)\big)
            + w_a \max_{\|\delta\| \le \epsilon} d\big(f(x + \delta), f_0(x)\big)

    The loss has no negatives, so that the vector space is preserved: an index made with the old encoder can still be
    searched with the new one. The relations weigh what a search sees: which texts are nearer than others.

    Args:
        model: the ``SentenceTransformer`` to harden.
        clean: w_c, weight of the clean term; at 0 only the other terms preserve the vector space.
        noise: w_n, weight of the term of changed texts; 0: no texts are changed.
        relations: w_r, weight of the relations to the bank, in the mean over the batch; 0: none.
        temperature: τ of the relations; the lower, the more the nearest texts count.
        bank: number of training texts in the bank; a text itself is left out of its own relations. Where no texts
            were given (`see_texts`), the batch is the bank.
        adversarial: w_a, weight of the adversarial term; 0: no δ is computed.
        forms: "one": each sentence is read in one form, clean or changed; "both": in both, at twice the cost, and the
            terms of both are means over the batch.
        edits: changes of a word, separated by commas: "key" (a neighbouring key), "swap" and "drop" (letters), "space"
            (inside the word), "case", "look-alike" (a letter of another script), "double" and "drop-any" (a letter,
            also the last), "synonym". Each changed word gets one; with "synonym", half of the words that have a
            synonym get it. Or noise of a whole text: "typing" (errors as people make them), "speech", "ocr", "accents",
            "case.lower" (upper, title, sentence), "whitespace", "full-stop", "typos"; a text gets one, or word changes.
        share: share of a sentence's content words to change, in (0, 1]; at least one word.
        synonyms: source for "synonym", which it adds to the edits: a file of neighbour lists (``.tsv``, ``.tsv.gz``) or
            of word vectors, or a folder of WordNet; several separated by commas.
        misspellings: file of words with their misspellings, of which the noise "typing" draws (see `holdfast audit
            --misspellings`).
        tries: number of changed versions of a sentence to draw; the one farthest from the anchor is used.
        steps: ascent steps of δ.
        radius: ε, in units of one embedding coordinate (a power-mean norm).
        norm: norm of the ball, "1", "2" or "inf", per sentence over its real tokens. A step is ε/2 along the gradient's
            direction in this norm.
        dropout: use the encoder's dropout in training.

    The forms and the changed words are a function of the seed, the optimiser step and the sentence: the same in any
    batch, on any process and after a resume.

    Inputs:
        A column of sentences, (B,). Returns those of ``{"anchor", "noise", "relations", "adversarial"}`` whose
        weight is not 0.
    """

    TITLE: ClassVar = "Anchored"
    SYNONYMS_OPTION: ClassVar = "synonyms"
    FILE_OPTIONS: ClassVar = ("misspellings",)
    DROPOUT_OPTION: ClassVar = "dropout"
    OWN_POSITIVES: ClassVar = "their anchors are the original encoder's vectors"
    IDEA: ClassVar = (
        "changed sentences keep the vectors, and the neighbours, that the original encoder gives the clean ones"
    )
    OWN_IDEA: ClassVar = "changed texts and the adversarial term"
    IDEA_SHARE: ClassVar = 1.0
    CITATION: ClassVar = "holdfast; no paper."
    COST: ClassVar = 0.71
    TRAINING: ClassVar = {"learning_rate": 5e-5, "batch_size": 64, "epochs": 1.0}

    draws: Tensor
    bank: Tensor | None

    def __init__(
        self,
        model: nn.Module,
        *,
        clean: float = 1.0,
        noise: float = 1.0,
        relations: float = 0.2,
        temperature: float = 0.03,
        bank: int = 20_000,
        adversarial: float = 0.0,
        forms: Forms = "one",
        edits: str = "typing",
        share: float = 0.4,
        synonyms: str | None = None,
        misspellings: str | None = None,
        tries: int = 1,
        steps: int = 2,
        radius: float = 5e-3,
        norm: Norm = "2",
        dropout: bool = False,
    ) -> None:
        super().__init__(model)
        check_not_negative(clean=clean, noise=noise, relations=relations, adversarial=adversarial)
        if clean == noise == adversarial == 0.0:
            raise ValueError("one of clean, noise and adversarial must be more than 0")
        if steps < 1 or radius <= 0.0:
            raise ValueError(f"steps must be 1 or more and radius above 0, got {steps} and {radius}")
        if tries < 1:
            raise ValueError(f"tries must be 1 or more, got {tries}")
        if temperature <= 0.0 or bank < 2:
            raise ValueError(f"temperature must be above 0 and bank 2 or more, got {temperature} and {bank}")
        check_words(norm=(norm, Norm), forms=(forms, Forms))
        if noise and self.encoder.prompt is not None:
            # The decoded texts would include the template, and no text could be changed.
            raise UserError("the edits cannot separate a prompt from its sentence: choose another --pooling")
        if noise:
            refuse_chat_template(self.encoder.model, "the noise in training")
        self.tries, self.forms, self.temperature = tries, forms, temperature
        self.clean, self.noise, self.relations = clean, noise, relations
        self.adversarial, self.dropout = adversarial, dropout
        self.WANTED_TEXTS = bank if relations else 0  # type: ignore[misc]  # of this objective, not of the class
        self.random_edits = _random_edits(edits, share, synonyms, misspellings)
        # Steps of ε/2: two steps from the centre reach the edge of the ball.
        self.ascent = MixedAscent(steps, 0, radius / 2, 0.0, 1.0, radius, norm)
        # Not named "model": sentence-transformers' trainer replaces every attribute of that name by its model.
        self.original: nn.Module | None = copy.deepcopy(unwrap(model)).requires_grad_(False).eval()
        # A seed and the number of optimiser steps, which determine the changes of a sentence.
        self.register_buffer("draws", torch.stack([torch.randint(2**31, ()), torch.tensor(0)]))
        self.register_buffer("bank", None, persistent=False)  # (N, d), unit rows; a resumed run computes it again

    def forward(self, sentence_features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """Run one pass of f₀ and one of f per term; return the terms with a positive weight, scalars.

        After `use_labels` the ``labels`` (B, d) are the vectors f₀(x), and no pass of f₀ is made.
        """
        self.catch_up()
        sentences, _ = self.columns(sentence_features)
        anchors = self._anchors(sentences) if self.original is not None else labels
        assert anchors is not None, "after use_labels each batch needs labels"
        encoder = self.encoder
        with contextlib.nullcontext() if self.dropout else evaluating(encoder.model):
            return self._terms(encoder, sentences, anchors)

    def use_labels(self) -> None:
        """Take the vectors of a teacher from the batches: the copy of the encoder is not needed."""
        self.original = None

    def see_texts(self, texts: Sequence[str], vectors: Tensor | None, *, precision: ResolvedPrecision = "fp32") -> None:
        """Take the texts of the bank; without their vectors (N, d) they are encoded by f₀, with ``precision``.

        They are cut like the texts of the batches, whose limit may be set after the copy was made: a text of which the
        bank had more would not be recognised as the text itself.
        """
        if vectors is None:
            assert self.original is not None, "after use_labels the texts come with their vectors"
            model = unwrap(self.original)
            with limited_to(model, unwrap(self.model).max_seq_length):
                vectors = torch.from_numpy(encode_sentences(model, texts, precision=precision))
        self.bank = F.normalize(vectors.to(self.draws.device), dim=1)

    def _anchors(self, sentences: Features) -> Tensor:
        assert self.original is not None
        if self.noise == self.adversarial == 0.0:  # the clean term alone begins, and stays, at its minimum
            raise UserError("anchored: one of noise and adversarial must be more than 0, except in a distillation")
        with torch.no_grad(), evaluating(self.original):
            return self.encoder_of(self.original).encode(sentences)

    def follow(self) -> None:
        """Count the optimiser step, so that the next one draws other changes."""
        self.draws[1] += 1

    def changed(self, encoder: Encoder, sentences: Features, anchors: Tensor) -> tuple[Features, Tensor]:
        """Return the sentences, tokenised, some of them changed, and which are, (B,) of bool.

        With one form it is a coin for each sentence whether it is to be changed; with both forms all are. Of several
        tries the one farthest from the anchor is taken. The texts are decoded from the token ids. A row whose text
        would not give the same ids again (an unknown token, a truncated word) is not changed; the share of unchanged
        rows, of those to be changed, is the diagnostic ``unchanged``.
        """
        texts = recovered_texts(encoder.model, sentences)
        seed, step = self.draws.tolist()
        ids, mask = sentences["input_ids"], sentences["attention_mask"].bool()
        names = [ids[row][mask[row]].tolist() if text is None else text for row, text in enumerate(texts)]
        wanted = [self.forms == "both" or random.Random(f"{seed} {step} {name} form").random() < 0.5 for name in names]
        texts = [text if is_wanted else None for text, is_wanted in zip(texts, wanted, strict=True)]
        versions = [self._draw(texts, f"{seed} {step}", number) for number in range(self.tries)]
        self.diagnostics["unchanged"] = torch.tensor(1 - len(versions[0]) / max(1, sum(wanted)))
        chosen = versions[0]
        if len(versions) > 1:
            features = [with_texts(encoder.model, sentences, version) for version in versions]
            with torch.no_grad():
                moved = torch.stack([distances(encoder.encode(version), anchors) for version in features])
            farthest = moved.argmax(dim=0).tolist()
            chosen = {row: versions[number][row] for row, number in enumerate(farthest) if row in versions[number]}
        is_changed = torch.tensor([row in chosen for row in range(len(texts))], device=anchors.device)
        return with_texts(encoder.model, sentences, chosen), is_changed

    def _draw(self, texts: Sequence[str | None], seed: str, number: int) -> dict[int, str]:
        """Return the new texts of the rows that a draw changes, by row number."""
        suffix = f" {number}" if number else ""
        drawn = {
            row: self.random_edits.of(text, random.Random(f"{seed} {text}{suffix}"))
            for row, text in enumerate(texts)
            if text is not None
        }
        return {row: text for row, text in drawn.items() if text != texts[row]}

    def attack(self, encoder: Encoder, sentences: Features, x: Tensor, anchors: Tensor) -> Tensor:
        """Compute the perturbation δ of embeddings x, both (B, L, d), that moves vectors away from the anchors (B, d).

        Parameters, their gradients, the module's mode and the random state are left unchanged.
        """
        mask: Tensor = encoder.text_mask(sentences)[:, : x.shape[1]].to(x.dtype)

        def loss(delta: Tensor) -> Tensor:
            with encoder.perturbed(embeddings=x, delta=delta):
                return distance(encoder.encode(sentences), anchors)

        with encoder.attack_mode(dropout=self.dropout):
            delta, losses = self.ascent.climb(self.initial_noise(x), mask, loss)
        self.diagnostics["delta_norm"] = sentence_norm(delta, mask, self.ascent.norm).mean()
        if len(losses) > 1:  # the loss at the last δ is not computed: the rise is up to the step before
            self.diagnostics |= loss_rise(losses[0], losses[-1])
        return delta

    def initial_noise(self, x: Tensor) -> Tensor:
        """Draw δ⁰ ~ N(0, (ε/10)²I), (B, L, d), in fp32: at δ = 0 and f = f₀ the gradient of the distance is zero."""
        return gaussian(x, self.ascent.radius / 10)

    def _terms(self, encoder: Encoder, sentences: Features, anchors: Tensor) -> dict[str, Tensor]:
        if self.forms == "one":
            terms, x = self._one_form(encoder, sentences, anchors), None
        else:
            terms, x = self._both_forms(encoder, sentences, anchors)
        if self.adversarial:
            x = encoder.embed(sentences) if x is None else x
            delta = self.attack(encoder, sentences, x.detach(), anchors)
            with encoder.perturbed(embeddings=x, delta=delta):
                vectors = encoder.encode(sentences)
            terms |= self.at_each_dimension(
                lambda cut: {"adversarial": self.adversarial * distance(cut(vectors), cut(anchors))}
            )
        return terms

    def _one_form(self, encoder: Encoder, sentences: Features, anchors: Tensor) -> dict[str, Tensor]:
        """Return the terms of a pass in which each sentence is clean or changed."""
        if not (self.clean or self.noise or self.relations):
            return {}
        is_changed = torch.zeros(len(anchors), dtype=torch.bool, device=anchors.device)
        if self.noise:
            sentences, is_changed = self.changed(encoder, sentences, anchors)
        vectors = encoder.encode(sentences)

        def terms(cut: Cut) -> dict[str, Tensor]:
            apart, found = distances(cut(vectors), cut(anchors)), {}
            if self.clean:
                found["anchor"] = self.clean * (apart * ~is_changed).mean()
            if self.noise:
                found["noise"] = self.noise * (apart * is_changed).mean()
            if self.relations:
                found["relations"] = self.relations * self.divergence(vectors, anchors, cut)
            return found

        return self.at_each_dimension(terms)

    def _both_forms(
        self, encoder: Encoder, sentences: Features, anchors: Tensor
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        """Return the terms of a pass over the clean and one over the changed sentences, and the clean embeddings."""
        clean, changed, x = None, None, None
        if self.clean or self.adversarial:
            with encoder.recording() as recording:
                vectors = encoder.encode(sentences)
            x = recording.embeddings
            clean = vectors if self.clean else None
        if self.noise:
            features, _ = self.changed(encoder, sentences, anchors)
            changed = encoder.encode(features)
        passes = [vectors for vectors in (clean, changed) if vectors is not None]

        def terms(cut: Cut) -> dict[str, Tensor]:
            found = {}
            if clean is not None:
                found["anchor"] = self.clean * distance(cut(clean), cut(anchors))
            if changed is not None:
                found["noise"] = self.noise * distance(cut(changed), cut(anchors))
            if self.relations and passes:
                both = torch.stack([self.divergence(vectors, anchors, cut) for vectors in passes])
                found["relations"] = self.relations * both.mean()
            return found

        return self.at_each_dimension(terms), x

    def divergence(self, vectors: Tensor, anchors: Tensor, cut: Cut = whole) -> Tensor:
        """Return the mean KL divergence, a scalar, of the relations of vectors (B, d) from those of their anchors.

        Shortened vectors are to have the relations of the whole anchors, in a bank shortened like them.
        """
        bank = F.normalize(gather_keys(anchors.detach())[0], dim=1) if self.bank is None else self.bank
        return relations_divergence(cut(vectors), anchors, bank, self.temperature, cut(bank))

    @property
    def has_idea(self) -> bool:
        """True unless the encoder learns the vectors of unchanged texts alone, as in a distillation."""
        return bool(self.noise or self.adversarial)

    def without_idea(self) -> AbstractContextManager[None]:
        """Return a context in which no text is changed and no δ is added: the encoder only keeps its vectors."""
        changed = self.changed

        def unchanged(encoder: Encoder, sentences: Features, anchors: Tensor) -> tuple[Features, Tensor]:
            changed(encoder, sentences, anchors)  # so that dropout is equal
            return sentences, torch.zeros(len(anchors), dtype=torch.bool, device=anchors.device)

        return attributes_replaced(self, changed=unchanged, adversarial=0.0)


def relations_divergence(
    vectors: Tensor, anchors: Tensor, bank: Tensor, temperature: float, searched: Tensor | None = None
) -> Tensor:
    """Return the mean over rows of KL(softmax(cos(anchor, bank)/τ) ‖ softmax(cos(vector, bank)/τ)), a scalar.

    Args:
        vectors: (B, d) vectors that learn.
        anchors: (B, d) vectors to learn from.
        bank: (N, d) unit vectors. Those that (nearly) equal a row's anchor are left out of the row: the text itself.
        temperature: τ.
        searched: (N, d) unit vectors of the same texts, with which the vectors are compared; None: the bank.
    """
    with full_precision(vectors):
        kind = torch.promote_types(vectors.dtype, torch.float32)
        vectors, anchors, bank = vectors.to(kind), anchors.to(kind), bank.to(kind)
        searched = bank if searched is None else searched.to(kind)
        wanted, found = F.normalize(anchors, dim=1) @ bank.T, F.normalize(vectors, dim=1) @ searched.T
        itself = wanted > _SAME_TEXT
        log_p, log_q = (
            F.log_softmax((each / temperature).masked_fill(itself, torch.finfo(kind).min), dim=1)
            for each in (wanted, found)
        )
        terms = (log_p.exp() * (log_p - log_q)).masked_fill(itself, 0.0)
        return terms.sum(dim=1).mean()


def distance(vectors: Tensor, anchors: Tensor) -> Tensor:
    """Return the mean of 1 − cosine over the rows of two matrices (B, d), a scalar."""
    return distances(vectors, anchors).mean()


def distances(vectors: Tensor, anchors: Tensor) -> Tensor:
    """Return 1 − cosine of each pair of rows of two matrices (B, d), (B,)."""
    with full_precision(vectors):
        return 1 - F.cosine_similarity(at_least_fp32(vectors), at_least_fp32(anchors), dim=1)


def _random_edits(edits: str, share: float, synonyms: str | None, misspellings: str | None) -> RandomEdits:
    names: Sequence[str] = [name.strip() for name in edits.split(",") if name.strip()]
    known = None if misspellings is None else read_misspellings(expanded(Path(misspellings)))
    if synonyms is None:
        return RandomEdits(tuple(names), share, misspellings=known)
    sources = [read_synonyms(expanded(path)) for path in paths_in(synonyms)]
    if not sources:
        raise ValueError(f"synonyms names no file or folder: {synonyms!r}")
    joined = sources[0] if len(sources) == 1 else JoinedSynonyms(sources)
    return RandomEdits(tuple(dict.fromkeys((*names, SYNONYM))), share, joined, misspellings=known)
