"""Training objectives, one file per method. Each is a valid sentence-transformers loss."""

from __future__ import annotations

from holdfast.objectives.base import Objective
from holdfast.objectives.robustembed import RobustEmbed
from holdfast.objectives.simcse import SimCSE

METHODS: dict[str, type[Objective]] = {"simcse": SimCSE, "robustembed": RobustEmbed}
"""The methods by their names on the command line."""

__all__ = ["METHODS", "Objective", "RobustEmbed", "SimCSE"]
