"""The loss at the masked places alone is that of the whole computation, for every kind of model."""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForMaskedLM, BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

from holdfast.backbone_dropout import dropout_of
from holdfast.errors import UserError
from holdfast.pretraining.batches import Group, as_group
from holdfast.pretraining.model import continued_model, fill, loss_of, measure, new_model, predict, ready_to_train
from holdfast.pretraining.pretrain_settings import PretrainSettings
from holdfast.pretraining.pretrain_trainer import Clock, PretrainTrainer, rate_factor

CONFIG = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
    "initializer_range": 0.5,
    "pad_token_id": 0,
}


def bert(**changes: Any) -> Any:
    torch.manual_seed(0)
    return BertForMaskedLM(BertConfig(**{**CONFIG, **changes}))


def group(lengths: tuple[int, ...] = (7, 5, 7), seed: int = 0) -> Group:
    draw = np.random.default_rng(seed)
    sentences = [draw.integers(5, 50, length) for length in lengths]
    ids = np.concatenate(sentences)
    chosen = np.zeros(len(ids), dtype=bool)
    chosen[[1, 4, 8, 13]] = True
    seen = ids.copy()
    seen[chosen] = 4
    return as_group(sentences, seen, chosen, 0)


def reference(model: Any, made: Group) -> torch.Tensor:
    """The model's own loss over labels everywhere, -100 where nothing is to be predicted."""
    labels = torch.full(made["input_ids"].shape, -100)
    labels.view(-1)[made["places"]] = made["labels"]
    mask = made.get("attention_mask", torch.ones_like(labels))
    loss: torch.Tensor = model(input_ids=made["input_ids"], attention_mask=mask, labels=labels).loss
    return loss * len(made["labels"])


def test_padding_is_marked_and_places_point_at_what_was_there() -> None:
    made = group()
    assert made["attention_mask"].sum(dim=1).tolist() == [7, 5, 7]
    assert made["places"].tolist() == [1, 4, 8, 15], "the second sentence is padded by two"
    assert "attention_mask" not in group((7, 7, 7))


@pytest.mark.parametrize("lengths", [(7, 5, 7), (7, 7, 7)])
@pytest.mark.parametrize("kind", ["bert", "roberta", "electra", "distilbert", "mpnet", "modernbert"])
def test_loss_and_gradients_are_those_of_the_whole_computation(kind: str, lengths: tuple[int, ...]) -> None:
    import transformers as t

    torch.manual_seed(0)
    special = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    config: Any = {
        "bert": lambda: t.BertConfig(**CONFIG),
        "roberta": lambda: t.RobertaConfig(**CONFIG),
        "electra": lambda: t.ElectraConfig(embedding_size=8, **CONFIG),
        "distilbert": lambda: t.DistilBertConfig(vocab_size=50, dim=16, n_layers=2, n_heads=2, hidden_dim=32),
        "mpnet": lambda: t.MPNetConfig(**CONFIG),
        "modernbert": lambda: t.ModernBertConfig(**CONFIG, **special),
    }[kind]()
    model = AutoModelForMaskedLM.from_config(config, attn_implementation="eager").eval()
    made = group(lengths)
    expected = reference(model, made)
    expected.backward()
    gradients = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    model.zero_grad(set_to_none=True)
    assert predict(model, made).shape == (4, 50)
    ours = loss_of(model, made)
    ours.backward()
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    assert len(gradients) > 10
    for name, weight in model.named_parameters():
        if name in gradients:
            torch.testing.assert_close(weight.grad, gradients[name], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(reference(model, made), expected, msg="the model is left as it was")


@pytest.mark.parametrize(("kind", "most"), [("bert", 32), ("roberta", 30), ("mpnet", 30)])
def test_the_positions_before_a_rows_first_hold_no_token(kind: str, most: int, tmp_path: Path) -> None:
    import transformers as t

    kinds = {"bert": t.BertConfig, "roberta": t.RobertaConfig, "mpnet": t.MPNetConfig}
    model = AutoModelForMaskedLM.from_config(kinds[kind](**{**CONFIG, "pad_token_id": 1}))
    model.save_pretrained(tmp_path)

    class Tokenizer:
        model_max_length = 10**30

        def get_vocab(self) -> dict[str, int]:
            return {f"t{number}": number for number in range(50)}

    with pytest.raises(UserError, match=f"--max-length {most + 1}: .* takes {most} tokens at most"):
        continued_model(str(tmp_path), Tokenizer(), most + 1)
    continued_model(str(tmp_path), Tokenizer(), most)(input_ids=torch.full((1, most), 7))
    with pytest.raises((IndexError, RuntimeError)):  # what the line above is instead of
        model(input_ids=torch.full((1, most + 1), 7))


def test_training_mode_changes_dropout_and_nothing_else_stays() -> None:
    model = bert(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1).train()
    made = group()
    with ready_to_train(model, 0.0):
        assert loss_of(model, made).item() == loss_of(model, made).item()
    assert {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)} == {0.1}
    assert model.config.hidden_dropout_prob == 0.1
    with dropout_of(model, 0.5):
        assert {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)} == {0.5}
    with dropout_of(model, None):
        assert loss_of(model, made).item() != loss_of(model, made).item()


