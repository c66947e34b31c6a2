"""The spelling correction that a hardening writes: made once of its texts, measured beside the encoders, and saved."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.baselines.spelling import SpellingCorrection
from holdfast.baselines.spelling_step import SPELLING_FOLDER, has_spelling, save_spelling
from holdfast.edits.text_language import language_of_corpus
from holdfast.errors import UserError

SYSTEM = "spelling"
"""Name of the correction in the rows of a result."""
MOST_TEXTS = 200_000
"""Texts whose words are counted: enough for the words of a subject, in seconds and a few hundred MB."""


@dataclass
class CorpusSpelling:
    """A spelling correction with the words of a hardening's texts, made when it is first needed.

    Args:
        texts: returns a stream of the texts.
        language: their language; None: detect it.

    Attributes:
        reason: why there is none, after it was needed; "" if there is one.
    """

    texts: Callable[[], Iterator[str]]
    language: str | None = None
    reason: str = field(default="", init=False)
    _made: SpellingCorrection | None = field(default=None, init=False)

    def correction(self) -> SpellingCorrection | None:
        """Return the correction, or None with a `reason`, such as texts that are not English."""
        if self._made is None and not self.reason:
            language = language_of_corpus(self.texts(), self.language)
            if not language.is_english:
                self.reason = f"the texts are not English ({language.code})"
                return None
            try:
                self._made = SpellingCorrection.of(itertools.islice(self.texts(), MOST_TEXTS))
            except UserError as error:
                self.reason = str(error)
        return self._made

    def systems(self) -> Mapping[str, Callable[[str], str] | None]:
        """Return the correction by its name, for `GoalChoice`; empty if there is none."""
        made = self.correction()
        return {} if made is None else {SYSTEM: made}

    def save(self, model: Path) -> str:
        """Write the correction into a model's folder, and return a line on it."""
        if not has_spelling(model):  # that of a finished run is kept
            made = self.correction()
            if made is None:
                return f"no spelling correction is written: {self.reason}"
            save_spelling(made, model / SPELLING_FOLDER)
        return (
            f"{model / SPELLING_FOLDER} corrects the spelling of queries with the words of the corpus; "
            f"holdfast.with_spelling({str(model)!r}) switches it on"
        )
