"""d_pos, d_neg and δ by hand and against their sums, and which texts of a result they are of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.errors import UserError
from holdfast.evaluation.adversarial_space import (
    TextPairs,
    check_single_texts,
    load_space_encoder,
    pair_distances,
    read_pairs,
    space_of_pairs,
)
from holdfast.results import new_result, write_result


def example(number: int, original: str, adversarial: str, **given: Any) -> dict[str, Any]:
    known = {"recipe": "typos", "outcome": "succeeded", "other": None, "label": number % 2}
    return {**known, "number": number, "original": original, "adversarial": adversarial, **given}


FIVE = [
    example(0, "a dog runs", "a dgo runs"),
    example(1, "a cat sleeps", "a cat slepes"),
    example(2, "the man sings", "the mna sings", outcome="failed"),
    example(3, "child", "child", outcome="skipped", reason="too short"),
    example(4, "a dog runs", "a dog rnus"),
]


@pytest.fixture
def result(tmp_path: Path) -> Callable[..., Path]:
    def write(examples: Any, name: str = "attack.json") -> Path:
        made = new_result("attack", model="m", identity={"model_sha256": "0" * 64}, protocol={}, seed=1)
        if examples is not None:
            made["examples"] = examples
        write_result(tmp_path / name, made)
        return tmp_path / name

    return write


# --- distances ---------------------------------------------------------------------------------------------------


def test_distances_by_hand() -> None:
    # Clean texts 3 apart; each adversarial one 4 off at a right angle, so 5 from the other clean text.
    clean = np.array([[0.0, 0.0], [3.0, 0.0]])
    found = pair_distances(clean, clean + np.array([0.0, 4.0]))
    assert found == pytest.approx({"d_pos": 4.0, "d_neg": (2 * 3 + 2 * 5) / 4, "delta": 0.0})


def test_distances_are_the_sums_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    v, w = draw.normal(size=(11, 6)), draw.normal(size=(11, 6))
    monkeypatch.setattr("holdfast.evaluation.adversarial_space._ROWS_AT_ONCE", 4)  # 4, 4 and 3 rows

    def distance(a: Any, b: Any) -> float:
        return float(np.sqrt(((a - b) ** 2).sum()))

    d_pos = sum(distance(v[i], w[i]) for i in range(11)) / 11
    others = [(i, j) for i in range(11) for j in range(11) if i != j]
    d_neg = sum(distance(v[i], v[j]) + distance(v[i], w[j]) for i, j in others) / (2 * 11 * 10)
    assert pair_distances(v, w) == pytest.approx({"d_pos": d_pos, "d_neg": d_neg, "delta": d_neg - d_pos}, abs=1e-12)


def test_distances_of_identical_and_of_orthogonal_vectors() -> None:
    same = np.ones((5, 3))
    assert pair_distances(same, same) == {"d_pos": 0.0, "d_neg": 0.0, "delta": 0.0}
    found = pair_distances(np.eye(6), np.eye(6))
    assert found == pytest.approx({"d_pos": 0.0, "d_neg": 2**0.5, "delta": 2**0.5})


def test_distances_stay_under_rotation_shift_and_order_and_grow_with_scale() -> None:
    draw = np.random.default_rng(1)
    v, w = draw.normal(size=(8, 4)), draw.normal(size=(8, 4))
    turn = np.linalg.qr(draw.normal(size=(4, 4)))[0]
    order = draw.permutation(8)
    found = pair_distances(v, w)
    assert pair_distances((v @ turn + 7.0)[order], (w @ turn + 7.0)[order]) == pytest.approx(found, abs=1e-9)
    assert pair_distances(3 * v, 3 * w) == pytest.approx({name: 3 * value for name, value in found.items()})
    assert pair_distances(v, w[order]) != pytest.approx(found), "pairs belong together"


def test_distances_that_there_are_not() -> None:
    with pytest.raises(UserError, match="one pair"):
        pair_distances(np.ones((1, 3)), np.zeros((1, 3)))
    for side in (0, 1):
        for bad in (np.nan, np.inf):
            both = [np.ones((3, 2)), np.zeros((3, 2))]
            both[side][1, 0] = bad
            with pytest.raises(UserError, match="not finite"):
                pair_distances(*both)


def test_a_row_has_the_distances_of_vectors_and_of_directions(result: Callable[..., Path]) -> None:
    (pairs,) = read_pairs(result(FIVE))
    clean, adversarial = np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([[1.0, 0.0], [0.0, 8.0]])
    row = space_of_pairs(pairs, clean, adversarial)
    metrics = row["metrics"]
    assert (row["n"], row["recipe"], row["item"]) == (2, "typos", None)
    assert row["left_out"] == {"failed": 1, "skipped": 1, "repeated text": 1}
    assert metrics["d_pos"] == pytest.approx(2.5)
    assert metrics["d_pos_unit"] == pytest.approx(0.0, abs=1e-12), "only the lengths differ"
    assert metrics["d_neg_unit"] == pytest.approx(2**0.5)
    assert metrics["delta_unit"] == pytest.approx(2**0.5)


# --- texts of a result -------------------------------------------------------------------------------------------


def test_successes_are_taken_each_text_once(result: Callable[..., Path]) -> None:
    (pairs,) = read_pairs(result(FIVE))
    assert pairs.clean == ("a dog runs", "a cat sleeps")
    assert pairs.adversarial == ("a dgo runs", "a cat slepes")
    assert pairs.labels == (0, 1)
    assert not pairs.with_other


def test_all_changed_texts_on_request(result: Callable[..., Path]) -> None:
    unchanged = example(5, "a woman eats", "a woman eats", outcome="failed")
    (pairs,) = read_pairs(result([*FIVE, unchanged]), outcome="all")
    assert pairs.clean == ("a dog runs", "a cat sleeps", "the man sings")
    assert pairs.left_out == {"skipped": 1, "repeated text": 1, "unchanged": 1}


def test_recipes_and_items_are_kept_apart(result: Callable[..., Path]) -> None:
    more = [dict(row, recipe="pwws") for row in FIVE]
    path = result([*FIVE, *more])
    assert [pairs.name for pairs in read_pairs(path)] == ["typos", "pwws"]
    assert [pairs.name for pairs in read_pairs(path, recipe="pwws")] == ["pwws"]
    audit = result([*(dict(row, item="audit-a") for row in FIVE), *(dict(row, item="audit-b") for row in more)])
    assert [pairs.name for pairs in read_pairs(audit)] == ["audit-a typos", "audit-b pwws"]
    for item in ("b", "audit-b"):
        assert [pairs.name for pairs in read_pairs(audit, item=item)] == ["audit-b pwws"]
    with pytest.raises(UserError, match=r"does not take 'c'.*: it is one of a, b"):
        read_pairs(audit, item="c")


def test_a_recipe_with_too_few_texts_does_not_hide_the_others(result: Callable[..., Path]) -> None:
    path = result([*FIVE, example(0, "a dog runs", "a hot dog runs", recipe="pwws")])
    assert [pairs.recipe for pairs in read_pairs(path)] == ["typos"]
    with pytest.raises(UserError, match="one adversarial text of attempts that succeeded"):
        read_pairs(path, recipe="pwws")


MISTAKES: list[tuple[Any, dict[str, Any], str]] = [
    (None, {}, "no examples"),
    ([], {}, "no examples"),
    ([{"recipe": "typos"}], {}, "example 1 has no"),
    ([*FIVE, "text"], {}, "example 6 has no"),
    ([dict(row, outcome="failed") for row in FIVE], {}, "no adversarial texts of attempts that succeeded"),
    (FIVE[:1], {}, "one adversarial text"),
    ([FIVE[0], FIVE[4]], {"outcome": "all"}, "holds one adversarial text: "),
    (FIVE, {"recipe": "tpyos"}, "did you mean 'typos'"),
    (FIVE, {"item": "audit-typos"}, "no items"),
    (FIVE, {"outcome": "succeded"}, "did you mean 'succeeded'"),
]


@pytest.mark.parametrize(("examples", "chosen", "message"), MISTAKES)
def test_a_result_without_what_is_needed_is_one_line(
    examples: Any, chosen: dict[str, Any], message: str, result: Callable[..., Path]
) -> None:
    with pytest.raises(UserError) as caught:
        read_pairs(result(examples), **chosen)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# --- models ------------------------------------------------------------------------------------------------------


def pairs_of(**given: Any) -> TextPairs:
    known: dict[str, Any] = {"recipe": "typos", "item": None, "clean": ("a", "b"), "adversarial": ("c", "d")}
    return TextPairs(**{**known, "labels": (0, 1), "with_other": False, "left_out": {}, **given})


@pytest.fixture
def classifier(tmp_path: Path, masked_lm: Path) -> Callable[..., Path]:
    """A sequence classifier with the transformer of ``masked_lm``."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    def make(takes_pairs: bool | None) -> Path:
        model = AutoModelForSequenceClassification.from_pretrained(masked_lm, num_labels=2)
        if takes_pairs is not None:
            model.config.holdfast = {"task": "mr", "takes_pairs": takes_pairs}
        model.save_pretrained(tmp_path / "classifier")
        AutoTokenizer.from_pretrained(masked_lm).save_pretrained(tmp_path / "classifier")
        return tmp_path / "classifier"

    return make


