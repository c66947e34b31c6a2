"""Tasks on forms of vectors: from one encoding, equal to the form by hand, with what each form loses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sentence_transformers.util import quantize_embeddings
from test_sample import stsb as stsb

from beir_folder import write_collection
from holdfast.cli import main
from holdfast.data.beir import read_collection
from holdfast.data.registry import load_pairs
from holdfast.edits.noise import Noise
from holdfast.encoding import encode_sentences
from holdfast.evaluation import vectors as shared_vectors
from holdfast.evaluation.comparison import contrast, difference, resample
from holdfast.evaluation.evaluation_run import evaluate_tasks
from holdfast.evaluation.form_losses import losses_of
from holdfast.evaluation.retrieval import evaluate_retrieval
from holdfast.evaluation.samples import Means, Shares
from holdfast.evaluation.sts import average
from holdfast.forms import parse_forms
from holdfast.results import read_result
from holdfast.user_functions import VectorFunction

TYPING = Noise("typing", 0.3)


def test_pairs_are_measured_in_each_form_from_one_encoding(
    stsb: Path, make_encoder_model: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_encoder_model()
    calls: list[int] = []
    real = shared_vectors.encode_sentences

    def noted(model: Any, sentences: Any, **more: Any) -> Any:
        calls.append(len(sentences))
        return real(model, sentences, **more)

    monkeypatch.setattr(shared_vectors, "encode_sentences", noted)
    clean, noisy = evaluate_tasks(model, ["stsb"], data=stsb, noises=[TYPING])
    calls.clear()
    forms = parse_forms("ubinary,dim=8,uint8")
    rows = evaluate_tasks(model, ["stsb"], data=stsb, noises=[TYPING], forms=forms)
    assert len(calls) == 1
    assert rows[:2] == [clean, noisy]
    assert [(row["form"], row["split"]) for row in rows[2:]] == [
        (str(form), split) for form in forms for split in ("test", "test typing=0.3")
    ]
    assert average([{**row, "split": "test"} for row in rows]) is None  # one task of seven, whatever the form

    pairs = load_pairs("stsb", "test", data=stsb)
    own = encode_sentences(model, list(dict.fromkeys([*pairs.sentences1, *pairs.sentences2])))
    ranges = np.vstack([own.min(axis=0), own.max(axis=0)])
    sides = [encode_sentences(model, texts) for texts in (pairs.sentences1, pairs.sentences2)]
    by_name = {(row.get("form"), row.get("noise")): row for row in rows}
    first, second = (np.unpackbits(quantize_embeddings(side, "ubinary"), axis=1).astype(float) for side in sides)
    similarity = 1 - 2 * np.abs(first - second).mean(axis=1)
    row = by_name["ubinary", None]
    np.testing.assert_allclose(row["items"]["similarity"], similarity, atol=1e-9)
    assert row["metrics"]["spearman"] == pytest.approx(100 * spearmanr(similarity, pairs.scores).statistic)
    assert row["vectors"] == {"bytes": 2}
    codes = [quantize_embeddings(side, "uint8", ranges=ranges) * ((ranges[1] - ranges[0]) / 255) for side in sides]
    first, second = (each + ranges[0] for each in codes)
    cosines = (first * second).sum(axis=1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    np.testing.assert_allclose(by_name["uint8", None]["items"]["similarity"], cosines, atol=1e-5)
    assert by_name["uint8", None]["vectors"] == {"bytes": 16, "calibrated_on": f"{len(own)} texts"}
    # The noisy texts are quantised in the ranges of the clean ones.
    assert by_name["uint8", TYPING.__str__()]["vectors"] == by_name["uint8", None]["vectors"]


def test_losses_are_differences_of_the_scores(stsb: Path, make_encoder_model: Callable[..., Any]) -> None:
    rows = evaluate_tasks(
        make_encoder_model(), ["stsb", "space"], data=stsb, noises=[TYPING], forms=parse_forms("ubinary,dim=16")
    )
    score = {
        (row.get("form"), row.get("noise")): row["metrics"]["spearman"] for row in rows if "spearman" in row["metrics"]
    }
    against = {(row.get("form"), row.get("noise")): row.get("against") for row in rows if row["task"] == "stsb"}
    noise = str(TYPING)
    assert against[None, None] is against[None, noise] is None
    lost = against["ubinary", None]["float32"]["spearman"]
    assert lost["difference"] == pytest.approx(score["ubinary", None] - score[None, None])
    assert lost["low"] < lost["difference"] < lost["high"]
    assert "robustness" not in against["ubinary", None]
    taken = {form: score[form, noise] - score[form, None] for form in (None, "ubinary")}
    robustness = against["ubinary", noise]["robustness"]["spearman"]
    assert robustness["difference"] == pytest.approx(taken["ubinary"] - taken[None])
    assert robustness["low"] < robustness["high"]
    # All 16 dimensions of the model are kept: nothing is lost.
    for key in ("float32", "robustness"):
        assert against["dim=16", noise][key]["spearman"] == {"difference": 0.0, "low": 0.0, "high": 0.0, "p": 1.0}


def test_a_contrast_of_two_is_their_difference() -> None:
    right = np.random.default_rng(0).random((3, 60)) < [[0.9], [0.5], [0.6]]
    drawn = resample(Shares(right), seed=1, name="x")
    found = contrast(drawn, [0.0, 1.0, -1.0])
    by_pair = difference([resample(Shares(right[[2, 1]]), seed=1, name="x")], 1)
    assert found["difference"] == pytest.approx(by_pair.difference)
    assert found["p"] == by_pair.p  # McNemar's
    assert found["low"] == pytest.approx(by_pair.low, abs=3.0)
    made = losses_of({"found": Shares(right)}, [(None, None), ("int8", None), (None, "typing")])
    assert list(made) == [("int8", None)]
    assert list(made["int8", None]) == ["float32"]


@pytest.mark.parametrize("items", [1, 2, 5, 29, 40])
def test_a_contrast_of_few_items_is_their_difference(items: int) -> None:
    values = np.random.default_rng(items).normal(size=(2, items))
    drawn = resample(Means(values), seed=1, name="x")
    made, whole = contrast(drawn, [-1.0, 1.0]), difference([drawn], 1)
    assert [made[name] for name in ("difference", "low", "high", "p")] == pytest.approx(
        [whole.difference, whole.low, whole.high, whole.p]
    )


def test_equal_differences_of_few_items_have_the_p_of_exchanged_signs() -> None:
    drawn = resample(Means(np.array([[0.1, 0.5, 0.3], [0.2, 0.6, 0.4]])), seed=1, name="x")
    assert contrast(drawn, [-1.0, 1.0])["p"] == pytest.approx(2 / 2**3)
    assert difference([drawn], 1).p == pytest.approx(2 / 2**3)


LETTERS = [{"_id": name, "text": name} for name in "abcd"]
TABLE = {
    "a": (0.9, 0.1, 0.1, 0.1),
    "b": (0.5, 0.6, 0.4, 0.5),
    "c": (-0.5, 0.5, 0.5, -0.5),
    "d": (-0.9, -0.1, 0.1, -0.1),
    "like a": (1.0, 0.0, 0.0, 0.0),
    "like b": (0.4, 0.6, 0.4, 0.5),
    "like a, mistyped": (0.4, 0.5, 0.3, 0.4),
    "like b, mistyped": (0.3, 0.7, 0.3, 0.2),
}


def test_documents_are_in_the_form_and_queries_are_float(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = {
        "queries": {"1": "like a", "2": "like b"},
        "queries-typos": {"2": "like b, mistyped", "1": "like a, mistyped"},
    }
    folder = write_collection(tmp_path, LETTERS, queries, [("1", "a", 1), ("2", "b", 1)])
    sent: list[str] = []

    def encode(texts: list[str]) -> Any:
        sent.extend(texts)
        return [TABLE[text] for text in texts]

    monkeypatch.setattr("holdfast.evaluation.retrieval._DOCUMENTS_AT_ONCE", 2)
    rows = evaluate_retrieval(
        VectorFunction(encode, name="table"), read_collection(folder), forms=parse_forms("binary,dim=2+int8")
    )
    assert sorted(sent) == sorted(TABLE)
    found = {(row.get("form"), row["split"]): row for row in rows}
    assert list(found) == [
        (form, split) for form in (None, "binary", "dim=2+int8") for split in ("queries", "queries-typos")
    ]
    recall = {key: row["metrics"]["recall@1"] for key, row in found.items()}
    assert recall[None, "queries"] == 100.0
    # By the signs alone a and b are the same document, and the earlier one comes first.
    assert found["binary", "queries"]["items"]["recall@1"] == [1.0, 0.0]
    assert found["binary", "queries"]["vectors"] == {"bytes": 1}
    assert found["dim=2+int8", "queries"]["vectors"] == {"bytes": 2, "calibrated_on": "2 documents"}
    against = found["binary", "queries-typos"]["against"]
    assert (
        against["float32"]["recall@1"]["difference"]
        == recall["binary", "queries-typos"] - recall[None, "queries-typos"]
    )
    drops = [recall[form, "queries-typos"] - recall[form, "queries"] for form in (None, "binary")]
    assert against["robustness"]["recall@1"]["difference"] == pytest.approx(drops[1] - drops[0])
    assert against["clean"]["recall@1"]["difference"] == drops[1]
    assert "robustness" not in found["binary", "queries"]["against"]


def test_a_file_of_few_queries_changes_no_loss_on_the_others(tmp_path: Path) -> None:
    queries = {"queries": {"1": "like a", "2": "like b"}, "queries-some": {"1": "like a, mistyped"}}
    folder = write_collection(tmp_path, LETTERS, queries, [("1", "a", 1), ("2", "b", 1)])
    model = VectorFunction(lambda texts: [TABLE[text] for text in texts], name="table")
    rows = evaluate_retrieval(model, read_collection(folder), forms=parse_forms("binary"))
    found = {(row.get("form"), row["split"]): row for row in rows}
    clean, some = (found["binary", split]["against"] for split in ("queries", "queries-some"))
    assert (clean["float32"]["n"], some["float32"]["n"], some["robustness"]["n"]) == (2, 1, 1)
    assert clean["float32"]["recall@1"]["difference"] == -50.0  # the second query's, which the other file has not


def test_the_command_prints_a_table_for_each_form_and_refuses_what_does_not_fit(
    stsb: Path, masked_lm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", str(masked_lm), "--tasks", "stsb", "--data", str(stsb)]
    output = tmp_path / "r.json"
    assert main([*words, "--noise", "typing=0.3", "--as", "int8,binary", "--output", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "as int8: 16 bytes a vector" in printed
    assert "as binary: 2 bytes a vector" in printed
    assert "robustness" in printed
    result = read_result(output)
    assert result["protocol"]["forms"] == ["int8", "binary"]
    assert [row.get("form") for row in result["results"]] == [None, None, "int8", "int8", "binary", "binary"]
    assert main([*words, "--as", "dim=9999"]) == 2
    assert "has 16 dimensions (did you mean 'dim=16'?)" in capsys.readouterr().err
    assert main([*words, "--as", "int4"]) == 2
    assert "--as does not take 'int4' (did you mean 'int8'?)" in capsys.readouterr().err
