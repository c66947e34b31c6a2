"""Limits of a model's input: maximum number of tokens, padding token, and counts of truncated texts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.errors import UserError, emit_notice
from holdfast.shortening import shortened_for

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn

UNLIMITED = 10**6
"""Numbers of tokens from here on mean no limit: tokenisers without one report a huge number or infinity."""

Text = str | tuple[str, ...]
"""A text, or the two texts of a pair."""

_POSITION_TABLES = ("position_embeddings", "position_embedding", "embed_positions", "wpe")
_AT_ONCE = 512  # texts tokenised in one call


# --- limits of a model -------------------------------------------------------------------------------------------


def token_limit(tokenizer: Any, model: nn.Module) -> int:
    """Return the maximum number of tokens of a transformer, special ones included; `UNLIMITED` if there is none.

    This is the limit of its tokeniser, or else of its configuration, and never more than the size of the table of
    positions. Relative and rotary positions have no table and set no limit.
    """
    maximum = tokenizer.model_max_length
    limit = UNLIMITED if maximum is None or maximum > UNLIMITED else int(maximum)
    configured = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    positions = configured if isinstance(configured, int) and configured > 0 else UNLIMITED  # XLNet has -1
    if limit == UNLIMITED:
        limit = min(limit, positions)
    table = position_table(model)
    # Some tables have unused rows (Nystroemformer, BART): the configuration has the number of used ones.
    return limit if table is None else min(limit, positions, table.num_embeddings - first_position(table))


def position_table(model: nn.Module) -> nn.Embedding | None:
    """Return the embeddings of absolute positions, or None if the model has none."""
    from torch import nn

    for name, module in model.named_modules():
        if name.rpartition(".")[2] in _POSITION_TABLES and isinstance(module, nn.Embedding):
            return module
    return None


def first_position(table: nn.Embedding) -> int:
    """Return the row of a position table for a text's first token.

    RoBERTa and similar models count from the row after that of padding.
    """
    return 0 if table.padding_idx is None else int(table.padding_idx) + 1


def require_padding(tokenizer: Any, model: Any, spec: str) -> None:
    """Refuse a tokeniser that cannot pad a batch, or has tokens that its model, named ``spec``, does not know.

    One with an end token and without a padding token, as of decoders, pads with that of the model's configuration, else
    with its end token; a line says so.

    Raises:
        UserError: there is neither a padding nor an end token, or the model has no embedding for a token.
    """
    if tokenizer.pad_token_id is None and tokenizer.eos_token_id is not None:
        _borrow_padding(tokenizer, model, spec)
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


def _borrow_padding(tokenizer: Any, model: Any, spec: str) -> None:
    """Let a tokeniser pad with the padding token of its model's configuration, else with its end token.

    A decoder classifies the last token of a row that is not the configuration's padding, so that no other may pad.
    """
    config = getattr(model, "config", None)
    number = None if config is None else config.get_text_config().pad_token_id
    if number is not None and 0 <= number < len(tokenizer):
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(number)
        emit_notice(f"{spec}: its tokeniser has no padding token: padded with config.json's, {tokenizer.pad_token!r}")
    else:
        tokenizer.pad_token = tokenizer.eos_token
        emit_notice(f"{spec}: its tokeniser has no padding token: padded with its end token {tokenizer.eos_token!r}")


def checked_limit(tokenizer: Any, model: Any, spec: str) -> int:
    """Return `token_limit`, after checks that the tokeniser can pad and leaves room for a word.

    Raises:
        UserError: there is no padding token; the limit is not a number of tokens, or leaves no room for a word.
    """
    require_padding(tokenizer, model, spec)
    maximum = tokenizer.model_max_length
    if maximum is not None and (not isinstance(maximum, (int, float)) or not maximum >= 1):
        raise UserError(f"{spec}: its length limit is {maximum!r}: set max_seq_length to a number of tokens")
    limit, special = token_limit(tokenizer, model), tokenizer.num_special_tokens_to_add()
    if limit <= special:
        raise UserError(
            f"{spec} takes {limit} tokens, and its tokeniser adds {special} special tokens: no word of a text fits"
        )
    return limit


def settle_limits(model: SentenceTransformer, spec: str) -> None:
    """Check a SentenceTransformer's tokeniser, and lower its length limit to its number of positions.

    Raises:
        UserError: as in `checked_limit`; or ``truncate_dim`` is not a positive number.
    """
    dimensions = model.truncate_dim
    if dimensions is not None and (not isinstance(dimensions, int) or dimensions < 1):
        raise UserError(f"{spec}: truncate_dim is {dimensions!r} in its config_sentence_transformers.json: not a width")
    if (routes := _routes(model)) is not None:
        for module in routes:
            limit = checked_limit(module.tokenizer, module.model, spec)
            if limit < UNLIMITED:
                module.max_seq_length = limit
        return
    transformer, tokenizer = model.transformers_model, model.tokenizer
    if transformer is None or tokenizer is None:
        return
    limit = checked_limit(tokenizer, transformer, spec)
    if limit < UNLIMITED:
        model.max_seq_length = limit


def _routes(model: SentenceTransformer) -> list[Any] | None:
    """Return the transformers of the routes of a model with several; None for other models."""
    from sentence_transformers.sentence_transformer.modules import Router, Transformer

    first = next(iter(model.children()), None)
    return [each for each in first.modules() if isinstance(each, Transformer)] if isinstance(first, Router) else None


def input_limit(model: SentenceTransformer) -> int | None:
    """Return the maximum number of tokens that a model reads, special ones included; None: no limit."""
    limit = model.max_seq_length
    return None if limit is None or limit >= UNLIMITED else int(limit)


def input_protocol(model: SentenceTransformer) -> dict[str, int | None]:
    """Return the entries of results on a model's input and output: ``{max_seq_length, dimensions}``.

    The dimensions are those of the vectors in use, after ``truncate_dim``.
    """
    return {"max_seq_length": input_limit(model), "dimensions": model.get_embedding_dimension()}


# --- temporary limits --------------------------------------------------------------------------------------------


def set_limit(model: SentenceTransformer, tokens: int | None) -> None:
    """Set a model's length limit; no effect if its first module has none."""
    first: Any = next(iter(model.children()))
    attribute = getattr(type(first), "max_seq_length", None)
    if hasattr(first, "max_seq_length") and not (isinstance(attribute, property) and attribute.fset is None):
        model.max_seq_length = tokens