def test_pairs_of_texts_are_measured_in_encoders_alone(masked_lm: Path, classifier: Callable[..., Path]) -> None:
    single, of_a_pair = pairs_of(), pairs_of(with_other=True)
    check_single_texts(str(masked_lm), [single, of_a_pair])
    unknown = str(classifier(None))
    check_single_texts(unknown, [single])
    with pytest.raises(UserError, match="typos attacked pairs"):
        check_single_texts(unknown, [single, of_a_pair])
    with pytest.raises(UserError, match="takes pairs of texts"):
        check_single_texts(str(classifier(True)), [single])
    check_single_texts(str(classifier(False)), [single])


def test_of_a_classifier_it_is_the_transformer(masked_lm: Path, classifier: Callable[..., Path]) -> None:
    texts = ["the old man sleeps", "a dog runs in the park"]
    encoder = load_space_encoder(str(masked_lm)).encode(texts)
    assert load_space_encoder(str(classifier(False))).encode(texts) == pytest.approx(encoder, abs=1e-5)
    mean = load_space_encoder(str(masked_lm), pooling="mean").encode(texts)
    assert load_space_encoder(str(classifier(False)), pooling="mean").encode(texts) == pytest.approx(mean, abs=1e-5)


def test_of_a_classifier_on_a_frozen_encoder_it_is_that_encoder(
    tmp_path: Path, make_encoder_model: Callable[..., Any]
) -> None:
    from holdfast.classifiers.frozen import Fit, with_head

    encoder = make_encoder_model("bert", pooling="mean")
    draw = np.random.default_rng(0)
    fitted = Fit(draw.normal(size=(3, 16)).astype(np.float32), np.zeros(3, dtype=np.float32), 1.0, {})
    with_head(encoder, fitted).save_pretrained(str(tmp_path / "frozen"))
    (tmp_path / "frozen" / "classifier.json").write_text(json.dumps({"classes": ["a", "b", "c"]}))
    texts = ["the old man sleeps", "a dog runs in the park"]
    vectors = load_space_encoder(str(tmp_path / "frozen")).encode(texts)
    assert vectors.shape == (2, 16)
    assert vectors == pytest.approx(encoder.encode(texts), abs=1e-5)
    with pytest.raises(
        UserError, match="frozen is a classifier on an encoder with a pooling of its own: leave --pooling out"
    ):
        load_space_encoder(str(tmp_path / "frozen"), pooling="cls")
    with pytest.raises(UserError, match="attacked pairs"):
        check_single_texts(str(tmp_path / "frozen"), [pairs_of(with_other=True)])
