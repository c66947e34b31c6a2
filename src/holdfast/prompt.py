"""Prompt pooling (PromptBERT): the state at the [MASK] of a template around the sentence is the sentence's vector.

A prompt model consists of sentence-transformers' own modules and works without holdfast: its *tokeniser* puts each text
into the template, and its pooling is ``WordWeights``, with 1 for the mask token and 0 for all others, followed by the
mean. The parts that only training needs, the second template and the template's bias, are in
:class:`~holdfast.encoder.Encoder`.

Jiang et al. PromptBERT: Improving BERT Sentence Embeddings with Prompts. EMNLP 2022.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, WordWeights
from tokenizers import Regex, Tokenizer, normalizers, processors
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from holdfast.errors import UserError
from holdfast.input_limits import input_limit


@dataclass(frozen=True)
class Wording:
    """The texts of a template: before the sentence, per view, and after the sentence, for all views.

    Attributes:
        openings: one text per view. All must have as many tokens as the first.
        closing: a text with one ``{mask}``, which is replaced by the mask token.
    """

    openings: tuple[str, ...]
    closing: str


QUOTED = Wording(('This sentence of "', 'This sentence : "'), '" means {mask}.')
"""PromptBERT's templates for BERT, for tokenisers that split words from punctuation (WordPiece)."""

SPACED = Wording(("This sentence : '", "The sentence : '"), " ' means{mask}.")
"""PromptBERT's templates for RoBERTa, for tokenisers whose tokens include the space before them (byte-level BPE and
SentencePiece): the sentence is between spaces, so that its tokens are the same as in other texts. RoBERTa's mask token
includes the space before it: ``means <mask>.`` has the same tokens."""

_OPENING, _CLOSING, _SEPARATOR = "opening-", "closing", "separator"
_LACKS_FINAL_MARK = r"""(?<=[^\s.?!"'])\s*\z"""


