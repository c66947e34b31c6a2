"""A WordPiece vocabulary of a corpus's own, the same on every run, and the tokenisers that are there already."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from holdfast.data.corpus import SpooledCorpus
from holdfast.errors import UserError
from holdfast.files import cache_folder, write_json
from holdfast.finding import resolve_model
from holdfast.folder_checks import check_files
from holdfast.loading import loading
from holdfast.values import expanded

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ALPHABET = 1000
"""The most characters that a vocabulary holds, as in BERT's; rarer ones become [UNK]."""
_MIN_COUNT = 2
_ROWS = 10_000
_VERSION = 1  # of what is cached: raise it when the same corpus would give another vocabulary


def own_tokenizer(corpus: SpooledCorpus, size: int, *, max_length: int, folder: Path | None = None) -> Any:
    """A fast BERT tokeniser (lower-cased, accents off, Chinese characters apart) trained on a corpus.

    An unchanged corpus is not counted again.

    Args:
        corpus: the sentences.
        size: WordPieces, with the five special tokens.
        max_length: what the tokeniser says is the longest input, in tokens.
        folder: where the vocabulary is kept; by default ``$HOLDFAST_CACHE/vocabularies``.

    Raises:
        UserError: the vocabulary is too small for the corpus's characters, or the corpus is too small for it.
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
    """The pieces of a WordPiece vocabulary in the order of their numbers: a function of the sentences and the size.

    `tokenizers` numbers the "##" forms of the characters in the order of a hash table that differs from process to
    process, and breaks ties between merges by these numbers. So all of them are numbered here, before it counts.

    Args:
        sentences: a function that gives an iterator over the sentences; it is called twice.
        size: pieces, with the special tokens.

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
    """The tokeniser of a model or of a folder that holds nothing else.

    Args:
        spec: a folder, or a model's name as for :func:`holdfast.finding.resolve_model`.
        option: the option that named it, for the line that says what is wrong.

    Raises:
        UserError: there is none, or it has no mask token, no padding token or no fast form.
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


def tokenizer_hash(tokenizer: Any) -> str:
    """The SHA-256 of everything that decides how a fast tokeniser cuts a text, but for the length limit it last had."""
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    lasting = {name: part for name, part in parts.items() if name not in ("truncation", "padding")}
    return hashlib.sha256(json.dumps(lasting, sort_keys=True).encode()).hexdigest()


def _alphabet(sentences: Iterable[str], normalizer: Any) -> list[str]:
    """The most frequent characters after normalisation, at most so many as a vocabulary holds, in code-point order."""
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
