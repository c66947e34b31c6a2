"""Checks of a corpus before training: that its sentences differ, and the share of duplicates in a batch."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from holdfast.adversary.equal_texts import share_a_text, text_hashes
from holdfast.data.corpus import SpooledCorpus
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.training.sampling import epoch_batches

_BATCHES, _SENTENCES = 10, 2048
"""Maximum number of batches, and approximate number of sentences, that are examined."""
_ROWS = 1000


def refuse_single_text(corpus: SpooledCorpus, encoder: Encoder) -> None:
    """Refuse a corpus whose sentences, or whose positives, all have the same token ids.

    The corpus is read up to the first text whose token ids differ from those of row 0, usually the second row.

    Raises:
        UserError: all texts of a column have the same token ids.
    """
    for column in corpus.dataset.column_names:
        first, differs_as_string = corpus.dataset[0][column], False
        for texts in _differing_texts(corpus, column, first):
            differs_as_string = True
            hashes = text_hashes(encoder.tokenise([first, *texts]))
            if (hashes != hashes[0]).any():
                break
        else:
            raise UserError(
                _single_text_message(corpus, column, encoder.model.max_seq_length if differs_as_string else None)
            )


def share_in_first_batches(corpus: SpooledCorpus, encoder: Encoder, batch_size: int, seed: int) -> tuple[float, int]:
    """Return the share of sentences with a duplicate in their batch, and the number of batches examined."""
    shares: list[float] = []
    most = max(1, min(_BATCHES, _SENTENCES // batch_size))
    for rows, _ in zip(epoch_batches(corpus.sentences, batch_size, seed), range(most), strict=False):
        columns = corpus.dataset[rows]
        texts = text_hashes(*(encoder.tokenise(columns[name]) for name in corpus.dataset.column_names))
        shares.append((share_a_text(texts, texts).sum(dim=1) > 1).float().mean().item())
    return statistics.fmean(shares), len(shares)


def _differing_texts(corpus: SpooledCorpus, column: str, first: str) -> Iterator[list[str]]:
    """Yield, for each thousand rows, the distinct texts that differ from ``first``, if there are any."""
    for start in range(0, corpus.sentences, _ROWS):
        if others := sorted({*corpus.dataset[start : start + _ROWS][column]} - {first}):
            yield others


def _single_text_message(corpus: SpooledCorpus, column: str, cut: int | None) -> str:
    """Return the error message; ``cut`` is the limit in tokens if the texts differ as strings, else None."""
    read = "" if cut is None else f", as the model reads it (all give the same token ids, cut at {cut})"
    return (
        f"the corpus {corpus.source} has one distinct {column}, {corpus.sentences:,} times{read}: "
        "give sentences that differ"
    )
