"""The constants of a recipe: the fields of its class."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

NO_CONSTANT = {"constant": False}
"""Metadata of a field of a recipe that is no constant."""


@dataclass(frozen=True)
class RecipeConstants:
    """Base of recipes of all goals: a data class whose fields are constants, with published values as defaults."""

    def constants(self) -> dict[str, Any]:
        """Return the constants by name: all fields but those with the metadata `NO_CONSTANT`."""
        return {name: getattr(self, name) for name in self.constant_names()}

    @classmethod
    def constant_names(cls) -> list[str]:
        """Return the names of the constants."""
        return [each.name for each in fields(cls) if each.metadata != NO_CONSTANT]

    def changed_constants(self) -> dict[str, Any]:
        """Return the constants that differ from the published values."""
        published = type(self)()
        return {name: value for name, value in self.constants().items() if value != getattr(published, name)}

    def record(self) -> dict[str, Any]:
        """Return the constants, and those that were changed, for the record of a result."""
        return {"constants": self.constants(), "changed_from_published": self.changed_constants()}