@contextlib.contextmanager
def limited_to(model: SentenceTransformer, tokens: int | None) -> Iterator[None]:
    """Set another length limit of a model inside the block; None: keep its own."""
    before = model.max_seq_length
    if tokens is None or tokens == before:
        yield
        return
    of_routes = [(module, module.max_seq_length) for module in _routes(model) or ()]
    set_limit(model, tokens)
    try:
        yield
    finally:
        set_limit(model, before)
        for module, limit in of_routes:
            module.max_seq_length = limit


def lowered(requested: int, model: SentenceTransformer, template: int = 0) -> int:
    """Return the limit for ``--max-length`` and the tokens of the template: never more than the model's own."""
    limit = input_limit(model)
    return requested + template if limit is None else min(requested + template, limit)


def lowered_line(requested: int, limit: int | None, spec: str) -> str | None:
    """Return a message if a model takes fewer tokens than ``--max-length``, else None; neither counts a template."""
    if limit is None or limit >= requested:
        return None
    return f"--max-length {requested}: {spec} takes {limit} tokens, texts are cut there"


# --- truncated texts ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenCounts:
    """The tokens of a batch of texts.

    Attributes:
        read: tokens that the model reads of each text, special ones included.
        lost: tokens beyond the limit, by the row of the truncated text.
    """

    read: Sequence[int]
    lost: Mapping[int, int]

    def of_whole(self, shortened: Sequence[str], whole: Sequence[str]) -> TokenCounts:
        """Return the counts of texts of which only a part was tokenised, estimated by their numbers of characters."""
        lost = {
            row: tokens + round((self.read[row] + tokens) * (len(whole[row]) / len(shortened[row]) - 1))
            for row, tokens in self.lost.items()
        }
        return TokenCounts(self.read, lost)


@dataclass
class Cuts:
    """A count of truncated texts.

    Attributes:
        tokens: maximum number of tokens of the model; None: no limit.
        of: number of counted texts.
        texts: number of truncated texts among them.
        read: number of tokens read, special ones included.
        lost: number of tokens beyond the limit.
        kept: (tokens read, tokens lost) of each counted text; None: they are not kept.
    """

    tokens: int | None = None
    of: int = 0
    texts: int = 0
    read: int = 0
    lost: int = 0
    kept: dict[Text, tuple[int, int]] | None = None

    def add(self, texts: Sequence[Text], counts: TokenCounts, tokens: int | None) -> None:
        """Count ``texts``, truncated at ``tokens``."""
        self.tokens = tokens
        self.of += len(texts)
        self.texts += len(counts.lost)
        self.read += sum(counts.read)
        self.lost += sum(counts.lost.values())
        if self.kept is not None:
            self.kept.update(
                (text, (read, counts.lost.get(row, 0)))
                for row, (text, read) in enumerate(zip(texts, counts.read, strict=True))
            )

    def among(self, texts: Iterable[Text]) -> Cuts:
        """Return the count of some distinct texts among those of ``kept``."""
        found = [(self.kept or {}).get(text, (0, 0)) for text in set(texts)]
        lost = [lost for _, lost in found if lost]
        return Cuts(self.tokens, len(found), len(lost), sum(read for read, _ in found), sum(lost))

    def record(self) -> dict[str, int | float | None]:
        """Return the count for results: ``{texts, of, tokens, lost_percent}``, the last of all tokens of the texts."""
        share = round(100 * self.lost / (self.read + self.lost), 2) if self.lost else 0.0
        return {"texts": self.texts, "of": self.of, "tokens": self.tokens, "lost_percent": share}


