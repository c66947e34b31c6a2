"""The taggers: one universal tag a word, whatever the package says; and each package missing."""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.edits.tagging import (
    PENN_TO_UNIVERSAL,
    UNIVERSAL_TAGS,
    NLTKTagger,
    SpacyTagger,
    TextBlobTagger,
    nltk_folders,
    nltk_tagger_data,
)
from holdfast.errors import UserError


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(importlib.util.find_spec(package) is None, reason=f"{package} is not installed")


def test_every_tag_of_the_treebank_is_one_of_the_twelve() -> None:
    assert set(PENN_TO_UNIVERSAL.values()) == set(UNIVERSAL_TAGS)
    expected = {"NNPS": "NOUN", "MD": "VERB", "JJR": "ADJ", "WRB": "ADV", "PRP$": "PRON", "EX": "DET", "IN": "ADP"}
    expected |= {"CD": "NUM", "CC": "CONJ", "TO": "PRT", "``": ".", "UH": "X"}
    assert {tag: PENN_TO_UNIVERSAL[tag] for tag in expected} == expected


@needs("textblob")
class TestTextBlob:
    def test_tags(self) -> None:
        tagger = TextBlobTagger()
        words = "The old man quickly eats 3 better films , and the big dog runs to him".split()
        tags = "DET ADJ NOUN ADV VERB NUM ADJ NOUN . CONJ DET ADJ NOUN VERB PRT PRON".split()
        assert tagger.tags(words) == tags
        assert tagger.tags([]) == []
        assert "TextBlob" in tagger.source
        assert tagger.penn_tags("He walks to 3 dogs .".split()) == ["PRP", "VBZ", "TO", "CD", "NNS", "."]

    def test_one_tag_for_each_word_whatever_it_is(self) -> None:
        assert len(TextBlobTagger().tags(["mo vie", "", "a/b", "\N{CYRILLIC SMALL LETTER A}x", "..."])) == 5

    def test_a_text_is_tagged_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from textblob.en import parser

        seen: list[Sequence[str]] = []

        def find_tags(words: Sequence[str]) -> list[list[str]]:
            seen.append(words)
            return [[word, "NN"] for word in words]

        monkeypatch.setattr(parser, "find_tags", find_tags)
        tagger = TextBlobTagger()
        for words in (["a", "b"], ["a", "b"], ["a", "c"], ["a b"]):
            tagger.tags(words).append("changed")
        assert seen == [["a", "b"], ["a", "c"], ["a b"]]
        assert tagger.tags(["a", "b"]) == ["NOUN", "NOUN"]


