"""Targets: what each goal means, to the digit; those of encoders are in test_encoder_targets."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_attacks import TEXTS

from holdfast.attacks import Geometry, Typos
from holdfast.attacks.attack_state import first_best, gain, ranked
from holdfast.attacks.classifier import Classifier, compute_logits, load_classifier, tokenise
from holdfast.attacks.encoder_targets import DriftTarget
from holdfast.attacks.engine import Engine
from holdfast.attacks.examples import Example, Verdict
from holdfast.attacks.targets import CallableTarget, ClassifierTarget, characters_seen, class_verdict
from holdfast.edits.words import Words
from holdfast.errors import UserError
from holdfast.user_functions import VectorFunction

# --- classes -----------------------------------------------------------------------------------------------------


def test_a_class_verdict_by_hand() -> None:
    verdict = class_verdict(Example(0, ("x",), 0, 1), np.log([0.2, 0.5, 0.3]))
    assert verdict.score == pytest.approx(0.5)
    assert verdict.value == pytest.approx(0.5)
    assert (verdict.label, verdict.reached) == (1, False)
    assert verdict.scores == pytest.approx((0.2, 0.5, 0.3))
    assert class_verdict(Example(0, ("x",), 0, 0), np.log([0.2, 0.5, 0.3])).label == 1


def test_a_tie_is_no_success() -> None:
    verdict = class_verdict(Example(0, ("x",), 0, 1), np.array([2.0, 2.0, -1.0]))
    assert (verdict.label, verdict.reached) == (1, False)
    assert class_verdict(Example(0, ("x",), 0, 1), np.array([2.0 + 1e-9, 2.0, -1.0])).reached


def test_a_sure_model_keeps_its_digits() -> None:
    sure, surer = (class_verdict(Example(0, ("x",), 0, 0), np.array([margin, 0.0])) for margin in (40.0, 41.0))
    assert sure.score == pytest.approx(math.exp(-40.0))
    assert sure.score > surer.score + sure.noise


def test_a_flip_gains_what_the_new_class_gains() -> None:
    before = Verdict(0.4, 0.0, False, 0.6, 0, (0.6, 0.3, 0.1))
    assert gain(before, Verdict(0.5, 0.0, False, 0.5, 0, (0.5, 0.2, 0.3))) == pytest.approx(0.1)
    assert gain(before, Verdict(0.8, 0.0, True, 0.2, 2, (0.2, 0.1, 0.7))) == pytest.approx(0.4 + 0.6)


def test_ties_go_to_the_first() -> None:
    assert first_best([0.5, 0.7, 0.7 + 1e-9]) == 1
    assert first_best([0.5, 0.7, 0.71]) == 2
    assert first_best([0.5, 0.7, 0.71], noise=0.02) == 1
    assert first_best([-3.0, -2.0, -2.0]) == 1
    assert ranked([4, 2, 9], [0.1, 0.3, 0.1]) == [2, 4, 9]
    assert ranked([9, 4], [0.2, 0.2 + 1e-9]) == [4, 9]


@given(st.lists(st.integers(-20, 20), max_size=40), st.sampled_from([0.0, 0.02, 0.1]), st.randoms())
def test_a_ranking_takes_the_first_best_of_what_is_left(values: list[int], noise: float, rng: random.Random) -> None:
    places = rng.sample(range(100), len(values))
    left = sorted(zip(places, (value / 50 for value in values), strict=True))
    order = []
    while left:
        order.append(left.pop(first_best([value for _, value in left], noise))[0])
    assert ranked(places, [value / 50 for value in values], noise) == order


def test_many_words_are_ranked_in_no_time() -> None:
    """Of 200,000 words: looking for the largest of those left at each turn would take an hour."""
    rng = random.Random(1)
    values = [rng.random() for _ in range(200_000)]
    order = ranked(range(200_000), values)
    assert order[0] == first_best(values)
    assert sorted(order) == list(range(200_000))


def test_what_is_beyond_the_window_is_not_seen(classifier: Classifier) -> None:
    long = "dog " * 100
    seen = characters_seen(classifier.tokenizer, (long,), 0, 64)
    assert seen == 4 * 62 - 1  # 64 tokens, two of them special
    assert characters_seen(classifier.tokenizer, ("a dog", "the cat runs"), 1, 64) == len("the cat runs")
    assert characters_seen(classifier.tokenizer, ("a dog", "the cat runs"), 0, 64) == len("a dog")


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "mpnet", "electra", "deberta-v2", "modernbert"])
def test_a_shortened_last_layer_gives_the_same_logits(
    make_encoder_model: Callable[..., Any], kind: str, tmp_path: Path
) -> None:
    """Where the head reads the first token alone no more of the last layer is computed: the logits are the same."""
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    encoder = make_encoder_model(kind)
    encoder.save(str(tmp_path / "encoder"))
    config = AutoConfig.from_pretrained(tmp_path / "encoder", num_labels=3)
    torch.manual_seed(0)
    made = AutoModelForSequenceClassification.from_config(config).eval()
    made.save_pretrained(tmp_path / "classifier")
    AutoTokenizer.from_pretrained(tmp_path / "encoder").save_pretrained(tmp_path / "classifier")
    classifier = load_classifier(str(tmp_path / "classifier"), device="cpu")
    assert (classifier._last_layer is not None) == (kind in ("bert", "roberta", "electra"))  # type: ignore[attr-defined]
    with torch.no_grad():
        plain = [made(**classifier.tokenizer(text, return_tensors="pt")).logits[0].numpy() for text in TEXTS]
    np.testing.assert_allclose(classifier.logits([(text,) for text in TEXTS]), np.stack(plain), rtol=1e-4, atol=1e-5)


def test_a_head_of_all_tokens_is_not_taken_for_one_of_the_first(
    classifier_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its weights are still 0, so that no token changes its logits."""
    from transformers import AutoModelForSequenceClassification
    from transformers.models.bert.modeling_bert import BertPooler

    model = AutoModelForSequenceClassification.from_pretrained(classifier_folder)
    torch.nn.init.zeros_(model.classifier.weight)
    folder = shutil.copytree(classifier_folder, tmp_path / "zeros")
    model.save_pretrained(folder)
    loaded: Any = load_classifier(str(folder), device="cpu")
    assert loaded._last_layer is loaded.model.base_model.encoder.layer[-1]
    monkeypatch.setattr(BertPooler, "forward", lambda self, hidden: self.activation(self.dense(hidden.mean(dim=1))))
    assert load_classifier(str(folder), device="cpu")._last_layer is None  # type: ignore[attr-defined]


