"""Measurement of made passages: success on held-out queries, controls, and two detectors."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median
from typing import Any

import numpy as np

from holdfast.adversary.pseudo_perplexity import PseudoPerplexity
from holdfast.attacks.examples import Attempt
from holdfast.attacks.poisoning.hotflip import random_token_texts
from holdfast.attacks.poisoning.mean_similarity import SearchSpace
from holdfast.attacks.poisoning.poison_queries import first_words
from holdfast.attacks.poisoning.poison_recipe import Passage
from holdfast.attacks.poisoning.retrieved_share import (
    DRAWS,
    HEADLINE,
    Ranks,
    headline,
    mean_share,
    ordinary_share,
    ranks_of_each,
    share_within,
    won_queries,
)
from holdfast.edits.words import Words
from holdfast.encoding import Exact
from holdfast.evaluation.hubness import Counts, detector, k_occurrence

SAMPLE = 200
"""Ordinary passages whose perplexity is computed, at most."""


@dataclass(frozen=True)
class Fluency:
    """The pseudo-perplexity of ordinary passages.

    Attributes:
        perplexity: the measure.
        clean: that of a sample of the documents, cut to the length of the passages.
    """

    perplexity: PseudoPerplexity
    clean: Sequence[float]

    @classmethod
    def of(cls, perplexity: PseudoPerplexity, corpus: Sequence[str], words: int, *, seed: int) -> Fluency:
        """Measure a sample of a corpus."""
        drawn = random.Random(f"{seed}/poison/fluency").sample(range(len(corpus)), min(SAMPLE, len(corpus)))
        return cls(perplexity, perplexity.of([first_words(corpus[place], words) for place in sorted(drawn)]))

    def bound(self, percentile: float) -> float:
        """Return a percentile of the clean perplexities."""
        return float(np.percentile(self.clean, percentile, method="lower"))


@dataclass(frozen=True)
class Search:
    """The search of held-out queries in the corpus.

    Attributes:
        space: the encoder.
        corpus: vectors of the documents, (n, d).
        texts: Q held-out queries.
        queries: their vectors, (Q, d).
        documents: the documents, for random texts of a model without a tokeniser.
        seed: random seed of controls, detectors and intervals.
    """

    space: SearchSpace
    corpus: Exact
    texts: Sequence[str]
    queries: Exact
    documents: Sequence[str]
    seed: int

    @property
    def held_out_sha256(self) -> str:
        """The hash of the held-out queries."""
        return hashlib.sha256("\n".join(self.texts).encode()).hexdigest()

    @cached_property
    def clean_occurrence(self) -> Counts:
        """N_k of each document without any passage: the held-out queries that have it in their top 10, (n,)."""
        queries, corpus = self.queries.astype(np.float32), self.corpus.astype(np.float32)
        return k_occurrence(queries, corpus, HEADLINE, self.space.similarity)

    def random_texts(self, like: Sequence[str]) -> list[str]:
        """Return random texts about as long as some passages, `DRAWS` for each: of random tokens, or random words."""
        tokenizer, count = self.space.model.tokenizer, DRAWS * len(like)
        if callable(tokenizer):  # that of word vectors is not
            lengths = [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in like]
            return random_token_texts(tokenizer, count, round(fmean(lengths)), seed=self.seed)
        rng = random.Random(f"{self.seed}/poison/random")
        words = round(fmean(len(Words.of(text).words) for text in like))
        known = sorted({word for text in self.documents for word in Words.of(text).words})
        return [" ".join(rng.choices(known, k=words)) for _ in range(count)]


def measured(passages: Sequence[Passage], search: Search) -> tuple[dict[str, float], Ranks]:
    """Return the metrics of the passages of one recipe, and the rank of the best one for each held-out query.

    Metrics, ×100 with 95 % intervals: ``success@k``, share of the held-out queries with a passage in the top k;
    ``begin@k``, the same of the passages before their first step; ``ordinary@k`` and ``random@k``, of as many documents
    of the corpus and random texts.
    """
    space, queries, corpus, seed = search.space, search.queries, search.corpus, search.seed
    texts = [passage.text for passage in passages]
    vectors = space.documents(texts)
    begins = space.documents([passage.original for passage in passages])
    drawn = space.documents(search.random_texts(texts))
    ranks, begun, *by_draw = ranks_of_each(
        queries, corpus, [vectors, begins, *(drawn[draw::DRAWS] for draw in range(DRAWS))]
    )
    metrics = share_within("success", ranks, seed=seed) | share_within("begin", begun, seed=seed)
    metrics |= ordinary_share(queries, corpus, len(texts), seed=seed)
    metrics |= mean_share("random", by_draw, seed=seed)
    metrics |= headline(metrics)
    metrics |= {
        "attacked": float(len(queries)),
        "passages": float(len(texts)),
        "queries": fmean(passage.encoded for passage in passages),
        "steps": fmean(passage.step for passage in passages),
        "similarity_before": fmean(passage.increases[0] for passage in passages),
        "similarity_after": fmean(passage.similarity for passage in passages),
        "held_out_similarity": float((queries @ vectors.T).max(axis=1).mean()),
        "lost_candidates": 100.0 * sum(p.lost for p in passages) / max(1, sum(p.lost + p.encoded for p in passages)),
    }
    return metrics | _hubs(vectors, search), ranks


def _hubs(vectors: Exact, search: Search) -> dict[str, float]:
    """Return what N_k over the held-out queries detects; the threshold is set before the passages are added."""
    queries, corpus = search.queries.astype(np.float32), search.corpus.astype(np.float32)
    clean, everything = search.clean_occurrence, np.concatenate([corpus, vectors.astype(np.float32)])
    both = k_occurrence(queries, everything, HEADLINE, search.space.similarity)
    found = detector(clean.tolist(), both[len(corpus) :].tolist(), seed=search.seed)
    return {
        **found.metrics("hub"),
        "hub_clean": float(clean.mean()),
        "hub_made": float(both[len(corpus) :].mean()),
    }


def fluency_metrics(texts: Sequence[str], fluency: Fluency, *, seed: int) -> dict[str, float]:
    """Return the median perplexity of passages and of ordinary ones, and what a threshold on it detects."""
    made = fluency.perplexity.of(texts)
    found = detector(fluency.clean, made, seed=seed)
    return {
        **found.metrics("perplexity"),
        "perplexity_clean": median(fluency.clean),
        "perplexity_made": median(made),
    }


def passage_rows(recipe: str, passages: Sequence[Passage], search: Search) -> list[dict[str, Any]]:
    """Return the passages as examples of a result; a passage succeeds if a held-out query has it in the top 10.

    ``before`` and ``after`` hold its mean similarity to its fitted queries; ``other`` is the held-out query that it is
    nearest to.
    """
    won = won_queries(search.queries, search.corpus, search.space.documents([p.text for p in passages]), search.texts)
    rows = []
    for number, (passage, (count, query)) in enumerate(zip(passages, won, strict=True)):
        attempt = Attempt(
            number=number,
            recipe=recipe,
            outcome="succeeded" if count else "failed",
            original=passage.original,
            adversarial=passage.text,
            other=query,
            before={"value": passage.increases[0]},
            after={"value": passage.similarity},
            words=len(Words.of(passage.original).words),
            queries=passage.encoded,
            passes=passage.encoded,
        )
        rows.append({**attempt.row(), "found_by": count, "similarities": list(passage.increases)})
    return rows
