"""Runs of the suite: a file for each part, which a second run keeps; BM25; the speed beside a reference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from board_samples import entry
from sentence_transformers import SentenceTransformer

from beir_folder import write_collection
from holdfast.audit.audit_settings import AuditSettings
from holdfast.cli import main
from holdfast.errors import UserError
from holdfast.leaderboard import cost, entry_encoders, suite_run
from holdfast.leaderboard.column_scores import own_scores
from holdfast.leaderboard.entry import write_entry
from holdfast.leaderboard.hashing_encoder import DIMENSIONS, embed
from holdfast.leaderboard.leaderboard_settings import LeaderboardRunSettings
from holdfast.leaderboard.result_checks import mistakes, read_parts
from holdfast.leaderboard.suite import Suite, the_suite
from holdfast.leaderboard.suite_run import MARK, run_suite
from holdfast.leaderboard.token_table import main as write_table
from holdfast.model_lookup import model_identity, resolve_model
from holdfast.results import read_result
from holdfast.user_functions import VectorFunction


@pytest.fixture
def small() -> Suite:
    """A suite of three parts with few texts."""
    suite = the_suite()
    parts: dict[str, Any] = {
        "own": {**suite.parts["own"], "items": "case.upper,whitespace", "texts_per_item": 12},
        "retrieval": suite.parts["retrieval"],
        "cost": {**suite.parts["cost"], "texts": 4, "rounds": 2},
    }
    return replace(suite, parts=parts, sha256="f" * 64)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_collection(tmp_path / "data/noiseqa")
    return tmp_path / "data"


def test_a_run_writes_a_file_for_each_part_and_the_next_keeps_them(
    small: Suite, data: Path, masked_lm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = LeaderboardRunSettings(str(masked_lm), tmp_path / "out", pooling="mean", data=data)
    files = run_suite(settings, suite=small)
    assert {name: path.name for name, path in files.items()} == {name: f"{name}.json" for name in small.parts}
    results = {name: read_result(path) for name, path in files.items()}
    assert {name: result[MARK] for name, result in results.items()} == {
        name: small.protocol(name) for name in small.parts
    }
    assert len({result["model_sha256"] for result in results.values()}) == 1
    assert all(result["protocol"]["pooling"] == "mean" for name, result in results.items() if name != "cost")
    assert results["own"]["seed"] == 42
    assert results["own"]["examples"], "which `holdfast compare` needs"
    assert results["own"]["protocol"]["texts"]["sha256"] == small.data["own"]["texts"]
    assert set(own_scores(small, results["own"]["results"])) == {"case.upper", "whitespace"}
    assert {row["split"] for row in results["retrieval"]["results"]} == {"queries", "queries-keyboard"}
    metrics = results["cost"]["results"][0]["metrics"]
    assert metrics["dimensions"] == 16
    assert metrics["parameters"] == sum(p.numel() for p in SentenceTransformer(str(masked_lm)).parameters())
    assert metrics["speed_low"] <= metrics["speed"] <= metrics["speed_high"]

    written = {name: path.read_bytes() for name, path in files.items()}
    files["cost"].unlink()
    monkeypatch.setattr(suite_run, "audit", lambda *_, **__: pytest.fail("measured again"))
    again = run_suite(settings, suite=small)
    assert again == files
    assert {name: path.read_bytes() for name, path in again.items() if name != "cost"} == {
        name: held for name, held in written.items() if name != "cost"
    }


def test_pooling_and_prompts_are_those_of_all_parts(small: Suite, data: Path, masked_lm: Path, tmp_path: Path) -> None:
    settings = LeaderboardRunSettings(str(masked_lm), tmp_path / "out", pooling="mean", prompt="query: ", data=data)
    run_suite(settings, suite=small)
    lines = mistakes(read_parts([str(tmp_path / "out")], small), small)
    assert [line for line in lines if "other" in line] == []
    for other in (replace(settings, pooling="cls"), replace(settings, prompt=None)):
        with pytest.raises(UserError, match="pooling and prompts count"):
            run_suite(other, suite=small)


def test_an_entry_is_measured_again_as_it_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sha = model_identity(resolve_model("bundled"))["model_sha256"]
    form = {"pooling": "cls", "prompts": {"prompt": "query: "}, "backend": "onnx"}
    write_entry(tmp_path, entry("mine", source="bundled", model_sha256=sha, **form))
    monkeypatch.setattr(entry_encoders, "published_folder", lambda: tmp_path)
    plain = LeaderboardRunSettings("mine", tmp_path / "out")
    found = suite_run._named(plain)
    assert (found.model, found.pooling, found.prompt, found.backend) == ("bundled", "cls", "query: ", "onnx")
    found = suite_run._named(replace(plain, pooling="mean", prompt="passage: ", backend="onnx-int8"))
    assert (found.model, found.pooling, found.prompt, found.backend) == ("bundled", "mean", "passage: ", "onnx-int8")


def test_the_masked_lm_is_the_suites_also_for_an_encoder_with_a_head_of_its_own(
    masked_lm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []

    def no_audit(settings: AuditSettings, **_: object) -> None:
        asked.append(settings.masked_lm)
        raise UserError("enough")

    monkeypatch.setattr(suite_run, "audit", no_audit)
    for part in ("own", "audit"):
        with pytest.raises(UserError, match="enough"):
            run_suite(LeaderboardRunSettings(str(masked_lm), tmp_path / part, part, pooling="mean"))
    assert asked == [None, "bundled-mlm"], "the texts of `own` are changed without resources"


def test_the_output_of_another_model_or_suite_is_refused(small: Suite, masked_lm: Path, tmp_path: Path) -> None:
    settings = LeaderboardRunSettings("bundled", tmp_path / "out", "own")
    run_suite(settings, suite=small)
    for other in (replace(settings, model=str(masked_lm)), replace(settings, backend="onnx")):
        with pytest.raises(UserError, match=r"own\.json is of another model, backend or suite, or was changed"):
            run_suite(other, suite=small)
    with pytest.raises(UserError, match="of another model, backend or suite"):
        run_suite(settings, suite=replace(small, sha256="0" * 64))


def test_bm25_is_measured_in_retrieval_alone(small: Suite, data: Path, tmp_path: Path) -> None:
    files = run_suite(LeaderboardRunSettings("bm25", tmp_path, data=data), suite=small)
    assert list(files) == ["retrieval"]
    result = read_result(files["retrieval"])
    assert {row["system"] for row in result["results"]} == {"bm25"}
    assert result["model"] == "bm25"
    with pytest.raises(UserError, match="--parts"):
        run_suite(LeaderboardRunSettings("bm25", tmp_path, "own", data=data), suite=small)


def test_a_part_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["leaderboard", "run", "bundled", "--parts", "audti", "--output", str(tmp_path / "o")]
    assert main(words) == 2
    assert "'audit'" in capsys.readouterr().err
    assert not (tmp_path / "o").exists()


def test_the_speed_is_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    clock = iter([0.0, 9.0, 0.0, 9.0, *(n for _ in range(2) for n in (0.0, 2.0, 10.0, 11.0))])

    def encoder(name: str) -> VectorFunction:
        return VectorFunction(lambda texts: order.append(name) or np.ones((len(texts), 2)), name=name)

    monkeypatch.setattr(cost.time, "process_time", lambda: next(clock))
    ratios = cost.speed_ratios(encoder("own"), encoder("reference"), ["a", "b"], 2)
    assert order == ["reference", "own"] * 3, "one round to warm up"
    assert ratios == [2.0, 2.0], "twice the reference's speed"


def test_hashed_letters() -> None:
    vectors = embed(["Hello world", "hello  WORLD", "", "!"])
    assert vectors.shape == (4, DIMENSIONS)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(4))
    assert (vectors[0] == vectors[1]).all()
    assert vectors[2, 0] == 1.0


def test_a_table_of_token_vectors(masked_lm: Path, tmp_path: Path) -> None:
    from holdfast.encoding import encode_sentences
    from holdfast.models import load_sentence_transformer

    write_table([str(masked_lm), str(tmp_path / "table")])
    table, model = SentenceTransformer(str(tmp_path / "table")), load_sentence_transformer(str(masked_lm))
    vocabulary = sorted(model.tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    vectors = encode_sentences(model, [token for token, _ in vocabulary])
    vectors -= vectors.mean(axis=0)
    weight = {token: np.log1p(number) for token, number in vocabulary}
    place = dict(vocabulary)
    expected = sum(weight[word] * vectors[place[word]] for word in ("the", "dog")) / 2
    expected /= np.linalg.norm(expected)
    assert table.encode("the dog") == pytest.approx(expected, abs=1e-5)
    for words in ([str(masked_lm), str(tmp_path / "table")], [str(tmp_path / "none"), str(tmp_path / "new")], ["one"]):
        with pytest.raises(SystemExit) as stopped:
            write_table(words)
        assert stopped.value.code == 2
