"""A corpus as token ids: tokenised once, cached on disk, memory-mapped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.data.corpus import SpooledCorpus
from holdfast.errors import UserError
from holdfast.files import atomic_path, cache_folder, remembered, sha256, write_json
from holdfast.pretraining.vocabulary import embedding_rows, tokenizer_hash

Ids = npt.NDArray[np.int64]

_ROWS = 2000
_VERSION = 1  # version of the files: increase it if the same corpus would give other files


@dataclass(frozen=True)
class TokenisedCorpus:
    """Sentences as token ids, [CLS] and [SEP] included, concatenated in one memory-mapped array.

    Attributes:
        ids: all token ids, uint16 if the vocabulary is small enough, else int32.
        starts: start of each sentence in ``ids``, and the end of the last one: (sentences + 1,).
        removed: number of sentences left out because they are in the held-out part.
        cut: number of sentences longer than the limit, which were truncated.
        unknown: number of [UNK] tokens.
    """

    ids: npt.NDArray[Any]
    starts: Ids
    removed: int
    cut: int
    unknown: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Ids:
        """The number of tokens of each sentence."""
        return np.diff(self.starts)

    def sentence(self, row: int) -> Ids:
        """Return the token ids of one sentence."""
        return np.asarray(self.ids[self.starts[row] : self.starts[row + 1]], dtype=np.int64)


def tokenise_corpus(
    corpus: SpooledCorpus,
    tokenizer: Any,
    *,
    max_length: int,
    without: TokenisedCorpus | None = None,
    folder: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> TokenisedCorpus:
    """Tokenise a corpus, with a cache per corpus, tokeniser, limit and held-out part.

    Args:
        corpus: the sentences; those longer than ``max_length`` tokens are truncated.
        tokenizer: a fast tokeniser.
        without: held-out corpus; sentences with the same tokens as one of its sentences are left out.
        folder: folder of the cache; by default ``$HOLDFAST_CACHE/tokens``.
        progress: called repeatedly with the number of sentences done.

    Raises:
        UserError: the disk is full, or no sentences are left to train on.
    """
    folder = folder if folder is not None else cache_folder("tokens")
    held_out = "" if without is None else hashlib.sha256(without.ids.tobytes()).hexdigest()
    key = json.dumps([_VERSION, corpus.sha256, tokenizer_hash(tokenizer), max_length, held_out])
    memo = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    kept = _recall(memo)
    if kept is None:
        # uint16 is enough for most vocabularies, with half the bytes.
        kind = np.uint16 if embedding_rows(tokenizer) <= 65_536 else np.int32
        forbidden = set() if without is None else {without.sentence(row).tobytes() for row in range(len(without))}
        facts = _write(memo, corpus, tokenizer, max_length, forbidden, kind, progress)
        write_json(memo, {"key": memo.stem, **facts})
        kept = _recall(memo)
        assert kept is not None
    if not len(kept):
        raise UserError(f"every sentence of {corpus.source} is in the held-out part: nothing is left to train on")
    return kept


def _write(
    memo: Path,
    corpus: SpooledCorpus,
    tokenizer: Any,
    max_length: int,
    forbidden: set[bytes],
    kind: type[np.integer[Any]],
    progress: Callable[[int], None] | None,
) -> dict[str, Any]:
    lengths: list[npt.NDArray[np.int64]] = []
    removed = cut = unknown = 0
    with atomic_path(_ids_file(memo)) as temporary, temporary.open("wb") as file:
        for start in range(0, corpus.sentences, _ROWS):
            sentences = corpus.dataset[start : start + _ROWS]["sentence"]
            rows, long = _tokens_of(tokenizer, sentences, max_length)
            cut += long
            kept = [row for row in rows if row.tobytes() not in forbidden] if forbidden else rows
            removed += len(rows) - len(kept)
            if kept:
                block = np.concatenate(kept)
                unknown += int((block == tokenizer.unk_token_id).sum()) if tokenizer.unk_token is not None else 0
                file.write(block.astype(kind).tobytes())
                lengths.append(np.array([len(row) for row in kept], dtype=np.int64))
            if progress is not None:
                progress(min(start + _ROWS, corpus.sentences))
    with atomic_path(_starts_file(memo)) as temporary, temporary.open("wb") as file:
        joined = np.concatenate(lengths) if lengths else np.zeros(0, dtype=np.int64)
        np.save(file, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(joined)]))
    return {
        "dtype": np.dtype(kind).name,
        "removed": removed,
        "cut": cut,
        "unknown": unknown,
        "sha256": [sha256(_ids_file(memo)), sha256(_starts_file(memo))],
    }


def _tokens_of(tokenizer: Any, sentences: list[str], max_length: int) -> tuple[list[Ids], int]:
    """Return the token ids of each sentence, and the number of truncated sentences."""
    encoded = tokenizer(
        sentences,
        truncation=True,
        max_length=max_length,
        return_attention_mask=False,
        return_token_type_ids=False,
        verbose=False,
    )
    rows = [np.array(ids, dtype=np.int64) for ids in encoded["input_ids"]]
    full = [number for number, row in enumerate(rows) if len(row) == max_length]
    return rows, sum(bool(encoded.encodings[number].overflowing) for number in full)


def _recall(memo: Path) -> TokenisedCorpus | None:
    """Return the cached corpus of ``memo``, or None if it is missing or damaged."""
    facts = remembered(memo)
    try:
        if [sha256(_ids_file(memo)), sha256(_starts_file(memo))] != facts["sha256"]:
            return None
        starts = np.load(_starts_file(memo))
        kind = np.dtype(facts["dtype"])
        ids = np.memmap(_ids_file(memo), kind, mode="r") if len(starts) > 1 else np.zeros(0, kind)
        return TokenisedCorpus(ids, starts, facts["removed"], facts["cut"], facts["unknown"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _ids_file(memo: Path) -> Path:
    return memo.with_suffix(".ids")


def _starts_file(memo: Path) -> Path:
    return memo.with_suffix(".npy")
