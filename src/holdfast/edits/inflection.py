"""Forms of English words, by the library lemminflect (optional, in the extra ``attacks``)."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable, Iterator

from holdfast.errors import NotInstalled

# The Penn tags of the inflected forms, by WordNet's part of speech.
_INFLECTIONS = {"n": ("NNS",), "v": ("VBD", "VBN", "VBG", "VBZ"), "a": ("JJR", "JJS"), "r": ("RBR", "RBS")}


def can_inflect() -> bool:
    """Return True if synonyms can be inflected like the original word: lemminflect is installed."""
    return importlib.util.find_spec("lemminflect") is not None


def inflected_lemmas(lemmas: Iterable[str], base: str, word: str, pos: str) -> Iterator[str]:
    """Yield lemmas of WordNet, inflected as ``word`` is from ``base``; unchanged if ``word`` is the base form.

    Raises:
        NotInstalled: lemminflect is not installed.
    """
    if word == base:
        yield from lemmas
        return
    if not can_inflect():
        raise NotInstalled("inflected synonyms need lemminflect: pip install lemminflect, or use uninflected synonyms")
    from lemminflect import getInflection

    tag = next((tag for tag in _INFLECTIONS[pos] if word in getInflection(base, tag)), None)
    if tag is None:
        return
    # lemminflect's rules for unknown words are right for nouns and verbs, but give "honester" for an adjective.
    by_rule = pos in "nv"
    for lemma in lemmas:
        yield from getInflection(lemma.lower(), tag, inflect_oov=by_rule)[:1]


def require_lemminflect(what: str) -> None:
    """Raise `NotInstalled` if lemminflect is not installed; ``what`` names the edits that need it."""
    if importlib.util.find_spec("lemminflect") is None:
        raise NotInstalled(f"{what} need lemminflect, which is not installed: pip install 'holdfast[attacks]'")


@functools.lru_cache(maxsize=1 << 12)
def lemma(verb: str) -> str | None:
    """Return the base form of a verb in any form; None if it is not in the dictionary."""
    import lemminflect

    found = lemminflect.getAllLemmas(verb, upos="VERB").get("VERB", ())
    return found[0] if found else None


@functools.lru_cache(maxsize=1 << 12)
def forms(base: str, tag: str) -> tuple[str, ...]:
    """Return the forms of a verb for a Penn tag (VBD, VBN, VBZ, VBG), the usual one first; only of known verbs."""
    import lemminflect

    return tuple(lemminflect.getInflection(base, tag=tag, inflect_oov=False))


def inflected(base: str, tag: str) -> str | None:
    """Return the usual form of a verb for a Penn tag; None if the verb is not in the dictionary."""
    found = forms(base, tag)
    return found[0] if found else None


def is_form(verb: str, tag: str) -> bool:
    """Return True if a verb can have this Penn tag (VB, VBD, VBN, VBZ, VBG)."""
    base = lemma(verb)
    return base is not None and (verb == base if tag in {"VB", "VBP"} else verb in forms(base, tag))


@functools.lru_cache(maxsize=1 << 12)
def is_known_noun(word: str) -> bool:
    """Return True if the dictionary has the word as a noun or its plural."""
    import lemminflect

    return bool(lemminflect.getAllLemmas(word, upos="NOUN"))


@functools.lru_cache(maxsize=1 << 12)
def is_plural_form(noun: str, ending: bool = True) -> bool:
    """Return True for a noun with a plural ending or an irregular plural: "dogs", "men", but not "sheep".

    Without ``ending``, an "s" at the end is not enough ("series").
    """
    import lemminflect

    return (
        (ending and noun.endswith("s"))
        or noun == "people"
        or noun not in lemminflect.getAllLemmas(noun, upos="NOUN").get("NOUN", (noun,))
    )
