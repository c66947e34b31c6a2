"""Synonyms and antonyms from WordNet (Miller 1995), read from its database files or from tables of them, without NLTK.

Only their data is kept: the words of each synset, the phrases, the pairs of antonyms, and the exceptions of the
inflection.
"""

from __future__ import annotations

import functools
import itertools
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.data.tables import read_columns
from holdfast.data.untrusted_lines import numbered_lines
from holdfast.edits.inflection import inflected_lemmas
from holdfast.edits.words import UNIVERSAL_TAGS, others
from holdfast.errors import UserError

_POS_OF_TAG = {"NOUN": "n", "VERB": "v", "ADJ": "a", "ADV": "r"}
_FILE_OF_POS = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_POS_OF_FILE = {name: pos for pos, name in _FILE_OF_POS.items()}

# The detachment rules of morphy(7WN): endings and their replacements in the base form.
_DETACHMENTS = {
    "n": "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y",
    "v": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "a": "er: est: er:e est:e",
    "r": "",
}
_RULES = {pos: [tuple(rule.split(":")) for rule in rules.split()] for pos, rules in _DETACHMENTS.items()}

_MAX_LINE = 1 << 16
_MEMO = 1 << 15

Synset = tuple[str, ...]
_Folder = Path | zipfile.Path


@dataclass
class _Lexicon:
    """The data of WordNet: ``senses[pos][lemma]``, synsets as tuples of their words; ``exceptions[pos][form]``.

    ``antonyms[pos]`` holds pairs of lemmas, each once in either order.
    The lemmas of several words are ``phrases``.
    """

    senses: dict[str, dict[str, list[Synset]]] = field(default_factory=lambda: {pos: {} for pos in _FILE_OF_POS})
    exceptions: dict[str, dict[str, list[str]]] = field(default_factory=lambda: {pos: {} for pos in _FILE_OF_POS})
    phrases: set[str] = field(default_factory=set)
    antonyms: dict[str, dict[tuple[str, str], None]] = field(default_factory=lambda: {pos: {} for pos in _FILE_OF_POS})

    def add_antonyms(self, words: Mapping[str, Sequence[str]], pointers: Iterable[tuple[str, str, str]]) -> None:
        """Add pairs of antonyms.

        Args:
            words: the lower-case words of each synset, by its offset and part of speech ("00019128n").
            pointers: the key of a synset, that of another, and the numbers of a word in each: "0102" is the first
                word of the one and the second of the other, as in wndb(5WN).
        """
        for source, target, numbers in pointers:
            pair = [words[key][int(number, 16) - 1] for key, number in ((source, numbers[:2]), (target, numbers[2:]))]
            if all(word.isalpha() for word in pair):
                self.antonyms[source[-1].replace("s", "a")][pair[0], pair[1]] = None


