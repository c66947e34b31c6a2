"""The indefinite article of a word: "a" or "an", by its sound at the beginning."""

from __future__ import annotations

import re

# A silent h; the sound of "you" or "won" behind a vowel's letter; "un-" before an i, which has no such sound.
_SILENT_H = re.compile(r"(?:hour|honest|honou?r|heir)")
_CONSONANT_SOUND = re.compile(
    r"(?:uni(?!n|m|d)|us[aeu]|usi|uti|eu|ewe|ura|uri|uro|ubi|ute|uk[ru]|uga|uru|ut[ao]|unan|u$|one\b|once\b|ones)"
)
_VOWELS = frozenset("aeiou")
_LETTERS_WITH_A_VOWEL = frozenset("AEFHILMNORSX")


def article_of(word: str) -> str | None:
    """Return "a" or "an" for the word that follows; None if it is not known (a word said by letters or as a word).

    Args:
        word: a word, number or several words; its first word counts.
    """
    first = re.match(r"\w+(?:[.,]\d+)*", word)
    if first is None:
        return None
    begin = first[0]
    if begin[0].isdigit():
        digits = begin.replace(",", "").split(".")[0]
        # 8, 80, 800, 8000; 11 and 18, also before thousands; a year such as 1100 or 1850 is read from "eleven" on.
        eighteen = digits[:2] in ("11", "18") and len(digits) % 3 == 2
        year = digits[:2] in ("11", "18") and len(digits) == 4 and "," not in begin
        return "an" if digits[0] == "8" or eighteen or year else "a"
    if begin.isupper() and len(begin) > 1:
        return None
    if len(begin) == 1:
        return "an" if begin.upper() in _LETTERS_WITH_A_VOWEL else "a"
    lower = begin.lower()
    if _SILENT_H.match(lower):
        return "an"
    if _CONSONANT_SOUND.match(lower):
        return "a"
    return "an" if lower[0] in _VOWELS else "a"
