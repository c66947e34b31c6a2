"""Reproducible training of a WordPiece vocabulary on a corpus, and loading of existing tokenisers."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from holdfast.data.corpus import SpooledCorpus
from holdfast.errors import UserError
from holdfast.files import cache_folder, expanded, write_json
from holdfast.folder_checks import check_files
from holdfast.loading import loading
from holdfast.model_lookup import resolve_model

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ALPHABET = 1000
"""Maximum number of characters in a vocabulary, as in BERT's; rarer ones become [UNK]."""
_MIN_COUNT = 2
_ROWS = 10_000
_VERSION = 1  # version of the cache: increase it if the same corpus would give another vocabulary


def own_tokenizer(corpus: SpooledCorpus, size: int, *, max_length: int, folder: Path | None = None) -> Any:
    """Return a fast BERT tokeniser (lower case, without accents, Chinese characters split) trained on a corpus.

    The vocabulary is cached per corpus and size.

    Args:
        corpus: the sentences.
        size: number of WordPieces, including the five special tokens.
        max_length: maximum input length of the tokeniser, in tokens.
        folder: folder of the cache; by default ``$HOLDFAST_CACHE/vocabularies``.

    Raises:
        UserError: the vocabulary is too small for the corpus's characters, or too large for the corpus.
    """
    import tokenizers
    from transformers import BertTokenizer

    folder = folder if folder is not None else cache_folder("vocabularies")
    key = json.dumps([_VERSION, corpus.sha256, size, tokenizers.__version__])
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    pieces = _remembered(path, size)
    if pieces is None:
        pieces = train_wordpieces(lambda: _sentences(corpus), size)
        write_json(path, pieces)
    vocab = {piece: number for number, piece in enumerate(pieces)}
    return BertTokenizer(vocab=vocab, do_lower_case=True, strip_accents=True, model_max_length=max_length)


def train_wordpieces(sentences: Any, size: int) -> list[str]:
    """Return the pieces of a WordPiece vocabulary in the order of their ids; they depend only on sentences and size.

    `tokenizers` numbers the "##" forms of the characters in the order of a hash table, which differs between processes,
    and breaks ties between merges by these numbers. Therefore they are all numbered here, before the training.

    Args:
        sentences: a function that returns an iterator over the sentences; it is called twice.
        size: number of pieces, including the special tokens.

    Raises:
        UserError: see `own_tokenizer`.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    backend = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    alphabet = _alphabet(sentences(), backend.normalizer)
    first = [*SPECIAL, *(f"##{character}" for character in alphabet)]
    if size < (least := len(first) + len(alphabet)):
        raise UserError(
            f"--vocabulary {size:,} is too small: the corpus has {len(alphabet):,} characters, each of which needs two "
            f"pieces: give at least {least:,}"
        )
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=_MIN_COUNT,
        special_tokens=first,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    backend.train_from_iterator(sentences(), trainer)
    numbers = backend.get_vocab()
    if len(numbers) < size:
        raise UserError(
            f"--vocabulary {size:,} is too large: the corpus yields {len(numbers):,} pieces that occur at least twice: "
            f"give {len(numbers):,} or less, or more text"
        )
    return sorted(numbers, key=numbers.__getitem__)


def load_tokenizer(spec: str, option: str) -> Any:
    """Load the tokeniser of a model, or from a folder with a tokeniser only; ``option`` named it, for messages.

    Raises:
        UserError: the tokeniser does not exist, or has no mask token, no padding token or no fast form.
    """
    from transformers import AutoTokenizer

    folder = expanded(spec)
    if (folder / "tokenizer_config.json").is_file():
        check_files(folder, folder, spec)
    else:
        folder = resolve_model(spec)
    with loading(folder, spec):
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if not tokenizer.is_fast or tokenizer.mask_token is None or tokenizer.pad_token is None:
        raise UserError(f"{option} {spec}: its tokeniser has no mask token, no padding token or no fast form")
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise UserError(f"{option} {spec} has no tokeniser vocabulary: put its tokenizer.json (or vocab.txt) there")
    return tokenizer


def embedding_rows(tokenizer: Any) -> int:
    """Return the number of embeddings that a tokeniser needs: its largest number and one, as some leave numbers out."""
    numbers: dict[str, int] = tokenizer.get_vocab()
    return max(numbers.values()) + 1


def tokenizer_hash(tokenizer: Any) -> str:
    """Return the SHA-256 of everything that determines the output of a fast tokeniser, except its length limit."""
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    lasting = {name: part for name, part in parts.items() if name not in ("truncation", "padding")}
    return hashlib.sha256(json.dumps(lasting, sort_keys=True).encode()).hexdigest()


def _alphabet(sentences: Iterable[str], normalizer: Any) -> list[str]:
    """Return the most frequent characters after normalisation, at most ``_ALPHABET``, in code-point order."""
    raw: Counter[str] = Counter()
    for sentence in sentences:
        raw.update(sentence)
    counts: Counter[str] = Counter()
    for character, count in raw.items():
        for normal in normalizer.normalize_str(character):
            if not normal.isspace():
                counts[normal] += count
    return sorted(sorted(counts, key=lambda character: (-counts[character], character))[:_ALPHABET])


def _sentences(corpus: SpooledCorpus) -> Iterator[str]:
    for start in range(0, corpus.sentences, _ROWS):
        yield from corpus.dataset[start : start + _ROWS]["sentence"]


def _remembered(path: Path, size: int) -> list[str] | None:
    try:
        pieces = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return pieces if isinstance(pieces, list) and len(pieces) == size else None
