"""Options of an attack in training that are completed from the data folder, or by a table of experiments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TrainingAttackOptions:
    """Base of methods and defences, whose training may attack texts with synonyms; without overrides it does not."""

    @classmethod
    def completed_options(cls, options: Mapping[str, Any], data: Path | None) -> dict[str, Any]:  # noqa: ARG003
        """Return the options with what they leave to the data folder written out, for the record of a run.

        Raises:
            UserError: something that the options name is not there.
        """
        return dict(options)

    @classmethod
    def candidates_option(cls, options: Mapping[str, Any]) -> str | None:  # noqa: ARG003
        """Return the option that would name the synonyms of a training's own attack; None: it needs none, or has some.

        Tables of experiments give it the synonyms of their attacks.
        """
        return None
