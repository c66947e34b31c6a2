"""Texts as sentences of tagged tokens, for the edits that follow the grammar of English.

Tokens are those of the Penn Treebank: "didn't" is "did" and "n't", "it's" is "it" and "'s", "Ann's" is "Ann" and "'s".
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from holdfast.edits.tagging import Tagger

_TOKEN = re.compile(
    r"""
      (?:[^\W\d_]\.){2,}                        # U.S., e.g.
    | \d+(?:[.,:]\d+)*(?:st|nd|rd|th|s)?\b      # 1,000.5, 10:30, 3rd, 1990s
    | \b[odl]['’][^\W\d_]{2,}                   # O'Brien, d'Or
    | \w+?(?=n['’]t\b) | n['’]t\b               # did + n't
    | ['’](?:s|re|ve|ll|d|m)\b                  # it + 's
    | \w+(?:[-&/]\w+)*                          # words, well-known, AT&T
    | \.\.\.|--|[^\w\s]
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr st jr sr gen col lt sgt capt rev rt hon prof gov sen rep no vs vol mt ft inc co corp ltd op".split()
)
_ENDS = frozenset(".?!")
_REMEMBERED = 1 << 10  # texts

BE = frozenset("am is are was were 'm 're".split())
HAVE = frozenset("has have had 've".split())
DO = frozenset("do does did".split())
MODALS = frozenset("can could may might must shall should will would 'll ca wo sha".split())
AUXILIARIES = BE | HAVE | DO | MODALS | {"be", "been", "being"}

_BEFORE_IS = frozenset("he she it that there who what where here how when".split())

_SURE_TAGS = {
    "DT": "the a an every each another no",
    "PRP": "i you he she it we they me him us them himself herself itself themselves myself yourself someone somebody "
    "anyone anybody everyone everybody nobody nothing something anything everything",
    "PRP$": "my your its our their",
    "IN": "of at from with by during between among into onto upon without within because although while whereas if "
    "since until unless in for on",
    "CC": "and or but nor",
    "MD": "can could might must shall should would 'll ca wo sha",
    "VBZ": "is has does",
    "VBP": "am are have do 'm 're 've",
    "VBD": "was were did had",
    "VB": "be",
    "VBN": "been",
    "VBG": "being",
    "RB": "not n't never also",
    "TO": "to",
    "WP": "who whom what",
    "WDT": "which",
    "WRB": "when where why how",
    "EX": "there",
}
_TAG_OF = {word: tag for tag, words in _SURE_TAGS.items() for word in words.split()}


class Token(NamedTuple):
    """A word, a clitic or a punctuation mark.

    Attributes:
        text: its characters.
        low: the same in lower case, with a straight apostrophe; the names May and Will keep their capital.
        begin: where it begins in the text.
        end: where it ends.
        tag: its Penn Treebank tag.
    """

    text: str
    low: str
    begin: int
    end: int
    tag: str


Sentence = tuple[Token, ...]


class SentenceReader:
    """Split texts into sentences of tagged tokens; recent texts are remembered.

    Args:
        tagger: the tagger, which must give Penn Treebank tags.
    """

    def __init__(self, tagger: Tagger) -> None:
        self._tagger = tagger
        self.sentences = functools.lru_cache(maxsize=_REMEMBERED)(self._sentences)

    def _sentences(self, text: str) -> tuple[Sentence, ...]:
        """Return the sentences of a text, in order."""
        spans = [match.span() for match in _TOKEN.finditer(text)]
        found = []
        for group in _split(text, spans):
            words = [text[begin:end] for begin, end in group]
            tags = self._tagger.penn_tags([word.replace("’", "'") for word in words])
            found.append(_clitics([_token(*item) for item in zip(words, group, tags, strict=True)]))
        return tuple(found)


def _token(word: str, span: tuple[int, int], tag: str) -> Token:
    low = word.lower().replace("’", "'")
    sure = _TAG_OF.get(low)
    if sure:
        tag = sure
    return Token(word, low, *span, tag)


def _clitics(tokens: list[Token]) -> Sentence:
    """Tag 's as a verb after a pronoun and otherwise as a genitive, and "May" and "Will" inside a sentence as names."""
    for place, token in enumerate(tokens):
        if token.text in {"May", "Will", "Might"} and place:
            tokens[place] = token._replace(low=token.text, tag="NNP")
        if token.low == "'s":
            verb = place > 0 and tokens[place - 1].low in _BEFORE_IS
            tokens[place] = token._replace(tag="VBZ" if verb else "POS")
    return tuple(tokens)


def _split(text: str, spans: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Split the tokens after a full stop, a question mark or an exclamation mark that ends a sentence."""
    groups: list[list[tuple[int, int]]] = [[]]
    for place, (begin, end) in enumerate(spans):
        groups[-1].append((begin, end))
        if place + 1 < len(spans) and _ends_sentence(text, spans, place):
            groups.append([])
    return [group for group in groups if group]


def _ends_sentence(text: str, spans: list[tuple[int, int]], place: int) -> bool:
    (begin, end), (following, _) = spans[place], spans[place + 1]
    if text[begin:end] not in _ENDS or not text[end:following].isspace():
        return False
    before = text[slice(*spans[place - 1])] if place else ""
    if text[begin:end] == "." and (before.lower() in _ABBREVIATIONS or (len(before) == 1 and before.isupper())):
        return False
    return not (text[following].islower() or text[following].isdigit())


def is_finite(token: Token) -> bool:
    """Return True for a verb in the present or past, or a modal; past participles that look like a past count."""
    return token.tag in {"VBZ", "VBP", "VBD", "MD"} or token.low in BE | HAVE | DO | MODALS


def is_noun(token: Token) -> bool:
    """Return True for a common or proper noun."""
    return token.tag.startswith("NN")


def phrase_text(tokens: Sentence) -> str:
    """Return the characters of neighbouring tokens, with the spaces between them."""
    pieces, end = [], tokens[0].begin
    for token in tokens:
        pieces += [" " * (token.begin - end), token.text]
        end = token.end
    return "".join(pieces)
