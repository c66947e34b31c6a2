"""`normalise` inside a model's tokeniser, so that the saved model needs no holdfast.

A tokeniser's normaliser is a sequence of replacements by regular expressions (Oniguruma), which cannot reorder
characters or count words. :func:`with_normaliser` says how it differs from the function.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Regex, Tokenizer, normalizers
from transformers import PreTrainedTokenizerFast

from holdfast.edits.confusables import (
    inside_words,
    latin_readings,
    readings_in_mixed_words,
    readings_inside_words,
    script_of,
)
from holdfast.edits.words import STOP_WORDS
from holdfast.errors import UserError

_LONGEST = 12
"""Characters of a word that a look-behind can pass; Oniguruma wants fixed numbers."""

_MARK = "\ue0f0"
"""A private character before each look-alike that is to be folded, between two replacements."""

_NEAR = 40
"""Characters before a look-alike in which other letters are looked for; those after it are all looked at."""

_LATIN, _ANY = r"\p{Latin}", r"[\s\S]"

_HELD = "\ue0f1"
"""The first private character that stands for a look-alike that NFKC would change into another letter."""

_WITH_JOINERS = (
    *("Arabic", "Syriac", "Mongolian", "Nko", "Thaana", "Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya"),
    *("Tamil", "Telugu", "Kannada", "Malayalam", "Sinhala", "Thai", "Lao", "Tibetan", "Myanmar", "Khmer"),
)


def with_normaliser(model: SentenceTransformer, *, name: str = "the model") -> SentenceTransformer:
    """Return a model whose tokeniser normalises each text first, with the modules of ``model``; weights stay.

    It does what :func:`holdfast.edits.normalising.normalise` does, with these differences:

    - A text between RLO and its end that is written backwards is not put in order; the controls are removed.
    - NFKC applies to all of the text, wide letters in Japanese and fractions included.
    - A word is judged by itself and its neighbours, not by the whole text. A word in one other script is folded only if
      Latin words are before and after it (or the end of the text). Look-alikes in a mixed word are folded if a Latin
      letter is at most 12 characters before them or anywhere after them in the word, whatever script the text is in.
    - A lone ı, and Greek letters beside fewer than two small Latin letters, are never folded, but for function words of
      two letters.

    Args:
        model: a model with a fast tokeniser (a tokenizer.json). Its tokeniser is replaced in place.
        name: the model's name, for messages.

    Raises:
        UserError: the tokeniser is slow or has the normaliser already, or confusable-homoglyphs is not installed.
    """
    module: Any = model[0]
    if isinstance(module, StaticEmbedding):
        backend = Tokenizer.from_str(module.tokenizer.to_str())
        backend.normalizer = _before(backend, name)
        module.tokenizer = backend
        return model
    tokenizer: Any = getattr(module, "tokenizer", None)
    if not getattr(tokenizer, "is_fast", False) or not hasattr(module, "input_formatter"):
        raise UserError(f"{name}: normalising needs a fast tokeniser (a tokenizer.json), which this model lacks")
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    backend.normalizer = _before(backend, name)
    special = {key: value for key, value in tokenizer.special_tokens_map.items() if isinstance(value, str)}
    # The generic class: the classes of single models are rebuilt without the normaliser when they are loaded.
    module.processor = module.input_formatter.processor = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        split_special_tokens=getattr(tokenizer, "split_special_tokens", False),
        model_max_length=tokenizer.model_max_length,
        model_input_names=tokenizer.model_input_names,
        padding_side=tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
        **special,
    )
    return model


def is_normalised(backend: Tokenizer) -> bool:
    """Return True if a tokeniser has the normaliser of `with_normaliser`."""
    return f'"{_MARK}[' in backend.to_str()


def _before(backend: Tokenizer, name: str) -> Any:
    """Return the normaliser, followed by the tokeniser's own."""
    if is_normalised(backend):
        raise UserError(f"{name} normalises its texts already")
    own = [] if backend.normalizer is None else [backend.normalizer]
    return normalizers.Sequence([*_invisible(), *_compatible_and_folded(), *own])


# --- invisible characters ------------------------------------------------------------------------------------------


def _invisible() -> list[Any]:
    """Return replacements that remove control, zero-width and bidirectional characters."""
    scripts = "".join(rf"\p{{{script}}}" for script in _WITH_JOINERS)
    arabic_signs = r"\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2"
    tags = r"\x{e0020}-\x{e007f}"
    patterns = [
        rf"[\p{{Cc}}&&[^\t\n\r\x0b\x0c\x1c-\x1f\u0085]]|[\p{{Cf}}&&[^\u200b-\u200d{arabic_signs}{tags}]]"
        r"|[\u034f\u115f\u1160\u17b4\u17b5\u180e\u3164\uffa0]",
        rf"(?<![{scripts}\u064b-\u065f\p{{So}}\p{{Sk}}\ufe00-\ufe0f])[\u200b-\u200d]+",
        r"(?<=[\p{Latin}\p{Greek}\p{Cyrillic}])[\ufe00-\ufe0f\x{e0100}-\x{e01ef}]",
        rf"(?<![\x{{1f3f4}}{tags}])[{tags}]+",
    ]
    return [normalizers.Replace(Regex(pattern), "") for pattern in patterns]