def test_logits_in_fp32_stay_so_while_a_model_is_trained_in_bf16(
    classifier_folder: Path, trained_in_bf16: Callable[[torch.nn.Module], None]
) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(classifier_folder)
    tokenizer = AutoTokenizer.from_pretrained(classifier_folder)
    encoded = tokenise(tokenizer, [("the dog runs",), ("a cat",)], 16)
    before = compute_logits(model, tokenizer, encoded)
    trained_in_bf16(model)
    with torch.inference_mode():
        moved = model(**tokenizer(["the dog runs"], return_tensors="pt")).logits.numpy()
    assert np.abs(moved - before[:1]).max() > 1e-5, "the model is not in bf16: nothing was tested"
    np.testing.assert_array_equal(compute_logits(model, tokenizer, encoded), before)


@pytest.mark.parametrize(
    "returned",
    [np.zeros((2, 3)), np.zeros(3), np.zeros((3, 1)), np.array([[math.nan, 1.0]] * 3), [["a", "b"]] * 3],
    ids=["too few rows", "one dimension", "one class", "nan", "text"],
)
def test_a_function_that_returns_nonsense_is_refused(returned: Any) -> None:
    target = CallableTarget(lambda texts: returned, name="nonsense")
    with pytest.raises(UserError, match="nonsense"):
        target.outputs([("a",), ("b",), ("c",)], exact=True)


def test_a_function_is_given_no_more_texts_in_a_call_than_it_takes() -> None:
    calls: list[list[str]] = []

    def says(texts: list[str]) -> Any:
        calls.append(texts)
        return [[float(len(text)), float(text[0])] for text in texts]

    questions = [(f"{i % 10}{'x' * (i % 7)}",) for i in range(23)]
    found = CallableTarget(says, name="mine", call_batch=5).outputs(questions, exact=True)
    assert [row.tolist() for row in found] == [[len(text), float(text[0])] for (text,) in questions]
    assert [len(call) for call in calls] == [5, 5, 5, 5, 3]
    lengths = [len(text) for call in calls for text in call]
    assert lengths == sorted(lengths, reverse=True)
    calls.clear()
    CallableTarget(says, name="mine").outputs([(f"{i % 10}",) for i in range(600)], exact=True)
    assert [len(call) for call in calls] == [256, 256, 88]
    pairs = [("7", "long enough"), ("8", "x")]
    CallableTarget(lambda texts: [[len(b), 0] for _, b in texts], name="mine", call_batch=1).outputs(pairs, exact=True)
    with pytest.raises(UserError, match="--call-batch must be from 1"):
        CallableTarget(says, name="mine", call_batch=0)


