"""An audit in several forms of the vectors, from one encoding; and an audit of an endpoint."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_edits
from audited import by_task, run, some_texts

from embeddings_server import EmbeddingsServer, running_server
from holdfast.attacks.encoder_targets import mean_cosine
from holdfast.audit import shared_vectors
from holdfast.cli import main
from holdfast.edits.edit_table import edit_table, noise_builders
from holdfast.encoding import encode_sentences, normalised
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer
from holdfast.results import read_result

FEW = {"items": "case.lower,typos,typing,negation,name,quality", "max_seconds": 0.0, "texts_per_item": 30}


def test_items_are_measured_in_each_form_from_one_encoding(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    real = shared_vectors.encode_sentences

    def noted(model: Any, texts: Any, **more: Any) -> Any:
        counts.append(len(texts))
        return real(model, texts, **more)

    monkeypatch.setattr(shared_vectors, "encode_sentences", noted)
    plain = run(**FEW)
    encoded = sum(counts)
    counts.clear()
    result = run(**FEW, forms="ubinary,dim=16,int8")
    assert sum(counts) == encoded
    rows = result["results"]
    forms = {name: [row for row in rows if row.get("form") == name] for name in (None, "ubinary", "dim=16")}
    assert forms[None] == plain["results"]
    assert result["examples"] == plain["examples"]
    assert result["protocol"]["forms"] == ["ubinary", "dim=16", "int8"]
    measured = {row["task"] for row in plain["results"] if row["verdict"] != "absent"} - {"audit-vectors"}
    assert measured >= {"audit-case", "audit-typos", "audit-quality"}
    assert {row["task"] for row in forms["ubinary"]} == measured
    for row in forms["dim=16"]:  # all dimensions of the model
        (partner,) = (each for each in forms[None] if (each["task"], each["split"]) == (row["task"], row["split"]))
        assert row["metrics"] == partner["metrics"]
        lost = row["against"]["float32"]
        assert {entry["difference"] for name, entry in lost.items() if name != "n"} <= {0.0}
    model = load_sentence_transformer("lm", device="cpu")
    texts = Path("mine.txt").read_text().splitlines()
    bits = normalised(np.where(encode_sentences(model, texts) > 0, 1.0, -1.0))
    lower = normalised(np.where(encode_sentences(model, [text.lower() for text in texts]) > 0, 1.0, -1.0))
    usual = mean_cosine(bits)
    row = next(row for row in forms["ubinary"] if (row["task"], row["split"]) == ("audit-case", "lower"))
    numbers = row["items"]["text"]
    stability = ((bits * lower).sum(axis=1)[numbers] - usual) / (1 - usual)
    np.testing.assert_allclose(row["items"]["stability"], stability, atol=2e-5)
    assert row["vectors"] == {"bytes": 2}
    partner = next(row for row in plain["results"] if (row["task"], row["split"]) == ("audit-case", "lower"))
    lost = row["against"]["float32"]["stability"]
    assert lost["difference"] == pytest.approx(row["metrics"]["stability"] - partner["metrics"]["stability"], abs=1e-5)
    assert lost["low"] <= lost["difference"] <= lost["high"]


def test_the_mean_over_changes_of_the_meaning_is_of_the_form(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.txt").write_text("\n".join(some_texts(100)) + "\n")
    edits = edit_table({**noise_builders(), "moves": lambda: small_edits.MOVES})
    monkeypatch.setattr("holdfast.audit.audit_run.edits_of", lambda *_: edits)
    monkeypatch.syspath_prepend(str(Path(small_edits.__file__).parent))
    given: dict[str, Any] = {"items": "roles,negation,meaning", "texts_per_item": 40, "max_seconds": 0.0, "data": None}
    result = run("call:small_edits:at_random", examples=1, forms="ubinary", **given)
    rows = {(row["task"], row.get("form")): row for row in result["results"]}
    means = []
    for form in (None, "ubinary"):
        outcomes: dict[int, list[float]] = defaultdict(list)
        for task in ("audit-roles", "audit-negation"):
            items = rows[task, form]["items"]
            for text, nearer in zip(items["text"], items["nearer"], strict=True):
                outcomes[text].append(nearer)
        meaning = rows["audit-meaning", form]
        found = dict(zip(meaning["items"]["text"], meaning["items"]["nearer"], strict=True))
        assert found == {text: pytest.approx(np.mean(own), abs=1e-5) for text, own in outcomes.items()}
        means.append(meaning["metrics"]["p_hold_nearer"])
    assert means[0] != means[1]
    lost = rows["audit-meaning", "ubinary"]["against"]["float32"]["p_hold_nearer"]
    assert lost["difference"] == pytest.approx(means[1] - means[0], abs=1e-5)


def test_the_documents_of_a_search_are_in_the_form_and_its_queries_float(here: Path) -> None:
    texts = [f"{line} {line.replace('The', 'A')}" for line in Path("mine.txt").read_text().splitlines()]
    Path("passages.txt").write_text("\n".join(texts) + "\n")
    result = run(texts="passages.txt", items="retrieval", max_seconds=0.0, forms="binary,dim=4+int8")
    rows = {row.get("form"): row for row in result["results"] if row["split"] == "clean"}
    assert rows.keys() == {None, "binary", "dim=4+int8"}
    model = load_sentence_transformer("lm", device="cpu")
    documents = encode_sentences(model, texts)
    queries = [row["text"] for row in _queries(texts)]
    scores = encode_sentences(model, queries) @ np.where(documents > 0, 1.0, -1.0).T
    right = scores.argmax(axis=1) == np.arange(len(texts))
    best = np.sort(scores, axis=1)
    untied = best[:, -1] - best[:, -2] > 1e-4  # documents with the same bits stand in another order here
    by_text = dict(zip(rows["binary"]["items"]["text"], rows["binary"]["items"]["correct"], strict=True))
    compared = [number for number in by_text if untied[number]]
    assert [by_text[number] for number in compared] == [int(right[number]) for number in compared]
    assert 0 < sum(right[compared]) < len(compared)
    assert rows["binary"]["against"]["float32"]["found"]["difference"] == pytest.approx(
        rows["binary"]["metrics"]["found"] - rows[None]["metrics"]["found"]
    )


def _queries(texts: list[str]) -> list[dict[str, str]]:
    from holdfast.evaluation.pseudo_queries import pseudo_queries

    drawn = {query.passage: query.text for query in pseudo_queries(texts, seed=42, most=500)}
    return [{"text": drawn.get(number, "")} for number in range(len(texts))]


def test_forms_have_names_for_conditions_and_a_table(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", "lm", "--texts", "mine.txt", "--items", "case.lower,typos", "--max-seconds", "0"]
    output = ["--output", "r.json"]
    assert main([*words, "--as", "binary,dim=8", *output, "--fail-if", "typos.dim=8.stability < 5"]) == 1
    printed = capsys.readouterr()
    assert "as binary, 2 bytes a vector: of 2 items" in printed.out
    assert "typos.dim=8.stability < 5" in printed.out + printed.err
    assert main(["compare", "r.json", "--as", "binary", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert {row["task"] for row in rows} == {"audit-case", "audit-typos"}
    written = read_result(Path("r.json"))["results"]
    lost = next(row for row in written if row.get("form") == "binary")["against"]["float32"]["stability"]
    assert rows[0]["metrics"]["difference"] == pytest.approx(lost["difference"])
    for form, message in (("dim=9999", "lm has 16 dimensions (did you mean 'dim=16'?)"), ("int4", "mean 'int8'?)")):
        assert main([*words, "--as", form]) == 2
        assert message in capsys.readouterr().err


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with running_server() as running:
        yield running


def test_an_endpoint_is_audited_evaluated_and_attacked_and_no_text_is_answered_twice(
    here: Path, server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(here / "cache"))
    monkeypatch.setenv("HOLDFAST_ENDPOINT_KEY", "sk-very-secret")
    endpoint = ["--endpoint", server.url, "--endpoint-model", "small", "--call-batch", "16"]
    audit = ["audit", *endpoint, "--texts", "mine.txt", "--items", "space,case.lower,typos,adversarial-typos"]
    audit += ["--examples", "3", "--max-seconds", "0", "--as", "int8"]
    assert main([*audit, "--output", "audit.json"]) == 0
    result = read_result(Path("audit.json"))
    assert result["model"] == "endpoint:small"
    assert result["endpoint"] == {"url": server.url, "model": "small"}
    rows = by_task({"results": [row for row in result["results"] if "form" not in row]})
    assert rows["audit-typos"]["n"] > 20
    assert "batch_difference" not in rows["audit-vectors"]["metrics"]
    assert any(row.get("form") == "int8" for row in result["results"])
    assert max(len(body["input"]) for body, _, _ in server.seen) <= 16
    data = ["--tasks", "space", "--data", "data"]
    assert main(["evaluate", *endpoint, *data, "--as", "binary", "--output", "space.json"]) == 0
    attack = ["attack", *endpoint, "--texts", "mine.txt", "--recipes", "typos", "--examples", "3", "--as", "int8"]
    assert main([*attack, "--output", "attack.json"]) == 0
    assert set(server.answered.values()) == {1}
    assert {headers["Authorization"] for _, headers, _ in server.seen} == {"Bearer sk-very-secret"}
    for path in (*Path().glob("*.json*"), *Path("cache").rglob("*")):
        assert not path.is_file() or b"sk-very-secret" not in path.read_bytes(), path
    asked = server.requests
    assert main([*audit, "--output", "again.json"]) == 0
    assert server.requests == asked
    assert read_result(Path("again.json"))["results"] == result["results"]
    server.faults = lambda number: 401
    capsys.readouterr()
    other = ["evaluate", "--endpoint", server.url, "--endpoint-model", "other", *data]
    assert main(other) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert "status 401: the key in $HOLDFAST_ENDPOINT_KEY is not accepted" in line
    assert "sk-very-secret" not in line
    for words, message in (
        (["audit", "lm", *endpoint], "give the model lm or --endpoint, not both"),
        (["audit"], "missing: 'model'"),
        (["evaluate", *endpoint, "--prompt", "query: "], "--prompt is for a model, and endpoint:small is a function"),
    ):
        assert main(words) == 2
        assert message in capsys.readouterr().err, words


def test_a_function_is_evaluated(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("word_lengths.py").write_text(
        "def embed(texts):\n    return [[float(len(t)), float(t.count('a')), 1.0, len(t.split())] for t in texts]\n"
    )
    words = ["evaluate", "call:word_lengths:embed", "--tasks", "space", "--data", "data"]
    assert main([*words, "--output", "r.json"]) == 0
    result = read_result(Path("r.json"))
    assert result["model"] == "call:word_lengths:embed"
    assert result["results"][0]["metrics"]["alignment"] >= 0.0
    assert main([*words, "--pooling", "mean"]) == 2
    assert "--pooling is for a raw language model" in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(words) == 2
    assert "is a function, which each process would ask: start one process" in capsys.readouterr().err
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(UserError, match=r"--as dim=9: call:word_lengths:embed has 4 dimensions \(did you mean 'dim=4'"):
        run("call:word_lengths:embed", items="case.lower", forms="dim=9")
