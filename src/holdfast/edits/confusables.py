"""Unicode's confusable characters (UTS 39): those that look like an ASCII letter, and words folded back to Latin.

The list is Unicode's own, as the library confusable-homoglyphs carries it (Unicode 15.1).
"""

from __future__ import annotations

import functools
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from holdfast.edits.typing_errors import HOMOGLYPHS
from holdfast.edits.words import STOP_WORDS
from holdfast.errors import NotInstalled

_MARKS = "\u200e\u200f"  # the library writes right-to-left characters between direction marks
_SHORTEST = {"GREEK": 3}
"""Shortest whole word of a script that is folded; a Greek letter or two beside Latin text are symbols."""

_TURKISH = frozenset("çğöşüÇĞİÖŞÜə")
_DOTLESS_I = "ı"


@functools.cache
def latin_readings() -> Mapping[str, str]:
    """Return the ASCII letter that a character looks like, by character; ASCII characters are not listed.

    Where TextBugger's look-alikes differ, theirs is taken: ӏ is an l, as its use shows, though Unicode lists it for i.

    Left out are digits of other scripts, mathematical operators, and characters that NFKC turns into ASCII ("ａ" is an
    a anyway, and "ſ" is an s, though it looks like an f).

    Raises:
        NotInstalled: confusable-homoglyphs is not installed.
    """
    try:
        from confusable_homoglyphs.confusables import confusables_data
    except ImportError as error:
        raise NotInstalled(
            "confusable characters need confusable-homoglyphs: pip install confusable-homoglyphs"
        ) from error
    own = {glyph: letter for letter, glyph in HOMOGLYPHS.items()}
    readings = {}
    for listed, entries in confusables_data.items():
        character = listed.strip(_MARKS)
        if len(character) != 1 or character.isascii() or not _is_letter_like(character):
            continue
        looks = [entry["c"] for entry in entries if len(entry["c"]) == 1 and entry["c"].isascii()]
        letters = [look for look in looks if look.isalpha()]
        if letters and not unicodedata.normalize("NFKC", character).isascii():
            readings[character] = own.get(character, letters[0])
    return MappingProxyType(readings)


@functools.cache
def readings_inside_words() -> Mapping[str, str]:
    """Return the ASCII letter that a sign or a digit looks like, by character: those that `latin_readings` leaves out.

    They have this reading between letters only ("hydroe∣ectric", "n௦vel", "wi𝟏l").
    """
    latin_readings()  # refuses a missing library in one line
    from confusable_homoglyphs.confusables import confusables_data

    readings: dict[str, str] = {}
    for listed, entries in confusables_data.items():
        character = listed.strip(_MARKS)
        if len(character) != 1 or character.isascii() or character in latin_readings():
            continue
        letters = [entry["c"] for entry in entries if len(entry["c"]) == 1 and entry["c"] in string.ascii_letters]
        if letters and unicodedata.category(character)[0] != "M" and character != "ſ":
            same = unicodedata.normalize("NFKC", character) == letters[0]
            readings |= {} if same else {character: letters[0].lower()}
    return MappingProxyType(readings)


def fold_inside_words(text: str) -> str:
    """Replace signs and digits that look like letters where they stand between small letters, three or more of them."""
    readings = readings_inside_words()
    if text.isascii() or not any(character in readings for character in text):
        return text
    return _inside_words().sub(lambda found: readings[found.group()], text)


@functools.cache
def _inside_words() -> re.Pattern[str]:
    signs = f"[{''.join(map(re.escape, readings_inside_words()))}]"
    return re.compile(inside_words(signs))


def inside_words(signs: str) -> str:
    """Return a regular expression for a class of characters between small letters, three or more of them."""
    return rf"{signs}(?=[a-z])(?:(?<=[a-z][a-z]{signs})|(?<=[a-z]{signs})(?=[a-z][a-z]))"


