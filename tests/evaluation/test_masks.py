"""L2P-CSR's masks of given sentences: counted by hand, learned to hurt, repeatable, and with the trained settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from holdfast.adversary.weakening import Weakening
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.evaluation import masks as module
from holdfast.evaluation.masks import OTHERS, Settings, layer_rows, learn_masks, trained_settings
from holdfast.objectives.l2p_csr import L2PCSR

DEFAULTS = Settings({}, None, None)


@pytest.fixture
def model(make_encoder_model: Callable[..., Any]) -> Any:
    return make_encoder_model("bert")


def given_masks(monkeypatch: pytest.MonkeyPatch, draws: list[Weakening]) -> None:
    """Let the objective learn these, one after the other."""
    left = iter(draws)
    fake = SimpleNamespace(masks=lambda encoder, features: next(left))
    monkeypatch.setattr(module, "_objective", lambda model, settings: fake)


def test_shares_are_counted_over_draws_and_views(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two sentences of 5 and 4 tokens, [CLS] and [SEP] among them, one layer; rows: both in view 1, both in view 2.
    texts = ["the dog runs", "child plays"]
    ones = torch.ones(1, 4, 5)
    first, second = ones.clone(), ones.clone()
    first[0, 0, 1] = first[0, 2, 1] = 0  # "the" in both views of the first draw
    first[0, 2, 2] = 0  # "dog" in its second view
    second[0, 2, 1] = 0  # "the" in one view of the second draw
    second[0, 1, 4] = 0  # padding of the shorter sentence, which is nobody's
    features = torch.ones(1, 4, 16)
    features[0, 0, 3] = 0
    given_masks(monkeypatch, [Weakening(first, features), Weakening(second, torch.ones(1, 4, 16))])
    long, short = learn_masks(model, texts, settings=DEFAULTS, others=[], draws=2)
    assert long.tokens == ("[CLS]", "the", "dog", "runs", "[SEP]")
    assert short.tokens == ("[CLS]", "child", "plays", "[SEP]")
    assert long.first is not None
    assert long.first.tolist() == [[[1, 0, 1, 1, 1], [1, 0, 0, 1, 1]]]
    assert long.weakened is not None
    assert long.weakened.tolist() == [[0, 3 / 4, 1 / 4, 0, 0]]
    assert long.features is not None
    assert long.features[0].tolist() == [1 / 4 if i == 3 else 0 for i in range(16)]
    assert long.overlap == pytest.approx([1 / 2]), "four weakenings, two of them in both views"
    assert short.weakened is not None
    assert short.weakened.tolist() == [[0, 0, 0, 0]]
    (row,) = layer_rows([long, short])
    assert (row["split"], row["n"]) == ("layer 0", 9)
    assert row["metrics"] == pytest.approx(
        {"weakened_tokens": 100 / 9, "both_views": 50.0, "weakened_features": 100 / 4 / 16 / 2}
    )


def test_sentences_are_weighted_by_how_much_is_weakened_in_them(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    masks = torch.ones(1, 4, 5)
    masks[0, 0, 1] = masks[0, 2, 1] = 0  # of the first, one token in both views
    masks[0, 1, 1] = 0  # of the second, one token in one
    given_masks(monkeypatch, [Weakening(masks, None)])
    learned = learn_masks(model, ["the dog runs", "child plays"], settings=DEFAULTS, others=[], draws=1)
    (row,) = layer_rows(learned)
    assert row["metrics"] == pytest.approx({"weakened_tokens": 100 * 1.5 / 9, "both_views": 100 / 1.5})
    assert learned[0].features is None


def test_the_masks_are_those_of_the_objective(model: Any, sentences: list[str]) -> None:
    texts, others = sentences[:2], sentences[2:]
    settings = Settings({"layers": 2, "threshold": 0.4}, None, None)
    learned = learn_masks(model, texts, settings=settings, others=others, draws=1, seed=3)
    objective = L2PCSR(model, head="none", layers=2, threshold=0.4)
    encoder = Encoder(model)
    features = encoder.tokenise([*texts, *others])
    torch.manual_seed(int(np.random.SeedSequence([3, 0]).generate_state(1)[0]))
    model.train()
    masks = objective.masks(encoder, features)
    assert masks.tokens is not None
    for row, of_one in enumerate(learned):
        length = len(of_one.tokens)
        assert of_one.first is not None
        assert of_one.first.shape == (2, 2, length)
        assert of_one.first.tolist() == masks.tokens[:, [row, row + 8], :length].tolist()


def test_the_seed_decides_and_the_number_of_draws_does_not(model: Any, sentences: list[str]) -> None:
    def first(**given: Any) -> Any:
        return [m.first.tolist() for m in learn_masks(model, sentences[:3], settings=settings, **given)]  # type: ignore[union-attr]

    settings = Settings({"threshold": 0.5}, None, None)
    assert first(draws=1, seed=1) == first(draws=3, seed=1)
    assert first(draws=1, seed=1) != first(draws=1, seed=2)
    (some,) = learn_masks(model, sentences[:1], settings=settings, draws=1)
    (more,) = learn_masks(model, sentences[:1], settings=settings, draws=4)
    assert some.weakened is not None
    assert more.weakened is not None
    assert some.weakened.tolist() != more.weakened.tolist(), "draws differ"


def test_nothing_of_the_model_and_of_the_random_numbers_is_left_changed(model: Any, sentences: list[str]) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model[0].train()
    torch.manual_seed(7)
    learn_masks(model, sentences[:2], settings=DEFAULTS, draws=1)
    after = torch.rand(3)
    torch.manual_seed(7)
    assert torch.rand(3).tolist() == after.tolist()
    assert (model[0].training, model[1].training) == (True, False)
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_one_kind_of_mask_alone(model: Any, sentences: list[str]) -> None:
    (tokens,) = learn_masks(model, sentences[:1], settings=Settings({"feature_mask": False}, None, None), draws=1)
    assert tokens.weakened is not None
    assert tokens.features is None
    (features,) = learn_masks(model, sentences[:1], settings=Settings({"token_mask": False}, None, None), draws=1)
    assert features.first is None
    assert features.features is not None
    rows = layer_rows([features])
    assert [row["split"] for row in rows] == ["layer 0", "layer 1", "layer 2"]
    assert all(set(row["metrics"]) == {"weakened_features"} for row in rows)


def test_as_released_all_sentences_share_feature_masks(model: Any, sentences: list[str]) -> None:
    settings = Settings({**L2PCSR.PRESETS["as_released"], "threshold": 0.4}, None, None)
    one, two = learn_masks(model, sentences[:2], settings=settings, draws=2)
    assert one.features is not None
    assert two.features is not None
    assert one.features.tolist() == two.features.tolist()


def test_what_learns_no_masks_is_refused(model: Any, sentences: list[str]) -> None:
    def message(options: dict[str, Any], **given: Any) -> str:
        with pytest.raises(UserError) as caught:
            learn_masks(model, sentences[:1], settings=Settings(options, None, None), **given)
        return str(caught.value)

    assert "noise=embedding" in message({"noise": "embedding"})
    assert "no masks" in message({"token_mask": False, "feature_mask": False})
    assert "it takes 1 to 3" in message({"layers": 4})
    assert "l2p-csr: " in message({"threshold": 2.0})
    assert "at least two" in message({}, others=[])
    assert "at least two" in message({}, others=sentences[:1])
    assert "from 1 to" in message({}, draws=0)


def test_sentences_are_cut_as_in_training(model: Any, sentences: list[str]) -> None:
    limit = model.max_seq_length
    (short,) = learn_masks(model, sentences[:1], settings=Settings({}, None, None, max_length=5), draws=1)
    assert short.tokens == ("[CLS]", "the", "old", "man", "[SEP]")
    assert model.max_seq_length == limit
    with pytest.raises(UserError, match="at least 3"):
        learn_masks(model, sentences[:1], settings=Settings({}, None, None, max_length=2), draws=1)
    assert model.max_seq_length == limit


def test_the_built_in_sentences_differ() -> None:
    assert len(set(OTHERS)) == len(OTHERS) == 32


# --- trained settings --------------------------------------------------------------------------------------------


def test_settings_come_from_the_record_of_the_run(tmp_path: Path) -> None:
    assert trained_settings(tmp_path) == DEFAULTS
    record = {"method": "l2p-csr", "options": {"layers": 2, "head": "tanh"}, "training": {"max_length": 48}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert trained_settings(tmp_path) == Settings({"layers": 2}, tmp_path / "run.json", None, max_length=48)
    del record["training"]
    (tmp_path / "results.json").write_text(json.dumps({"protocol": {**record, "options": {"layers": 1}}}))
    assert trained_settings(tmp_path) == Settings({"layers": 1}, tmp_path / "results.json", None)
    (tmp_path / "results.json").write_text(json.dumps({"protocol": {**record, "method": "simcse"}}))
    (tmp_path / "run.json").unlink()
    assert trained_settings(tmp_path) == DEFAULTS, "another method's options are not these"


@pytest.mark.parametrize("text", ["{", "[]", "\x00"])
def test_a_damaged_record_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(UserError, match=r"results\.json"):
        trained_settings(tmp_path)


def test_a_checkpoint_brings_its_head(tmp_path: Path, model: Any, sentences: list[str]) -> None:
    folder = tmp_path / "checkpoint-3"
    folder.mkdir()
    trained = L2PCSR(model)
    assert trained.head.dense is not None
    with torch.no_grad():
        trained.head.dense.weight.mul_(0.0)
        trained.head.dense.weight[0, 0] = 5.0  # all but one direction is lost: other masks are learned through it
    save_file(
        {name: value.contiguous() for name, value in trained.own_state().items()}, folder / "objective.safetensors"
    )
    record = {"method": "l2p-csr", "options": {"threshold": 0.5, "head": "tanh"}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    settings = trained_settings(folder)
    assert settings == Settings({"threshold": 0.5}, tmp_path / "run.json", folder / "objective.safetensors")
    (with_head,) = learn_masks(model, sentences[:1], settings=settings, draws=2)
    (without,) = learn_masks(model, sentences[:1], settings=Settings({"threshold": 0.5}, None, None), draws=2)
    assert with_head.weakened is not None
    assert without.weakened is not None
    assert with_head.weakened.tolist() != without.weakened.tolist()
    wrong = {name: value[:3].contiguous() for name, value in trained.own_state().items()}
    save_file(wrong, folder / "objective.safetensors")
    with pytest.raises(UserError, match=r"l2p-csr: "):
        learn_masks(model, sentences[:1], settings=settings, draws=1)


def test_a_head_that_was_not_there_is_not_looked_for(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint-3"
    folder.mkdir()
    save_file({"nothing": torch.zeros(1)}, folder / "objective.safetensors")
    (tmp_path / "run.json").write_text(json.dumps({"method": "l2p-csr", "options": {"head": "none"}}))
    assert trained_settings(folder).head is None
