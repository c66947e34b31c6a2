"""The suite of the leaderboard: its parts, its columns, the hashes of its data, and its own hash."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml

from holdfast.results import content_sha256

QUALITY, ROBUSTNESS = "quality", "robustness"
"""The overall columns."""


@dataclass(frozen=True)
class Column:
    """A column of the leaderboard: the mean over rows of one part's result.

    Attributes:
        name: its key in entries.
        title: its heading.
        about: a description, for readers.
        group: quality, robustness or deployed.
        part: the part of the suite that measures it.
        metric: the metric of the rows.
        rows: names of the rows, as `row_name` gives them.
        scale: factor from the metric to points.
        against: 100 for a share of successes against the encoder, of which the column is the rest.
        form: the form of the vectors; None: the plain one.
        disjoint: no text is in two of the rows.
    """

    name: str
    title: str
    about: str
    group: str
    part: str
    metric: str
    rows: Sequence[str]
    scale: float = 1.0
    against: float | None = None
    form: str | None = None
    disjoint: bool = False


@dataclass(frozen=True)
class Suite:
    """The suite: everything that decides an entry's numbers, except the encoder.

    Attributes:
        version: its number.
        seed: seed of samples, changed texts and intervals.
        parts: settings of each part, by name, in the order of a run.
        columns: the columns, by name.
        overall: the overall columns, by name: ``title``, the names of their ``columns``, ``disjoint``.
        resources: the resources of the part ``audit``, by name.
        data: SHA-256 of the data of each row of each part.
        sha256: the hash of all this.
    """

    version: int
    seed: int
    parts: Mapping[str, Mapping[str, Any]]
    columns: Mapping[str, Column]
    overall: Mapping[str, Mapping[str, Any]]
    resources: Mapping[str, str]
    data: Mapping[str, Mapping[str, str]]
    sha256: str

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Suite:
        """Create a suite from the values of its file."""
        return cls(
            version=values["version"],
            seed=values["seed"],
            parts=values["parts"],
            columns={name: Column(name, **about) for name, about in values["columns"].items()},
            overall=values["overall"],
            resources=values["resources"],
            data=values["data"],
            sha256=content_sha256(values),
        )

    def protocol(self, part: str) -> dict[str, Any]:
        """Return the mark of a result of a part: the suite's version and hash, and the part."""
        return {"suite": self.version, "suite_sha256": self.sha256, "part": part}

    def titles(self) -> dict[str, str]:
        """Return the headings of all columns, the overall ones first."""
        overall = {name: str(about["title"]) for name, about in self.overall.items()}
        return overall | {name: column.title for name, column in self.columns.items()}


@functools.cache
def the_suite() -> Suite:
    """Return the suite of this version of holdfast."""
    text = resources.files("holdfast.leaderboard").joinpath("suite.yaml").read_text(encoding="utf-8")
    return Suite.of(yaml.safe_load(text))


def own_texts() -> list[str]:
    """Return the texts of the part ``own``, which come with holdfast: the sentences of the demo's pairs, once each."""
    from holdfast.demo.demo_sentences import load_pairs

    pairs = load_pairs()
    return list(dict.fromkeys([*(pair.sentence1 for pair in pairs), *(pair.sentence2 for pair in pairs)]))