@needs("nltk")
class TestNLTK:
    @pytest.fixture
    def data(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A tagger that knows "the" by heart, and of all others that those in -s are verbs."""
        import nltk.data

        folder = tmp_path / "nltk_data" / "taggers" / "averaged_perceptron_tagger_eng"
        folder.mkdir(parents=True)
        weights = {"bias": {"NN": 1.0}, "i suffix uns": {"VBZ": 2.0}}
        contents = {"weights": weights, "tagdict": {"the": "DT"}, "classes": ["DT", "NN", "VBZ"]}
        for name, content in contents.items():
            (folder / f"averaged_perceptron_tagger_eng.{name}.json").write_text(json.dumps(content))
        monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "nltk_data")])
        return folder

    def test_tags(self, data: Path) -> None:
        tagger = NLTKTagger()
        assert tagger.tags("the dog runs".split()) == ["DET", "NOUN", "VERB"]
        assert tagger.penn_tags("the dog runs".split()) == ["DT", "NN", "VBZ"]
        assert tagger.tags([]) == []
        assert tagger.source.startswith("NLTK")
        assert nltk_tagger_data() == data

    def test_without_its_data(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import nltk.data

        monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
        assert nltk_tagger_data() is None
        with pytest.raises(UserError, match=r"nltk\.downloader averaged_perceptron_tagger_eng.*--tagger textblob"):
            NLTKTagger()

    def test_its_folders_without_importing_it(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        import os

        import nltk.data

        # Those that NLTK itself worked out when it was imported, with this process's settings.
        monkeypatch.delitem(sys.modules, "nltk.data")
        ours = list(nltk_folders())
        assert {Path(name) for name in nltk.data.path} <= {*ours, *(Path(name) for name in _added(nltk.data))}
        monkeypatch.setenv("NLTK_DATA", os.pathsep.join([str(tmp_path / "a"), "", str(tmp_path / "b")]))
        assert list(nltk_folders())[:2] == [tmp_path / "a", tmp_path / "b"]


def _added(module: Any) -> list[str]:
    """What NLTK_DATA named when NLTK was imported."""
    return [name for name in module._paths_from_env if name]


class Pipeline:
    """What is used of spaCy's: a document of words with parts of speech."""

    def __init__(self, tags: dict[str, str], penn: dict[str, str], lang: str = "en") -> None:
        self.vocab, self._tags, self._penn, self.lang = object(), tags, penn, lang

    def __call__(self, document: Any) -> Any:
        for token in document:
            token.pos_ = self._tags.get(token.text, "")
            token.tag_ = self._penn.get(token.text, "")
        return document


class Document(list[Any]):
    def __init__(self, vocab: object, words: list[str]) -> None:
        super().__init__(types.SimpleNamespace(text=word, pos_="", tag_="") for word in words)

    def has_annotation(self, name: str) -> bool:
        field = {"POS": "pos_", "TAG": "tag_"}[name]
        return any(getattr(token, field) for token in self)


class TestSpacy:
    @pytest.fixture(autouse=True)
    def spacy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A package of that name; against the real one (3.8) the same adapter was tried by hand."""
        tags = {"A": "DET", "word": "NOUN", "runs": "AUX", "Ann": "PROPN", "and": "CCONJ", "that": "SCONJ"}
        tags |= {"to": "PART", "!": "PUNCT", "$": "SYM"}
        penn = {"A": "DT", "word": "NN", "runs": "VBZ"}
        pipelines = {"good": Pipeline(tags, penn), "blank": Pipeline({}, penn)}
        pipelines |= {"french": Pipeline(tags, penn, lang="fr"), "coarse": Pipeline(tags, {})}

        def load(name: str, exclude: list[str]) -> Pipeline:
            if name not in pipelines:
                raise OSError(f"[E050] Can't find model {name!r}")
            return pipelines[name]

        spacy, tokens = types.ModuleType("spacy"), types.ModuleType("spacy.tokens")
        spacy.load, tokens.Doc = load, Document  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "spacy", spacy)
        monkeypatch.setitem(sys.modules, "spacy.tokens", tokens)
        find, version = importlib.util.find_spec, importlib.metadata.version
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spacy if name == "spacy" else find(name))
        monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9" if name == "spacy" else version(name))

    def test_tags(self) -> None:
        tagger = SpacyTagger("good")
        words = "A word runs Ann and that to ! $ unknown".split()
        assert tagger.tags(words) == "DET NOUN VERB NOUN CONJ ADP PRT . X X".split()
        assert tagger.tags([]) == []
        assert tagger.source == "spaCy 9.9 good"
        assert tagger.penn_tags("A word runs".split()) == ["DT", "NN", "VBZ"]

    @pytest.mark.parametrize("name", ["french", "coarse"])
    def test_a_pipeline_without_penn_tags(self, name: str) -> None:
        tagger = SpacyTagger(name)
        assert not tagger.penn
        with pytest.raises(UserError, match=f"spaCy 9.9 {name} gives no Penn Treebank tags: .*textblob"):
            tagger.penn_tags(["A"])

    def test_no_such_pipeline(self) -> None:
        with pytest.raises(UserError, match="spacy download nowhere"):
            SpacyTagger("nowhere")

    def test_a_pipeline_that_does_not_tag(self) -> None:
        with pytest.raises(UserError, match="blank gives no parts of speech"):
            SpacyTagger("blank")


@pytest.mark.parametrize("tagger", [NLTKTagger, TextBlobTagger, lambda: SpacyTagger("en_core_web_sm")])
def test_a_package_that_is_not_installed(tagger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install"):
        tagger()
