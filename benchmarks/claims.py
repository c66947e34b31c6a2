"""What the benchmarks measure, in one form: `run_all.py` gathers it from the files that ``--json FILE`` writes.

A file holds ``{"claims": [{name, values, at_least, at_most, unit, floor}, ...]}``, and whatever else a script adds. The
value of a claim is the median of its values, one of each round.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Claim:
    """A figure and its bound.

    Attributes:
        name: what is measured; of a ratio, what is above and what below.
        values: one of each round.
        at_least: the bound from below, if there is one.
        at_most: the bound from above, if there is one.
        unit: what it is measured in; of ratios "", or "CPU" where CPU seconds are compared.
        floor: what arithmetic alone allows, or why the bound cannot be met here.
    """

    name: str
    values: list[float]
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    floor: str = ""

    @property
    def value(self) -> float:
        return statistics.median(self.values)

    @property
    def met(self) -> bool | None:
        """None where there is no bound."""
        if self.at_least is None and self.at_most is None:
            return None
        above = self.at_least is None or self.value >= self.at_least
        return above and (self.at_most is None or self.value <= self.at_most)

    @property
    def bound(self) -> str:
        bounds = [f"≥ {self.at_least:g}"] if self.at_least is not None else []
        return " and ".join([*bounds, *([f"≤ {self.at_most:g}"] if self.at_most is not None else [])])


def save(path: Path, claims: list[Claim], **more: Any) -> None:
    path.write_text(json.dumps({"claims": [asdict(claim) for claim in claims], **more}, indent=2) + "\n", "utf-8")


def read(path: Path) -> list[Claim]:
    return [Claim(**claim) for claim in json.loads(path.read_text(encoding="utf-8")).get("claims", [])]


def machine() -> str:
    """Return a line on the processor, the device that models go to, and torch's version."""
    import torch
    from sentence_transformers.util import get_device_name

    from holdfast.devices import device_name
    from holdfast.precision import processor

    name = processor("model name") or platform.machine()
    device = get_device_name()
    gpu = f", {device_name(device)}" if device != "cpu" else ""
    return f"{name}, {os.cpu_count()} cores{gpu}, torch {torch.__version__}"
