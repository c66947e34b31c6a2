"""A decoder as a classifier: it classifies each token and takes the last one, whose vector and gradient are used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from architectures import config_of, save_transformer
from holdfast.adversary.token_batches import padded
from holdfast.attacks.classifier import load_classifier
from holdfast.attacks.examples import Example
from holdfast.attacks.gradient_classifier import gradient_classifier
from holdfast.attacks.targets import ClassifierTarget
from holdfast.edits.words import Words
from holdfast.errors import UserError

TEXTS = ["the old man sleeps on the big red bed", "a dog runs", "the woman sings under the house"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Llama that classifies, without a padding token in its configuration, padded on the left."""
    from transformers import AutoModelForSequenceClassification

    save_transformer(tmp_path / "decoder", "llama", layers=2)
    config = config_of("llama", 320, layers=2)
    config.pad_token_id, config.num_labels = None, 3
    torch.manual_seed(0)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path / "decoder")
    return tmp_path / "decoder"


def test_the_vector_of_the_last_token_is_classified(folder: Path) -> None:
    classifier: Any = load_classifier(str(folder), device="cpu")
    target = ClassifierTarget(classifier)
    assert target.has_gradients
    logits = torch.tensor(classifier.logits([(text,) for text in TEXTS]))
    alone = torch.cat([torch.tensor(classifier.logits([(text,)])) for text in TEXTS])
    torch.testing.assert_close(logits, alone, rtol=1e-4, atol=1e-4)
    examples = [Example(i, (text,), 0, 1) for i, text in enumerate(TEXTS)]
    weight = classifier.model.score.weight
    for (z, scores), expected in zip(target.vectors(list(zip(examples, TEXTS, strict=True))), logits, strict=True):
        torch.testing.assert_close(z @ weight.T, expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(torch.tensor(scores).float(), expected, rtol=1e-4, atol=1e-4)


def test_the_gradient_is_that_of_the_cross_entropy(folder: Path) -> None:
    classifier: Any = load_classifier(str(folder), device="cpu")
    model = gradient_classifier(classifier)
    encoded = model.tokenised([(text,) for text in TEXTS])
    features = padded(classifier.tokenizer, encoded, range(3), torch.device("cpu"))
    assert not features["attention_mask"][:, 0].all()
    labels = torch.tensor([0, 1, 2])
    found = model.gradients(
        encoded, features, [0, 1, 2], [0, 0, 0], lambda logits: torch.nn.functional.cross_entropy(logits, labels)
    )
    probabilities = classifier.model(**features).logits.softmax(dim=-1)
    expected = (probabilities - torch.eye(3)[labels]) @ classifier.model.score.weight / 3
    torch.testing.assert_close(found.direction, expected.detach(), rtol=1e-4, atol=1e-5)
    for row, spans in enumerate(found.offsets):  # in the order of the offsets, padding behind them
        assert (found.tokens[row, : len(spans)].abs().amax(dim=-1) > 0).all()
        assert (found.tokens[row, len(spans) :] == 0).all()


def test_another_choice_of_the_token_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classifier: Any = load_classifier(str(folder), device="cpu")
    forward = classifier.model.forward

    def first_token(**given: Any) -> Any:
        output = forward(**given)
        return type(output)(logits=output.logits + 1)

    monkeypatch.setattr(classifier.model, "forward", first_token)
    with pytest.raises(UserError, match="classifies each token before it takes one: leave the geometry recipe out"):
        gradient_classifier(classifier).vectors([(text,) for text in TEXTS])


def test_words_have_the_same_importance_with_padding_on_either_side(folder: Path) -> None:
    classifier: Any = load_classifier(str(folder), device="cpu")
    target = ClassifierTarget(classifier)
    questions = [(Example(i, (text,), 0, 1), Words.of(text)) for i, text in enumerate(TEXTS)]
    left = target.gradients(questions)
    classifier.tokenizer.padding_side = "right"
    for one, other, (_, words) in zip(left, target.gradients(questions), questions, strict=True):
        assert len(one.importance) == len(words.text.split())
        assert min(one.importance) > 0
        assert one.importance == pytest.approx(other.importance, rel=1e-3)
