"""Copies of a text, recognised however each was tokenised."""

from __future__ import annotations

import re

from holdfast.attacks.classifier import Text

_MOSTLY = 0.8
# How `cat -v` shows a byte above 127; SentEval's preparation of MR and SUBJ has left these in the text.
_CAT_V = re.compile(r"M-\^?.")
# How the Penn Treebank writes brackets: MNLI's attack set has them so, MNLI itself has "(".
_BRACKETS = re.compile(r"-[LR][RSC]B-", re.IGNORECASE)
# \w is str.isalnum() and the underscore.
_NOT_ALNUM = re.compile(r"[\W_]+")
_NOT_ASCII_ALNUM = re.compile(r"[^a-z0-9]+")


def keys(text: Text) -> set[str]:
    """What two copies of a text have in common, however each was tokenised.

    Letters and digits in lower case; and the ASCII ones of them alone, since some copies have lost all others and
    some show them as ``M-i``. Of a pair the order does not matter.
    """
    whole, plain = joined(text, ascii_only=False), joined(text, ascii_only=True)
    # What is left of a text in another script may be left of many.
    return {whole, plain} if len(plain) >= _MOSTLY * len(whole) else {whole}


def joined(text: Text, *, ascii_only: bool) -> str:
    """Return the letters and digits of a text in lower case; of a pair in an order that is the same for both orders."""
    parts = [_BRACKETS.sub(" ", _CAT_V.sub("", part) if ascii_only else part) for part in text]
    left_out = _NOT_ASCII_ALNUM if ascii_only else _NOT_ALNUM
    return "\t".join(sorted(left_out.sub("", part.lower()) for part in parts))