class WordNet:
    """Synonyms from WordNet's synsets.

    Args:
        senses: for each part of speech (``n``, ``v``, ``a``, ``r``), the synsets of each lower-case lemma, the most
            frequent sense first; a synset is a tuple of lemmas.
        exceptions: for each part of speech, the base forms of each irregular form.
        source: origin of the data, for the record.
        phrases: the lemmas of several words, in lower case, with spaces or hyphens between the words.
        antonyms: for each part of speech, pairs of lemmas; None: none are known.
    """

    complete = False

    def __init__(
        self,
        senses: Mapping[str, Mapping[str, Sequence[Synset]]],
        exceptions: Mapping[str, Mapping[str, Sequence[str]]],
        *,
        source: str,
        antonyms: Mapping[str, Iterable[tuple[str, str]]] | None = None,
        phrases: Collection[str] = (),
    ) -> None:
        self._senses, self._exceptions = senses, exceptions
        self._antonyms = {pos: tuple(pairs) for pos, pairs in (antonyms or {}).items()}
        self._phrases = frozenset(phrase.replace("-", " ") for phrase in phrases)
        self.source = source
        self._found = functools.lru_cache(maxsize=_MEMO)(self._find)

    @classmethod
    def read(cls, path: Path) -> WordNet:
        """Read WordNet from a folder, or from the archive that NLTK downloads.

        Args:
            path: folder or archive with the database files (``data.noun``, ``index.noun``, ``noun.exc``, …), or folder
                with the tables ``synsets.tsv[.gz]`` (columns ``pos``, ``lemmas``: separated by ``|``) and
                ``exceptions.tsv[.gz]`` (``pos``, ``inflected``, ``lemmas``: separated by spaces). The tables do not
                give the frequency of senses: they are in the order of the rows. Antonyms need the columns ``offset``
                and ``antonyms`` (``OFFSET+POS:NUMBERS``, separated by spaces).

        Raises:
            UserError: the files are missing, or one is damaged.
        """
        folder = _folder(path)
        tables = _tables(path)
        if tables is not None:
            lexicon, format_ = _read_tables(*tables), "tables, senses in the order of the rows"
        elif (folder / "data.noun").is_file():
            lexicon, format_ = _read_database(folder), "database files"
        else:
            raise UserError(
                f"{path} holds neither WordNet's data.noun nor synsets.tsv: name the folder with one of them"
            )
        source = f"WordNet {path} ({format_})"
        return cls(
            lexicon.senses, lexicon.exceptions, source=source, antonyms=lexicon.antonyms, phrases=lexicon.phrases
        )

    def synonyms(self, word: str, *, tag: str | None = None, inflected: bool = False) -> list[str]:
        """Return the other words in the synsets of the word's base forms: single words of letters, in the word's case.

        The order is WordNet's: nouns, verbs, adjectives, adverbs; base forms as found by morphy(7WN); their senses.

        Args:
            word: the word, as in a text.
            tag: a universal part of speech; only its synsets are used. WordNet has four: NOUN, VERB, ADJ, ADV.
            inflected: inflect each synonym like the word (films: movies). Synonyms of unknown inflection are left out;
                if the inflection of the word is unknown, there are none.

        Raises:
            UserError: ``inflected`` is set, and lemminflect is not installed.
        """
        if tag is not None and tag not in UNIVERSAL_TAGS:
            raise ValueError(f"{tag!r} is not a universal part of speech: {', '.join(UNIVERSAL_TAGS)}")
        return others(word, self._found(word.lower(), tag, inflected))

    def nearest(self, word: str, limit: int, minimum: float = 0.0) -> list[str]:
        """Return at most ``limit`` synonyms, in WordNet's order; see `holdfast.edits.synonyms.Synonyms`."""
        return self.synonyms(word)[:limit]

    def antonym_pairs(self, tag: str) -> tuple[tuple[str, str], ...]:
        """Return the pairs of antonyms, lower case, of a universal part of speech: NOUN, VERB, ADJ or ADV.

        A pair holds for one sense of each word; WordNet lists it in both orders.
        """
        return self._antonyms.get(_POS_OF_TAG[tag], ())

    def shared_senses(self, word: str, other: str, tag: str) -> tuple[float, float]:
        """Return the share of the senses of ``word`` that ``other`` has too, and that of the senses of ``other``.

        Both are 0 if they share none, or WordNet lacks the part of speech (``tag``, as in :meth:`synonyms`).
        """
        pos = _POS_OF_TAG.get(tag)
        if pos is None:
            return 0.0, 0.0
        first, second = self.bases(word.lower(), pos), self.bases(other.lower(), pos)
        forms = {base.lower() for base in second}
        senses = [synset for base in first for synset in self._senses[pos][base]]
        shared = sum(any(lemma.lower() in forms for lemma in synset) for synset in senses)
        others_senses = sum(len(self._senses[pos][base]) for base in second)
        return (shared / len(senses), min(1.0, shared / others_senses)) if shared else (0.0, 0.0)

    def shared_ranks(self, word: str, other: str, tag: str) -> tuple[int, int]:
        """Return the rank, from 0, of the most frequent sense of ``word`` that ``other`` has, and the reverse.

        A rank is beyond all senses if they share none, or WordNet lacks the part of speech; see :meth:`shared_senses`.
        """
        return self._first_shared(word, other, tag), self._first_shared(other, word, tag)

    def _first_shared(self, word: str, other: str, tag: str) -> int:
        pos = _POS_OF_TAG.get(tag)
        bases, forms = ([], []) if pos is None else (self.bases(each.lower(), pos) for each in (word, other))
        ranks = [
            rank
            for base in bases
            for rank, synset in enumerate(self._senses[pos or "n"][base])
            if any(lemma.lower() in forms for lemma in synset)
        ]
        return min(ranks, default=_MEMO)

    def is_phrase(self, words: Sequence[str]) -> bool:
        """Return True if words, each in this form or a base form, are a lemma of several words (living rooms)."""
        forms = [
            {word.lower(), *(base for pos in _FILE_OF_POS for base in self.bases(word.lower(), pos))} for word in words
        ]
        return any(" ".join(lemma) in self._phrases for lemma in itertools.product(*forms))

    def bases(self, word: str, pos: str) -> list[str]:
        """Return the base forms of a lower-case word in WordNet: itself, then irregular or else regular ones."""
        exceptions = self._exceptions[pos].get(word)
        forms = exceptions if exceptions is not None else _detached(word, pos)
        return [form for form in dict.fromkeys([word, *forms]) if form in self._senses[pos]]

    def _find(self, word: str, tag: str | None, inflected: bool) -> tuple[str, ...]:
        parts_of_speech = _FILE_OF_POS if tag is None else [_POS_OF_TAG[tag]] if tag in _POS_OF_TAG else []
        found: dict[str, None] = {}
        for pos in parts_of_speech:
            for base in self.bases(word, pos):
                lemmas = dict.fromkeys(lemma for synset in self._senses[pos][base] for lemma in synset)
                found |= dict.fromkeys(inflected_lemmas(lemmas, base, word, pos) if inflected else lemmas)
        return tuple(found)