def cut_line(truncated: Mapping[str, Any] | None) -> str | None:
    """Return a message on the truncated texts of a `Cuts.record` and the limit; None if none was truncated."""
    if not truncated or not truncated["texts"]:
        return None
    cut, of, tokens, lost = (truncated[name] for name in ("texts", "of", "tokens", "lost_percent"))
    are, were = ("is", "was") if cut == 1 else ("are", "were")
    texts = f"text{'s' * (of != 1)}"
    share = "less than 0.1" if lost < 0.1 else f"{lost:.1f}"
    cut_there = f"{are} longer than {tokens:,} tokens and {were} cut"
    return f"{cut:,} of {of:,} {texts} {cut_there}: {share} % of all tokens are lost"


def cut_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a message for each row of results with truncated texts."""
    lines = []
    for row in rows:
        if line := cut_line(row.get("truncated")):
            name = " ".join(str(row[part]) for part in ("task", "split", "recipe") if part in row)
            lines.append(f"{name}: {line}")
    return lines


def count_tokens(tokenizer: Any, texts: Sequence[Text], encoded: Mapping[str, Any], limit: int | None) -> TokenCounts:
    """Return the tokens of a tokenised batch of texts, or pairs, that was truncated at ``limit`` tokens.

    Without token ids or an attention mask (bags of words) the numbers of tokens are zero.
    """
    read = _tokens_read(encoded, len(texts))
    encodings = getattr(encoded, "encodings", None)
    if limit is None:
        return TokenCounts(read, {})
    if encodings is not None:  # a fast tokeniser keeps the truncated part
        cut = {row: encoding.overflowing for row, encoding in enumerate(encodings) if encoding.overflowing}
        if not any(_is_pair(texts[row]) for row in cut):  # the parts of pairs are given in all combinations
            return TokenCounts(read, {row: sum(map(_plain_tokens, parts)) for row, parts in cut.items()})
        full = list(cut)
    else:
        full = [row for row, tokens in enumerate(read) if tokens >= limit]
    whole = {row: _tokens_of(tokenizer, texts[row]) for row in full}
    return TokenCounts(read, {row: tokens - limit for row, tokens in whole.items() if tokens > limit})


def _is_pair(text: Text) -> bool:
    return not isinstance(text, str) and len(text) > 1


def _plain_tokens(encoding: Any) -> int:
    """Return the number of tokens of an encoding that are not special."""
    return int(encoding.special_tokens_mask.count(0))


def _tokens_read(encoded: Mapping[str, Any], texts: int) -> list[int]:
    mask = encoded.get("attention_mask")
    if mask is None or (hasattr(mask, "ndim") and (mask.ndim != 2 or len(mask) != texts)):
        return [0] * texts
    return [int(tokens) for tokens in mask.sum(axis=1)] if hasattr(mask, "sum") else [sum(row) for row in mask]


def _tokens_of(tokenizer: Any, text: Text) -> int:
    """Return the number of tokens of a text, or of a pair, without truncation."""
    parts = (text,) if isinstance(text, str) else text
    added = getattr(tokenizer, "num_special_tokens_to_add", None)
    special = 0 if added is None else int(added(len(parts) > 1))
    return special + sum(len(tokenizer.tokenize(part)) for part in parts)


def count_cut(tokenizer: Any, texts: Sequence[Text], limit: int | None, cuts: Cuts | None = None) -> Cuts:
    """Tokenise texts, or pairs, in order to count those longer than ``limit`` tokens, in ``cuts`` if it is given.

    If the tokeniser is not one of Hugging Face, no text is counted as truncated.
    """
    cuts = Cuts() if cuts is None else cuts
    if limit is None or not callable(tokenizer):
        cuts.add(texts, TokenCounts([0] * len(texts), {}), limit)
        return cuts
    for start in range(0, len(texts), _AT_ONCE):
        part = texts[start : start + _AT_ONCE]
        columns = [list(column) for column in zip(*((t,) if isinstance(t, str) else t for t in part), strict=True)]
        whole = columns[0]
        if len(columns) == 1:
            columns = [shortened_for(tokenizer, whole, limit)]
        encoded = tokenizer(*columns, truncation=True, max_length=limit, verbose=False)
        counts = count_tokens(tokenizer, part, encoded, limit)
        cuts.add(part, counts.of_whole(columns[0], whole) if len(columns) == 1 else counts, limit)
    return cuts
