"""Averages of word vectors as a SentenceTransformer."""

from __future__ import annotations

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, WordEmbeddings
from sentence_transformers.sentence_transformer.modules.tokenizer import ENGLISH_STOP_WORDS, WhitespaceTokenizer

from holdfast.edits.word_vectors import WordVectors


def word_vector_model(vectors: WordVectors, *, drop_stop_words: bool = False) -> SentenceTransformer:
    """Build a SentenceTransformer of native modules that averages a text's word vectors.

    sentence-transformers' own word tokeniser splits a text at white space and looks up each piece unchanged, then
    without the punctuation around it, then also in lower case; a piece that is still unknown is left out.
    **A text with no known word has the zero vector**, whose cosine with anything is undefined.

    Args:
        vectors: the words and their vectors.
        drop_stop_words: also leave out sentence-transformers' English stop words and punctuation, as its own reader of
            such files does; a text with only stop words then has the zero vector.
    """
    tokenizer = WhitespaceTokenizer(vectors.words, stop_words=ENGLISH_STOP_WORDS if drop_stop_words else [])
    embeddings = WordEmbeddings(tokenizer, torch.from_numpy(vectors.matrix))
    return SentenceTransformer(modules=[embeddings, Pooling(vectors.matrix.shape[1], "mean")], device="cpu")