def _detached(word: str, pos: str) -> list[str]:
    return [word.removesuffix(ending) + other for ending, other in _RULES[pos] if word.endswith(ending)]


# --- reading -------------------------------------------------------------------------------------------------------


def _folder(path: Path) -> _Folder:
    if path.suffix != ".zip":
        return path
    try:
        return zipfile.Path(path, f"{path.stem}/")
    except (OSError, zipfile.BadZipFile) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def _tables(path: Path) -> tuple[Path, Path] | None:
    for ending in (".tsv.gz", ".tsv"):
        if (path / f"synsets{ending}").is_file():
            return path / f"synsets{ending}", path / f"exceptions{ending}"
    return None


def _read_tables(synsets: Path, exceptions: Path) -> _Lexicon:
    lexicon, synset_words, pointers = _Lexicon(), dict[str, list[str]](), list[tuple[str, str, str]]()
    for number, (pos, lemmas, offset, antonyms) in read_columns(synsets, ["pos", "lemmas", "offset?", "antonyms?"]):
        if pos not in "nvasr" or not pos:
            raise UserError(f"{synsets}:{number}: {pos!r} is not a part of speech of WordNet: n, v, a, s or r")
        senses = lexicon.senses["a" if pos == "s" else pos]
        words = lemmas.split("|")
        synset = _usable(words)
        for word in words:
            if " " not in word:
                senses.setdefault(word.lower(), []).append(synset)
            if not word.isalpha():
                lexicon.phrases.add(word.lower())
        key = offset + pos.replace("s", "a")
        synset_words[key] = lemmas.lower().split("|")
        pointers += [(key, *_pointer(item, f"{synsets}:{number}")) for item in antonyms.split()]
    lexicon.add_antonyms(synset_words, _known(pointers, synset_words, str(synsets)))
    for number, (name, form, bases) in read_columns(exceptions, ["pos", "inflected", "lemmas"]):
        if name not in _POS_OF_FILE:
            raise UserError(f"{exceptions}:{number}: {name!r} is not a part of speech: {', '.join(_POS_OF_FILE)}")
        lexicon.exceptions[_POS_OF_FILE[name]][form] = bases.split()
    return lexicon


