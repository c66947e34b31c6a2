"""Measurements of the demo's encoders: graded pairs, the spread of the sentences, and their noisy copies."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.data.registry import ScoredPairs
from holdfast.demo.demo_sentences import load_pairs
from holdfast.edits.noise import noisy
from holdfast.encoding import Vectors, encode_sentences, normalised
from holdfast.evaluation.sts import score_pairs

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

NOISES = {"typing": 0.2, "typos": 0.2}
"""The kinds of noise of `holdfast.edits.noise`, and the share of words that they change."""
# Pairs whose words are nearly the same but whose meanings differ, or the reverse.
HARD_KINDS = frozenset(
    {"negation", "roles", "antonym", "number", "quantifier", "certainty", "time", "place", "lure", "idiom"}
)


@dataclass(frozen=True)
class Probe:
    """Graded pairs, their sentences, and a noisy copy of each sentence for each kind of noise."""

    pairs: ScoredPairs
    sentences: list[str]
    noisy: dict[str, list[str]]

    @classmethod
    def make(cls, seed: int) -> Probe:
        """Build the probe of the demo's pairs, with noise from a fixed seed: every model gets the same errors."""
        graded = load_pairs()
        first, second = [pair.sentence1 for pair in graded], [pair.sentence2 for pair in graded]
        scores = [pair.score for pair in graded]
        kinds = ["hard" if pair.kind in HARD_KINDS else "ordinary" for pair in graded]
        lines = "\n".join(f"{a}\t{b}\t{score!r}" for a, b, score in zip(first, second, scores, strict=True))
        digest = hashlib.sha256(lines.encode()).hexdigest()
        pairs = ScoredPairs("demo-pairs", "all", first, second, scores, kinds, "holdfast.demo", digest)
        sentences = list(dict.fromkeys([*first, *second]))
        return cls(pairs, sentences, {kind: noisy(sentences, kind, share, seed) for kind, share in NOISES.items()})


def measure(model: SentenceTransformer, probe: Probe) -> list[dict[str, Any]]:
    """Return one row for the graded pairs, one for the spread of the sentences, and one for each kind of noise."""
    texts = [*probe.sentences, *(text for noisy in probe.noisy.values() for text in noisy)]
    clean, *noisy = np.split(encode_sentences(model, texts), len(probe.noisy) + 1)
    place = {sentence: index for index, sentence in enumerate(probe.sentences)}
    first = clean[[place[sentence] for sentence in probe.pairs.sentences1]]
    second = clean[[place[sentence] for sentence in probe.pairs.sentences2]]
    count = len(clean)
    rows = [
        score_pairs(probe.pairs, first, second),
        {"task": "demo-spread", "split": "all", "n": count, "metrics": {"distance": spread(clean)}},
    ]
    for kind, vectors in zip(probe.noisy, noisy, strict=True):
        rows.append({"task": "demo-noise", "split": kind, "n": count, "metrics": noise_metrics(clean, vectors)})
    return rows


def noise_metrics(clean: Vectors, noisy: Vectors) -> dict[str, float]:
    """Return the movement of vectors under noise, and the share of noisy copies that are nearest to their own sentence.

    Args:
        clean: vectors of n sentences, (n, d).
        noisy: vectors of their noisy copies, in the same order, (n, d).

    Returns:
        ``movement``: mean of 1 - cosine to the clean vector, x100; ``found``: share of the copies whose nearest clean
        vector is their own, x100.
    """
    cosines = normalised(noisy) @ normalised(clean).T  # (n copies, n sentences)
    found = cosines.argmax(axis=1) == np.arange(len(clean))
    return {"movement": 100 * float(1 - cosines.diagonal().mean()), "found": 100 * float(found.mean())}


def spread(vectors: Vectors) -> float:
    """Return the mean of 1 - cosine over all pairs of different rows of (n, d), x100: a scale for the movement."""
    unit = normalised(vectors)
    count = len(unit)
    total = float(np.square(unit.sum(axis=0)).sum()) - count  # sum of the cosines of all ordered pairs
    return 100 * (1 - total / (count * (count - 1)))
