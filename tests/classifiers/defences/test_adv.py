"""ADV: words of the batch's own texts are exchanged while training, within budget, so that the loss rises."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from defence_checks import trained_on
from rich.console import Console
from torch import Tensor
from torch.nn import functional as F

from holdfast.adversary.token_batches import padded
from holdfast.attacks.classifier import Text, tokenise
from holdfast.classifiers import FinetuneSettings, finetune
from holdfast.classifiers.defences import Moment, TaskBatch, Training, make_defence
from holdfast.classifiers.defences.labelled_batch import LabelledBatch
from holdfast.edits.words import Words, is_content_word
from holdfast.errors import UserError

CLEAN, LATER = Moment(0, 40, 0.9), Moment(10, 40, 1.0)
SINGLE = [
    ("the old man sleeps on the big red bed in the house",),
    ("a dog runs",),
    ("the woman sings under the house",),
    ("the big dog sleeps in the red house on a bed under the park",),
    ("the on under",),
    ("the child plays in the park, the old cat sleeps",),
]
PAIRS = [(first, f"the {first}") for (first,) in SINGLE[:4]]


@pytest.fixture
def model(tiny: Path) -> Any:
    from transformers import AutoModelForSequenceClassification

    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(tiny, num_labels=2)
    torch.nn.init.normal_(model.classifier.weight, std=1.0)
    return model.train()


@pytest.fixture
def tokenizer(tiny: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny)


@pytest.fixture
def begun(model: Any, tokenizer: Any) -> Callable[..., Any]:
    """``begun(texts, **options)``: a defence that knows its texts; all words of the vocabulary are candidates."""

    def make(texts: Sequence[Text], **options: Any) -> Any:
        defence = make_defence("adv", {"source": "masked-lm", "min_similarity": -1.0, **options})
        defence.begin(Training(model, tokenizer, texts, 64, 4.0))
        return defence

    return make


def logits_of(model: Any, tokenizer: Any, texts: Sequence[Text]) -> Tensor:
    training = model.training
    model.eval()
    features = padded(tokenizer, tokenise(tokenizer, texts, 64), range(len(texts)), torch.device("cpu"))
    with torch.no_grad():
        logits: Tensor = model(**features).logits
    model.train(training)
    return logits


def batch_of(tokenizer: Any, texts: Sequence[Text], labels: Tensor, rows: Sequence[int]) -> TaskBatch:
    features = padded(tokenizer, tokenise(tokenizer, texts, 64), rows, torch.device("cpu"))
    return TaskBatch(features, labels[list(rows)], rows)


@pytest.mark.parametrize(("iterations", "max_share"), [(10, 0.4), (2, 1.0), (1, 0.4)])
def test_words_are_exchanged_within_budget_and_the_loss_rises(
    iterations: int, max_share: float, model: Any, tokenizer: Any, begun: Callable[..., Any]
) -> None:
    defence = begun(SINGLE, iterations=iterations, max_share=max_share)
    labels = logits_of(model, tokenizer, SINGLE).argmax(dim=1)
    changed = defence.adversaries(model, SINGLE, labels)
    assert len(changed) >= 3
    for row, (text,) in changed.items():
        before, after = Words.of(SINGLE[row][0]), Words.of(text)
        assert len(after.words) == len(before.words)
        exchanged = [(a, b) for a, b in zip(before.words, after.words, strict=True) if a != b]
        assert 1 <= len(exchanged) <= min(iterations, int(max_share * len(before.words)))
        assert all(is_content_word(a) and is_content_word(b) for a, b in exchanged)
        assert before.parts[::2] == after.parts[::2]
    assert 4 not in changed, "a text of stop words"
    rows = list(changed)
    losses = [
        F.cross_entropy(logits_of(model, tokenizer, texts), labels[rows])
        for texts in ([SINGLE[row] for row in rows], list(changed.values()))
    ]
    assert losses[1] > losses[0] + 0.1
    assert defence.diagnostics["attack_loss_rise"] > 0
    assert defence.diagnostics["attacked"] == 1.0
    total = sum(
        a != b
        for row in rows
        for a, b in zip(Words.of(SINGLE[row][0]).words, Words.of(changed[row][0]).words, strict=True)
    )
    assert defence.diagnostics["replaced_words"] == pytest.approx(total / len(SINGLE))


def test_a_text_is_left_alone_once_its_class_is_another(model: Any, tokenizer: Any, begun: Callable[..., Any]) -> None:
    labels = logits_of(model, tokenizer, SINGLE).argmax(dim=1)
    far = begun(SINGLE, iterations=10, max_share=1.0).adversaries(model, SINGLE, labels)
    near = begun(SINGLE, iterations=1, max_share=1.0).adversaries(model, SINGLE, labels)
    deceived = [row for row in near if logits_of(model, tokenizer, [near[row]]).argmax(dim=1) != labels[row]]
    assert deceived, "the test shows nothing"
    assert all(far[row] == near[row] for row in deceived)


def test_what_the_classifier_has_wrong_is_not_attacked(model: Any, tokenizer: Any, begun: Callable[..., Any]) -> None:
    labels = logits_of(model, tokenizer, SINGLE).argmax(dim=1)
    labels[[0, 3]] = 1 - labels[[0, 3]]
    defence = begun(SINGLE)
    changed = defence.adversaries(model, SINGLE, labels)
    assert changed
    assert not {0, 3} & set(changed)
    assert defence.diagnostics["attacked"] == pytest.approx(4 / 6)
    assert begun(SINGLE).adversaries(model, SINGLE, 1 - logits_of(model, tokenizer, SINGLE).argmax(dim=1)) == {}


def test_the_second_text_of_a_pair_is_attacked(model: Any, tokenizer: Any, begun: Callable[..., Any]) -> None:
    labels = logits_of(model, tokenizer, PAIRS).argmax(dim=1)
    changed = begun(PAIRS).adversaries(model, PAIRS, labels)
    assert len(changed) >= 2
    for row, (first, second) in changed.items():
        assert first == PAIRS[row][0]
        assert second != PAIRS[row][1]


def test_scores_are_attacked_too(tiny: Path, tokenizer: Any) -> None:
    from transformers import AutoModelForSequenceClassification

    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(tiny, num_labels=1)
    torch.nn.init.normal_(model.classifier.weight, std=1.0)
    defence = make_defence("adv", {"source": "masked-lm", "min_similarity": -1.0})
    defence.begin(Training(model, tokenizer, SINGLE, 64, 4.0))
    gold = logits_of(model, tokenizer, SINGLE)[:, 0] + 0.3
    changed = defence.adversaries(model, SINGLE, gold)
    rows = list(changed)
    before, after = (
        (logits_of(model, tokenizer, texts)[:, 0] - gold[rows]).square().mean()
        for texts in ([SINGLE[row] for row in rows], list(changed.values()))
    )
    assert after > before + 0.1


def test_the_attack_leaves_no_trace(model: Any, tokenizer: Any, begun: Callable[..., Any]) -> None:
    model.bert.encoder.layer[0].eval()
    model.classifier.bias.requires_grad_(False)
    modes = [module.training for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]
    labels = logits_of(model, tokenizer, SINGLE).argmax(dim=1)
    model.bert.encoder.layer[0].eval()
    defence = begun(SINGLE)
    state = torch.random.get_rng_state()
    first = defence.adversaries(model, SINGLE, labels)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert defence.adversaries(model, SINGLE, labels) == first


def test_the_clean_epochs_are_undefended_and_then_the_loss_is_the_mean_over_both(
    model: Any, tokenizer: Any, begun: Callable[..., Any]
) -> None:
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    labels = logits_of(model, tokenizer, SINGLE).argmax(dim=1)
    rows = [3, 0, 5, 2]
    batch = batch_of(tokenizer, SINGLE, labels, rows)
    defence = begun(SINGLE)
    undefended = trained_on(make_defence("none", {}), model, batch)
    clean = trained_on(defence, model, batch, CLEAN)
    assert clean[0] == undefended[0]
    assert all(torch.equal(clean[1][name], value) for name, value in undefended[1].items())
    total, gradients = trained_on(defence, model, batch, LATER)
    chosen = [SINGLE[row] for row in rows]
    changed = defence.adversaries(model, chosen, batch.labels)
    assert changed
    both = [*chosen, *changed.values()]
    wanted = torch.cat([batch.labels, batch.labels[list(changed)]])
    assert total == pytest.approx(F.cross_entropy(logits_of(model, tokenizer, both), wanted).item(), rel=1e-4)
    assert total > undefended[0]
    assert gradients.keys() == undefended[1].keys()
    # Nothing is left to attack where every text is wrong: the step is the undefended one.
    wrong = TaskBatch(batch.features, 1 - batch.labels, batch.rows)
    same = trained_on(make_defence("none", {}), model, wrong)
    assert trained_on(defence, model, wrong, LATER)[0] == same[0]


def test_the_gradients_of_a_batch_are_those_of_its_loss(model: Any, tokenizer: Any) -> None:
    model.double().eval()
    labels = torch.tensor([0, 1, 1, 0])
    batch = LabelledBatch(model, tokenizer, PAIRS, labels, 64)
    rows = [2, 0]
    texts = ["a woman sings", "the dog runs in the park"]
    found = batch.gradients(texts, rows)
    pairs = [(PAIRS[row][0], text) for row, text in zip(rows, texts, strict=True)]
    features = padded(tokenizer, tokenise(tokenizer, pairs, 64), range(2), torch.device("cpu"))
    mask = features["attention_mask"]
    embedded = model.bert.embeddings(
        input_ids=features["input_ids"], token_type_ids=features["token_type_ids"]
    ).detach()
    embedded.requires_grad_()
    hidden = embedded
    for layer in model.bert.encoder.layer:
        hidden = layer(hidden, (1.0 - mask[:, None, None, :].double()) * torch.finfo(torch.float64).min)
    z = model.bert.pooler(hidden)
    loss = F.cross_entropy(model.classifier(z), labels[rows])
    direction, tokens = torch.autograd.grad(loss, [z, embedded])
    torch.testing.assert_close(found.z, z.float(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.direction, direction.float(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found.tokens.float(), tokens.float() * mask[:, :, None], rtol=1e-3, atol=1e-6)
    model.float()
    assert batch.vectors(texts, rows) == pytest.approx(z.detach().float().numpy(), rel=1e-3, abs=1e-4)
    for row, text in enumerate(texts):
        shown = [text[begin:end] for begin, end in found.offsets[row] if begin < end]
        assert shown == text.split(), "offsets of the attacked text alone"


def test_a_training_too_short_to_be_attacked_is_refused(model: Any, tokenizer: Any) -> None:
    with pytest.raises(UserError, match=r"1 clean epochs, and this training has 0\.5"):
        make_defence("adv", {}).begin(Training(model, tokenizer, SINGLE, 64, 0.5))
    make_defence("adv", {"clean_epochs": "0"}).begin(Training(model, tokenizer, SINGLE, 64, 0.5))


def test_the_masked_lm_is_the_model_it_starts_from_or_the_named_one(
    model: Any, tokenizer: Any, tiny: Path, tmp_path: Path
) -> None:
    defence = make_defence("adv", {"source": "masked-lm"})
    defence.begin(Training(model, tokenizer, SINGLE, 64, 4.0))
    assert str(tiny) in defence.attack.proposer.source
    assert defence.attack.proposer.limit == 50
    assert (defence.attack.iterations, defence.attack.max_share) == (10, 0.4)
    model.bert.save_pretrained(tmp_path / "headless")
    tokenizer.save_pretrained(tmp_path / "headless")
    with pytest.raises(UserError, match=r"no masked-LM head .*masked_lm="):
        make_defence("adv", {"source": "masked-lm", "masked_lm": str(tmp_path / "headless")}).begin(
            Training(model, tokenizer, SINGLE, 64, 4.0)
        )


@pytest.mark.parametrize("source", ["masked-lm", "auto"])
def test_neighbour_lists_can_take_the_place_of_cosines(
    model: Any, tokenizer: Any, tmp_path: Path, begun: Callable[..., Any], source: str
) -> None:
    words = ("man", "woman", "child", "dog", "cat", "house", "park", "bed", "runs", "sings", "sleeps")
    lists = "".join(f"{word}\tcat dog\n" for word in words)
    (tmp_path / "near.tsv").write_text(f"word\tneighbors\n{lists}")
    labels = logits_of(model, tokenizer, SINGLE).argmax(dim=1)
    defence = begun(SINGLE, word_vectors=str(tmp_path / "near.tsv"), source=source, masked_lm=None)
    assert defence.attack.skip_freely == (source == "auto")
    changed = defence.adversaries(model, SINGLE, labels)
    assert changed
    for row, (text,) in changed.items():
        new = set(Words.of(text).words) - set(Words.of(SINGLE[row][0]).words)
        assert new <= {"cat", "dog"}


def test_success_and_loss_under_attack_are_logged(model: Any, tokenizer: Any, begun: Callable[..., Any]) -> None:
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    labels = logits_of(model, tokenizer, SINGLE).argmax(dim=1)
    defence = begun(SINGLE, max_share=1.0)
    changed = defence.adversaries(model, SINGLE, labels)
    rows = list(changed)
    logits = logits_of(model, tokenizer, list(changed.values()))
    deceived = int((logits.argmax(dim=1) != labels[rows]).sum())
    assert 0 < deceived < len(SINGLE)
    assert defence.diagnostics["attack_success"] == pytest.approx(deceived / len(SINGLE))
    batch = batch_of(tokenizer, SINGLE, labels, range(len(SINGLE)))
    trained_on(defence, model, batch, LATER)
    expected = F.cross_entropy(logits, labels[rows]).item()
    assert defence.diagnostics["adversarial_loss"].item() == pytest.approx(expected, rel=1e-4)


def test_equal_candidates_are_encoded_once(model: Any, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model.eval()
    batch = LabelledBatch(model, tokenizer, [*SINGLE[:2], SINGLE[0]], torch.tensor([0, 1, 0]), 64)
    texts, rows = ["a cat", "the dog", "a cat"], [0, 1, 2]
    whole = batch._classifier.vectors([(text,) for text in texts])[0]
    sizes: list[int] = []
    vectors = batch._classifier.vectors
    monkeypatch.setattr(batch._classifier, "vectors", lambda asked: sizes.append(len(asked)) or vectors(asked))
    torch.testing.assert_close(batch.vectors(texts, rows), whole, rtol=1e-5, atol=1e-6)
    assert sizes == [2]


def test_a_run_finds_the_synonyms_of_its_data_or_says_that_there_are_none(
    settings: Callable[..., FinetuneSettings], data: Path, tmp_path: Path
) -> None:
    short: dict[str, Any] = {"defence": "adv", "epochs": None, "max_steps": 3}
    said = io.StringIO()
    console = Console(file=said, width=300)
    options = {"clean_epochs": 0, "min_similarity": -1.0}
    finetune(settings(**short, options=options, output=tmp_path / "weak"), console=console)
    assert "candidates of the training attack: the masked LM's words" in said.getvalue()
    said.truncate(0)
    (data / "synonyms").mkdir()
    lists = data / "synonyms" / "counterfitted_neighbors.tsv"
    lists.write_text("word\tneighbors\ndog\tcat\ncat\tdog\n")
    result = finetune(settings(**short, options={"clean_epochs": 0}, output=tmp_path / "strong"), console=console)
    assert result["protocol"]["defence_options"]["word_vectors"] == str(lists)
    assert "candidates of the training attack" not in said.getvalue()


def test_the_clean_epoch_is_never_the_one_that_is_kept(settings: Callable[..., FinetuneSettings]) -> None:
    options = {"source": "masked-lm", "min_similarity": -1.0}
    result = finetune(settings(defence="adv", options=options, epochs=3.0, max_steps=None, learning_rate=1e-12))
    in_epoch, rest = divmod(result["selected"]["steps"], 3)
    assert rest == 0
    assert result["selected"]["step"] == 2 * in_epoch  # all epochs score alike, and of equals the first is kept
