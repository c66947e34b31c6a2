"""The demo's retrieval: questions, as written and mistyped, that must find their passages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from holdfast.demo.demo_texts import Town
from holdfast.edits.noise import Noise, noisy
from holdfast.encoding import Vectors, encode_sentences
from holdfast.evaluation.dense_search import NearestDocuments
from holdfast.evaluation.retrieval import similarity_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CLEAN = "clean"
NOISES = Noise.parse("typing") + Noise.parse("typing=0.2")
"""Typing errors in as many words as people make them, and in a fifth of the words."""
SEEDS = 8
"""Mistyped copies of each question: more copies make a smaller interval."""
EXAMPLES = 3

Found = Mapping[str, npt.NDArray[np.int64]]
"""By name of the questions, the index of the passage at the first place: (copies, questions)."""


@dataclass(frozen=True)
class RetrievalProbe:
    """Passages, questions, and mistyped copies of the questions.

    Attributes:
        town: the passages and questions.
        asked: by name, the copies of the questions, each a list of n texts.
    """

    town: Town
    asked: dict[str, list[list[str]]]

    @classmethod
    def make(cls, town: Town, seed: int) -> RetrievalProbe:
        """Build the probe, with typing errors from a fixed seed: every model gets the same errors."""
        texts = [question.text for question in town.questions]
        asked = {CLEAN: [texts]}
        for noise in NOISES:
            copies = [noisy(texts, noise.kind, noise.strength, seed * SEEDS + copy) for copy in range(SEEDS)]
            asked[name_of(noise)] = copies
        return cls(town, asked)

    @property
    def gold(self) -> npt.NDArray[np.int64]:
        """The index of each question's passage, (n,)."""
        return np.array([question.passage for question in self.town.questions])

    def index(self, model: SentenceTransformer) -> Vectors:
        """Return the vectors of the passages, (passages, d)."""
        return encode_sentences(model, self.town.passages, role="document")

    def find(self, model: SentenceTransformer, index: Vectors) -> Found:
        """Return the passages that a model's vectors of the questions find first in an index."""
        texts = [text for copies in self.asked.values() for copy in copies for text in copy]
        nearest = NearestDocuments(encode_sentences(model, texts, role="query"), 1, similarity_of(model))
        nearest.add(index)
        places = nearest.positions[:, 0].reshape(-1, len(self.town.questions))
        ends = np.cumsum([len(copies) for copies in self.asked.values()])[:-1]
        return dict(zip(self.asked, np.split(places, ends), strict=True))

    def recall(self, found: Found, name: str) -> npt.NDArray[np.float64]:
        """Return, for each question, the share of its copies that find its passage first: (n,)."""
        shares: npt.NDArray[np.float64] = (found[name] == self.gold).mean(axis=0)
        return shares

    def examples(self, before: Found, after: Found) -> tuple[list[dict[str, Any]], dict[str, int]]:
        """Return texts that broke and hold now, and how many mistyped copies were repaired and broken.

        A text broke if its clean question found its passage with the original encoder and its mistyped copy did not.
        Of each question one text is taken, with fewer typing errors first, at most `EXAMPLES` in all.
        """
        held = before[CLEAN][0] == self.gold
        found: dict[int, dict[str, Any]] = {}
        counts = {"repaired": 0, "broken": 0, "copies": 0}
        for name in list(self.asked)[1:]:
            right, now = before[name] == self.gold, after[name] == self.gold
            counts["repaired"] += int((now & ~right).sum())
            counts["broken"] += int((right & ~now).sum())
            counts["copies"] += right.size
            for copy, number in zip(*np.nonzero(held & ~right & now), strict=True):
                found.setdefault(int(number), self._example(name, int(copy), int(number), before, after))
        return list(found.values())[:EXAMPLES], counts

    def _example(self, name: str, copy: int, number: int, before: Found, after: Found) -> dict[str, Any]:
        original, mistyped = self.town.questions[number].text, self.asked[name][copy][number]
        passages = [self.town.passages[int(found[name][copy, number])] for found in (before, after)]
        return {
            "recipe": name,
            "item": "retrieval",
            "outcome": "succeeded",
            "original": original,
            "adversarial": mistyped,
            "number": number,
            "queries": 1,
            "before": {"value": 0.0, "found": passages[0]},
            "after": {"value": 1.0, "found": passages[1]},
            "changed": [],
            "spans": [_changed_span(original, mistyped)],
            "reason": f"found before the hardening: {passages[0]} — found now: {passages[1]}",
        }


def name_of(noise: Noise) -> str:
    """Return the name of mistyped questions: the kind of the noise, with its strength if it is not the usual one."""
    return noise.kind if noise in Noise.parse(noise.kind) else str(noise)


def _changed_span(original: str, changed: str) -> list[Any]:
    """Return the begin and end of the one span that turns a text into the other, and its new text."""
    most, begin = min(len(original), len(changed)), 0
    while begin < most and original[begin] == changed[begin]:
        begin += 1
    end = 0
    while end < most - begin and original[-1 - end] == changed[-1 - end]:
        end += 1
    return [begin, len(original) - end, changed[begin : len(changed) - end]]
