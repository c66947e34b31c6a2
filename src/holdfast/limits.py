"""Limits of a model's input: how many tokens it takes, the padding that it needs, and how many texts were cut."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import UserError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn

UNLIMITED = 10**6
"""Tokens that stand for no limit: a tokeniser without one reports a number with thirty digits, or infinity."""

Text = str | tuple[str, ...]
"""A text, or the two of a pair."""

_POSITION_TABLES = ("position_embeddings", "position_embedding", "embed_positions", "wpe")
_AT_ONCE = 512  # texts tokenised in one call


# --- what a model takes ------------------------------------------------------------------------------------------


def token_limit(tokenizer: Any, model: nn.Module) -> int:
    """Return how many tokens a transformer takes, special ones included; `UNLIMITED` where nothing limits it.

    That is what its tokeniser says, or where it says nothing what the configuration does; and never more than the table
    of positions has room for. Relative positions and rotations have no table, and set no limit.

    Args:
        tokenizer: its Hugging Face tokeniser.
        model: a Hugging Face model, with a head or without.
    """
    said = tokenizer.model_max_length
    limit = UNLIMITED if said is None or said > UNLIMITED else int(said)
    configured = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    positions = configured if isinstance(configured, int) and configured > 0 else UNLIMITED  # XLNet says -1
    if limit == UNLIMITED:
        limit = min(limit, positions)
    table = position_table(model)
    # Some tables have spare rows (Nystroemformer's, BART's): the configuration counts those in use.
    return limit if table is None else min(limit, positions, table.num_embeddings - first_position(table))


def position_table(model: nn.Module) -> nn.Embedding | None:
    """Return the embeddings of absolute positions, or None where the model has none."""
    from torch import nn

    for name, module in model.named_modules():
        if name.rpartition(".")[2] in _POSITION_TABLES and isinstance(module, nn.Embedding):
            return module
    return None


def first_position(table: nn.Embedding) -> int:
    """Return the row of a table of positions that is of a text's first token.

    RoBERTa and its kin count from the row after that of padding.
    """
    return 0 if table.padding_idx is None else int(table.padding_idx) + 1


def require_padding(tokenizer: Any, model: Any, spec: str) -> None:
    """Refuse a tokeniser whose texts cannot be put into one batch, or have tokens that the model does not know.

    Args:
        tokenizer: a Hugging Face tokeniser.
        model: its model.
        spec: the model as the user named it.

    Raises:
        UserError: there is no padding token, or a token that the model has no embedding for.
    """
    if tokenizer.pad_token_id is None:
        raise UserError(f"{spec}: its tokeniser has no padding token: set one in its tokenizer_config.json")
    rows = getattr(model.get_input_embeddings(), "num_embeddings", None)
    if rows is not None and tokenizer.pad_token_id >= rows:
        raise UserError(
            f"{spec}: its tokeniser's padding token {tokenizer.pad_token!r} is number {tokenizer.pad_token_id}, and "
            f"the model has embeddings for {rows:,} tokens: set another one in its tokenizer_config.json"
        )
    if rows is None or len(tokenizer) <= rows:
        return
    token, number = max(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    if number >= rows:
        raise UserError(
            f"{spec}: its tokeniser's token {token!r} is number {number:,}, and the model has embeddings for {rows:,} "
            "tokens: save the model after resize_token_embeddings(len(tokenizer)), or put its own tokeniser beside it"
        )


def checked_limit(tokenizer: Any, model: Any, spec: str) -> int:
    """Return `token_limit`, of a model whose tokeniser pads and leaves room for a word.

    Args:
        tokenizer: a Hugging Face tokeniser.
        model: its model.
        spec: the model as the user named it.

    Raises:
        UserError: no padding token; a limit that is no number of tokens, or leaves no room for a word.
    """
    require_padding(tokenizer, model, spec)
    said = tokenizer.model_max_length
    if said is not None and (not isinstance(said, (int, float)) or not said >= 1):
        raise UserError(f"{spec}: its length limit is {said!r}: set max_seq_length to a number of tokens")
    limit, own = token_limit(tokenizer, model), tokenizer.num_special_tokens_to_add()
    if limit <= own:
        raise UserError(
            f"{spec} takes {limit} tokens, of which its tokeniser adds {own} to every text: there is no room for a word"
        )
    return limit


def settle_limits(model: SentenceTransformer, spec: str) -> None:
    """Check what a SentenceTransformer's input needs, and lower its length limit to the positions that it has.

    Raises:
        UserError: what `checked_limit` refuses; a ``truncate_dim`` that is no width.
    """
    dimensions = model.truncate_dim
    if dimensions is not None and (not isinstance(dimensions, int) or dimensions < 1):
        raise UserError(f"{spec}: truncate_dim is {dimensions!r} in its config_sentence_transformers.json: not a width")
    transformer, tokenizer = model.transformers_model, model.tokenizer
    if transformer is None or tokenizer is None:
        return
    limit = checked_limit(tokenizer, transformer, spec)
    if limit < UNLIMITED:
        model.max_seq_length = limit


def input_limit(model: SentenceTransformer) -> int | None:
    """Return how many tokens of a text a model reads, special ones included; None where it reads texts whole."""
    limit = model.max_seq_length
    return None if limit is None or limit >= UNLIMITED else int(limit)


def reading(model: SentenceTransformer) -> dict[str, int | None]:
    """Return what results say of a model's input and output: ``{max_seq_length, dimensions}``.

    The dimensions are those of the vectors in use, which a ``truncate_dim`` may have cut.
    """
    return {"max_seq_length": input_limit(model), "dimensions": model.get_embedding_dimension()}


# --- other limits for a while ------------------------------------------------------------------------------------


def set_limit(model: SentenceTransformer, tokens: int | None) -> None:
    """Set a model's length limit; nothing where its first module reads texts whole and takes none."""
    first: Any = next(iter(model.children()))
    own = getattr(type(first), "max_seq_length", None)
    if hasattr(first, "max_seq_length") and not (isinstance(own, property) and own.fset is None):
        model.max_seq_length = tokens


