"""A small random classifier, small resources, and examples to attack."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_attacks import Resources, SmallResources, sentence

from holdfast.adversary.masked_lm import MaskedLM
from holdfast.attacks.classifier import Classifier, load_classifier
from holdfast.attacks.examples import Example
from holdfast.attacks.targets import ClassifierTarget


@pytest.fixture(scope="session")
def make_classifier(
    make_masked_lm: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """``make_classifier(classes=3, seed=0)``: the folder of a random BERT with a classification head."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    def make(*, classes: int = 3, seed: int = 0) -> Path:
        folder = make_masked_lm(tmp_path_factory.mktemp("classifier"), seed=seed)
        torch.manual_seed(seed)
        names = dict(enumerate(["entailment", "neutral", "contradiction"][:classes] if classes == 3 else ["0", "1"]))
        model = AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=classes, id2label=names, label2id={name: i for i, name in names.items()}
        )
        torch.nn.init.normal_(model.classifier.weight, std=0.7)
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def classifier_folder(make_classifier: Callable[..., Path]) -> Path:
    return make_classifier()


@pytest.fixture(scope="session")
def classifier(classifier_folder: Path) -> Classifier:
    return load_classifier(str(classifier_folder), device="cpu")


@pytest.fixture(scope="session")
def small_lm(make_masked_lm: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> MaskedLM:
    return MaskedLM(str(make_masked_lm(tmp_path_factory.mktemp("lm"), seed=3)))


@pytest.fixture
def resources(small_lm: MaskedLM) -> Any:
    """Small resources; anything as similar as it likes."""
    small = SmallResources(small_lm, minimum=0.3)
    return Resources(small)


@pytest.fixture
def examples(classifier: Classifier) -> list[Example]:
    """Thirty texts with the class that the classifier gives them."""
    rng = random.Random(1)
    texts = [sentence(rng) for _ in range(30)]
    labels = classifier.logits([(text,) for text in texts]).argmax(axis=1)
    return [Example(i, (text,), 0, int(label)) for i, (text, label) in enumerate(zip(texts, labels, strict=True))]


@pytest.fixture
def pairs(classifier: Classifier) -> list[Example]:
    """Twelve pairs of which the second text is attacked."""
    rng = random.Random(2)
    texts = [(sentence(rng, 8), sentence(rng, 8)) for _ in range(12)]
    labels = classifier.logits(texts).argmax(axis=1)
    return [Example(i, text, 1, int(label)) for i, (text, label) in enumerate(zip(texts, labels, strict=True))]


@pytest.fixture
def target(classifier: Classifier) -> ClassifierTarget:
    return ClassifierTarget(classifier)
