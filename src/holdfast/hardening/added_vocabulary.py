"""Misspellings as entries of an encoder's vocabulary, each with the embedding of its right word."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from holdfast.edits.word_frequency import english_words
from holdfast.errors import UserError
from holdfast.hardening.typo_vocabulary import count_words, typo_vocabulary

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_NOT_WORDPIECE = (
    "misspellings in the vocabulary need a fast WordPiece tokeniser, whose entries are whole words (as of BERT, MiniLM "
    "or MPNet): those of byte-pair and unigram tokenisers differ with the blank before a word"
)


def takes_misspellings(model: SentenceTransformer) -> bool:
    """Return True if the model's tokeniser is a fast one of WordPieces."""
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    return backend is not None and type(backend.model).__name__ == "WordPiece"


def check_vocabulary(model: SentenceTransformer) -> None:
    """Raise an error if misspellings cannot be added to the model's vocabulary.

    Raises:
        UserError: the tokeniser is not a fast one of WordPieces.
    """
    if not takes_misspellings(model):
        raise UserError(_NOT_WORDPIECE)


def normalised(model: SentenceTransformer, text: str) -> str:
    """Return a text as the model's tokeniser normalises it before it is split."""
    normaliser = model.tokenizer.backend_tokenizer.normalizer
    return text if normaliser is None else str(normaliser.normalize_str(text))


def whole_words(model: SentenceTransformer) -> set[str]:
    """Return the entries of the vocabulary that are whole words or begin one."""
    wordpiece = model.tokenizer.backend_tokenizer.model
    prefix = wordpiece.continuing_subword_prefix
    return {entry for entry in model.tokenizer.get_vocab() if not entry.startswith(prefix)}


def without_beginnings(pairs: Mapping[str, str], vocabulary: Collection[str], words: Collection[str]) -> dict[str, str]:
    """Return the pairs without those whose misspelling would be taken as the beginning of one of the words.

    WordPiece takes the longest entry that a word begins with: "interst" would split "interstice" anew.

    Args:
        pairs: right words by misspelling.
        vocabulary: the entries so far that begin words.
        words: the words that must be split as before.
    """
    kept = dict(pairs)
    for word in words:
        for end in range(len(word), 0, -1):
            if word[:end] in vocabulary:
                break
            kept.pop(word[:end], None)
    return kept


def add_typo_vocabulary(model: SentenceTransformer, pairs: Mapping[str, str] | Sequence[tuple[str, str]]) -> int:
    """Add misspellings to the model's vocabulary, with copies of their words' embeddings, and return their number.

    Texts without an entry keep their tokens and vectors; one with entries gets the vector of the right text. The model
    is changed in place and stays an ordinary SentenceTransformer; saved, it has the entries in ``tokenizer.json``. A
    pair is left out if its misspelling is in the vocabulary already or its word is not. With a cased tokeniser, the
    capitalised forms are added too, if the capitalised word is an entry.

    Args:
        model: the encoder.
        pairs: misspelling and word.

    Raises:
        UserError: see `check_vocabulary`.
    """
    check_vocabulary(model)
    return _add(model, _with_capitals(dict(pairs)) if _is_cased(model) else dict(pairs))


def _is_cased(model: SentenceTransformer) -> bool:
    return normalised(model, "A") == "A"


def _with_capitals(pairs: Mapping[str, str]) -> dict[str, str]:
    return {typed.capitalize(): word.capitalize() for typed, word in pairs.items()} | dict(pairs)


def _add(model: SentenceTransformer, given: Mapping[str, str]) -> int:
    """Add the pairs that can be added to the vocabulary, and return their number."""
    backend = model.tokenizer.backend_tokenizer
    vocabulary = model.tokenizer.get_vocab()
    new = {typed: word for typed, word in given.items() if typed not in vocabulary and word in vocabulary}
    first = max(vocabulary.values()) + 1
    numbers = {typed: first + number for number, typed in enumerate(new)}
    old = backend.model
    state = json.loads(backend.to_str())["model"]
    backend.model = type(old)(
        vocab=state["vocab"] | numbers,
        unk_token=old.unk_token,
        max_input_chars_per_word=old.max_input_chars_per_word,
        continuing_subword_prefix=old.continuing_subword_prefix,
    )
    _copy_rows(model[0].auto_model, [vocabulary[word] for word in new.values()], first)
    return len(new)


def _copy_rows(backbone: Any, rows: Sequence[int], first: int) -> None:
    """Put copies of rows of the embedding matrix at ``first`` and after it."""
    matrix = backbone.get_input_embeddings().weight
    if len(matrix) < first + len(rows):
        backbone.resize_token_embeddings(first + len(rows), mean_resizing=False)
        matrix = backbone.get_input_embeddings().weight
    with torch.no_grad():
        matrix[first : first + len(rows)] = matrix[torch.tensor(rows, dtype=torch.long, device=matrix.device)]


def add_misspellings_of(model: SentenceTransformer, texts: Iterable[str], size: int) -> int:
    """Add the most probable misspellings of the texts' words to the model's vocabulary, and return their number.

    No word of the texts and of the English dictionary is split in another way than before, with a cased tokeniser
    also not with a capital.

    Args:
        model: the encoder, which is changed in place.
        texts: texts like those that are encoded.
        size: number of misspellings, at most; with a cased tokeniser their capitalised forms come to it.

    Raises:
        UserError: see `check_vocabulary`.
    """
    check_vocabulary(model)
    counts = count_words(texts, lambda text: normalised(model, text))
    vocabulary = whole_words(model)
    found = typo_vocabulary(counts, size=size, vocabulary=vocabulary)
    pairs, words = {each.typed: each.word for each in found}, counts.keys() | english_words()
    if _is_cased(model):
        pairs, words = _with_capitals(pairs), words | {word.capitalize() for word in words}
    return _add(model, without_beginnings(pairs, vocabulary, words))
