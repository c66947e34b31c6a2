"""A tokeniser that puts a prompt before each text, or the first text of a pair, for a fine-tuned classifier.

A Hugging Face sequence classifier has no place for a prompt beside its tokeniser. In the template of the tokeniser it
is in the exported folder, works without holdfast, is never cut off, and belongs to no text: its tokens have no offsets.
"""

from __future__ import annotations

from typing import Any

from tokenizers import Tokenizer, normalizers, processors
from transformers import PreTrainedTokenizerFast

from holdfast.errors import UserError

_PROMPT = "prompt"


def with_prompt_before(tokenizer: Any, prompt: str, name: str) -> PreTrainedTokenizerFast:
    """Return a tokeniser with the prompt in its template.

    The prompt is tokenised alone, without blanks at its end: the tokens of a text never join it.

    Args:
        tokenizer: a fast tokeniser.
        prompt: the text of the prompt.
        name: the model, for messages.

    Raises:
        UserError: the tokeniser is slow, or the prompt has no tokens.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise UserError(f"{name}: a prompt before a classifier's texts needs a fast tokeniser: use --no-prompt")
    ids: list[int] = tokenizer(prompt.rstrip(), add_special_tokens=False)["input_ids"]
    if not ids:
        raise UserError(f"{name}: its tokeniser reads nothing in the prompt {prompt!r}: use --no-prompt")
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    by_bytes = "ByteLevel" in str(backend.pre_tokenizer)
    if prompt != prompt.rstrip():
        spaced = _with_blank_before(backend)
        whole = tokenizer(f"{prompt}a", add_special_tokens=False)["input_ids"]
        if by_bytes or whole == [*ids, *spaced.encode("a", add_special_tokens=False).ids]:
            backend = spaced
    template = _template(backend, ids, tokenizer)
    if by_bytes:
        template = processors.Sequence([processors.ByteLevel(add_prefix_space=True, trim_offsets=True), template])
    backend.post_processor = template
    special = {key: value for key, value in tokenizer.special_tokens_map.items() if isinstance(value, str)}
    # The generic class: those of single models would be rebuilt without the template when they are loaded.
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        padding_side=tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
        **special,
    )


def _with_blank_before(backend: Tokenizer) -> Tokenizer:
    """Return a copy that reads a text as if a blank were before it, which many tokenisers join to the first word."""
    spaced = Tokenizer.from_str(backend.to_str())
    steps = [spaced.normalizer] if spaced.normalizer is not None else []
    spaced.normalizer = normalizers.Sequence([normalizers.Prepend(" "), *steps])  # before a step that replaces blanks
    return spaced


def _template(backend: Tokenizer, prompt: list[int], tokenizer: Any) -> Any:
    """Return the template of the special tokens that ``backend`` puts around texts, and the prompt before the first."""
    single, pair = backend.encode("a"), backend.encode("a", "a")
    pieces = {_PROMPT: prompt}
    layouts = []
    for encoding in (single, pair):
        layout, last = [], None
        for sequence, number, kind in zip(encoding.sequence_ids, encoding.ids, encoding.type_ids, strict=True):
            if sequence is None:
                pieces[f"token-{number}"] = [number]
                layout.append(f"token-{number}:{kind}")
            elif sequence != last:  # a text of several tokens is one piece
                layout += [f"{_PROMPT}:{kind}"] if sequence == 0 else []
                layout.append(f"${'AB'[sequence]}:{kind}")
                last = sequence
        layouts.append(" ".join(layout))
    return processors.TemplateProcessing(
        single=layouts[0],
        pair=layouts[1],
        special_tokens=[
            {"id": name, "ids": ids, "tokens": tokenizer.convert_ids_to_tokens(ids)} for name, ids in pieces.items()
        ],
    )
