"""Spelling correction of queries before they are encoded: what a user would do instead of hardening the encoder."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import NotInstalled, UserError

if TYPE_CHECKING:
    from symspellpy import SymSpell

SPELLING_RECORD = (
    "SymSpell (symspellpy), its English dictionary of 82,765 words and the words of the documents; at most 2 "
)
SPELLING_RECORD += (
    "edits a word, the nearest and then the most frequent; words with a capital are left alone, but for the first"
)

EDITS = 2
"""Largest number of edits (insert, delete, replace, transpose) between a word and its correction."""
ADDED_WORDS = 200_000
"""Number of words of the documents, most frequent first, that are added to the dictionary: it stays in memory."""

_DICTIONARY = "frequency_dictionary_en_82_765.txt"
# Words with digits or underscores are matched whole too, so that no part of them is taken for a word.
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_LETTERS = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def require_symspell() -> None:
    """Check that symspellpy is installed.

    Raises:
        UserError: it is not; the message says how to get it.
    """
    if importlib.util.find_spec("symspellpy") is None:
        raise NotInstalled("spelling correction needs symspellpy: pip install 'holdfast[retrieval]'")


def spelling_correction(documents: Iterable[str]) -> Callable[[str], str]:
    """Return a function that corrects the spelling of an English text.

    Its dictionary is SymSpell's own with the words of the documents. A word with a capital is left alone, since it is
    mostly a name; the first word of a text is corrected too, and stays capitalised.

    Raises:
        UserError: symspellpy is not installed.
    """
    dictionary = _dictionary(documents)

    def corrected(match: re.Match[str]) -> str:
        word = match[0]
        starts_text = not match.string[: match.start()].strip()
        if not _LETTERS.fullmatch(word) or not (word.islower() or (starts_text and word[1:].islower())):
            return word
        return _nearest(dictionary, word)

    def correct(text: str) -> str:
        return _WORD.sub(corrected, text)

    return correct


def _dictionary(documents: Iterable[str]) -> SymSpell:
    require_symspell()
    import symspellpy

    dictionary = symspellpy.SymSpell(max_dictionary_edit_distance=EDITS)
    if not dictionary.load_dictionary(Path(symspellpy.__file__).parent / _DICTIONARY, term_index=0, count_index=1):
        raise UserError(f"symspellpy has no {_DICTIONARY}: install it again, pip install 'holdfast[retrieval]'")
    words = Counter(word.lower() for text in documents for word in _WORD.findall(text) if _LETTERS.fullmatch(word))
    for word, count in words.most_common(ADDED_WORDS):
        dictionary.create_dictionary_entry(word, count)
    return dictionary


def _nearest(dictionary: SymSpell, word: str) -> str:
    """Return the nearest word of the dictionary, with the capital of the word; the word itself if none is near."""
    from symspellpy import Verbosity

    found = dictionary.lookup(word.lower(), Verbosity.TOP, max_edit_distance=EDITS)
    if not found:
        return word
    term = str(found[0].term)
    return term[:1].upper() + term[1:] if word[:1].isupper() else term