def _read_database(folder: _Folder) -> _Lexicon:
    """Read database files, whose format is described in wndb(5WN)."""
    lexicon, synset_words, pointers = _Lexicon(), dict[str, list[str]](), list[tuple[str, str, str]]()
    for pos, name in _FILE_OF_POS.items():
        synsets = {}
        for location, fields in _fields(folder / f"data.{name}"):
            with_cases = fields[4 : 4 + 2 * _number(fields[3], 16, location) : 2]
            # The syntactic marker of an adjective follows it: galore(ip).
            words = [word.partition("(")[0] for word in with_cases]
            synsets[fields[0]] = _usable(words)
            synset_words[fields[0] + pos] = [word.lower() for word in words]
            pointers += [
                (fields[0] + pos, f"{fields[at + 1]}{pos}", fields[at + 3])
                for at in range(5 + 2 * len(words), len(fields) - 3)
                if fields[at] == "!"
            ]
        for location, fields in _fields(folder / f"index.{name}"):
            if not fields[0].isalpha():
                lexicon.phrases.add(fields[0].replace("_", " "))
            if "_" in fields[0]:
                continue
            offsets = fields[6 + _number(fields[3], 10, location) :]
            try:
                lexicon.senses[pos][fields[0]] = [synsets[offset] for offset in offsets]
            except KeyError as error:
                raise UserError(
                    f"{location}: data.{name} has no synset at {error.args[0]}: download the files again"
                ) from error
        for _, (form, *bases) in _fields(folder / f"{name}.exc"):
            lexicon.exceptions[pos][form] = bases
    lexicon.add_antonyms(synset_words, _known(pointers, synset_words, str(folder)))
    return lexicon


def _pointer(text: str, location: str) -> tuple[str, str]:
    """Return the key of the synset and the numbers of the words of a pointer such as ``00019128n:0101``."""
    key, _, numbers = text.partition(":")
    if not re.fullmatch(r"\d+[nvasr]", key) or not re.fullmatch(r"[0-9a-f]{4}", numbers):
        raise UserError(f"{location}: {text[:20]!r} is not an antonym such as 00019128n:0101: download the file again")
    return key.replace("s", "a"), numbers


def _known(
    pointers: Iterable[tuple[str, str, str]], words: Mapping[str, Sequence[str]], location: str
) -> Iterator[tuple[str, str, str]]:
    """Yield the pointers, each checked: its synsets are in the file, and have the words of its numbers."""
    for source, target, numbers in pointers:
        for key, number in ((source, numbers[:2]), (target, numbers[2:])):
            if not 0 < int(number, 16) <= len(words.get(key, ())):
                raise UserError(f"{location} has no word {number} in the synset {key}: download the files again")
        yield source, target, numbers


def _usable(words: Sequence[str]) -> Synset:
    """Return the words that consist of letters only; phrases have spaces or underscores."""
    return tuple(word for word in words if word.isalpha())


def _fields(path: _Folder) -> Iterator[tuple[str, list[str]]]:
    """Yield ``file:line`` and the fields of each line, without the gloss and the (indented) lines of the licence."""
    try:
        stream = path.open("rb")
    except (OSError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile) as error:  # or its compression
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    exceptions = path.name.endswith(".exc")
    with stream:
        for number, line in numbered_lines(stream, str(path), _MAX_LINE):
            if not line or line.startswith("  "):
                continue
            fields = line.partition(" | ")[0].split()
            if len(fields) < (2 if exceptions else 6):
                raise UserError(f"{path}:{number}: not a line of WordNet: download the file again")
            yield f"{path}:{number}", fields


def _number(text: str, base: int, location: str) -> int:
    try:
        return int(text, base)
    except ValueError as error:
        raise UserError(f"{location}: {text[:20]!r} is not a number: download the file again") from error
