"""The variants of `hardening_study.py`: what differs from the default hardening, and the objectives that some need."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from holdfast.adversary.token_batches import padded
from holdfast.backbone import Features
from holdfast.encoder import Encoder
from holdfast.objectives.anchored import Anchored, distances
from holdfast.objectives.contrastive import full_precision
from holdfast.objectives.dimensions import Cut, whole

UNIFORM = "key,swap,drop,space,case"
"""Uniform typing errors, the edits of earlier versions."""


class NearestTexts(Anchored):
    """`Anchored` with relations to the `NEAREST` texts of the bank alone, those that compete in a search."""

    NEAREST = 20

    def divergence(self, vectors: Tensor, anchors: Tensor, cut: Cut = whole) -> Tensor:
        assert self.bank is not None
        with full_precision(vectors):
            vectors, anchors = F.normalize(vectors.float(), dim=1), F.normalize(anchors.float(), dim=1)
            with torch.no_grad():
                similar = anchors @ self.bank.T
                similar = similar.masked_fill(similar > 0.999, -1.0)  # the text itself
                wanted, places = similar.topk(min(self.NEAREST, len(self.bank)), dim=1)
            found = torch.einsum("bd,bnd->bn", vectors, self.bank[places])
            log_p, log_q = (F.log_softmax(each / self.temperature, dim=1) for each in (wanted, found))
            return F.kl_div(log_q, log_p, log_target=True, reduction="batchmean")


class RandomPieces(Anchored):
    """`Anchored` with random segmentations of clean words (subword regularisation) in place of half of the noise."""

    SHARE = 0.4
    """Share of the words that are split, as `Anchored` changes words."""

    def changed(self, encoder: Encoder, sentences: Features, anchors: Tensor) -> tuple[Features, Tensor]:
        features, is_changed = super().changed(encoder, sentences, anchors)
        seed, step = self.draws.tolist()
        clean, noisy = unpadded(sentences), unpadded(features)
        tokenizer, limit = encoder.model.tokenizer, encoder.model.max_seq_length or 512
        vocabulary = tokenizer.get_vocab()
        for row in torch.nonzero(is_changed).flatten().tolist():
            rng = random.Random(f"{seed} {step} {clean[row]} pieces")
            if rng.random() < 0.5:
                tokens = split_words(tokenizer.convert_ids_to_tokens(clean[row]), vocabulary, rng, self.SHARE)
                noisy[row] = tokenizer.convert_tokens_to_ids(tokens) if len(tokens) <= limit else noisy[row]
        rows: dict[str, list[list[int]]] = {"input_ids": noisy, "attention_mask": [[1] * len(ids) for ids in noisy]}
        if "token_type_ids" in features:
            rows["token_type_ids"] = [[0] * len(ids) for ids in noisy]
        return {**features, **padded(tokenizer, rows, range(len(noisy)), anchors.device)}, is_changed


def split_words(
    tokens: Sequence[str], vocabulary: Collection[str], rng: random.Random, share: float, prefix: str = "##"
) -> list[str]:
    """WordPieces with a share of the words in two other pieces: any that the vocabulary has."""
    words: list[list[str]] = []
    for token in tokens:
        if token.startswith(prefix) and words:
            words[-1].append(token)
        else:
            words.append([token])
    made: list[str] = []
    for pieces in words:
        word = "".join(piece.removeprefix(prefix) for piece in pieces)
        splits = [
            [word[:place], prefix + word[place:]]
            for place in range(1, len(word))
            if word[:place] in vocabulary and prefix + word[place:] in vocabulary
        ]
        others = [split for split in splits if split != pieces] if word.isalpha() and rng.random() < share else []
        made += rng.choice(others) if others else pieces
    return made


class AgainstMoves(Anchored):
    """`Anchored` with a term that puts a text's version of another meaning farther from its anchor than the text read.

    The term is softplus((cos(f(move), f₀(x)) − cos(f(y), f₀(x)))/T), for at most `MOST` texts of a batch.
    """

    WEIGHT, TEMPERATURE, MOST = 0.1, 0.05, 16

    def see_moves(self, moves: Mapping[tuple[int, ...], str]) -> None:
        """Take the versions of another meaning by the token ids of their texts."""
        self.moves = moves

    def divergence(self, vectors: Tensor, anchors: Tensor, cut: Cut = whole) -> Tensor:
        self._vectors = vectors  # of the forms that were read
        return super().divergence(vectors, anchors, cut)

    def _one_form(self, encoder: Encoder, sentences: Features, anchors: Tensor) -> dict[str, Tensor]:
        terms = super()._one_form(encoder, sentences, anchors)
        found = [(row, self.moves.get(tuple(ids))) for row, ids in enumerate(unpadded(sentences))]
        moved = [(row, text) for row, text in found if text is not None][: self.MOST]
        if moved:
            rows = torch.tensor([row for row, _ in moved], device=anchors.device)
            vectors = encoder.encode(encoder.tokenise([text for _, text in moved]))
            nearer = distances(self._vectors[rows], anchors[rows]) - distances(vectors, anchors[rows])
            terms["moves"] = self.WEIGHT * F.softplus(nearer / self.TEMPERATURE).mean()
        return terms


def unpadded(features: Features) -> list[list[int]]:
    """The token ids of each row, without padding."""
    rows = zip(features["input_ids"], features["attention_mask"].bool(), strict=True)
    return [ids[mask].tolist() for ids, mask in rows]


@dataclass(frozen=True)
class Variant:
    """A hardening, or a baseline.

    Attributes:
        idea: what differs from the base, with the letter of the idea.
        settings: settings of `holdfast harden` that differ from its defaults.
        objective: the objective.
        steps: share of the steps, so that a dearer variant takes the time of the base; 0: no training.
        layers: number of first layers that are trained, with the embeddings; None: all.
        spelling: the spelling of queries is corrected before they are encoded.
    """

    idea: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    objective: type[Anchored] = Anchored
    steps: float = 1.0
    layers: int | None = None
    spelling: bool = False


def _options(**options: Any) -> dict[str, Any]:
    return {"options": options}


VOCABULARY = {"typo_vocabulary": 30_000}
MIXED = "typing,speech,key,swap,drop,space"

VARIANTS: Mapping[str, Variant] = {
    "original": Variant("the original encoder", steps=0.0),
    "spelling": Variant("the original after spelling correction", steps=0.0, spelling=True),
    "vocabulary": Variant("30,000 misspellings in the vocabulary, not trained", VOCABULARY, steps=0.0),
    "base": Variant("the default: noise, half questions, points and relations"),
    "base+spelling": Variant("the default after spelling correction", spelling=True),
    "base+vocabulary": Variant("misspellings in the vocabulary", VOCABULARY),
    "points": Variant("(a) no relations", _options(relations=0.0)),
    "uniform": Variant("(b) uniform typing errors in place of people's noise", _options(edits=UNIFORM)),
    "mixed": Variant("(b) people's noise or uniform typing errors", _options(edits=MIXED)),
    "questions0": Variant("(c) no questions", {"query_share": 0.0}),
    "questions80": Variant("(c) 80 % questions", {"query_share": 0.8}),
    "relations1": Variant("(d) relations five times as heavy", _options(relations=1.0)),
    "tau01": Variant("(d) temperature 0.01", _options(temperature=0.01)),
    "tau10": Variant("(d) temperature 0.1", _options(temperature=0.1)),
    "nearest": Variant("(d) relations to the 20 nearest texts", objective=NearestTexts),
    "layers2": Variant("(e) embeddings and two layers trained", layers=2),
    "pieces": Variant("(f) random segmentations in place of half of the noise", objective=RandomPieces),
    "clean3": Variant("(g) clean term three times as heavy", _options(clean=3.0)),
    "rate2e-5": Variant("(g) learning rate 2e-5", {"learning_rate": 2e-5}),
    "rate1e-4": Variant("(g) learning rate 1e-4", {"learning_rate": 1e-4}),
    "moves": Variant("(h) texts of another meaning as negatives", objective=AgainstMoves, steps=0.75),
    "tries4": Variant("(i) the farthest of four mixed edits", _options(edits=MIXED, tries=4), steps=0.43),
    "delta": Variant("(i) adversarial term", _options(adversarial=1.0), steps=0.28),
}
"""One change at a time from the base, at about its cost."""
