"""Which source of candidates an attack in training takes, and what it does where none is at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.adversary.candidate_words import Neighbours, candidate_words, synonyms_option, with_synonyms
from holdfast.adversary.masked_lm import Fillers, MaskedLM
from holdfast.edits.words import Words
from holdfast.errors import UserError

LISTS = "word\tneighbors\ndog\tcat hound puppy\nold\tancient\n"


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    path = tmp_path / "near.tsv"
    path.write_text(LISTS)
    return path


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.npz"
    rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.6, 0.8], [0.0, 1.0]], dtype=np.float32)
    np.savez(path, words=np.array(["dog", "cat", "man", "house"]), vectors=rows)
    return path


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with neighbour lists, in HOLDFAST_DATA."""
    folder = tmp_path / "data"
    (folder / "synonyms").mkdir(parents=True)
    (folder / "synonyms" / "counterfitted_neighbors.tsv").write_text(LISTS)
    monkeypatch.setenv("HOLDFAST_DATA", str(folder))
    return folder


def never() -> MaskedLM:
    pytest.fail("the masked LM was loaded")


def chosen(source: Any, file: Path | None, load: Any = never, limit: int = 2) -> Any:
    return candidate_words(source, file and str(file), load, minimum_cosine=0.5, limit=limit)


@pytest.mark.parametrize("source", ["auto", "neighbours"])
def test_lists_give_the_synonyms_without_a_masked_lm(lists: Path, source: str) -> None:
    found = chosen(source, lists)
    assert found.masked_lm is None
    assert found.notice == ""
    text = Words.of("The Dog sleeps")
    assert found.proposer.candidates([text, text], [1, 2]) == [["Cat", "Hound"], []]
    assert "neighbour lists near.tsv" in found.proposer.source


def test_lists_can_filter_the_masked_lm(lists: Path, masked_lm: Path) -> None:
    found = chosen("masked-lm", lists, lambda: MaskedLM(str(masked_lm)))
    assert isinstance(found.proposer, Fillers)
    assert found.proposer.candidates([Words.of("the dog sleeps")], [1]) == [["cat"]]  # of its vocabulary


def test_vectors_filter_the_masked_lm_unless_neighbours_are_asked_for(vectors: Path, masked_lm: Path) -> None:
    filtered = chosen("auto", vectors, lambda: MaskedLM(str(masked_lm)), limit=10)
    assert isinstance(filtered.proposer, Fillers)
    assert filtered.masked_lm is filtered.proposer.masked_lm
    assert filtered.notice == ""
    text = [Words.of("the dog sleeps")]
    assert sorted(filtered.proposer.candidates(text, [1])[0]) == ["cat", "man"]
    assert chosen("neighbours", vectors, limit=10).proposer.candidates(text, [1]) == [["cat", "man"]]
    assert candidate_words("neighbours", str(vectors), never, minimum_cosine=0.8, limit=10).proposer.candidates(
        text, [1]
    ) == [["cat"]]


def test_the_lists_of_the_data_folder_are_found(data: Path) -> None:
    for source in ("auto", "neighbours"):
        assert isinstance(chosen(source, None).proposer, Neighbours)
    assert isinstance(chosen("auto", Path("neighbours")).proposer, Neighbours)


def test_without_synonyms_the_masked_lm_is_taken_and_said(masked_lm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    found = chosen("auto", None, lambda: MaskedLM(str(masked_lm)))
    assert "input embeddings" in found.proposer.source
    assert "far weaker" in found.notice
    assert chosen("masked-lm", None, lambda: MaskedLM(str(masked_lm))).notice == ""
    for file in (None, Path("neighbours")):
        with pytest.raises(UserError, match="neighbour lists are not here: give --data DIR"):
            chosen("neighbours", file)


def test_the_options_of_a_run_name_the_file(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(data / "synonyms" / "counterfitted_neighbors.tsv")
    assert with_synonyms({"iterations": 3}, None) == {"iterations": 3, "word_vectors": path}
    assert with_synonyms({"source": "neighbours"}, None)["word_vectors"] == path
    assert with_synonyms({"source": "masked-lm"}, None) == {"source": "masked-lm"}
    assert with_synonyms({"word_vectors": "mine.txt"}, None) == {"word_vectors": "mine.txt"}
    monkeypatch.delenv("HOLDFAST_DATA")
    assert with_synonyms({}, data) == {"word_vectors": path}
    assert with_synonyms({"word_vectors": "neighbours", "source": "masked-lm"}, data)["word_vectors"] == path
    assert with_synonyms({}, None) == {}
    with pytest.raises(UserError, match="is not a folder"):
        with_synonyms({}, tmp_path / "nowhere")


def test_when_an_option_of_synonyms_is_open() -> None:
    assert synonyms_option({}) == "word_vectors"
    assert synonyms_option({"source": "neighbours"}) == "word_vectors"
    assert synonyms_option({"source": "masked-lm"}) is None
    assert synonyms_option({"word_vectors": "mine.txt"}) is None


def test_at_least_one_candidate(lists: Path) -> None:
    with pytest.raises(ValueError, match="at least one candidate"):
        chosen("auto", lists, limit=0)
