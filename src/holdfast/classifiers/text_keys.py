"""Keys that identify copies of a text, independent of their tokenisation."""

from __future__ import annotations

import re

from holdfast.attacks.classifier import Text

_MOSTLY = 0.8
# A byte above 127 as shown by `cat -v`; SentEval's preparation of MR and SUBJ has left these in the text.
_CAT_V = re.compile(r"M-\^?.")
# Brackets as in the Penn Treebank: MNLI's attack set has these, MNLI itself has "(".
_BRACKETS = re.compile(r"-[LR][RSC]B-", re.IGNORECASE)
# \w matches str.isalnum() and the underscore.
_NOT_ALNUM = re.compile(r"[\W_]+")
_NOT_ASCII_ALNUM = re.compile(r"[^a-z0-9]+")


def keys(text: Text) -> set[str]:
    """Return keys of a text: two copies share at least one key, independent of their tokenisation.

    One key has the letters and digits in lower case; another has only the ASCII ones, since some copies have lost all
    others and some show them as ``M-i``. The order of the texts in a pair does not matter.
    """
    whole, plain = joined(text, ascii_only=False), joined(text, ascii_only=True)
    # The ASCII key of a text in another script may be the same for many texts.
    return {whole, plain} if len(plain) >= _MOSTLY * len(whole) else {whole}


def joined(text: Text, *, ascii_only: bool) -> str:
    """Return the letters and digits of a text in lower case; the texts of a pair are sorted."""
    parts = [_BRACKETS.sub(" ", _CAT_V.sub("", part) if ascii_only else part) for part in text]
    left_out = _NOT_ASCII_ALNUM if ascii_only else _NOT_ALNUM
    return "\t".join(sorted(left_out.sub("", part.lower()) for part in parts))
