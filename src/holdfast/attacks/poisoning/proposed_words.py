"""The recipes masked-lm and natural: words exchanged for proposals of a masked language model, without gradients."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from holdfast.adversary.pseudo_perplexity import PseudoPerplexity
from holdfast.attacks.poisoning.poison_recipe import NOISE, Group, Passage, PassageSearch, PoisonRecipe
from holdfast.edits.words import Words

if TYPE_CHECKING:
    from holdfast.adversary.masked_lm import MaskedLM
    from holdfast.attacks.resources import Resources

MASKED_LM = "masked_lm"


@dataclass(frozen=True)
class MaskedLMWords(PoisonRecipe):
    """In each step, mask a random word and take the best of the masked LM's proposals, if it increases the similarity.

    Not from a paper. It asks the model for vectors only. The masked LM reads a random query of the group before the
    passage, so that it proposes words on the queries' subjects.
    """

    NAME: ClassVar[str] = "masked-lm"
    IDEA: ClassVar[str] = "passages: a word exchanged for the best proposal of a masked LM; no gradients"
    PAPER: ClassVar[str] = "none"
    NEEDS: ClassVar[tuple[str, ...]] = (MASKED_LM,)

    def search(self, group: Group, resources: Resources, bound: float | None = None) -> PassageSearch:
        """Return the search for the passage of a group."""
        return _ProposalSearch(group, resources.masked_lm, self.candidates)


@dataclass(frozen=True)
class NaturalText(MaskedLMWords):
    """As masked-lm, but a passage is never less fluent than the corpus.

    Its pseudo-perplexity stays within a percentile of that of the corpus's own passages of the same length.

    Args:
        percentile: percentile of the corpus's pseudo-perplexity that is the bound.
        checks: candidates of a step whose perplexity is computed, the most similar ones first.
    """

    NAME: ClassVar[str] = "natural"
    IDEA: ClassVar[str] = "passages: as masked-lm, within the perplexity of the corpus's own passages"
    PAPER: ClassVar[str] = "none"

    percentile: float = 95.0
    checks: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.percentile <= 100.0:
            raise ValueError(f"percentile must be above 0 and at most 100, not {self.percentile}")
        if self.checks < 1:
            raise ValueError(f"checks must be at least 1, not {self.checks}")

    def search(self, group: Group, resources: Resources, bound: float | None = None) -> PassageSearch:
        """Return the search for the passage of a group, with a bound on its perplexity."""
        assert bound is not None
        return _NaturalSearch(group, resources.masked_lm, self.candidates, bound, self.checks)


class _ProposalSearch(PassageSearch):
    def __init__(self, group: Group, masked_lm: MaskedLM, candidates: int) -> None:
        self._group, self._masked_lm, self._candidates = group, masked_lm, candidates

    def scores(self, texts: Sequence[str]) -> list[float]:
        """Return the mean similarity of each text."""
        found: list[float] = self._group.objective.of(texts).tolist()
        return found

    def begins(self, texts: Sequence[str]) -> list[str | None]:
        """Return the texts that have a word."""
        return [text if Words.of(text).words else None for text in texts]

    def step(self, passage: Passage, rng: random.Random) -> Passage:
        """Exchange a random word for the best candidate that increases the mean similarity and is natural enough."""
        words = Words.of(passage.text)
        place = rng.randrange(len(words.words))
        query = Words.of(rng.choice(self._group.texts))
        asked = Words.of(f"{query.text} {passage.text}")
        proposed = self._masked_lm.propose([asked], [place + len(query.words)])[0]
        others = [word for word in proposed if word != words.words[place]][: self._candidates]
        texts = [words.exchanged(place, word).text for word in others]
        scores = self.scores(texts) if texts else []
        better = [i for i, score in enumerate(scores) if score > passage.similarity + NOISE]
        for i in self._accepted(sorted(better, key=lambda i: -scores[i]), texts):
            return passage.stepped(texts[i], scores[i], encoded=len(texts))
        return passage.stepped(passage.text, passage.similarity, encoded=len(texts))

    def _accepted(self, order: Sequence[int], texts: Sequence[str]) -> Sequence[int]:
        """Return the candidates that may be placed, the best first; only the first is used."""
        return order[:1]


class _NaturalSearch(_ProposalSearch):
    def __init__(self, group: Group, masked_lm: MaskedLM, candidates: int, bound: float, checks: int) -> None:
        super().__init__(group, masked_lm, candidates)
        self._perplexity, self._bound, self._checks = PseudoPerplexity(masked_lm), bound, checks

    def begins(self, texts: Sequence[str]) -> list[str | None]:
        """Return the texts that are within the bound."""
        found = zip(super().begins(texts), self._perplexity.of(texts), strict=True)
        return [text if value <= self._bound else None for text, value in found]

    def _accepted(self, order: Sequence[int], texts: Sequence[str]) -> Sequence[int]:
        for i in order[: self._checks]:
            if self._perplexity.of([texts[i]])[0] <= self._bound:
                return [i]
        return []