@dataclass(frozen=True)
class Prompt:
    """The template of a prompt model, in token ids.

    Attributes:
        openings: ids before the sentence, including [CLS], per view: tuples of equal length.
        closing: ids after the sentence, including [MASK] and [SEP].
        mask_index: index of [MASK] in the closing.
    """

    openings: tuple[tuple[int, ...], ...]
    closing: tuple[int, ...]
    mask_index: int

    @classmethod
    def of(cls, model: SentenceTransformer) -> Prompt | None:
        """Return the template of a model made by :func:`with_prompt`, loaded or not; None for other models."""
        word_weights = _mask_weights(model)
        template = None if word_weights is None else _template(model.tokenizer)
        if word_weights is None or template is None:
            return None
        (mask,) = word_weights.word_weights
        pieces = template["special_tokens"]
        views = sorted(int(name.removeprefix(_OPENING)) for name in pieces if name.startswith(_OPENING))
        openings = [pieces[f"{_OPENING}{view}"]["ids"] for view in views]
        closing = pieces[_CLOSING]
        return cls(tuple(map(tuple, openings)), tuple(closing["ids"]), closing["tokens"].index(mask))

    @property
    def length(self) -> int:
        """The number of tokens that the template adds to a sentence, [CLS] and [SEP] included."""
        return len(self.openings[0]) + len(self.closing)

    def mask_positions(self, tokens: Tensor) -> Tensor:
        """Return the positions of [MASK] in rows of so many tokens, (rows,) → (rows,)."""
        return tokens - len(self.closing) + self.mask_index

    def alone(self, lengths: Tensor, views: int, first_position: int) -> dict[str, Tensor]:
        """Return the templates without a sentence, with positions that leave a gap of each length.

        Args:
            lengths: (n,), in tokens.
            views: number of templates.
            first_position: the position id of a row's first token.

        Returns:
            ``input_ids``, ``attention_mask`` and ``position_ids``, (v·n, length) each, where v is the smaller of
            ``views`` and the number of openings: all lengths of the first template, then all of the second …
        """
        rows = [[*opening, *self.closing] for opening in self.openings[:views]]
        ids = torch.tensor(rows, device=lengths.device).repeat_interleave(len(lengths), dim=0)
        column = torch.arange(self.length, device=lengths.device)
        positions = first_position + column + (column >= len(self.openings[0])) * lengths[:, None]
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "position_ids": positions.repeat(len(rows), 1),
        }

    def in_views(self, input_ids: Tensor, views: int) -> Tensor:
        """Return the ids (views·B, L) of B sentences, repeated per view, with each view's own opening.

        Raises:
            ValueError: a row does not begin with the first opening: the model's tokeniser was not used.
        """
        width = len(self.openings[0])
        openings = torch.tensor(self.openings, device=input_ids.device)
        if input_ids.shape[1] < self.length or not bool((input_ids[:, :width] == openings[0]).all()):
            raise ValueError("the rows do not begin with the model's prompt: tokenise them with its own tokeniser")
        shown = openings[torch.arange(views, device=input_ids.device) % len(openings)]
        rows = shown.repeat_interleave(len(input_ids) // views, dim=0)
        return torch.cat([rows, input_ids[:, width:]], dim=1)


def template_length(model: SentenceTransformer) -> int:
    """Return the tokens that a model's prompt adds to a sentence, including [CLS] and [SEP]; 0 without a prompt."""
    prompt = Prompt.of(model)
    return 0 if prompt is None else prompt.length


def text_limit(model: SentenceTransformer, added: int = 0) -> int | None:
    """Return the maximum number of tokens of a text, without a template and ``added`` tokens; None: no limit."""
    limit = input_limit(model)
    return None if limit is None else limit - template_length(model) - added


def freeze_pooling(model: SentenceTransformer) -> None:
    """Freeze the weights that select [MASK]: training them would mix other tokens into the vector."""
    if Prompt.of(model) is not None:
        model[1].requires_grad_(False)


def with_prompt(
    model: SentenceTransformer, *, wording: Wording | None = None, name: str = "the model"
) -> SentenceTransformer:
    """Return a prompt model with the transformer of ``model``, whose tokeniser is replaced.

    The default wording is `SPACED` if the tokeniser's tokens include spaces, else `QUOTED`.

    Raises:
        UserError: the model already is a prompt model; the tokeniser is slow or has no mask token, or the wording does
            not fit it.
    """
    if Prompt.of(model) is not None:
        raise UserError(f"{name} has a prompt already")
    transformer: Any = model[0]
    tokenizer = transformer.tokenizer
    if not getattr(tokenizer, "is_fast", False):
        raise UserError(f"{name}: prompt pooling needs a fast tokeniser (a tokenizer.json), this one is slow")
    if tokenizer.mask_token is None:
        raise UserError(f"{name}: prompt pooling needs a mask token, which this tokeniser does not have")
    prompted = _prompted(tokenizer, wording or (SPACED if _tokens_hold_spaces(tokenizer) else QUOTED), name)
    transformer.processor = transformer.input_formatter.processor = prompted
    ids = tokenizer.get_vocab()
    tokens = [""] * (max(ids.values()) + 1)
    for token, index in ids.items():
        tokens[index] = token
    weights = WordWeights(tokens, {tokenizer.mask_token: 1.0}, unknown_word_weight=0.0)
    pooling = Pooling(transformer.get_embedding_dimension(), "mean")
    result = SentenceTransformer(modules=[transformer, weights, pooling], device=str(model.device))
    freeze_pooling(result)
    return result


def _mask_weights(model: SentenceTransformer) -> WordWeights | None:
    """Return the module of a prompt model that selects [MASK]; None for other models."""
    modules = list(model.children())
    if len(modules) != 3 or not isinstance(modules[1], WordWeights) or not isinstance(modules[2], Pooling):
        return None
    one_token = list(modules[1].word_weights.values()) == [1.0] and modules[1].unknown_word_weight == 0.0
    return modules[1] if one_token and modules[2].pooling_mode == "mean" else None


def _template(tokenizer: Any) -> dict[str, Any] | None:
    """Return the template in a tokeniser's post-processor if it is one of holdfast's, else None."""
    processor = getattr(getattr(tokenizer, "backend_tokenizer", None), "post_processor", None)
    if processor is None:
        return None
    state = json.loads(processor.__getstate__())
    for step in state.get("processors", [state]):
        if step["type"] == "TemplateProcessing" and {f"{_OPENING}1", _CLOSING} <= step["special_tokens"].keys():
            found: dict[str, Any] = step
            return found
    return None


# --- the tokeniser -----------------------------------------------------------------------------------------------


def _prompted(tokenizer: Any, wording: Wording, name: str) -> PreTrainedTokenizerFast:
    """Return a tokeniser that puts each text into the template, adds a missing final ".", and truncates only the text.

    It has the generic class: the classes of single models would be rebuilt without the template when loaded. Special
    tokens in a text are read as text (``split_special_tokens``), and the mask token is removed, since some vocabularies
    have it as a word: each row has exactly one [MASK], that of the template.
    """
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    steps: list[Any] = [normalizers.Replace(Regex(_LACKS_FINAL_MARK), ".")]
    steps += [backend.normalizer] if backend.normalizer is not None else []
    steps += [normalizers.Replace(tokenizer.mask_token, " ")]
    if _holds(state["pre_tokenizer"], "ByteLevel"):
        steps += [normalizers.Prepend(" ")]
    backend.normalizer = normalizers.Sequence(steps)
    template = _post_processor(tokenizer, *_ids(tokenizer, wording, name))
    if _holds(state["post_processor"], "RobertaProcessing") or _holds(state["post_processor"], "ByteLevel"):
        # Offsets without the space before a word, as in the original. The space before the first word is added.
        template = processors.Sequence([processors.ByteLevel(add_prefix_space=True, trim_offsets=True), template])
    backend.post_processor = template
    special = {key: value for key, value in tokenizer.special_tokens_map.items() if isinstance(value, str)}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        split_special_tokens=True,
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        padding_side="right",
        truncation_side=tokenizer.truncation_side,
        **special,
    )


