"""The options of the gate, shared by `check` and `audit`. This module imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from holdfast.settings import Spelling


@dataclass(frozen=True, kw_only=True)
class GateOptions:
    """The options of a gate.

    Attributes:
        fail_if: A condition under which to exit with code 1: "typos.stability < 0.85", or "negation.p_hold_nearer worse
            than baseline, p < 0.01"; repeatable.
        against: The baseline: a result of the same kind.
        junit: Write the conditions as JUnit XML to this file.
        github: Print annotations for GitHub Actions; None: if GITHUB_ACTIONS is set.
    """

    fail_if: Annotated[tuple[str, ...], Spelling(repeated=True, metavar="CONDITION")] = ()
    against: Annotated[Path | None, Spelling(metavar="BASELINE.json")] = None
    junit: Annotated[Path | None, Spelling(metavar="FILE.xml")] = None
    github: bool | None = None
