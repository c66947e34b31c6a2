"""Keys that identify copies of a text, independent of their tokenisation."""

from __future__ import annotations

import re
import unicodedata

from holdfast.attacks.classifier import Text
from holdfast.edits.words import Words

_MOSTLY = 0.8
# A byte above 127 as shown by `cat -v`; SentEval's preparation of MR and SUBJ has left these in the text.
_CAT_V = re.compile(r"M-\^?.")
# Brackets as in the Penn Treebank: MNLI's attack set has these, MNLI itself has "(".
_BRACKETS = re.compile(r"-[LR][RSC]B-", re.IGNORECASE)
_AS_EMOJI = "\ufe0f"
_NOT_ASCII_ALNUM = re.compile(r"[^a-z0-9]+")


def keys(text: Text) -> set[str]:
    """Return keys of a text: two copies share at least one key, independent of their tokenisation.

    One key has the letters, with their vowel signs, and digits in lower case; another has only the ASCII ones, since
    some copies have lost all others and some show them as ``M-i``. A text without letters and digits, such as one of
    emoji, is its own key but for white space. The order of the texts in a pair does not matter.
    """
    whole, plain = joined(text, ascii_only=False), joined(text, ascii_only=True)
    # The ASCII key of a text in another script may be the same for many texts.
    return {whole, plain} if len(plain) >= _MOSTLY * len(whole) else {whole}


def joined(text: Text, *, ascii_only: bool) -> str:
    """Return the letters and digits of a text in lower case; the texts of a pair are sorted."""
    parts = [_BRACKETS.sub(" ", _CAT_V.sub("", part) if ascii_only else part).lower() for part in text]
    if ascii_only:
        return "\t".join(sorted(_NOT_ASCII_ALNUM.sub("", part) for part in parts))
    return "\t".join(sorted(map(_letters_and_digits, parts)))


def _letters_and_digits(text: str) -> str:
    composed = unicodedata.normalize("NFC", text)
    return "".join(Words.of(composed).words) or "".join(composed.replace(_AS_EMOJI, "").split())
