"""A static encoder made from another one: a table with the encoder's vector of each token, without training.

The recipe is that of model2vec (Tulkens and van Dongen 2024), without its reduction of dimensions: the encoder reads
each token of its vocabulary alone, the vectors are centred and weighted by the token's rank, w = log(1 + rank), which
stands for its rarity since vocabularies are ordered by frequency. `holdfast harden` trains such a table further.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer


def table_of(model: SentenceTransformer, spec: str) -> SentenceTransformer:
    """Return a static encoder with the vectors that ``model`` gives to the tokens of its vocabulary.

    Raises:
        UserError: the tokeniser has no fast form, which a static encoder needs, or is not one of WordPieces, whose
            entries are texts.
    """
    own = getattr(model.tokenizer, "backend_tokenizer", None)
    if own is None:
        raise UserError(f"{spec}: its tokeniser has no fast form, which a static encoder needs")
    if type(own.model).__name__ != "WordPiece":
        raise UserError(f"{spec}: its tokeniser is not one of WordPieces, so that its entries are not texts to encode")
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(own.to_str())  # a copy: the encoder keeps its own
    tokenizer.no_padding()
    tokenizer.no_truncation()
    from tokenizers.processors import Sequence

    tokenizer.post_processor = Sequence([])  # [CLS] and [SEP] have no meaning without a transformer
    ordered = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    tokens = [token.removeprefix("##") or token for token, _ in ordered]
    vectors = encode_sentences(model, tokens)
    special = set(model.tokenizer.all_special_tokens)
    ranks = np.array([0.0 if token in special else np.log1p(number) for token, number in ordered])
    table = ((vectors - vectors.mean(axis=0)) * ranks[:, None]).astype(np.float32)
    return SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=table), Normalize()])


def main(words: Sequence[str] | None = None) -> None:
    """Write the table of an encoder to a new folder."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.leaderboard.token_table", description=main.__doc__)
    parser.add_argument("model", metavar="MODEL", help="folder or name of the encoder")
    parser.add_argument("folder", metavar="FOLDER", help="the new folder")
    given = parser.parse_args(words)
    if Path(given.folder).exists():
        parser.error(f"{given.folder} exists already: name a new folder")
    try:
        table_of(load_sentence_transformer(given.model), given.model).save(given.folder)
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