@contextlib.contextmanager
def limited_to(model: SentenceTransformer, tokens: int | None) -> Iterator[None]:
    """Give a model another length limit inside the block; None: its own."""
    before = model.max_seq_length
    if tokens is None or tokens == before:
        yield
        return
    set_limit(model, tokens)
    try:
        yield
    finally:
        set_limit(model, before)


def lowered(asked: int, model: SentenceTransformer, template: int = 0) -> int:
    """Return the length limit that ``--max-length`` comes to: never more than the model's own.

    Args:
        asked: tokens of a text, a template not counted.
        model: the model, with its own limit.
        template: tokens that the model's prompt adds to each text.
    """
    limit = input_limit(model)
    return asked + template if limit is None else min(asked + template, limit)


def lowered_line(asked: int, limit: int | None, spec: str) -> str | None:
    """Return a line that says that a model takes fewer tokens than ``--max-length``; None where it takes as many.

    Args:
        asked: tokens of a text.
        limit: what the model takes, without its template; None: it reads texts whole.
        spec: the model as the user named it.
    """
    if limit is None or limit >= asked:
        return None
    return f"--max-length {asked}: {spec} takes {limit} tokens, texts are cut there"


# --- texts that were cut -----------------------------------------------------------------------------------------


@dataclass
class Cuts:
    """A count of the texts of which a model read the beginning alone.

    Attributes:
        tokens: how many tokens it read at most; None: it reads texts whole.
        of: texts that were counted.
        texts: those of them that were cut.
        which: the cut texts themselves, where they are to be kept.
    """

    tokens: int | None = None
    of: int = 0
    texts: int = 0
    which: set[Text] | None = None

    def add(self, texts: Sequence[Text], rows: Sequence[int], tokens: int | None) -> None:
        """Count ``texts``, of which those in ``rows`` were cut after so many ``tokens``."""
        self.tokens = tokens
        self.of += len(texts)
        self.texts += len(rows)
        if self.which is not None:
            self.which.update(texts[row] for row in rows)

    def record(self) -> dict[str, int | None]:
        """Return the count as results hold it: ``{texts, of, tokens}``."""
        return {"texts": self.texts, "of": self.of, "tokens": self.tokens}


