"""The baselines and their settings. This module imports nothing heavy, because ``--help`` reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Baseline:
    """The description of a baseline for the command line and the model card.

    Attributes:
        title: text of a heading.
        summary: description in one line.
        citation: the source.
        needs: required settings, besides ``output``.
        takes: optional settings.
    """

    title: str
    summary: str
    citation: str
    needs: tuple[str, ...]
    takes: tuple[str, ...] = ()


_REIMERS = (
    "Reimers and Gurevych. Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks. EMNLP 2019, Table 1 "
    "(averages and the [CLS] vector as baselines)."
)
_FITTED = ("pooling", "sentences", "column", "max_chars", "data", "seed", "prompt", "prompt_name", "no_prompt")

BASELINES: dict[str, Baseline] = {
    "glove": Baseline(
        "the average of word vectors",
        "the average of a text's word vectors, read from a text file (GloVe, word2vec, fastText)",
        "Pennington, Socher and Manning. GloVe: Global Vectors for Word Representation. EMNLP 2014.",
        needs=("vectors",),
        takes=("words", "drop_stop_words"),
    ),
    "cls": Baseline("the [CLS] vector", "the last layer's [CLS] vector", _REIMERS, needs=("model",)),
    "mean": Baseline("the last layer's mean", "the last layer's mean over the tokens", _REIMERS, needs=("model",)),
    "first-last": Baseline(
        "the first-last average",
        "the mean over the tokens of (embedding output + last layer) / 2",
        "Su et al. Whitening Sentence Representations for Better Semantics and Faster Retrieval. arXiv:2103.15316, "
        "2021 (first-last-avg).",
        needs=("model",),
    ),
    "first-last-layer1": Baseline(
        "the first-last average, from layer 1",
        "the mean over the tokens of (layer 1 + last layer) / 2, which newer code calls first-last",
        "Gao, Yao and Chen. SimCSE: Simple Contrastive Learning of Sentence Embeddings. EMNLP 2021 (baselines).",
        needs=("model",),
    ),
    "last-two": Baseline(
        "the average of the last two layers",
        "the mean over the tokens of (last layer but one + last layer) / 2",
        "Yan et al. ConSERT: A Contrastive Framework for Self-Supervised Sentence Representation Transfer. ACL 2021.",
        needs=("model",),
    ),
    "whitening": Baseline(
        "BERT-whitening",
        "a linear map that makes a corpus's vectors uncorrelated, of variance 1 and mean 0",
        "Su et al. Whitening Sentence Representations for Better Semantics and Faster Retrieval. arXiv:2103.15316, "
        "2021.",
        needs=("model", "corpus"),
        takes=("dimensions", *_FITTED),
    ),
    "flow": Baseline(
        "BERT-flow",
        "an invertible network, trained so that a corpus's vectors become standard normal",
        "Li et al. On the Sentence Embeddings from Pre-trained Language Models. EMNLP 2020.",
        needs=("model", "corpus"),
        takes=("options", *_FITTED),
    ),
    "normalised": Baseline(
        "texts normalised",
        "the model itself, with a tokeniser that undoes invisible characters and look-alikes",
        "Unicode Technical Standard 39, Unicode Security Mechanisms (confusables); Unicode Standard Annex 15 (NFKC).",
        needs=("model",),
        takes=("pooling",),
    ),
}
POOLED = ("cls", "mean", "first-last", "first-last-layer1", "last-two")
"""The baselines that are a pooling; whitening and flow can use any of them."""
