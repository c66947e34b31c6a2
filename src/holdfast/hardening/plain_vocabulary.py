"""The vocabulary of an encoder before entries were added to it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


@dataclass(frozen=True)
class PlainVocabulary:
    """A vocabulary to return to.

    Attributes:
        entries: the model of the fast tokeniser.
        rows: rows of the embedding matrix; added entries have the rows after these.
    """

    entries: Any
    rows: int

    @classmethod
    def of(cls, model: SentenceTransformer) -> PlainVocabulary:
        """Return the vocabulary of a model as it is now."""
        backbone: Any = model[0].auto_model
        return cls(model.tokenizer.backend_tokenizer.model, len(backbone.get_input_embeddings().weight))

    @contextlib.contextmanager
    def used(self, model: SentenceTransformer) -> Iterator[None]:
        """Split texts by this vocabulary inside the block; the longer embedding matrix does not matter."""
        backend = model.tokenizer.backend_tokenizer
        now, backend.model = backend.model, self.entries
        try:
            yield
        finally:
            backend.model = now

    def restore(self, model: SentenceTransformer) -> None:
        """Take the added entries out of the model."""
        model.tokenizer.backend_tokenizer.model = self.entries
        backbone: Any = model[0].auto_model
        backbone.resize_token_embeddings(self.rows, mean_resizing=False)
