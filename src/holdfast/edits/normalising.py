"""Normalisation of texts: evasion by invisible characters, writing direction and look-alike letters undone."""

from __future__ import annotations

import itertools
import re
import unicodedata

from holdfast.edits.confusables import fold_confusables, fold_inside_words, latin_readings, script_of
from holdfast.edits.display_order import in_display_order

JOINERS = "\u200b\u200c\u200d"
"""Zero-width space, non-joiner and joiner: spelling in some scripts, and parts of emoji."""

_INVISIBLE = "\u034f\u115f\u1160\u17b4\u17b5\u180e\u3164\uffa0"
"""Characters without width that are not of a category of controls."""

_VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_TAGS = re.compile("[\U000e0020-\U000e007f]")
_ARABIC_SIGNS = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
_WHITE = frozenset("\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85")

WITHOUT_JOINERS = frozenset(
    "LATIN GREEK CYRILLIC ARMENIAN GEORGIAN HEBREW CHEROKEE HAN HIRAGANA KATAKANA BOPOMOFO HANGUL".split()
)
"""Scripts whose spelling has no joiners."""

WITH_WIDE_FORMS = frozenset("HAN HIRAGANA KATAKANA BOPOMOFO HANGUL YI THAI LAO TIBETAN".split())
"""Scripts in whose texts compatibility characters are ordinary spelling (wide letters and signs, vowels of Thai)."""


def normalise(text: str) -> str:
    """Return a text as it is read: displayed order, no invisible characters, NFKC, look-alikes as Latin letters.

    1. A text that bidirectional controls display in another order is put into that order, and they are removed
       (`holdfast.edits.display_order.in_display_order`).
    2. Control and zero-width characters are removed, tabs and line ends excepted. Joiners stay where they are spelling
       (Persian, the scripts of India) or part of an emoji, and so do variation selectors after signs.
    3. NFKC. Words with a letter of a script in `WITH_WIDE_FORMS`, fractions, superscript and subscript digits, and
       accents that stand alone are only brought to NFC: NFKC would change what they say (3½ to 31⁄2, 10² to 102).
    4. Look-alikes of Latin letters are folded in words that are Latin to a reader
       (`holdfast.edits.confusables.fold_confusables`).

    Leetspeak, letters set apart and emoji are not undone. The function is idempotent for ordinary texts, and ordinary
    texts in any script stay as they are.

    Raises:
        UserError: the text is not ASCII, and confusable-homoglyphs is not installed.
    """
    if text.isascii():
        return text if text.isprintable() else _visible(text)
    compatible = _compatible(fold_inside_words(_visible(in_display_order(text))))
    folded = fold_inside_words(fold_confusables(compatible))
    return unicodedata.normalize("NFC", folded)  # a folded letter may compose with its accent


def _visible(text: str) -> str:
    """Return the text without characters that are not seen."""
    kept: list[str] = []
    for character in text:
        if (
            character.isprintable() and character not in _INVISIBLE and not _VARIATION_SELECTORS.match(character)
        ) or _is_spelling(character, kept):
            kept.append(character)
    return "".join(kept)


def _is_spelling(character: str, before: list[str]) -> bool:
    """Return True if a character that is not seen belongs to the text before it, or is white space."""
    if _VARIATION_SELECTORS.match(character):
        return bool(before) and (not before[-1].isalpha() or script_of(before[-1]) in ("HAN", "MONGOLIAN"))
    base = next((c for c in reversed(before) if not unicodedata.combining(c)), "")
    if character in JOINERS:
        return bool(base) and (_is_emoji(base) if not base.isalpha() else script_of(base) not in WITHOUT_JOINERS)
    if _TAGS.match(character):
        return base == "\U0001f3f4" or bool(_TAGS.match(base))
    if character in _WHITE or character in _ARABIC_SIGNS:
        return True
    return character not in _INVISIBLE and unicodedata.category(character) not in ("Cc", "Cf")


def _is_emoji(character: str) -> bool:
    return unicodedata.category(character) in ("So", "Sk") or bool(_VARIATION_SELECTORS.match(character))


# --- NFKC --------------------------------------------------------------------------------------------------------

_ORDINALS = "ªº"
_SIGNS = "™℠"
_WORD_OR_WHITE = re.compile(r"\S+|\s+")


def _compatible(text: str) -> str:
    """Return the text in NFKC where that keeps what it says, and in NFC elsewhere."""
    return "".join(_compatible_part(part) for part in _WORD_OR_WHITE.findall(unicodedata.normalize("NFC", text)))


def _compatible_part(part: str) -> str:
    if part.isascii() or (part.isspace() and "\u3000" in part):
        return part
    if any(script_of(character) in WITH_WIDE_FORMS for character in part if character.isalpha()):
        return part
    pieces, begin, raised = [], 0, _raised_places(part)
    for place, character in enumerate(part):
        if place in raised or _says_more(character):
            pieces += [unicodedata.normalize("NFKC", part[begin:place]), character]
            begin = place + 1
    return "".join(pieces) + unicodedata.normalize("NFKC", part[begin:])


def _raised_places(part: str) -> set[int]:
    """Return the places of raised and lowered characters that say more than plain ones: 10⁻³, 2ⁿ, Ca²⁺, ™.

    Words in such letters, and runs of them (1ˢᵗ), are styled: they say the same in plain ones.
    """
    found, begin = set[int](), 0
    for kind, group in itertools.groupby(part, _is_raised):
        run = "".join(group)
        styled = run.isalpha() and (len(run) > 1 or run == part) and not set(run) & set(_SIGNS)
        if kind and not styled:
            found.update(range(begin, begin + len(run)))
        begin += len(run)
    return found


def _is_raised(character: str) -> bool:
    return unicodedata.decomposition(character).startswith(("<super>", "<sub>"))


def _says_more(character: str) -> bool:
    """Return True for a character whose NFKC form says something else: fractions, lone accents, and characters that
    look like a Latin letter, which the letter of their NFKC form does not (the Greek ϲ becomes ς)."""
    if (letter := latin_readings().get(character)) is not None:
        return latin_readings().get(unicodedata.normalize("NFKC", character)) != letter
    if character in _ORDINALS:
        return True
    kind, _, rest = unicodedata.decomposition(character).partition(" ")
    return kind == "<fraction>" or (kind == "<compat>" and rest[:5] == "0020 ")