def _ids(tokenizer: Any, wording: Wording, name: str) -> tuple[list[list[int]], list[int]]:
    """Return the ids of the openings and of the closing, with the special tokens before and after a text."""

    def plain(text: str) -> list[int]:
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    inner, whole = plain(wording.openings[0]), tokenizer(wording.openings[0])["input_ids"]
    start = next(i for i in range(len(whole)) if whole[i : i + len(inner)] == inner)
    openings = [[*whole[:start], *plain(opening)] for opening in wording.openings]
    closing = [*plain(wording.closing.format(mask=tokenizer.mask_token)), *whole[start + len(inner) :]]
    if closing.count(tokenizer.mask_token_id) != 1 or any(tokenizer.mask_token_id in opening for opening in openings):
        raise UserError(f"{name}: a prompt must have one {{mask}}, after the sentence: {wording.closing!r}")
    lengths = [len(opening) for opening in openings]
    if len(set(lengths)) > 1:
        raise UserError(
            f"{name}: this tokeniser cuts the templates of the views into different numbers of tokens "
            f"({', '.join(map(str, lengths))} before the sentence): prompt pooling is not possible with it"
        )
    return openings, closing


def _post_processor(tokenizer: Any, openings: Sequence[list[int]], closing: list[int]) -> Any:
    """Return the template as a post-processor, which also stores the openings of later views without using them."""
    pieces = {f"{_OPENING}{view}": ids for view, ids in enumerate(openings, start=1)} | {_CLOSING: closing}
    pieces[_SEPARATOR] = [] if tokenizer.sep_token_id is None else [tokenizer.sep_token_id]
    second = int("token_type_ids" in tokenizer.model_input_names)  # token type of a pair's second text
    return processors.TemplateProcessing(
        single=f"{_OPENING}1:0 $A:0 {_CLOSING}:0",
        pair=f"{_OPENING}1:0 $A:0 {_SEPARATOR}:0 $B:{second} {_CLOSING}:{second}",
        special_tokens=[
            {"id": name, "ids": ids, "tokens": tokenizer.convert_ids_to_tokens(ids)} for name, ids in pieces.items()
        ],
    )


def _tokens_hold_spaces(tokenizer: Any) -> bool:
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    return any(_holds(state[part], kind) for part in ("pre_tokenizer", "normalizer") for kind in ("ByteLevel", "▁"))


def _holds(state: Any, value: str) -> bool:
    """Return True if ``value`` occurs anywhere in a part of a tokeniser's state."""
    if isinstance(state, dict):
        state = list(state.values())
    return any(_holds(part, value) for part in state) if isinstance(state, list) else state == value


def pools_one_token(model: SentenceTransformer) -> bool:
    """Return True if the last layer's output is used at one token only: the first, or a prompt's [MASK].

    Without the tokens of a prompt (``include_prompt=False``) "cls" is the first token behind it, which differs by text.
    """
    _, *after = model.children()
    if Prompt.of(model) is not None:
        return True
    if not after or not isinstance(after[0], Pooling) or after[0].pooling_mode != "cls" or not after[0].include_prompt:
        return False
    return all(isinstance(module, (Dense, Normalize)) for module in after[1:])
