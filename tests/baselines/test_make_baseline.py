"""A baseline from the command's settings to a folder that sentence-transformers alone can use."""

from __future__ import annotations

import errno
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.baselines import BASELINES
from holdfast.baselines.baseline_settings import BaselineSettings
from holdfast.baselines.construction import make_baseline
from holdfast.baselines.corpus_vectors import corpus_vectors
from holdfast.data.corpus import spool_corpus
from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.model_lookup import model_identity
from holdfast.models import load_sentence_transformer
from holdfast.results import read_result

WORDS = "the a man woman child dog cat runs sleeps eats plays sings on under in park house bed red big old".split()
SMALL_FLOW = {"levels": 2, "depth": 2, "width": 4, "epochs": "2", "batch_size": 32}

RELOAD = """
import sys
sys.modules["holdfast"] = None
import json, numpy
from sentence_transformers import SentenceTransformer
for folder in json.loads(sys.argv[1]):
    numpy.save(folder + ".npy", SentenceTransformer(folder, device="cpu").encode(json.loads(sys.argv[2])))
"""


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory, make_masked_lm: Callable[..., Path]) -> Path:
    return make_masked_lm(tmp_path_factory.mktemp("models") / "lm")


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    draw = random.Random(0)
    lines = [" ".join(draw.choices(WORDS, k=draw.randint(2, 12))) for _ in range(300)]
    (tmp_path / "corpus.txt").write_text("\n".join(lines) + "\n")
    return tmp_path / "corpus.txt"


@pytest.fixture
def word_file(tmp_path: Path) -> Path:
    draw = np.random.default_rng(0)
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, draw.standard_normal(5)))}\n" for word in [*WORDS, "the"]))
    return path


def make(name: str, output: Path, **given: Any) -> dict[str, Any]:
    return make_baseline(BaselineSettings(name=name, output=output, **given), command=["holdfast", "baseline"])


def refusal(name: str, output: Path, **given: Any) -> str:
    with pytest.raises(UserError) as caught:
        make(name, output, **given)
    return str(caught.value)


@pytest.mark.slow  # sentence-transformers is imported anew
def test_every_baseline_is_used_without_holdfast(
    lm: Path, corpus: Path, word_file: Path, tmp_path: Path, sentences: list[str]
) -> None:
    folders: dict[str, Path] = {}
    for name, baseline in BASELINES.items():
        values = {"vectors": word_file, "model": str(lm), "corpus": str(corpus)}
        given: dict[str, Any] = {key: values[key] for key in baseline.needs}
        given |= {"options": SMALL_FLOW} if name == "flow" else {}
        folders[name] = tmp_path / "made" / name
        result = make(name, folders[name], **given)
        assert read_result(folders[name] / "results.json") == json.loads(json.dumps(result))
        card = (folders[name] / "README.md").read_text()
        assert baseline.title in card
        assert baseline.citation in card
    names = [str(folder) for folder in folders.values()]
    command = [sys.executable, "-c", RELOAD, json.dumps(names), json.dumps(sentences)]
    subprocess.run(command, check=True, capture_output=True)
    widths = {}
    for name, folder in folders.items():
        theirs = np.load(f"{folder}.npy")
        ours = encode_sentences(load_sentence_transformer(str(folder), device="cpu"), sentences)
        np.testing.assert_allclose(ours, theirs, atol=2e-4, err_msg=name)
        assert np.abs(theirs).max() > 0.1
        widths[name] = theirs.shape[1]
    # Whitening leaves out one: a model that was never trained has the same layer normalisation first and last, and its
    # outputs sum to 0.
    assert widths == {**dict.fromkeys(BASELINES, 16), "glove": 5, "whitening": 15}


