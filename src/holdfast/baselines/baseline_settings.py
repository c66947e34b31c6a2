"""The settings of a baseline, with their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from holdfast.baselines.registry import BASELINES, POOLED
from holdfast.errors import UserError, one_of
from holdfast.number_ranges import check_numbers, in_range


@dataclass(frozen=True)
class BaselineSettings:
    """The settings of a baseline; None means that a setting was not given.

    Attributes:
        name: a key of `BASELINES`.
        output: the folder of the new model.
        vectors: a file of word vectors (see :func:`holdfast.baselines.word_vectors.read_word_vectors`).
        words: number of words to read from the start of the file; None: all.
        drop_stop_words: exclude sentence-transformers' English stop words from the average.
        model: the encoder: a folder or hub name of a masked LM or a SentenceTransformer.
        pooling: one of `POOLED`, for whitening and flow; None: first-last for a masked LM, else the model's own.
        corpus: the corpus of sentences (see :func:`holdfast.data.corpus.read_corpus`).
        sentences: number of sentences, drawn with the seed; None: all.
        column: the corpus column that holds the sentences.
        max_chars: maximum length of a line of the corpus; None: 10,000.
        data: the data folder.
        dimensions: number of directions of largest variance that whitening keeps; None: all directions with variance.
        options: options of the flow, by name (`holdfast.baselines.flow_training.FlowOptions`); text values are parsed.
        seed: random seed of the drawn sentences, the flow's weights and its batches; None: 42.
    """

    name: str
    output: Path
    vectors: Path | None = None
    words: int | None = None
    drop_stop_words: bool | None = None
    model: str | None = None
    pooling: str | None = None
    corpus: str | None = None
    sentences: int | None = None
    column: str | None = None
    max_chars: int | None = None
    data: Path | None = None
    dimensions: int | None = None
    options: Mapping[str, Any] | None = None
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