def _is_letter_like(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "LM" or category in ("So", "Nl")


@functools.cache
def readings_in_mixed_words() -> Mapping[str, str]:
    """Return `latin_readings`, and the look-alikes of TextBugger that Unicode does not list (к, м, т)."""
    return MappingProxyType({glyph: letter for letter, glyph in HOMOGLYPHS.items()} | dict(latin_readings()))


@functools.cache
def look_alikes() -> Mapping[str, str]:
    """Return the letters that look like an ASCII letter, as one string, by ASCII letter.

    Letters that are written from right to left are not among them: they change the order of the word.
    """
    found: dict[str, list[str]] = {}
    for character, letter in latin_readings().items():
        if character.isalpha() and unicodedata.bidirectional(character) not in ("R", "AL"):
            found.setdefault(letter, []).append(character)
    return MappingProxyType({letter: "".join(sorted(characters)) for letter, characters in sorted(found.items())})


@functools.lru_cache(maxsize=1 << 14)
def script_of(character: str) -> str:
    """Return the script of a character in capitals, as Unicode names it ("LATIN", "COMMON")."""
    from confusable_homoglyphs.categories import alias

    return str(alias(character)).upper()


# --- folding -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Word:
    """A word with characters outside ASCII, and what they tell.

    Attributes:
        begin: its place in the text.
        text: its characters.
        scripts: the scripts of its letters outside Latin.
        readable: every letter outside Latin looks like an ASCII letter (look-alikes of TextBugger included).
        listed: the same, with Unicode's list alone.
    """

    begin: int
    text: str
    scripts: frozenset[str]
    readable: bool
    listed: bool

    @property
    def is_mixed(self) -> bool:
        """True if the word has letters of Latin and of another script."""
        return any(c.isalpha() and (c.isascii() or _is_latin(c)) for c in self.text)


def fold_confusables(text: str) -> str:
    """Replace look-alike characters by the ASCII letters that they look like, in words that are Latin to a reader.

    A word is folded if each of its letters outside the Latin script looks like an ASCII letter, and

    - it mixes scripts ("pаypal" with a Cyrillic a), unless words of the other script are more frequent in the text
      than Latin ones; or
    - it is in one other script ("сору"), the text has Latin words, and no word of the text can be read in that script
      alone ("привет" can).

    Greek letters are symbols, too: beside fewer than two small Latin letters ("TNFα", "σx") one is folded only if that
    gives an English function word ("ιt"), or another word of the text is disguised.

    Letters of the Latin script itself that look like ASCII letters (ɡ, ɑ) are folded too, unless the text holds other
    letters of phonetic spelling; the Turkish ı only if another word of the text is disguised.

    Args:
        text: a text in NFC or NFKC.

    Raises:
        NotInstalled: confusable-homoglyphs is not installed.
    """
    readings = readings_in_mixed_words()
    if text.isascii() or not any(character in readings for character in text):
        return text
    words = [(found.start(), found.group()) for found in _word_pattern().finditer(text)]
    latin = sum(any(c.isascii() and c.isalpha() for c in word) for _, word in words)
    foreign = [_word(begin, word) for begin, word in words if not word.isascii()]
    used = [word for word in foreign if not word.readable or not (word.listed or word.is_mixed)]
    honest = Counter(script for word in used for script in word.scripts)
    disguised = [_is_disguised(word, latin, honest) for word in foreign]
    symbols = not any(found and not _is_greek_symbol(word) for word, found in zip(foreign, disguised, strict=True))
    kept = _honest_latin(text) | frozenset(_DOTLESS_I if symbols else "")
    parts, end = [], 0
    for word, found in zip(foreign, disguised, strict=True):
        folds = found and not (symbols and _is_greek_symbol(word))
        new = "".join(readings.get(c, c) if (folds or _is_latin(c)) and c not in kept else c for c in word.text)
        parts += [text[end : word.begin], new]
        end = word.begin + len(word.text)
    return "".join(parts) + text[end:]


@functools.cache
def _word_pattern() -> re.Pattern[str]:
    """Words: letters, digits, marks, and the signs that look like letters."""
    return re.compile(f"[\\w\u0300-\u036f{''.join(latin_readings())}]+")


def _word(begin: int, text: str) -> _Word:
    others = [c for c in text if not c.isascii() and not _is_latin(c) and _is_letter_like(c)]
    scripts = frozenset(script_of(c) for c in others) - {"COMMON", "INHERITED"}
    marks = [c for c in others if unicodedata.category(c)[0] != "M"]
    return _Word(
        begin,
        text,
        scripts,
        all(c in readings_in_mixed_words() for c in marks),
        all(c in latin_readings() for c in marks),
    )


def _is_latin(character: str) -> bool:
    return not character.isascii() and script_of(character) == "LATIN"


def _is_disguised(word: _Word, latin: int, honest: Mapping[str, int]) -> bool:
    """Return True if the letters outside Latin stand for Latin ones."""
    of_latin = [c for c in word.text if c.isalpha() and (c.isascii() or _is_latin(c))]
    if not any(_is_letter_like(c) for c in word.text if not c.isascii() and not _is_latin(c)):
        return False
    in_use = sum(honest.get(script, 0) for script in word.scripts)
    if of_latin or len(word.scripts) > 1:
        if not word.readable or in_use > latin:
            return False
        return latin > 1 or 2 * len(of_latin) >= len(word.text) or len(word.scripts) > 1
    shortest = max(_SHORTEST.get(script, 1) for script in word.scripts) if word.scripts else len(word.text) + 1
    return word.listed and latin > 0 and not in_use and len(word.text) >= shortest


def _is_greek_symbol(word: _Word) -> bool:
    """Return True if the Greek letters of a mixed word may be symbols."""
    if word.scripts != {"GREEK"} or sum(c.isascii() and c.islower() for c in word.text) > 1:
        return False
    return "".join(latin_readings().get(c, c) for c in word.text).lower() not in STOP_WORDS


def _honest_latin(text: str) -> frozenset[str]:
    """Return the Latin letters outside ASCII that a text with phonetic spelling uses as themselves."""
    readings = latin_readings()
    if any("\u0250" <= c <= "\u02af" and c not in readings for c in text):
        return frozenset(c for c in text if c in readings and _is_latin(c))
    return frozenset()
