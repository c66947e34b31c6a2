"""Base class of recipes: named constants and a search."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

from holdfast.attacks.attack_state import AttackState
from holdfast.attacks.requests import Search


@dataclass(frozen=True)
class Recipe(abc.ABC):
    """An attack on one text: constants, which are the fields, and a search that follows the paper's algorithm.

    A subclass sets the class attributes, lists its constants as fields with their published values as defaults, and
    writes :meth:`search`. See `holdfast recipes`.

    Args:
        max_share: largest share of the text's words that may be changed, rounded down.
        max_words: words that may be changed at most; null: as many as ``max_share`` allows.

    Attributes:
        NAME: its name on the command line.
        IDEA: description in one line.
        PAPER: its source.
        NEEDS: return value of :meth:`needs`, if that does not depend on the constants.
        GRADIENTS: whether it needs gradients of the target.
    """

    NAME: ClassVar[str]
    IDEA: ClassVar[str]
    PAPER: ClassVar[str]
    NEEDS: ClassVar[tuple[str, ...]] = ()
    GRADIENTS: ClassVar[bool] = False

    max_share: float = 1.0
    max_words: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.max_share <= 1.0:
            raise ValueError(f"max_share must lie in (0, 1], got {self.max_share:g}")
        if self.max_words is not None and self.max_words < 1:
            raise ValueError(f"max_words must be at least 1, got {self.max_words}")

    @abc.abstractmethod
    def search(self, state: AttackState) -> Search:
        """Change the trial's text word by word; return when the goal is reached or nothing is left to try."""

    def needs(self) -> tuple[str, ...]:
        """Return the names of the resources it uses, as in :class:`~holdfast.attacks.resources.Resources`."""
        return self.NEEDS

    def budget(self, state: AttackState) -> int:
        """Return the maximum number of words of the text that may be changed."""
        # The small term corrects floating-point errors: 0.4 of 5 words is 2, not 1.999...
        most = int(self.max_share * len(state.original.words) + 1e-9)
        return most if self.max_words is None else min(most, self.max_words)

    def changed_constants(self) -> dict[str, object]:
        """Return the constants that differ from the published values."""
        published = type(self)()
        return {name: value for name, value in vars(self).items() if value != getattr(published, name)}
