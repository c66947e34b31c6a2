"""Functions in the place of a model: batches, checked answers, vectors in their order."""

from __future__ import annotations

import hashlib
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.attacks.targets import CallableTarget
from holdfast.cli import main
from holdfast.encoding import encode_sentences
from holdfast.errors import Notice, UserError
from holdfast.model_lookup import resolve_model
from holdfast.user_functions import VectorFunction, load_function


def letters(texts: list[str]) -> list[list[float]]:
    """Counts of a, b and c."""
    return [[float(text.count(letter)) for letter in "abc"] for text in texts]


def test_vectors_stand_in_the_order_of_their_texts_each_text_asked_about_once() -> None:
    calls: list[list[str]] = []

    def noted(texts: list[str]) -> Any:
        calls.append(texts)
        return letters(texts)

    texts = ["a", "abc", "cc", "a", "abcb", "b", "abc"]
    message: list[tuple[int, int]] = []
    model = VectorFunction(noted, name="letters", call_batch=2)
    vectors = encode_sentences(model, texts, progress=lambda done, total: message.append((done, total)))
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, letters(texts))
    assert calls == [["abcb", "abc"], ["cc", "a"], ["b"]]
    assert message == [(2, 5), (4, 5), (5, 5)]
    calls.clear()
    encode_sentences(model, texts, tokens_per_batch=1, precision="bf16")
    assert [len(call) for call in calls] == [1] * 5
    calls.clear()
    encode_sentences(model, texts, tokens_per_batch=10**9)
    assert [len(call) for call in calls] == [2, 2, 1], "its own limit holds"
    assert encode_sentences(model, []).shape == (0, 0)


def test_vectors_of_another_length_are_told() -> None:
    model = VectorFunction(lambda texts: [[1.0] * len(texts[0])] * len(texts), name="uneven", call_batch=1)
    with pytest.raises(UserError, match="uneven returned 3 numbers per text at first, and now 1: return as many"):
        encode_sentences(model, ["a", "abc"])


def test_a_named_function_has_the_hash_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "def embed(texts):\n    return [[float(len(text)), 1.0] for text in texts]\n"
    Path("a_service.py").write_text(code)
    monkeypatch.delitem(sys.modules, "a_service", raising=False)
    model, identity = VectorFunction.named("call:a_service:embed", call_batch=3)
    digest = hashlib.sha256(code.encode()).hexdigest()
    assert identity == {"model_sha256": digest, "model_files": {"a_service": digest}}
    assert encode_sentences(model, ["abc"]).tolist() == [[3.0, 1.0]]
    with pytest.raises(UserError, match="--call-batch must be from 1 to 1000000, got 0"):
        VectorFunction.named("call:a_service:embed", call_batch=0)


@pytest.mark.parametrize(
    "words",
    [
        ["space", "call:a:b", "--output", "s.json"],
        ["harden", "call:a:b", "--corpus", "x.txt", "--output", "o"],
        ["harden", "call:a:b", "--pooling", "mean", "--corpus", "x.txt", "--output", "o"],
    ],
    ids=" ".join,
)
def test_what_needs_a_model_takes_no_function(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.txt").write_text("one\ntwo\nthree\n")
    assert main(words) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "call:a:b is a function" in line
    with pytest.raises(UserError, match="only `holdfast evaluate`, `attack` and `audit` accept"):
        resolve_model("call:a:b")


class Unsteady:
    """A function that fails so many times before each answer."""

    def __init__(self, failures: int) -> None:
        self.failures, self.left, self.sent = failures, failures, Counter[str]()

    def __call__(self, texts: list[str]) -> Any:
        if self.left:
            self.left -= 1
            raise TimeoutError("no answer")
        self.left = self.failures
        self.sent.update(texts)
        return letters(texts)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr("holdfast.user_functions.time.sleep", found.append)
    return found


def test_the_hash_of_any_callable_is_that_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "retrying.py").write_text(
        "import functools\ndef retry(f):\n    @functools.wraps(f)\n    def g(t):\n        return f(t)\n    return g\n"
    )
    own = "import functools\nfrom retrying import retry\nclass Service:\n    def __call__(self, t):\n        return t\n"
    own += "@retry\ndef decorated(t):\n    return t\nobject = Service()\npartial = functools.partial(decorated)\n"
    hashes = []
    for name in ("own_one", "own_two"):
        (tmp_path / f"{name}.py").write_text(f"{own}# {name}\n")
        hashes.append(
            [load_function(f"call:{name}:{each}")[1]["model_sha256"] for each in ("decorated", "object", "partial")]
        )
    assert not set(hashes[0]) & set(hashes[1])
    with pytest.raises(UserError, match="its module has no file"):
        load_function("call:sys:intern")


def test_a_failed_call_is_repeated_after_longer_and_longer_waits(waits: list[float]) -> None:
    function = Unsteady(3)
    model = VectorFunction(function, name="call:a:b", call_batch=2, retries=3)
    with pytest.warns(Notice, match=r"call:a:b failed: TimeoutError: no answer; again in 4 s \(3 of 3, --retries\)"):
        vectors = model.vectors(["a", "abc", "cc"])
    np.testing.assert_array_equal(vectors, letters(["a", "abc", "cc"]))
    assert waits == [1.0, 2.0, 4.0] * 2
    assert set(function.sent.values()) == {1}, "an answered text is not sent again"


@pytest.mark.filterwarnings("ignore::holdfast.errors.Notice")
def test_the_last_failure_ends_the_run_and_no_wait_is_longer_than_a_minute(waits: list[float]) -> None:
    with pytest.raises(UserError, match="call:a:b failed 9 times: TimeoutError: no answer"):
        VectorFunction(Unsteady(99), name="call:a:b", retries=8).vectors(["a"])
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    with pytest.raises(UserError, match="call:a:b failed: TimeoutError: no answer"):
        VectorFunction(Unsteady(1), name="call:a:b").vectors(["a"])


def test_an_answer_that_is_no_array_is_not_asked_for_again(waits: list[float]) -> None:
    with pytest.raises(UserError, match="returned an array of shape"):
        VectorFunction(lambda texts: [1.0], name="call:a:b", retries=5).vectors(["a"])
    assert waits == []


def test_scores_of_classes_are_asked_for_again_too(waits: list[float]) -> None:
    target = CallableTarget(Unsteady(1), name="call:a:b", retries=1)
    with pytest.warns(Notice, match="1 of 1"):
        assert len(target.outputs([("abc",)], exact=True)) == 1
    assert waits == [1.0]


@pytest.mark.parametrize("number", [math.nan, math.inf, 1e39])
def test_a_number_beyond_those_that_are_kept_is_refused(number: float) -> None:
    with pytest.raises(UserError, match="numbers that are not finite for the text 'a'"):
        encode_sentences(VectorFunction(lambda texts: [[number, 1.0] for _ in texts], name="own"), ["a"])