# --- NFKC and look-alikes ------------------------------------------------------------------------------------------


def _compatible_and_folded() -> list[Any]:
    """Return NFKC, and replacements that fold look-alikes: one that marks them, and one for each ASCII letter."""
    readings = readings_in_mixed_words()
    lost = [c for c in readings if readings.get(unicodedata.normalize("NFKC", c)) != readings[c]]
    held = {c: chr(ord(_HELD) + number) for number, c in enumerate(sorted(lost))}
    after = {held.get(c, unicodedata.normalize("NFKC", c)): letter for c, letter in readings.items()}
    scripts = {held.get(c, c): script_of(c) for c in readings if held.get(c, c) in after}
    inside = readings_inside_words()
    signs: list[Any] = [
        normalizers.Replace(Regex(inside_words(_class(c for c in inside if inside[c] == x))), x)
        for x in sorted(set(inside.values()))
    ]
    steps = [*signs, *(normalizers.Replace(c, stand_in) for c, stand_in in held.items())]
    steps += [normalizers.NFKC(), normalizers.Replace(Regex(_disguised(after, scripts)), _MARK)]
    letters = sorted(set(after.values()))
    steps += [normalizers.Replace(Regex(f"{_MARK}{_class(c for c in after if after[c] == x)}"), x) for x in letters]
    return [*steps, *signs, *(normalizers.Replace(stand_in, c) for c, stand_in in held.items())]


def _disguised(readings: Mapping[str, str], scripts: Mapping[str, str]) -> str:
    """Return a pattern that matches, without a character, before each look-alike that is to be folded.

    ``readings`` and ``scripts`` tell of each look-alike which letter it looks like, and its script.
    """
    symbols = {c for c in readings if scripts[c] == "GREEK" or c == "ı"}  # or letters of another alphabet
    foreign = {c for c in readings if scripts[c] not in ("GREEK", "LATIN") and c.isalpha()}
    small = {*string.ascii_lowercase, *(c for c in readings if c not in symbols and readings[c].islower())}
    alike = "".join(map(_escaped, sorted(readings)))
    run, unread = rf"[{alike}\p{{Latin}}\d\p{{M}}]", rf"[\p{{L}}&&[^{alike}\p{{Latin}}]]"
    listed = "".join(_escaped(c) for c in sorted(readings) if c in latin_readings() or c >= _HELD)
    honest = rf"[\p{{L}}&&[^{listed}\p{{Latin}}]]"

    def has(characters: str) -> str:
        """Return a condition: the text has one of the characters after this place, or shortly before it."""
        return rf"(?:(?=[\s\S]*{characters})|(?<={_up_to(characters, _ANY, _NEAR)}))"

    without_honest = rf"(?![\s\S]*{honest})(?<!{_up_to(honest, _ANY, _NEAR)})"
    mixed = rf"(?:(?={run}*{_LATIN})|(?<={_up_to(_LATIN, run)}))"
    some, two_before = (
        _class(small),
        "|".join([_up_to(_class(small) * 2, run), _up_to(_class(small) + run + _class(small), run)]),
    )
    two_small = rf"(?:(?={run}*{some}{run}*{some})|(?<={_up_to(some, run)})(?={run}*{some})|(?<={two_before}))"
    in_word = rf"(?<!{unread})(?!{run}*{unread})"
    letters = rf"(?!{_class(symbols)})(?:{in_word}{mixed}|(?={_class(foreign)}){without_honest}{has('[A-Za-z]')})"
    greek = rf"(?={_class(symbols)})(?:(?!ı){in_word}{two_small}|{without_honest}{has(_class(foreign))})"
    # One look at the character first: most places of a text are none of these.
    return rf"(?=[{alike}])(?:{'|'.join([letters, greek, *_function_words(readings, symbols)])})"


def _up_to(before: str, between: str, most: int = _LONGEST) -> str:
    """Return the alternatives of a look-behind: ``before``, then at most so many characters."""
    return "|".join(f"{before}{between}{{{number}}}" if number else before for number in range(most + 1))


def _function_words(readings: Mapping[str, str], greek: set[str]) -> list[str]:
    """Return patterns of a Greek letter in an English function word of two letters."""
    patterns = []
    for word in sorted(word for word in STOP_WORDS if len(word) == 2):
        first, second = (_class(c for c in greek if readings[c].lower() == letter) for letter in word)
        if first != "[]":
            patterns.append(rf"(?<!\w)(?={first}(?i:{word[1]})(?!\w))")
        if second != "[]":
            patterns.append(rf"(?<=\A(?i:{word[0]})|\W(?i:{word[0]}))(?={second}(?!\w))")
    return patterns


def _class(characters: Iterable[str]) -> str:
    return f"[{''.join(map(_escaped, sorted(characters)))}]"


def _escaped(character: str) -> str:
    return f"\\x{{{ord(character):x}}}"