def test_whitening_whitens_the_corpus_it_was_fitted_on(lm: Path, corpus: Path, tmp_path: Path) -> None:
    result = make("whitening", tmp_path / "w", model=str(lm), corpus=str(corpus), dimensions=9)
    lines = corpus.read_text().splitlines()
    vectors = load_sentence_transformer(str(tmp_path / "w"), device="cpu").encode(lines)
    np.testing.assert_allclose(vectors.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(np.cov(vectors.T, bias=True), np.eye(9), atol=1e-3)
    assert result["dimensions"] == 9
    assert result["fit"]["sentences"] == 300
    assert result["fit"]["rank"] == 15
    protocol = result["protocol"]
    assert (protocol["baseline"], protocol["pooling"], protocol["dimensions_asked_for"]) == (
        "whitening",
        "first-last",
        9,
    )
    assert protocol["base_model_sha256"] == model_identity(lm)["model_sha256"]
    assert protocol["corpus"]["sentences"] == protocol["corpus"]["drawn"] == 300


def test_the_prompt_of_the_fitted_vectors_is_that_of_the_folder(
    lm: Path, corpus: Path, tmp_path: Path, make_encoder_model: Callable[..., Any]
) -> None:
    lines = corpus.read_text().splitlines()
    encoder = make_encoder_model("bert", pooling="mean")
    encoder.prompts, encoder.default_prompt_name = {"query": "the dog "}, "query"
    encoder.save_pretrained(str(tmp_path / "prompted"))
    for number, given in enumerate(({"prompt": "a cat "}, {"no_prompt": True}, {})):
        for model in (tmp_path / "prompted", *([lm] if given else [])):
            folder = tmp_path / f"w{number}{model.name}"
            make("whitening", folder, model=str(model), corpus=str(corpus), dimensions=6, **given)
            vectors = load_sentence_transformer(str(folder), device="cpu").encode(lines)
            np.testing.assert_allclose(vectors.mean(axis=0), 0, atol=1e-4)
            np.testing.assert_allclose(np.cov(vectors.T, bias=True), np.eye(6), atol=1e-3)


def test_few_sentences_give_fewer_dimensions_and_say_so(lm: Path, corpus: Path, tmp_path: Path) -> None:
    result = make("whitening", tmp_path / "w", model=str(lm), corpus=str(corpus), sentences=8, pooling="mean")
    assert result["dimensions"] == result["fit"]["rank"] == 7
    assert "vary in 7 of 16 directions" in result["notes"][0]
    assert result["notes"][0] in (tmp_path / "w" / "README.md").read_text()
    assert result["protocol"]["pooling"] == "mean"
    message = refusal("whitening", tmp_path / "x", model=str(lm), corpus=str(corpus), sentences=8, dimensions=8)
    assert "ask for at most 7" in message
    assert not (tmp_path / "x").exists()


def test_the_flow_is_the_same_for_the_same_seed(lm: Path, corpus: Path, tmp_path: Path) -> None:
    given = {"model": str(lm), "corpus": str(corpus), "options": SMALL_FLOW, "sentences": 200}
    one, two, other = (make("flow", tmp_path / f"f{i}", seed=seed, **given) for i, seed in enumerate((1, 1, 2)))
    assert one["model_sha256"] == two["model_sha256"] != other["model_sha256"]
    assert one["fit"]["after"] > one["fit"]["before"]
    assert (one["fit"]["trained_on"], one["fit"]["held_out"], one["seed"]) == (190, 10, 1)
    message = {"levels": 2, "depth": 2, "width": 4, "coupling": "additive"}
    assert one["protocol"]["options"] == message | {"epochs": 2.0, "batch_size": 32, "learning_rate": 1e-3}


def test_a_sentence_transformer_keeps_its_modules_below_the_fit(lm: Path, corpus: Path, tmp_path: Path) -> None:
    make("mean", tmp_path / "mean", model=str(lm))
    result = make("whitening", tmp_path / "w", model=str(tmp_path / "mean"), corpus=str(corpus))
    assert result["protocol"]["pooling"] == "its own"
    model = load_sentence_transformer(str(tmp_path / "w"), device="cpu")
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling", "Dense"]


def test_a_model_that_cuts_its_vectors_is_fitted_whole(lm: Path, corpus: Path, tmp_path: Path) -> None:
    """Its saved truncate_dim does not cut what the appended modules get: they would not fit."""
    model = load_sentence_transformer(str(lm), device="cpu")
    model.truncate_dim = 8
    model.save(str(tmp_path / "cut"))
    for name, given in (("whitening", {}), ("flow", {"options": SMALL_FLOW})):
        result = make(name, tmp_path / name, model=str(tmp_path / "cut"), corpus=str(corpus), **given)
        assert "cut to 8 of 16 dimensions (truncate_dim)" in result["notes"][0]
        made = load_sentence_transformer(str(tmp_path / name), device="cpu")
        assert encode_sentences(made, ["the dog runs"]).shape == (1, result["dimensions"])
        assert result["dimensions"] > 8


def test_glove_says_what_it_left_out(word_file: Path, tmp_path: Path) -> None:
    result = make("glove", tmp_path / "g", vectors=word_file)
    assert result["fit"] == {"words": 21, "dimensions": 5, "duplicate_words": 1, "words_with_spaces": 0}
    assert result["notes"][0] == "1 lines were left out: duplicate words."
    assert "zero vector" in (tmp_path / "g" / "README.md").read_text()
    assert make("glove", tmp_path / "h", vectors=word_file, words=3)["fit"]["words"] == 3


def test_the_corpus_is_drawn_by_the_seed_and_each_part_is_given_once(
    lm: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.baselines import corpus_vectors as module

    monkeypatch.setattr(module, "_PART", 64)
    model, spooled = load_sentence_transformer(str(lm), device="cpu"), spool_corpus(str(corpus))
    message: list[tuple[int, int]] = []
    parts = list(corpus_vectors(model, spooled, 150, seed=3, progress=lambda *update: message.append(update)))
    assert [len(part) for part in parts] == [64, 64, 22]
    assert message == [(64, 150), (128, 150), (150, 150)]
    order = np.random.default_rng(3).permutation(300)[:150]
    expected = model.encode([corpus.read_text().splitlines()[row] for row in order])
    np.testing.assert_allclose(np.concatenate(parts), expected, atol=1e-5)


def test_a_full_disk_is_one_line_and_nothing_is_left(
    lm: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.baselines import construction

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")
        yield

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(construction, "corpus_vectors", full)
    message = refusal("flow", tmp_path / "out", model=str(lm), corpus=str(corpus))
    assert "no space left on the disk" in message
    assert not list(tmp_path.glob("holdfast-flow-*"))
    assert not (tmp_path / "out").exists()


# --- mistakes -------------------------------------------------------------------------------------------------------


def test_a_folder_with_something_in_it_is_left_alone(lm: Path, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").write_text("mine")
    assert "is not empty" in refusal("mean", tmp_path / "used", model=str(lm))
    assert "is a file" in refusal("mean", tmp_path / "used" / "notes.txt", model=str(lm))
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("glvoe", {}, "'glove'"),
        ("glove", {}, "the baseline glove needs --vectors"),
        ("mean", {}, "the baseline mean needs --model"),
        ("whitening", {"model": "lm"}, "the baseline whitening needs --corpus"),
        ("mean", {"model": "lm", "corpus": "c.txt"}, "does not take --corpus; it takes --model"),
        ("glove", {"vectors": Path("v"), "model": "lm"}, "does not take --model"),
        ("whitening", {"model": "lm", "corpus": "c", "options": {"levels": 1}}, "does not take --set"),
        ("flow", {"model": "lm", "corpus": "c", "dimensions": 5}, "does not take --dimensions"),
        ("flow", {"model": "lm", "corpus": "c", "pooling": "max"}, "--pooling does not take 'max'"),
        ("flow", {"model": "lm", "corpus": "c", "options": {"level": 1}}, "'levels'"),
        ("glove", {"vectors": Path("v"), "words": 0}, "--words must be from 1"),
        ("whitening", {"model": "lm", "corpus": "c", "sentences": 1}, "--sentences must be from 2"),
        ("whitening", {"model": "lm", "corpus": "c", "seed": -1}, "--seed must be from 0 to 4294967295"),
        ("flow", {"model": "lm", "corpus": "c", "seed": 2**32}, "--seed must be from 0 to 4294967295"),
    ],
)
def test_settings_are_checked_first(name: str, given: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in refusal(name, tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_more_sentences_than_there_are_is_told(lm: Path, corpus: Path, tmp_path: Path) -> None:
    message = refusal("whitening", tmp_path / "out", model=str(lm), corpus=str(corpus), sentences=301)
    assert "--sentences 301" in message
    assert "holds 300" in message


def test_vectors_that_are_not_finite_are_told(lm: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_sentence_transformer(str(lm), device="cpu")
    model[0].model.embeddings.word_embeddings.weight.data[5] = float("nan")
    with pytest.raises(UserError, match="not finite"):
        list(corpus_vectors(model, spool_corpus(str(corpus)), None, seed=0))