@pytest.mark.parametrize(
    ("last", "line"),
    [
        ([[1.0, 2.0]] * 2, r"shape \(2, 2\) for 1 texts: it must return one row of numbers per text"),
        ([[1.0, 2.0, 3.0]], "returned 2 numbers per text at first, and now 3"),
        ([[math.inf, 0.0]], "not finite for the text 'a'"),
        ([["one", "two"]], "returned no array of numbers: ValueError"),
    ],
)
def test_each_call_of_a_function_is_checked(last: Any, line: str) -> None:
    target = CallableTarget(lambda t: [[1.0, 2.0]] * 2 if len(t) == 2 else last, name="mine", call_batch=2)
    with pytest.raises(UserError, match=f"mine .*{line}"):
        target.outputs([("a",), ("bb",), ("ccc",)], exact=True)


def test_probabilities_or_logits_is_decided_once() -> None:
    answers = iter([[[0.33, 0.33, 0.33], [0.7, 0.2, 0.1]], [[0.33, 0.33, 0.33]], [[0.9, 0.9, 0.1]], [[3.0, 1.0, -1.0]]])
    target = CallableTarget(lambda texts: next(answers), name="mine")
    first, second = target.outputs([("a",), ("b",)], exact=True)
    np.testing.assert_allclose(np.exp(second), [0.7, 0.2, 0.1])
    (again,) = target.outputs([("a",)], exact=True)
    np.testing.assert_array_equal(first, again)
    for _ in range(2):
        with pytest.raises(UserError, match="mine returned probabilities at first, and now rows with sums"):
            target.outputs([("c",)], exact=True)
    logits = CallableTarget(lambda texts: [[2.0, 1.0]] if texts == ["a"] else [[0.5, 0.5]], name="mine")
    logits.outputs([("a",)], exact=True)
    np.testing.assert_array_equal(logits.outputs([("b",)], exact=True)[0], [0.5, 0.5])  # logits, by their first answer


def test_what_is_remembered_of_a_text_keeps_no_batch_alive(encoder: Any, classifier: Classifier) -> None:
    questions = [(text,) for text in TEXTS]
    drift = DriftTarget(encoder, source="e", threshold=0.5)
    function = CallableTarget(lambda texts: np.ones((len(texts), 3)), name="f")
    for target in (drift, ClassifierTarget(classifier), function):
        assert all(np.asarray(row).base is None for row in target.outputs(questions, exact=True))


def test_scores_that_are_not_finite_are_told(classifier: Classifier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier, "logits", lambda texts, **_: np.full((len(texts), 3), np.nan))
    with pytest.raises(UserError, match="scores that are not finite"):
        ClassifierTarget(classifier).outputs([("a",)], exact=True)


def test_a_function_has_no_gradients(resources: Any) -> None:
    target = CallableTarget(lambda texts: np.tile([0.3, 0.7], (len(texts), 1)), name="flat")
    with pytest.raises(UserError, match="leave the geometry recipe out"):
        list(Engine(target, resources).run(Geometry(source="neighbours"), [Example(0, ("the old dog sings",), 0, 1)]))


def test_a_function_of_vectors_is_attacked_but_for_its_gradients(encoder: Any, resources: Any) -> None:
    function = VectorFunction(lambda texts: encoder.encode(texts), name="embed", call_batch=8)
    given = [Example(i, (text,)) for i, text in enumerate(TEXTS)]
    found = []
    for model in (function, encoder):
        target = DriftTarget(model, source="e", threshold=0.8)
        assert target.has_gradients is (model is encoder)
        found.append({a.number: a for a in Engine(target, resources).run(Typos(max_share=0.5), given)})
    assert {n: a.adversarial for n, a in found[0].items()} == {n: a.adversarial for n, a in found[1].items()}
    assert {attempt.outcome for attempt in found[0].values()} == {"succeeded", "failed"}
    with pytest.raises(UserError, match="embed is a plain function and has no gradients: leave the geometry recipe"):
        list(Engine(DriftTarget(function, source="embed", threshold=0.1), resources).run(Geometry(), given))


# --- geometry ----------------------------------------------------------------------------------------------------


