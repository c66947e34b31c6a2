"""Static encoders, whose vector of a text is the mean of a table's rows: their form for training, and their checks.

``StaticEmbedding`` of sentence-transformers joins the tokens of a batch in one row, without a mask. Training works on
padded batches: `TrainableStatic` reads these, with the same table, and is saved as the ``StaticEmbedding`` it is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedTokenizerFast

from holdfast.errors import UserError
from holdfast.model_folder import read_json_object
from holdfast.prompt_tokens import PROMPT_LENGTH

PADDINGS = ("[PAD]", "<pad>", "[UNK]", "<unk>")
"""Entries that fill the padding of a batch, the first that the vocabulary has; its vector is never read there."""


def static_module(model: SentenceTransformer) -> StaticEmbedding | None:
    """Return the table of a static encoder; None for other models."""
    first = next(iter(model.children()), None)
    return first if isinstance(first, StaticEmbedding) else None


def check_table(model: SentenceTransformer, spec: str) -> None:
    """Refuse a static encoder whose tokeniser has tokens that its table has no row for.

    Raises:
        UserError: the table has too few rows.
    """
    module = static_module(model)
    if module is None:
        return
    token, number = max(module.tokenizer.get_vocab().items(), key=lambda entry: entry[1], default=("", -1))
    if number >= (rows := module.embedding.num_embeddings):
        raise UserError(
            f"{spec}: its tokeniser's token {token!r} is number {number:,}, and its table has {rows:,} rows: put the "
            "tokeniser that the table was made with beside it"
        )


class TokenVectors(nn.Module):
    """The rows of a table for padded token ids; the table belongs to another module."""

    def __init__(self, table: nn.EmbeddingBag) -> None:
        super().__init__()
        self._table = [table]  # in a list, so that its weights are not registered twice

    def forward(self, input_ids: Tensor) -> Tensor:
        """Return the vectors (B, L, d) of tokens (B, L)."""
        return F.embedding(input_ids, self._table[0].weight)


class TrainableStatic(StaticEmbedding):
    """A ``StaticEmbedding`` that reads padded batches, for training.

    Args:
        static: the module whose table is trained; it is shared, not copied.
    """

    def __init__(self, static: StaticEmbedding) -> None:
        super().__init__(static.tokenizer, embedding_weights=static.embedding.weight.detach())
        self.embedding = static.embedding
        self.lookup = TokenVectors(self.embedding)
        self._saved_tokenizer = static.tokenizer
        self.tokenizer: Any = _padding_tokenizer(static.tokenizer)

    @property
    def max_seq_length(self) -> int:
        """The maximum number of tokens."""
        return int(self.tokenizer.model_max_length)

    @max_seq_length.setter
    def max_seq_length(self, tokens: float) -> None:
        self.tokenizer.model_max_length = int(min(tokens, 10**9))

    def preprocess(self, inputs: Any, prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Return ``input_ids`` and ``attention_mask``, (B, L), of texts, and ``prompt_length``; L is at least 1."""
        texts = self._prepend_prompt(inputs, prompt) if prompt else inputs
        encoded = self.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        ids, mask = encoded["input_ids"].long(), encoded["attention_mask"].long()
        if not ids.shape[1]:  # empty texts only
            ids, mask = (torch.zeros(len(texts), 1, dtype=torch.long) for _ in range(2))
        length = {PROMPT_LENGTH: len(self.tokenizer(prompt)["input_ids"])} if prompt else {}
        return {"input_ids": ids, "attention_mask": mask, **length}

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Add ``sentence_embedding``, (B, d): the mean vector of the tokens; zeros for a text without tokens."""
        mask = features["attention_mask"].unsqueeze(-1)
        vectors = self.lookup(input_ids=features["input_ids"])
        features["sentence_embedding"] = (vectors * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        return features

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """Write the files of a ``StaticEmbedding``."""
        padding, self.tokenizer = self.tokenizer, self._saved_tokenizer
        try:
            super().save(output_path, *args, **kwargs)
        finally:
            self.tokenizer = padding


# In modules.json, of checkpoints and of the finished model, it is the class whose files it writes.
TrainableStatic.__module__, TrainableStatic.__qualname__ = StaticEmbedding.__module__, StaticEmbedding.__qualname__
TrainableStatic.__name__ = StaticEmbedding.__name__


def trainable(model: SentenceTransformer) -> SentenceTransformer:
    """Return the model; of a static encoder, its table is put into a `TrainableStatic`, in place."""
    module = static_module(model)
    if module is not None and not isinstance(module, TrainableStatic):
        model[0] = TrainableStatic(module)
    return model


def _padding_tokenizer(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    """Return a tokeniser of transformers with the same tokens, without special ones."""
    content = json.loads(tokenizer.to_str())
    content |= {"post_processor": None, "truncation": None, "padding": None}
    vocabulary = tokenizer.get_vocab()
    filling = next((token for token in PADDINGS if token in vocabulary), min(vocabulary, key=vocabulary.__getitem__))
    unknown = getattr(tokenizer.model, "unk_token", None)
    made = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(content)),
        **({"unk_token": unknown} if isinstance(unknown, str) and unknown in vocabulary else {}),
    )
    made.pad_token = filling  # as an argument it would be a special token, which splits texts that hold it
    return made


def load_model2vec(folder: Path) -> SentenceTransformer:
    """Load a folder in model2vec's own layout as a SentenceTransformer, in fp32, on the CPU.

    Its scales of tokens are folded into the table, and its vectors are normalised if its settings say so. Unknown
    tokens count as any others, as in ``StaticEmbedding``; model2vec itself leaves them out.
    """
    from sentence_transformers.sentence_transformer.modules import Normalize

    modules: list[nn.Module] = [StaticEmbedding.load(str(folder), local_files_only=True)]
    if read_json_object(folder / "config.json").get("normalize"):
        modules.append(Normalize())
    return SentenceTransformer(modules=modules, device="cpu").float()
