"""Logistic regression on a frozen encoder: scikit-learn's own numbers, in a plain SentenceTransformer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from classifier_rows import rows, write
from sklearn.linear_model import LogisticRegression

from holdfast.attacks.attack_run import attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.classifier import load_classifier
from holdfast.attacks.resource_names import LIGHT
from holdfast.classifiers import FinetuneSettings, finetune
from holdfast.classifiers.frozen import STRENGTHS, fit
from holdfast.classifiers.training_data import load_training_data
from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.models import load_sentence_transformer

Settings = Callable[..., FinetuneSettings]

RELOAD = """
import sys
sys.modules["holdfast"] = None
import json, numpy
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu")
numpy.save(sys.argv[2], model.encode(json.loads(sys.argv[3])))
"""


@pytest.mark.parametrize("classes", [2, 4])
def test_the_layer_is_scikit_learns_decision_function(classes: int) -> None:
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(classes, 8))
    labels, dev_labels = draw.integers(classes, size=300), draw.integers(classes, size=100)
    vectors, dev = ((5 * (centres[y] + draw.normal(size=(len(y), 8)))).astype(np.float32) for y in (labels, dev_labels))
    fitted = fit(vectors, labels.tolist(), dev, dev_labels.tolist())
    scale = np.sqrt(np.mean(vectors.astype(np.float64) ** 2))
    models = {c: LogisticRegression(C=c, max_iter=2000).fit(vectors / scale, labels) for c in STRENGTHS}
    scores = {c: 100 * model.score(dev / scale, dev_labels) for c, model in models.items()}
    assert fitted.scores == pytest.approx(scores)
    assert len(set(scores.values())) > 1
    assert fitted.strength == max(STRENGTHS, key=lambda c: (scores[c], -c))
    logits = dev @ fitted.weight.T + fitted.bias
    expected = models[fitted.strength].decision_function(dev / scale)
    message = logits[:, 1] - logits[:, 0] if classes == 2 else logits
    assert np.abs(message - expected).max() < 1e-4


@pytest.mark.slow
def test_the_export_is_a_plain_sentence_transformer_of_logits(settings: Settings, data: Path, tmp_path: Path) -> None:
    result = finetune(settings(frozen=True, max_length=16), command=["test"])
    output = settings().folder
    material = load_training_data("sst2", train_split=None, examples=None, seed=42, data=data)
    encoder = load_sentence_transformer(settings().model, device="cpu")
    train, dev = (encode_sentences(encoder, [text for (text,) in p.texts]) for p in (material.train, material.dev))
    fitted = fit(train, material.train.labels, dev, material.dev.labels)
    assert result["selected"]["C"] == fitted.strength
    sentences = [text for (text,) in material.dev.texts]
    file = tmp_path / "logits.npy"
    command = [sys.executable, "-c", RELOAD, str(output), str(file), json.dumps(sentences)]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    plain = np.load(file)
    assert np.abs(plain - (dev @ fitted.weight.T + fitted.bias)).max() < 1e-4

    classifier = load_classifier(str(output), device="cpu")
    logits = classifier.logits([(text,) for text in sentences])
    assert np.abs(logits - plain).max() < 1e-5
    assert (classifier.classes, classifier.takes_pairs, classifier.max_tokens) == (["0", "1"], False, 16)
    accuracy = 100 * np.mean(logits.argmax(axis=1) == material.dev.labels)
    assert result["results"][0]["metrics"]["accuracy"] == pytest.approx(accuracy)
    assert accuracy > 70
    with pytest.raises(UserError, match="its vectors are the scores of its classes"):
        load_sentence_transformer(str(output), device="cpu")
    with pytest.raises(UserError, match="takes single texts"):
        classifier.logits([("a dog", "a cat")])
    modules = json.loads((output / "modules.json").read_text())
    assert all(module["type"].startswith("sentence_transformers.") for module in modules)
    weights = load_sentence_transformer(settings().model, device="cpu").state_dict()
    now = classifier.model.state_dict()
    assert all(np.array_equal(now[name], value) for name, value in weights.items()), "the encoder was trained"


def test_an_encoder_that_cuts_its_vectors_has_logits_of_the_cut_ones(settings: Settings, tmp_path: Path) -> None:
    encoder = load_sentence_transformer(settings().model, device="cpu")
    encoder.truncate_dim = 8
    encoder.save(str(tmp_path / "cut"))
    finetune(settings(model=str(tmp_path / "cut"), frozen=True))
    classifier = load_classifier(str(settings().folder), device="cpu")
    weight = classifier.model.state_dict()[list(classifier.model.state_dict())[-2]].numpy()
    assert weight.shape == (2, 16)
    assert weight[:, :8].all()
    assert not weight[:, 8:].any()


def test_the_strength_of_equal_scores_is_the_strongest() -> None:
    vectors = np.array([[1.0], [-1.0]] * 20, dtype=np.float32)
    assert fit(vectors, [1, 0] * 20, vectors, [1, 0] * 20).strength == min(STRENGTHS)


def test_gradients_are_not_asked_of_it(settings: Settings, tmp_path: Path) -> None:
    finetune(settings(frozen=True))
    (tmp_path / "near.tsv").write_text("word\tneighbors\ndog\tcat\n")
    names = replace(LIGHT, synonyms=str(tmp_path / "near.tsv"))
    how = {"recipes": ["geometry"], "constants": {"source": "neighbours"}, "resources": names}
    with pytest.raises(UserError, match="gives no gradients: leave geometry out of --recipes"):
        attack(AttackSettings(str(settings().folder), task="sst2", data=settings().data, **how))  # type: ignore[arg-type]


def test_a_damaged_list_of_classes_is_one_line(settings: Settings) -> None:
    finetune(settings(frozen=True))
    path = settings().folder / "classifier.json"
    path.write_text('{"classes": ["a", "b", "c"]}')
    with pytest.raises(UserError, match="do not fit"):
        load_classifier(str(settings().folder))
    path.write_text("[]")
    with pytest.raises(UserError, match=r"classifier\.json: not the list"):
        load_classifier(str(settings().folder))


def test_vectors_that_are_not_finite_are_one_line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "holdfast.attacks.encoder_targets.encode_sentences", lambda _, texts, **__: np.full((len(texts), 4), np.nan)
    )
    with pytest.raises(UserError, match="gives vectors that are not finite"):
        finetune(settings(frozen=True))


def test_the_strength_is_chosen_on_dev_and_not_on_the_test_split(settings: Settings, data: Path) -> None:
    write(data / "sst2" / "test.tsv", rows(60, 2, flipped=True))
    result = finetune(settings(frozen=True))
    dev, test = result["results"]
    assert result["selected"]["score"] == pytest.approx(dev["metrics"]["accuracy"])
    assert abs(dev["metrics"]["accuracy"] - test["metrics"]["accuracy"]) > 10


def test_a_prompt_models_template_is_not_part_of_the_texts_limit(
    settings: Settings, tiny: Path, tmp_path: Path
) -> None:
    prompted = load_sentence_transformer(str(tiny), pooling="prompt", device="cpu")
    prompted.save_pretrained(str(tmp_path / "prompted"), create_model_card=False)
    finetune(settings(model=str(tmp_path / "prompted"), frozen=True, max_length=4))
    classifier = load_classifier(str(settings().folder), device="cpu")
    logits = classifier.logits([("the old dog runs",), ("the old dog sleeps",), ("the old dog runs in the park",)])
    assert not np.array_equal(logits[0], logits[1]), "the fourth word is read"
    assert np.allclose(logits[0], logits[2], atol=1e-6), "the fifth is not"
