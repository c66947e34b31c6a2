"""A look at a corpus before training: whether its sentences differ, and how many have an equal one in their batch."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from holdfast.adversary.equal_texts import share_a_text, text_hashes
from holdfast.data.corpus import SpooledCorpus
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.training.sampling import epoch_batches

_BATCHES, _SENTENCES = 10, 2048
"""How many batches, and about how many sentences, are looked at."""
_ROWS = 1000


def refuse_one_text(corpus: SpooledCorpus, encoder: Encoder) -> None:
    """Refuse a corpus whose sentences, or whose positives, are all the same to the encoder.

    The corpus is read up to a text that the encoder tells from the first one, as a rule the second.

    Raises:
        UserError: there is none.
    """
    for column in corpus.dataset.column_names:
        first, differently_written = corpus.dataset[0][column], False
        for texts in _written_otherwise(corpus, column, first):
            differently_written = True
            if _differ(encoder, first, texts):
                break
        else:
            raise UserError(_one_text(corpus, column, encoder.model.max_seq_length if differently_written else None))


def share_in_first_batches(corpus: SpooledCorpus, encoder: Encoder, batch_size: int, seed: int) -> tuple[float, int]:
    """Return the share of sentences with an equal one in their batch, and of how many first batches that is."""
    shares: list[float] = []
    most = max(1, min(_BATCHES, _SENTENCES // batch_size))
    for rows, _ in zip(epoch_batches(corpus.sentences, batch_size, seed), range(most), strict=False):
        columns = corpus.dataset[rows]
        texts = text_hashes(*(encoder.tokenise(columns[name]) for name in corpus.dataset.column_names))
        shares.append((share_a_text(texts, texts).sum(dim=1) > 1).float().mean().item())
    return statistics.fmean(shares), len(shares)


def _written_otherwise(corpus: SpooledCorpus, column: str, first: str) -> Iterator[list[str]]:
    """Yield of each thousand rows the different texts that are not written as the first one, where there are any."""
    for start in range(0, corpus.sentences, _ROWS):
        if others := sorted({*corpus.dataset[start : start + _ROWS][column]} - {first}):
            yield others


def _differ(encoder: Encoder, first: str, texts: Sequence[str]) -> bool:
    hashes = text_hashes(encoder.tokenise([first, *texts]))
    return bool((hashes != hashes[0]).any())


def _one_text(corpus: SpooledCorpus, column: str, cut: int | None) -> str:
    """Word the refusal; ``cut`` is the limit in tokens where the texts are written differently."""
    read = "" if cut is None else f", as the model reads it (all give the same token ids, cut at {cut})"
    return (
        f"the corpus {corpus.source} has one distinct {column}, {corpus.sentences:,} times{read}: "
        "give sentences that differ"
    )