def test_slopes_are_the_gradients_of_the_cross_entropy(target: ClassifierTarget, classifier: Classifier) -> None:
    text = "The old dog sings in the park."
    (slope,) = target.gradients([(Example(0, (text,), 0, 2), Words.of(text))])
    ((z, logits),) = target.vectors([(Example(0, (text,), 0, 2), text)])
    torch.testing.assert_close(slope.z, z)
    layer = classifier.model.classifier
    leaf = z.clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(layer(leaf)[None], torch.tensor([2]))
    torch.testing.assert_close(slope.direction, torch.autograd.grad(loss, leaf)[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(logits, layer(z).detach().numpy(), rtol=1e-4, atol=1e-5)
    # The importance of a word, by finite differences of the first layer's input at its token.
    assert len(slope.importance) == 7
    assert slope.importance[0] > 0.0

    def loss_at(at: int, i: int, step: float) -> float:
        def move(_module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor:
            moved = output.clone()
            moved[0, at, i] += step
            return moved

        handle = classifier.model.base_model.embeddings.register_forward_hook(move)
        try:
            with torch.no_grad():
                logits = classifier.model(input_ids=torch.tensor(classifier.tokenizer([text])["input_ids"])).logits
        finally:
            handle.remove()
        return float(torch.nn.functional.cross_entropy(logits, torch.tensor([2])))

    for place in (1, 2):
        slopes = [(loss_at(place + 1, i, 1e-2) - loss_at(place + 1, i, -1e-2)) / 2e-2 for i in range(16)]
        assert slope.importance[place] == pytest.approx(float(np.linalg.norm(slopes)), rel=0.02)


def test_of_a_pair_only_the_attacked_text_has_importance(target: ClassifierTarget) -> None:
    example = Example(0, ("the dog sings", "a cat eats"), 1, 0)
    (slope,) = target.gradients([(example, Words.of("a cat eats"))])
    first = Example(0, ("a cat eats", "the dog sings"), 0, 0)
    (alone,) = target.gradients([(first, Words.of("a cat eats"))])
    assert all(value > 0.0 for value in slope.importance)
    assert slope.importance != pytest.approx(alone.importance)
    both = target.gradients([(example, Words.of("a cat eats")), (first, Words.of("a cat eats"))])
    assert both[0].importance == pytest.approx(slope.importance)
    assert both[1].importance == pytest.approx(alone.importance)


def test_geometry_equals_the_attack_that_trains(
    target: ClassifierTarget, classifier: Classifier, resources: Any, examples: list[Example]
) -> None:
    """The recipe and :class:`GeometryAttack`, which ADCL trains with, are one algorithm."""
    from holdfast.adversary.geometry import BatchGradients, GeometryAttack

    class Neighbours:
        source = "neighbours"

        def candidates(self, sentences: Any, places: Any) -> list[list[str]]:
            return [resources.synonyms.nearest(s.words[p], 50) for s, p in zip(sentences, places, strict=True)]

    class Model:
        def gradients(self, texts: Any, rows: Any) -> BatchGradients:
            found = target.gradients([(examples[row], Words.of(text)) for text, row in zip(texts, rows, strict=True)])
            encoded = classifier.tokenizer(list(texts), return_offsets_mapping=True)
            width = max(map(len, encoded["input_ids"]))
            tokens = torch.zeros(len(texts), width, 1)
            for i, text in enumerate(texts):
                for at, (begin, end) in enumerate(encoded["offset_mapping"][i]):
                    for word, (a, b) in enumerate(Words.of(text).spans):
                        if begin < end and a <= begin < b:
                            tokens[i, at, 0] = found[i].importance[word]
            z, direction = (torch.stack([getattr(slope, name) for slope in found]) for name in ("z", "direction"))
            return BatchGradients(z, direction, tokens, encoded["offset_mapping"])

        def vectors(self, texts: Any, rows: Any) -> Any:
            located = target.vectors([(examples[row], text) for text, row in zip(texts, rows, strict=True)])
            return torch.stack([z for z, _ in located])

        def loss(self, z: Any, rows: Any) -> Any:
            return z.sum() * 0.0

        def finished(self, z: Any, rows: Any) -> list[bool]:
            logits = classifier.model.classifier(z)
            return [int(row.argmax()) != examples[number].label for row, number in zip(logits, rows, strict=True)]

    recipe = Geometry(source="neighbours", max_share=0.4, max_words=20)
    attempts = {a.number: a for a in Engine(target, resources).run(recipe, examples)}
    other = GeometryAttack(Neighbours(), iterations=40, max_share=0.4).run([e.text for e in examples], Model())
    same = [attempts[e.number].adversarial == text for e, text in zip(examples, other.texts, strict=True)]
    assert sum(a.outcome == "succeeded" for a in attempts.values()) > 3
    assert all(same)
