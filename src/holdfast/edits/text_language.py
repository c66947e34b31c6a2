"""The language of texts: given, or detected on the whole sample."""

from __future__ import annotations

import collections
import importlib.util
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from holdfast.edits.edit import ENGLISH
from holdfast.errors import UserError

_SAMPLE = 1000
"""Texts from the beginning of a corpus that are enough to tell its language."""
_PART = 400
"""Characters of texts that are classified together: single sentences are too short to be told apart well."""
_PARTS = 100
_LEAST = 100  # characters


@dataclass(frozen=True)
class Language:
    """The language of the texts.

    Attributes:
        code: its ISO 639-1 code.
        confidence: the share of the sample that is in this language, by the library; None: given or assumed.
        source: how it was found.
    """

    code: str
    confidence: float | None
    source: str

    @property
    def is_english(self) -> bool:
        """True for English."""
        return self.code == ENGLISH

    def record(self) -> dict[str, str | float | None]:
        """Return the entry of the protocol."""
        return dict(vars(self))

    def line(self) -> str | None:
        """Return a line for people; None if there is nothing to say: the texts are English, or it was given."""
        if self.confidence is None:
            return None if self.source == _GIVEN else f"language: {self.code}, {self.source}"
        if self.is_english:
            return None
        return (
            f"the texts are in {self.code} ({100 * self.confidence:.0f} % of the sample, by {self.source}): edits that "
            "need English are left out; --language en overrides this"
        )


_GIVEN = "given with --language"


def check_language(code: str) -> None:
    """Refuse what is no code of a language.

    Raises:
        UserError: it has not two letters.
    """
    if not (len(code) == 2 and code.isascii() and code.isalpha()):
        raise UserError(f"--language takes a code of two letters (ISO 639-1), such as en or de, not {code!r}")


def language_of_corpus(texts: Iterable[str], given: str | None = None) -> Language:
    """Return the language of a corpus: the one given, else by its first texts, which is all that is read of it."""
    return language_of(list(itertools.islice(texts, _SAMPLE)) if given is None else [], given)


def language_of(texts: Sequence[str], given: str | None) -> Language:
    """Return the language of texts: the one given, else that of most parts of the sample, by py3langid.

    Args:
        texts: the texts.
        given: a code of ISO 639-1; None: detect it.

    Raises:
        UserError: ``given`` is no such code.
    """
    if given is not None:
        check_language(given)
        return Language(given.lower(), None, _GIVEN)
    if importlib.util.find_spec("py3langid") is None:
        return Language(ENGLISH, None, "assumed: to detect it, pip install 'holdfast[attacks]', or give --language")
    from py3langid import classify

    if sum(map(len, texts)) < _LEAST:
        return Language(ENGLISH, None, "assumed: too little text to detect it")
    codes = collections.Counter(str(classify(part)[0]) for part in _parts(texts))
    if not codes:
        return Language(ENGLISH, None, "assumed: the texts have no letters")
    code, count = codes.most_common(1)[0]
    return Language(code, count / sum(codes.values()), "py3langid")


def _parts(texts: Sequence[str]) -> Iterator[str]:
    """Yield joined texts of about `_PART` characters, at most `_PARTS`."""
    parts, size, done = [], 0, 0
    for text in texts:
        if not any(map(str.isalpha, text)):
            continue
        parts.append(text[:_PART])
        size += len(parts[-1])
        if size >= _PART:
            yield "\n".join(parts)
            parts, size, done = [], 0, done + 1
            if done == _PARTS:
                return
    if parts and not done:
        yield "\n".join(parts)
