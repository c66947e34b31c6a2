"""`holdfast attack` against functions: classifiers and embedding services that are called."""

from __future__ import annotations

import hashlib
import importlib
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_attacks import content, mistake, sentence, write

from holdfast.cli import main
from holdfast.results import read_result


def test_a_function_is_attacked_by_its_name(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "mine.py").write_text(
        "import numpy as np\n"
        "def says(pairs):\n"
        "    n = np.array([len(b) % 3 for _, b in pairs])\n"
        "    return np.eye(3)[n] * 4\n"
    )
    (here / "lists.tsv").write_text("word\tneighbors\ndog\tcat\n")
    path = list(sys.path)
    words = ["attack", "call:mine:says", "--task", "textfooler/mnli", "--recipes", "pwws", "--output", "f.json"]
    assert main(words) == 0
    result = read_result(here / "f.json")
    assert result["results"][0]["metrics"]["attacked"] > 3
    assert result["protocol"]["precision"] == "fp32"
    assert sys.path == path
    assert len(result["model_sha256"]) == 64
    (here / "picky.py").write_text(
        "import mine\n"
        "def says(pairs):\n"
        "    assert len(pairs) <= 7, 'too many'\n"
        "    return mine.says(pairs)\n"
    )  # fmt: skip
    picky = ["attack", "call:picky:says", *words[2:-2]]
    assert "AssertionError: too many" in mistake(capsys, picky)
    assert main([*picky, "--call-batch", "7", "--output", "p.json"]) == 0
    batched, whole = content(here / "p.json"), content(here / "f.json")
    assert batched["examples"] == whole["examples"]
    (here / "broken.py").write_text("import mine\nno_such_name\n")
    assert "call:broken:says: NameError" in mistake(capsys, ["attack", "call:broken:says", *words[2:-2]])
    (here / "failing.py").write_text("def says(pairs):\n    raise KeyError('weights')\n")
    assert "failed: KeyError" in mistake(capsys, ["attack", "call:failing:says", *words[2:-2]])
    assert "call:package.module:function" in mistake(capsys, ["attack", "call:mine", *words[2:-2]])
    assert "leave geometry out of --recipes" in mistake(
        capsys, [*words[:-4], "--recipes", "geometry", "--set", "source=neighbours", "--synonyms", "lists.tsv"]
    )
    assert "no attribute" in mistake(capsys, ["attack", "call:mine:sings", *words[2:-2]])


SERVICE = """
import zlib
import numpy as np

def embed(texts):
    assert len(texts) <= 9, "too many"
    vectors = np.full((len(texts), 16), 0.1)
    for row, text in enumerate(texts):
        for word in text.lower().strip(".").split():
            vectors[row, zlib.crc32(word.encode()) % 16] += 1.0
    return vectors

def short(texts):
    return embed(texts)[1:]
"""


@pytest.fixture
def service(here: Path, corpus: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The folder has an embedding service that takes nine texts at a time; its function."""
    (here / "embedding_service.py").write_text(SERVICE)
    rng = random.Random(8)
    for split in ("dev", "test"):
        rows = [(sentence(rng), sentence(rng), f"{i % 6}") for i in range(36)]
        write(here / "data" / "stsb" / f"{split}.tsv", ["sentence1", "sentence2", "score"], rows)
    monkeypatch.delitem(sys.modules, "embedding_service", raising=False)
    monkeypatch.syspath_prepend(here)
    return importlib.import_module("embedding_service").embed


ON_SERVICE = ["attack", "call:embedding_service:embed", "--call-batch", "9", "--recipes", "typos"]


@pytest.mark.parametrize(
    "words",
    [
        ["--texts", "mine.txt"],
        ["--texts", "mine.txt", "--goal", "neighbours", "--k", "2", "--search", "others.txt"],
        ["--task", "stsb"],
    ],
    ids=["drift", "neighbours", "score"],
)
def test_an_embedding_service_is_attacked(
    here: Path, service: Any, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*ON_SERVICE, *words, "--set", "max_share=0.35"]
    assert main([*words, "--precision", "bf16", "--output", "r.json"]) == 0
    result = read_result(here / "r.json")
    assert result["protocol"]["precision"] == "fp32", "a function computes as it does"
    assert result["model_sha256"] == hashlib.sha256(SERVICE.encode()).hexdigest()
    goal, rows = result["protocol"]["goal"], result["examples"]
    assert {"succeeded", "failed"} <= {row["outcome"] for row in rows}

    def cosine(a: str, b: str) -> float:
        first, second = service([a, b])
        return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))

    for row in (row for row in rows if row["before"]):
        texts = [row[name] for name in ("original", "adversarial")]
        if goal["kind"] == "drift":
            assert row["after"]["value"] == pytest.approx(cosine(*texts), abs=2e-5)
            assert (row["outcome"] == "succeeded") == (row["after"]["value"] < goal["threshold"])
        elif goal["kind"] == "score":
            values = [row[when]["value"] for when in ("before", "after")]
            assert values == pytest.approx([cosine(row["other"], text) for text in texts], abs=2e-5)
        else:
            others = (here / "others.txt").read_text().splitlines()
            found = [sorted((cosine(text, other) for other in others), reverse=True)[:2] for text in texts]
            message = [[cosine(text, t) for t in row[w]["neighbours"]] for text, w in zip(texts, ROUNDS, strict=True)]
            np.testing.assert_allclose(message, found, atol=2e-5)
    assert mistake(capsys, [*words, "--call-batch", "10"]).endswith("AssertionError: too many")


ROUNDS = ("before", "after")


def test_mistakes_with_an_embedding_service_are_one_line(
    here: Path, service: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--recipes", "typos", "--texts", "mine.txt", "--call-batch", "9"]
    message = mistake(capsys, ["attack", "call:embedding_service:short", *words])
    assert "call:embedding_service:short returned an array of shape (8, 16) for 9 texts" in message
    (here / "lists.tsv").write_text("word\tneighbors\ndog\tcat\n")
    geometry = ["--recipes", "geometry", "--set", "source=neighbours", "--synonyms", "lists.tsv"]
    message = mistake(capsys, [*ON_SERVICE[:-2], *words[2:], *geometry])
    assert "gives no gradients: leave geometry out of --recipes" in message
