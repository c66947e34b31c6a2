"""Everything that decides a baseline, with its checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from holdfast.baselines.registry import BASELINES, POOLED
from holdfast.bounds import check_numbers, in_range
from holdfast.errors import UserError, one_of


@dataclass(frozen=True)
class BaselineSettings:
    """Everything that decides a baseline. What is None was not given.

    Attributes:
        name: a key of `BASELINES`.
        output: the folder that becomes the model.
        vectors: a file of word vectors (see :func:`holdfast.baselines.word_vectors.read_word_vectors`).
        words: how many of its words are read, from its beginning; None: all.
        drop_stop_words: leave sentence-transformers' English stop words out of the average.
        model: the encoder: a folder or hub name of a masked LM or a SentenceTransformer.
        pooling: one of `POOLED`, under whitening and flow; None: first-last for a masked LM, a SentenceTransformer's
            own otherwise.
        corpus: where the sentences come from (see :func:`holdfast.data.corpus.read_corpus`).
        sentences: how many of them, drawn by the seed; None: all.
        column: the corpus column that holds the sentences.
        max_chars: the longest line that the corpus may have; None: 10,000.
        data: the data folder.
        dimensions: how many directions whitening keeps, those of greatest variance; None: all that vary.
        options: of the flow, by name (`holdfast.baselines.flow_training.FlowOptions`); text is parsed.
        seed: of the sentences drawn, of the flow's weights and of its batches; None: 42.
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
        """Refuse what makes no sense.

        Raises:
            UserError: an unknown baseline or pooling, something that is missing or that this baseline does not take, a
                number below its least, a seed out of range.
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
