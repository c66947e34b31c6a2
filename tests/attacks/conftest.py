"""A small random classifier, small resources, and examples to attack."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_attacks import CONTENT, Resources, SmallResources, neighbours, sentence, write

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


@pytest.fixture
def here(tmp_path: Path, classifier_folder: Path, classifier: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a classifier of pairs, a task of 40 pairs, and a WordNet of the small vocabulary.

    The classifier is right about all pairs but each fifth.
    """
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOLDFAST_DATA", str(tmp_path / "data"))
    (tmp_path / "model").symlink_to(classifier_folder)
    rng = random.Random(5)
    pairs = [(sentence(rng), sentence(rng)) for _ in range(40)]
    says = classifier.logits(pairs).argmax(axis=1)
    rows = [
        (*pair, classifier.classes[(label + (i % 5 == 0)) % 3])
        for i, (pair, label) in enumerate(zip(pairs, says, strict=True))
    ]
    rows[7] = ("the dog runs", "", "neutral")
    write(tmp_path / "data" / "textfooler" / "mnli.tsv", ["sentence1", "sentence2", "label"], rows)
    synsets: list[tuple[str, ...]] = [
        ("n", f"{i:08d}", "|".join([word, other]), "", "", "a gloss")
        for i, (word, other) in enumerate((word, other) for word in CONTENT for other in neighbours(word))
    ]
    write(
        tmp_path / "data" / "wordnet" / "synsets.tsv",
        ["pos", "offset", "lemmas", "hypernyms", "antonyms", "gloss"],
        synsets,
    )
    write(tmp_path / "data" / "wordnet" / "exceptions.tsv", ["pos", "inflected", "lemmas"], [("noun", "mice", "mouse")])
    return tmp_path


@pytest.fixture
def corpus(here: Path, make_encoder_model: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folder has an encoder, its sentences in mine.txt, one of them twice, and other ones in others.txt."""
    make_encoder_model("bert", pooling="mean").save_pretrained(str(here / "encoder"))
    rng = random.Random(3)
    texts = [f"the {rng.choice(CONTENT)} {sentence(rng)}" for _ in range(40)]
    (here / "mine.txt").write_text("\n".join([*texts, texts[0]]) + "\n")
    (here / "others.txt").write_text("".join(sentence(rng) + "\n" for _ in range(30)))
    monkeypatch.setattr("holdfast.attacks.resources.importlib.util.find_spec", lambda name: None)
    return texts


@pytest.fixture
def encoder(make_encoder_model: Callable[..., Any]) -> Any:
    return make_encoder_model("bert", pooling="mean")
