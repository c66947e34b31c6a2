"""Part-of-speech taggers with the universal tag set of twelve tags (Petrov et al. 2012)."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.edits.words import UNIVERSAL_TAGS
from holdfast.errors import UserError
from holdfast.files import expanded

_PENN = {
    "NOUN": "NN NNS NNP NNPS",
    "VERB": "VB VBD VBG VBN VBP VBZ MD",
    "ADJ": "JJ JJR JJS",
    "ADV": "RB RBR RBS WRB",
    "PRON": "PRP PRP$ WP WP$",
    "DET": "DT PDT WDT EX",
    "ADP": "IN",
    "NUM": "CD",
    "CONJ": "CC",
    "PRT": "RP TO POS",
    ".": "# $ '' ( ) , . : `` -LRB- -RRB- ! ?",
    "X": "FW LS SYM UH",
}
PENN_TO_UNIVERSAL: Mapping[str, str] = {penn: tag for tag, tags in _PENN.items() for penn in tags.split()}
"""Universal tags of the Penn Treebank tags that the taggers below return; others are X."""

_UD = {"AUX": "VERB", "PROPN": "NOUN", "CCONJ": "CONJ", "SCONJ": "ADP", "PART": "PRT", "PUNCT": "."}
_MEMO = 1 << 14  # texts: an attack tags the context of a word with each candidate
_NLTK_TAGGER = "averaged_perceptron_tagger_eng"
_LIGHTER = "or name a lighter tagger with --tagger textblob"


class Tag(NamedTuple):
    """The part of speech of a word: one of `UNIVERSAL_TAGS`, and the Penn Treebank tag, empty if there is none."""

    universal: str
    penn: str


class Tagger:
    """A part-of-speech tagger that caches the results of recent texts.

    Args:
        tag: function from words to a `Tag` for each.
        source: name of the tagger, for the result.
        penn: whether the tags have a Penn Treebank tag.
    """

    def __init__(self, tag: Callable[[list[str]], list[Tag]], source: str, *, penn: bool) -> None:
        self.source = source
        self.penn = penn
        self._remembered = functools.lru_cache(maxsize=_MEMO)(lambda words: tuple(tag(list(words))))

    def tags(self, words: Sequence[str]) -> list[str]:
        """Return one of `UNIVERSAL_TAGS` for each word."""
        return [tag.universal for tag in self._remembered(tuple(words))]

    def penn_tags(self, words: Sequence[str]) -> list[str]:
        """Return a Penn Treebank tag for each word.

        Raises:
            UserError: the tagger has no Penn tags.
        """
        if not self.penn:
            raise UserError(f"the tagger {self.source} gives no Penn Treebank tags: take --tagger textblob")
        return [tag.penn for tag in self._remembered(tuple(words))]


class NLTKTagger(Tagger):
    """NLTK's averaged perceptron, which TextAttack's recipes use.

    Raises:
        UserError: NLTK or the data of the tagger is missing.
    """

    def __init__(self) -> None:
        if importlib.util.find_spec("nltk") is None:
            raise UserError(f"the tagger nltk is not installed: pip install 'holdfast[attacks]', {_LIGHTER}")
        from nltk.tag.perceptron import PerceptronTagger

        try:
            tagger = PerceptronTagger(lang="eng")
        except LookupError as error:
            raise UserError(
                f"the data of the tagger nltk are not here: python -m nltk.downloader {_NLTK_TAGGER}, {_LIGHTER}"
            ) from error
        source = f"NLTK {metadata.version('nltk')} {_NLTK_TAGGER}"
        super().__init__(lambda words: [_from_penn(tag) for _, tag in tagger.tag(words)], source, penn=True)


class TextBlobTagger(Tagger):
    """TextBlob's pattern tagger: a lexicon and rules, included in the package.

    Raises:
        UserError: TextBlob is not installed.
    """

    def __init__(self) -> None:
        if importlib.util.find_spec("textblob") is None:
            raise UserError("the tagger textblob is not installed: pip install 'holdfast[attacks]'")
        from textblob.en import parser

        def tag(words: list[str]) -> list[Tag]:
            return [_from_penn(penn) for _, penn in parser.find_tags(words)]

        super().__init__(tag, f"TextBlob {metadata.version('textblob')} pattern tagger", penn=True)


class SpacyTagger(Tagger):
    """The tagger of an installed spaCy pipeline.

    Args:
        model: the pipeline's name (``en_core_web_sm``) or folder.

    Raises:
        UserError: spaCy or the pipeline is missing, or the pipeline has no tagger.
    """

    def __init__(self, model: str) -> None:
        if importlib.util.find_spec("spacy") is None:
            raise UserError(f"the tagger spacy:{model} needs spaCy: pip install spacy, {_LIGHTER}")
        import spacy

        try:
            pipeline = spacy.load(model, exclude=["parser", "ner", "lemmatizer"])
        except OSError as error:
            raise UserError(
                f"there is no spaCy pipeline {model}: python -m spacy download {model}, {_LIGHTER}"
            ) from error
        if not _parsed(pipeline, ["A", "word"]).has_annotation("POS"):
            raise UserError(f"the spaCy pipeline {model} gives no parts of speech: take another, {_LIGHTER}")

        def tag(words: list[str]) -> list[Tag]:
            return [Tag(_from_ud(token.pos_), token.tag_) for token in _parsed(pipeline, words)] if words else []

        penn = pipeline.lang == "en" and _parsed(pipeline, ["A", "word"]).has_annotation("TAG")
        super().__init__(tag, f"spaCy {metadata.version('spacy')} {model}", penn=penn)


def nltk_folders() -> Iterator[Path]:
    """Yield the folders that NLTK searches for data, without importing NLTK, which takes seconds."""
    loaded = sys.modules.get("nltk.data")
    if loaded is not None:
        yield from map(Path, loaded.path)
        return
    yield from (expanded(name) for name in os.environ.get("NLTK_DATA", "").split(os.pathsep) if name)
    yield Path.home() / "nltk_data"
    yield from (Path(sys.prefix) / part for part in ("nltk_data", "share/nltk_data", "lib/nltk_data"))
    yield from (Path(root) / part / "nltk_data" for part in ("share", "lib") for root in ("/usr", "/usr/local"))


def nltk_tagger_data() -> Path | None:
    """Return the folder or archive of NLTK's tagger, or None if it is missing."""
    for folder in nltk_folders():
        for name in (_NLTK_TAGGER, f"{_NLTK_TAGGER}.zip"):
            if (folder / "taggers" / name).exists():
                return folder / "taggers" / name
    return None


def _from_penn(tag: str) -> Tag:
    return Tag(PENN_TO_UNIVERSAL.get(tag, "X"), tag)


def _parsed(pipeline: Any, words: list[str]) -> Any:
    """Run the pipeline on a document of the given words, since spaCy's tokeniser would split them differently."""
    from spacy.tokens import Doc

    return pipeline(Doc(pipeline.vocab, words=words))


def _from_ud(tag: str) -> str:
    """Convert a Universal Dependencies tag, which spaCy uses for every language, to one of `UNIVERSAL_TAGS`."""
    return tag if tag in UNIVERSAL_TAGS else _UD.get(tag, "X")
