"""ADCL's `as_released` against LotusDYH/ssl_robust: training steps, and the parts of its attack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import recipe
import torch
from torch.nn import functional as F

from holdfast.adversary.geometry import GeometryAttack
from holdfast.adversary.gradient_encoder import GradientEncoder
from holdfast.attacks.gradient_classifier import GradientClassifier
from holdfast.edits.words import Words
from holdfast.objectives.adcl import ADCL

SIZE, QUEUE, LEARNING_RATE = 8, 12, 0.02
OPTIONS = {"positives": "given", "queue_size": QUEUE, "projection_size": SIZE}


class Listed:
    """The candidates of the recipe."""

    source = "the recipe"

    def candidates(self, sentences: Sequence[Words], places: Sequence[int]) -> list[list[str]]:
        return [recipe.candidates(text.words[place]) for text, place in zip(sentences, places, strict=True)]


@pytest.fixture
def make(tiny_model: Callable[..., Any]) -> Callable[..., ADCL]:
    def built(**options: Any) -> ADCL:
        model = tiny_model(pooler=True)  # the release's sentence vector is BERT's pooler output
        objective = ADCL(model, **{**ADCL.PRESETS["as_released"], **OPTIONS, **options}).double()
        for head in (objective.head, objective.follower.followed_head):
            recipe.fill(head.layers[-2], "head.")
        objective.queue.keys.copy_(recipe.centred("queue", QUEUE, SIZE))
        return objective

    return built


def named_parameters(objective: ADCL) -> list[tuple[str, torch.nn.Parameter]]:
    named = [*objective.model.transformers_model.named_parameters()]
    named += [(f"pooler.dense.{name}", part) for name, part in objective.model[2].linear.named_parameters()]
    return named + [(f"head.{name}", part) for name, part in objective.head.layers[-2].named_parameters()]


def columns() -> list[dict[str, torch.Tensor]]:
    return [recipe.batch(), recipe.batch(recipe.POSITIVES)]


def test_three_steps_on_given_adversarial_sentences(make: Callable[..., ADCL], released: Any) -> None:
    objective = make()
    for expected in released["steps"]:
        loss = objective(columns())["contrastive"]
        assert loss.item() == pytest.approx(expected["loss"], rel=1e-9)
        key = objective.follower.followed_model.transformers_model.encoder.layer[0].output.dense.weight
        assert recipe.probe("key", key) == pytest.approx(expected["key encoder"], rel=1e-10)
        named = named_parameters(objective)
        gradients = recipe.gradients(loss, named)
        found = recipe.summary(gradients)
        assert found.keys() == expected["gradients"].keys()
        for group, values in expected["gradients"].items():
            assert found[group] == pytest.approx(values, rel=1e-8), group
        with torch.no_grad():
            for name, parameter in named:
                if name in gradients:
                    parameter.sub_(gradients[name], alpha=LEARNING_RATE)
        objective.follow()
        assert recipe.probe("queue", objective.queue.vectors()) == pytest.approx(expected["queue"], rel=1e-10)


def test_the_papers_query_is_the_original(make: Callable[..., ADCL], released: Any) -> None:
    paper = released["paper: loss of the first step, the original is the query"]
    assert make(roles="paper")(columns())["contrastive"].item() == pytest.approx(paper, rel=1e-9)
    assert paper != pytest.approx(released["steps"][0]["loss"], rel=1e-3)


@pytest.fixture
def attacking(make: Callable[..., ADCL]) -> ADCL:
    objective = make()
    objective.attack = GeometryAttack(Listed(), 1, 0.5, "sum-l1")
    objective._masked_lm = SimpleNamespace(to=lambda _: None)  # type: ignore[assignment]
    return objective


def gradient_model(objective: ADCL, keys: torch.Tensor) -> GradientEncoder:
    """As `ADCL.attack_texts` makes it."""
    found: list[GradientEncoder] = []
    attack = objective.attack
    objective.attack = SimpleNamespace(run=lambda _, model: found.append(model))  # type: ignore[assignment]
    objective.attack_texts(objective.encoder, recipe.SENTENCES, keys)
    objective.attack = attack
    return found[0]


def test_the_attacks_vectors_and_directions(attacking: ADCL, released: Any) -> None:
    expected = released["attack of one iteration"]
    objective = attacking
    rows = range(recipe.ROWS)
    with objective._modes(objective.encoder), objective.encoder.attack_mode():
        keys = objective.follower.keys(recipe.batch())
        model = gradient_model(objective, keys)
        found = model.gradients(recipe.SENTENCES, rows)
        assert model.loss(found.z, rows).item() == pytest.approx(expected["losses"][0], rel=1e-6)
        assert recipe.probe("z", found.z) == pytest.approx(expected["z"], rel=1e-9)
        unit = F.normalize(found.direction, dim=1)
        assert recipe.probe("direction", unit) == pytest.approx(expected["direction"], rel=1e-7)
        for row, (place, moved) in enumerate(zip(expected["places"][0], expected["displacements"], strict=True)):
            text = Words.of(recipe.SENTENCES[row])
            texts = [text.exchanged(place, word).text for word in recipe.candidates(text.words[place])]
            z = model.vectors(texts, [row] * len(texts))
            assert ((z - found.z[row]) @ unit[row]).tolist() == pytest.approx(moved, rel=1e-6, abs=1e-10)


def attacked_texts(objective: ADCL) -> list[str]:
    with objective._modes(objective.encoder):
        keys = objective.follower.keys(recipe.batch())
        return objective.attack_texts(objective.encoder, recipe.SENTENCES, keys).texts


def texts_of(expected: dict[str, Any]) -> list[str]:
    return [" ".join(recipe.VOCABULARY[number] for number in row) for row in expected["texts"]]


def test_one_iteration_gives_the_same_texts(attacking: ADCL, released: Any) -> None:
    texts = attacked_texts(attacking)
    assert texts == texts_of(released["attack of one iteration"])
    assert all(text != before for text, before in zip(texts, recipe.SENTENCES, strict=True))


def test_the_releases_limit_does_not_spare_short_sentences(attacking: ADCL, released: Any) -> None:
    theirs = texts_of(released["attack of three iterations"])
    attacking.attack = GeometryAttack(Listed(), 3, 0.2, "sum-l1")
    ours = attacked_texts(attacking)
    for before, our, their in zip(recipe.SENTENCES, ours, theirs, strict=True):
        words = len(before.split())
        if int(0.2 * words) == 1:
            assert our == their
        else:
            assert our == before != their, "0.2 of so few words is none; the release then takes the most important one"


@pytest.mark.parametrize("classes", [2, 4])
def test_advs_direction_is_the_losss_where_there_are_two_classes(
    classes: int, tiny_model: Callable[..., Any], released: Any
) -> None:
    """The release's ADV goes along DeepFool's normal, the straight way to the nearest class, we along the gradient."""
    from transformers import BertConfig, BertForSequenceClassification

    expected = released[f"ADV with {classes} classes"]
    config = BertConfig(num_hidden_layers=2, num_labels=classes, **recipe.CONFIG)
    classifier = BertForSequenceClassification(config).double().eval()
    recipe.fill(classifier)
    tokenizer = tiny_model().tokenizer
    model = GradientClassifier(classifier, tokenizer, max_tokens=recipe.LENGTH, source="the recipe")
    labels = torch.tensor(expected["classes"])
    texts = [(text,) for text in recipe.SENTENCES]
    rows = range(recipe.ROWS)
    found = model.gradients(
        model.tokenised(texts), recipe.batch(), rows, [0] * len(rows), lambda logits: F.cross_entropy(logits, labels)
    )
    assert recipe.probe("vectors", found.z) == pytest.approx(expected["vectors"], rel=1e-6)
    weights = classifier.classifier.weight.detach()
    normals = F.normalize(weights[expected["nearest classes"]] - weights[labels], dim=1)
    assert recipe.probe("normals", normals) == pytest.approx(expected["normals"], rel=1e-9)
    cosines = F.cosine_similarity(found.direction.double(), normals)
    if classes == 2:
        assert cosines.tolist() == pytest.approx([1.0] * recipe.ROWS, abs=1e-6)
    else:
        assert cosines.min() > 0.5
        assert cosines.max() < 0.99