def cut_line(truncated: Mapping[str, Any] | None) -> str | None:
    """Return a line that says how many texts were cut, and at what length; None where none was.

    Args:
        truncated: what `Cuts.record` returned, or None where nothing was counted.
    """
    if not truncated or not truncated["texts"]:
        return None
    cut, of, tokens = (truncated[name] for name in ("texts", "of", "tokens"))
    are, were = ("is", "was") if cut == 1 else ("are", "were")
    return f"{cut:,} of {of:,} text{'s' * (of != 1)} {are} longer than {tokens:,} tokens and {were} cut"


def cut_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each row of results whose texts were longer than the model reads."""
    said = [(row, cut_line(row.get("truncated"))) for row in rows]
    names = [" ".join(str(row[part]) for part in ("task", "split", "recipe") if part in row) for row, _ in said]
    return [f"{name}: {line}" for name, (_, line) in zip(names, said, strict=True) if line is not None]


def cut_rows(tokenizer: Any, texts: Sequence[Text], encoded: Mapping[str, Any], limit: int | None) -> list[int]:
    """Return the rows of a tokenised batch whose texts were cut.

    Args:
        tokenizer: what tokenised them.
        texts: n texts, or pairs of texts.
        encoded: what came of it.
        limit: the most tokens of a row; None: nothing is cut.
    """
    if limit is None:
        return []
    encodings = getattr(encoded, "encodings", None)
    if encodings is not None:  # a fast tokeniser keeps what it cut off
        return [row for row, encoding in enumerate(encodings) if encoding.overflowing]
    if "attention_mask" not in encoded:
        return []
    mask = encoded["attention_mask"]
    masks: list[list[int]] = mask.tolist() if hasattr(mask, "tolist") else mask
    full = [row for row, real in enumerate(masks) if sum(real) >= limit]
    return [row for row in full if _tokens_of(tokenizer, texts[row]) > limit]


def _tokens_of(tokenizer: Any, text: Text) -> int:
    """Return how many tokens a text, or a pair, has uncut. Only texts as long as the limit are tokenised for it."""
    parts = (text,) if isinstance(text, str) else text
    added = getattr(tokenizer, "num_special_tokens_to_add", None)
    special = 0 if added is None else int(added(len(parts) > 1))
    return special + sum(len(tokenizer.tokenize(part)) for part in parts)


def count_cut(tokenizer: Any, texts: Sequence[Text], limit: int | None, cuts: Cuts | None = None) -> Cuts:
    """Return how many texts, or pairs, are longer than a limit: for texts that are not tokenised all together anyway.

    Args:
        tokenizer: of the model. Of one that is not Hugging Face's nothing can be told, and none is counted as cut.
        texts: n texts or pairs.
        limit: the most tokens of a text; None: nothing is cut.
        cuts: a count to add to; None: a new one.
    """
    cuts = Cuts() if cuts is None else cuts
    if limit is None or not callable(tokenizer):
        cuts.add(texts, [], limit)
        return cuts
    for start in range(0, len(texts), _AT_ONCE):
        part = texts[start : start + _AT_ONCE]
        columns = [list(column) for column in zip(*((t,) if isinstance(t, str) else t for t in part), strict=True)]
        encoded = tokenizer(*columns, truncation=True, max_length=limit, verbose=False)
        cuts.add(part, cut_rows(tokenizer, part, encoded, limit), limit)
    return cuts