def test_a_uniform_model_has_the_perplexity_of_its_vocabulary() -> None:
    model = bert()
    for weight in model.parameters():
        weight.detach().zero_()
    measured = measure(model, [group(), group((7, 7, 7))], bf16=False)
    assert measured["perplexity"] == pytest.approx(50, rel=1e-5)
    assert measured["loss"] == pytest.approx(math.log(50), rel=1e-5)


def test_a_vocabulary_with_numbers_left_out_fits_its_model() -> None:
    backend = Tokenizer(WordLevel({"[PAD]": 0, "[UNK]": 1, "[MASK]": 2, "dog": 40}, unk_token="[UNK]"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", mask_token="[MASK]")
    settings = PretrainSettings(corpus="c", output=Path("o"), layers=1, hidden=16, heads=2, intermediate=32)
    model = new_model(settings, tokenizer)
    assert model(**tokenizer("dog", return_tensors="pt")).logits.shape[-1] == 41


def test_what_is_measured_is_the_mean_over_places() -> None:
    model = bert().train()
    groups = [group(), group((9, 9), seed=3)]
    measured = measure(model, groups, bf16=False)
    assert model.training, "it comes back in the mode it was in"
    model.eval()
    losses = [loss_of(model, made).item() for made in groups]
    assert measured["loss"] == pytest.approx(sum(losses) / 8, rel=1e-5)
    right = sum(int((predict(model, made).argmax(dim=1) == made["labels"]).sum()) for made in groups)
    assert measured["masked_accuracy"] == pytest.approx(100 * right / 8)
    assert measured["perplexity"] == pytest.approx(math.exp(measured["loss"]))


def test_a_prompt_is_filled_at_its_mask(tokenised: Any) -> None:
    from holdfast.errors import UserError

    tokenizer, _ = tokenised
    model = bert(vocab_size=len(tokenizer)).eval()
    (message,) = fill(model, tokenizer, ("the dog [MASK] near the harbour.",))
    logits = model(**tokenizer("the dog [MASK] near the harbour.", return_tensors="pt")).logits[0, 3]
    best = logits.softmax(dim=0).topk(5)
    assert [word for word, _ in message["top"]] == [tokenizer.decode([token]).strip() for token in best.indices]
    assert [chance for _, chance in message["top"]] == pytest.approx(best.values.tolist(), abs=1e-4)
    with pytest.raises(UserError, match=r"has 0 masks: give exactly one \[MASK\]"):
        fill(model, tokenizer, ("the dog barks.",))


def test_the_learning_rate_rises_and_falls() -> None:
    factors = [rate_factor(share, 0.25) for share in (0.0, 0.125, 0.25, 0.625, 1.0)]
    assert factors == [0.0, 0.5, 1.0, 0.5, 0.0]
    assert rate_factor(0.0, 0.0) == 1.0


def test_a_steps_gradient_is_that_of_the_mean_over_all_its_places() -> None:
    """Whatever group they are in: groups of a step hold different numbers of them."""
    model = bert(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    large, small = group(), group((9, 9), seed=3)
    small = {**small, "places": small["places"][:1], "labels": small["labels"][:1]}
    trainer: Any = SimpleNamespace(
        _prepare_inputs=lambda given: given,
        check_finite=lambda loss: None,
        compute_loss_context_manager=contextlib.nullcontext,
        accelerator=SimpleNamespace(backward=lambda loss: loss.backward()),
        args=SimpleNamespace(device=torch.device("cpu")),
    )
    trainer.backward_each = lambda losses: PretrainTrainer.backward_each(trainer, losses)
    message = PretrainTrainer.training_step(trainer, model, [large, small])
    gradients = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    model.zero_grad()
    expected = (loss_of(model, large) + loss_of(model, small)) / 5
    expected.backward()
    torch.testing.assert_close(message, expected.detach())
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, model.get_parameter(name).grad, rtol=1e-4, atol=1e-6)


def test_the_learning_rate_follows_the_steps_or_the_clock() -> None:
    def rates(clock: Clock) -> list[float]:
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        trainer: Any = SimpleNamespace(lr_scheduler=None, clock=clock, _warmup=0.25, optimizer=optimizer)
        scheduler = PretrainTrainer.create_scheduler(trainer, 7)
        message = []
        for _ in range(7):
            message.append(scheduler.get_last_lr()[0])
            now[0] += 20
            optimizer.step()
            scheduler.step()
        return message

    now = [0.0]
    assert rates(Clock(math.inf, lambda: now[0])) == pytest.approx(
        [rate_factor(step / 8, 0.25) for step in range(1, 8)]
    )
    now = [0.0]
    assert rates(Clock(160, lambda: now[0])) == pytest.approx([rate_factor(step / 8, 0.25) for step in range(7)])


def test_a_clock_counts_over_all_parts_of_a_run() -> None:
    now = [100.0]
    clock = Clock(60, lambda: now[0])
    now[0] = 110
    clock.start()
    now[0] = 125
    assert (clock.elapsed, clock.share) == (15, 0.25)
    clock.set(40)
    clock.start()
    now[0] = 130
    assert clock.elapsed == 45
    now[0] = 200
    assert clock.share == 1.0
