"""What every recipe is: constants with a name, and a search."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar

from holdfast.attacks.requests import Search
from holdfast.attacks.trial import Trial


@dataclass(frozen=True)
class Recipe(abc.ABC):
    """An attack on one text: data (the constants are the fields) and a search that reads like the paper's algorithm.

    A subclass sets the class attributes, lists its constants as fields with their published values as defaults, and
    writes :meth:`search`. See `holdfast recipes`.

    Attributes:
        NAME: its name on the command line.
        IDEA: what it does, in a line.
        PAPER: where it is from.
        NEEDS: what :meth:`needs` says, where that does not depend on the constants.
        GRADIENTS: whether it needs gradients of the target.
    """

    NAME: ClassVar[str]
    IDEA: ClassVar[str]
    PAPER: ClassVar[str]
    NEEDS: ClassVar[tuple[str, ...]] = ()
    GRADIENTS: ClassVar[bool] = False

    @abc.abstractmethod
    def search(self, trial: Trial) -> Search:
        """Change the trial's text word by word; return when the goal is reached or nothing is left to try."""

    def needs(self) -> tuple[str, ...]:
        """The resources it uses, by their names in :class:`~holdfast.attacks.resources.Resources`."""
        return self.NEEDS

    def budget(self, trial: Trial) -> int | None:
        """How many words may be changed; None: all that may be changed at all."""
        return None

    def changed_constants(self) -> dict[str, object]:
        """The constants that are not the published ones."""
        published = type(self)()
        return {name: value for name, value in vars(self).items() if value != getattr(published, name)}
