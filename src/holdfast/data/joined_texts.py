"""Training texts made from a corpus: some of them joined to longer ones, and some held out."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.data.corpus import SpooledCorpus, spool_texts

MOST_JOINED = 8
"""Maximum number of consecutive texts in a joined one."""
_ROWS = 1000


@dataclass(frozen=True)
class DividedCorpus:
    """A corpus in two parts.

    Attributes:
        training: the texts to train on, spooled.
        held_out: texts of the corpus that are not among them.
    """

    training: SpooledCorpus
    held_out: list[str]


def divided(
    corpus: SpooledCorpus,
    *,
    held_out: int = 0,
    join: float = 0.0,
    seed: int = 42,
    max_chars: int = 10_000,
    folder: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> DividedCorpus:
    """Divide a corpus into training texts, of which a share is joined, and texts held out; both depend on the seed.

    A training text that equals one held out is left out. A joined text stands for the first of 2 to 8 consecutive
    training texts, all of which it holds; the others remain, so that the number of texts is that of the corpus.

    Args:
        corpus: the texts.
        held_out: number of texts to hold out, at most a tenth of the corpus.
        join: share of the training texts to join.
        seed: seed of both.
        max_chars: maximum length of a joined text: no further text is added.
        folder: folder of the spooled texts; by default the cache.
        progress: called regularly with the number of training texts so far.
    """
    count = min(held_out, corpus.sentences // 10)
    numbers = np.sort(np.random.default_rng(seed).choice(corpus.sentences, count, replace=False))
    kept = list(dict.fromkeys(corpus.dataset[numbers]["sentence"])) if count else []
    if not kept and not join:
        return DividedCorpus(corpus, [])
    texts = _joined(_without(corpus, frozenset(kept)), join, seed, max_chars)
    return DividedCorpus(spool_texts(corpus.source, texts, folder=folder, progress=progress), kept)


def _without(corpus: SpooledCorpus, removed: frozenset[str]) -> Iterator[str]:
    for start in range(0, corpus.sentences, _ROWS):
        yield from (text for text in corpus.dataset[start : start + _ROWS]["sentence"] if text not in removed)


def _joined(texts: Iterator[str], share: float, seed: int, max_chars: int) -> Iterator[str]:
    """Yield the texts, a share of them joined with those that follow."""
    ahead: list[str] = []
    number = 0  # of the first text in `ahead`
    for text in texts:
        ahead.append(text)
        if len(ahead) == MOST_JOINED:
            yield _text_at(ahead, number, share, seed, max_chars)
            del ahead[0]
            number += 1
    while ahead:
        yield _text_at(ahead, number, share, seed, max_chars)
        del ahead[0]
        number += 1


def _text_at(ahead: list[str], number: int, share: float, seed: int, max_chars: int) -> str:
    """Return the text of this number: the first of those ahead, or several of them joined."""
    if not share:
        return ahead[0]
    rng = random.Random(f"{seed}/join/{number}")
    if rng.random() >= share:
        return ahead[0]
    count = rng.randint(2, MOST_JOINED)
    joined = ahead[0]
    for text in ahead[1:count]:
        if len(joined) + 1 + len(text) > max_chars:
            break
        joined = f"{joined} {text}"
    return joined
