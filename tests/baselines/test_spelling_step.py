"""A correction in a folder, and a model that corrects its queries."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import holdfast
from holdfast.baselines import retrieval_baselines, spelling, word_model
from holdfast.baselines.spelling_step import (
    SPELLING_FOLDER,
    save_spelling,
    spelling_of_corpus,
    spelling_step,
    with_spelling,
)
from holdfast.baselines.word_model import EnglishCounts
from holdfast.errors import UserError

TEXTS = ["the cat sleeps in Zorbelin", "the cat of Zorbelin"]


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"the": 100, "cat": 20, "sleeps": 5, "in": 50}
    counts = EnglishCounts(words, {}, 175)
    for module in (word_model, spelling):
        monkeypatch.setattr(module, "english_counts", lambda: counts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    spelling_of_corpus(TEXTS, tmp_path / SPELLING_FOLDER)
    return tmp_path


def test_a_saved_correction_is_loaded_as_it_was(folder: Path, tmp_path: Path) -> None:
    made = holdfast.spelling_of_corpus(iter(TEXTS), tmp_path / "own")
    loaded = holdfast.spelling_step(folder)
    assert loaded.counts == made.counts
    assert loaded.settings == made.settings
    assert loaded("teh cta of zorbelim") == made("teh cta of zorbelim") == "the cat of zorbelin"
    assert not [path for path in (folder / SPELLING_FOLDER).iterdir() if path.name.endswith(".part")]
    again = tmp_path / "again"
    save_spelling(loaded, again)
    assert (again / "spelling.json").read_bytes() == (folder / SPELLING_FOLDER / "spelling.json").read_bytes()


def test_symspell_alone_reads_the_words(folder: Path) -> None:
    import symspellpy

    spell = symspellpy.SymSpell(max_dictionary_edit_distance=2)
    assert spell.load_dictionary(folder / SPELLING_FOLDER / "words.txt", 0, 1, encoding="utf-8")
    assert spell.lookup("zorbelim", symspellpy.Verbosity.TOP, 2)[0].term == "zorbelin"
    assert spell.words["zorbelin"] == 2


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda step: (step / "spelling.json").unlink(), "has no spelling correction"),
        (lambda step: (step / "spelling.json").write_text("{"), "spelling.json is damaged"),
        (lambda step: (step / "words.txt").write_text("the 3 0\n"), "words.txt is not the file that"),
        (lambda step: (step / "pairs.txt").unlink(), "pairs.txt is not the file that"),
        (lambda step: changed(step, format=9), "is of format 9"),
        (lambda step: changed(step, counts={}), "spelling.json is damaged"),
        (lambda step: changed(step, settings={"margin": 1.0, "of_later": 2}), None),
    ],
)
def test_a_damaged_folder_is_named(folder: Path, damage: Callable[[Path], object], message: str | None) -> None:
    damage(folder / SPELLING_FOLDER)
    if message is None:
        assert spelling_step(folder).settings.margin == 1.0
        return
    with pytest.raises(UserError, match=message):
        spelling_step(folder)


def changed(step: Path, **values: object) -> None:
    record = json.loads((step / "spelling.json").read_text("utf-8")) | values
    (step / "spelling.json").write_text(json.dumps(record), "utf-8")


def test_a_line_that_is_no_count_is_named(folder: Path) -> None:
    step = folder / SPELLING_FOLDER
    (step / "words.txt").write_text("the 3 0\ncat\n")
    changed(step, sha256={})
    with pytest.raises(UserError, match=r"words.txt:2 is not a word"):
        spelling_step(folder)


def test_a_corpus_without_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the corpus has no words"):
        spelling_of_corpus(["", "12 34"], tmp_path / "step")
    assert not (tmp_path / "step").exists()


# --- before a model ------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path, make_encoder_model: Callable[..., SentenceTransformer]) -> Path:
    model = make_encoder_model(layers=1)
    model.prompts = {"query": "teh ", "document": ""}
    model.save_pretrained(str(tmp_path / "model"))
    spelling_of_corpus(TEXTS, tmp_path / "model" / SPELLING_FOLDER)
    return tmp_path / "model"


def test_only_queries_are_corrected(saved: Path) -> None:
    plain, model = SentenceTransformer(str(saved)), with_spelling(saved)
    typed, right = "teh cta sleeps", "the cat sleeps"
    assert np.allclose(model.encode_query(typed), plain.encode_query(right))
    assert not np.allclose(plain.encode_query(typed), plain.encode_query(right))
    assert np.allclose(model.encode_query([typed, right]), plain.encode_query([right, right]))
    assert np.allclose(model.encode_document(typed), plain.encode_document(typed))
    assert np.allclose(model.encode(typed), plain.encode(typed))
    every = with_spelling(saved, queries_only=False)
    assert np.allclose(every.encode(typed), plain.encode(right))
    assert np.allclose(every.encode_document(typed), plain.encode_document(typed))


def test_the_folder_loads_without_the_step_and_is_saved_without_it(saved: Path, tmp_path: Path) -> None:
    model = with_spelling(saved)
    again = tmp_path / "again"
    model.save_pretrained(str(again))
    assert (again / "modules.json").read_text() == (saved / "modules.json").read_text()
    assert not (again / SPELLING_FOLDER).exists()
    assert np.allclose(SentenceTransformer(str(again)).encode("teh"), SentenceTransformer(str(saved)).encode("teh"))


def test_a_copy_corrects_too(saved: Path) -> None:
    model = with_spelling(saved)
    wanted = model.encode_query("the cat")
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.allclose(made.encode_query("teh cta"), wanted)


def test_a_loaded_model_takes_a_function_or_a_folder(saved: Path) -> None:
    plain = SentenceTransformer(str(saved))
    wanted = plain.encode_query("the cat")
    assert np.allclose(with_spelling(SentenceTransformer(str(saved)), saved).encode_query("teh cta"), wanted)
    model = with_spelling(SentenceTransformer(str(saved)), lambda _: "the cat")
    assert np.allclose(model.encode_query("a dog"), wanted)
    with pytest.raises(UserError, match="needs the folder of the correction"):
        with_spelling(plain)
    with pytest.raises(UserError, match="corrects its queries already"):
        with_spelling(model, str.lower)


# --- as a system of retrieval ----------------------------------------------------------------------------------------


def test_a_saved_step_is_a_system(folder: Path) -> None:
    (_, system) = retrieval_baselines.retrieval_systems(f"spelling={folder}")
    assert system.name == f"spelling={folder}"
    assert str(folder) in system.record
    assert system.correction is not None
    assert system.correction(["nothing of it"])("zorbelim") == "zorbelin"
    (_, both) = retrieval_baselines.retrieval_systems(f"bm25+spelling={folder}")
    assert both.rank is not None
    with pytest.raises(UserError, match="only spelling takes a folder"):
        retrieval_baselines.retrieval_systems(f"bm25={folder}")
    with pytest.raises(UserError, match="has no spelling correction"):
        retrieval_baselines.retrieval_systems(f"spelling={folder / 'none'}")
