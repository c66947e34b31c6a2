"""Base class of the recipes that make passages: named constants, and a search that changes a passage step by step."""

from __future__ import annotations

import abc
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.attacks.poisoning.mean_similarity import MeanSimilarity
from holdfast.attacks.recipes.recipe_constants import RecipeConstants

if TYPE_CHECKING:
    from holdfast.attacks.resources import Resources

NOISE = 1e-6
"""Increase of the mean similarity that counts: smaller ones may be rounding in fp32."""


@dataclass(frozen=True)
class Passage:
    """A passage under construction; what a journal holds.

    Attributes:
        original: the text that it began as.
        text: the passage.
        similarity: its mean similarity to the fitted queries of its group.
        step: steps that were made.
        idle: steps since the last change.
        encoded: texts that the model encoded for it.
        lost: candidates left out because their text does not tokenise to the tokens that were to be placed.
        increases: the mean similarity at the begin and after each change.
    """

    original: str
    text: str
    similarity: float
    step: int = 0
    idle: int = 0
    encoded: int = 0
    lost: int = 0
    increases: tuple[float, ...] = ()

    @classmethod
    def begin(cls, text: str, similarity: float, encoded: int) -> Passage:
        """Return a passage before the first step."""
        return cls(text, text, similarity, encoded=encoded, increases=(similarity,))

    def stepped(self, text: str, similarity: float, *, encoded: int, lost: int = 0) -> Passage:
        """Return the passage after a step, changed or not."""
        changed = text != self.text
        return replace(
            self,
            text=text,
            similarity=similarity,
            step=self.step + 1,
            idle=0 if changed else self.idle + 1,
            encoded=self.encoded + encoded,
            lost=self.lost + lost,
            increases=(*self.increases, similarity) if changed else self.increases,
        )

    def row(self) -> dict[str, Any]:
        """Return the passage as a JSON-serialisable dict."""
        return {**asdict(self), "increases": list(self.increases)}

    @classmethod
    def from_row(cls, row: dict[str, Any]) -> Passage:
        """Create a passage from a row; the inverse of :meth:`row`."""
        return cls(**{**row, "increases": tuple(row["increases"])})


@dataclass(frozen=True)
class Group:
    """A group of fitted queries that one passage is made for.

    Attributes:
        texts: the queries.
        objective: the mean similarity to them.
    """

    texts: Sequence[str]
    objective: MeanSimilarity


class PassageSearch(abc.ABC):
    """A search for one passage."""

    @abc.abstractmethod
    def scores(self, texts: Sequence[str]) -> list[float]:
        """Return the mean similarity of each of n texts, as the steps compute it."""

    @abc.abstractmethod
    def begins(self, texts: Sequence[str]) -> list[str | None]:
        """Return, for each text, the text that the search can begin with in its place, or None."""

    @abc.abstractmethod
    def step(self, passage: Passage, rng: random.Random) -> Passage:
        """Try to exchange one part of the passage, which ``rng`` draws; the similarity never falls."""


@dataclass(frozen=True)
class PoisonRecipe(RecipeConstants, abc.ABC):
    """A way to make passages that are near many queries.

    Args:
        words: length of a passage at its begin, in words.
        steps: steps of a passage, at most; each tries one place.
        patience: a passage ends after so many steps without a change.
        candidates: substitutes that are tried in a step.

    Attributes:
        NAME: its name on the command line.
        IDEA: description in one line.
        PAPER: its source.
        NEEDS: resources, as in `holdfast.attacks.resources.Resources`.
        GRADIENTS: whether it needs gradients of the model.
    """

    NAME: ClassVar[str]
    IDEA: ClassVar[str]
    PAPER: ClassVar[str]
    NEEDS: ClassVar[tuple[str, ...]] = ()
    GRADIENTS: ClassVar[bool] = False

    words: int = 30
    steps: int = 300
    patience: int = 60
    candidates: int = 100

    def __post_init__(self) -> None:
        for name in ("words", "steps", "patience", "candidates"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    @abc.abstractmethod
    def search(self, group: Group, resources: Resources, bound: float | None = None) -> PassageSearch:
        """Return the search for the passage of a group; ``bound`` is the largest perplexity of a natural text."""

    def needs(self) -> tuple[str, ...]:
        """Return the names of the resources it uses."""
        return self.NEEDS

    def ended(self, passage: Passage) -> bool:
        """Return True if no further step is made."""
        return passage.step >= self.steps or passage.idle >= self.patience
