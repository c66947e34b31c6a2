"""`holdfast harden --lora`: what the interpolation with the original scales, and both forms of the copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from holdfast.adapters import Lora, add_lora, merge_adapters
from holdfast.errors import UserError
from holdfast.hardening import HardenSettings, harden
from holdfast.hardening.goal.interpolation import interpolated, weights_of
from holdfast.models import load_sentence_transformer

WORDS = "man woman child dog cat runs sleeps eats plays sings park house bed red big".split()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory, make_masked_lm: Callable[..., Path]) -> Path:
    """An encoder in use."""
    folder = tmp_path_factory.mktemp("hardened")
    load_sentence_transformer(str(make_masked_lm(folder / "lm")), pooling="mean").save_pretrained(str(folder / "old"))
    return folder / "old"


def adapted(encoder: Path, std: float) -> Any:
    """The encoder with adapters of which A is always the same at the start, and both are moved by ``std``."""
    model = load_sentence_transformer(str(encoder), device="cpu").double()
    torch.manual_seed(1)
    add_lora(model, Lora(r=2), str(encoder))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".lora_" in name:
                parameter.add_(std * torch.randn_like(parameter))
    return model


def merged_weights(model: Any) -> dict[str, torch.Tensor]:
    merge_adapters(model)
    return weights_of(model)


def test_interpolated_adapters_are_the_interpolated_merged_weights(encoder: Path) -> None:
    before, after = adapted(encoder, 0.0), adapted(encoder, 0.3)
    names = [name for name, _ in before.named_parameters()]
    mixed = interpolated(weights_of(before), weights_of(after), 0.25, names)
    holder = adapted(encoder, 0.0)
    holder.load_state_dict(mixed)
    found, original, trained = map(merged_weights, (holder, before, after))
    for name, value in found.items():
        wanted = original[name] + 0.25 * (trained[name] - original[name]) if value.is_floating_point() else value
        torch.testing.assert_close(value, wanted, rtol=1e-6, atol=1e-6)
    moved = max((trained[name] - original[name]).abs().max() for name in found)
    assert moved > 0.1


@pytest.mark.parametrize("save", ["merged", "adapter"])
def test_both_forms_of_a_hardened_copy(
    save: str, encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    texts = [f"The {a} {b} in the {c} {d}" for a in WORDS for b in WORDS[:8] for c in WORDS[5:] for d in WORDS[10:12]]
    (tmp_path / "mine.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    given: dict[str, Any] = {
        "batch_size": 8,
        "max_steps": 4,
        "learning_rate": 1e-2,
        "audited": False,
        "hold_out": 200,
        "save_steps": 2,
    }
    settings = HardenSettings(str(encoder), str(tmp_path / "mine.txt"), tmp_path / "new", **given)
    result = harden(HardenSettings(**{**vars(settings), "lora": f"r=2,save={save}", "noise": "typing"}))
    last = tmp_path / "new" / "checkpoint-4"
    assert result["protocol"]["lora"]["r"] == 2
    assert {each["weight"] for each in result["selected"]["curve"]} >= {0.25, 0.5, 0.75, 1.0}
    assert (tmp_path / "new" / "adapter_model.safetensors").exists() == (save == "adapter")
    assert (tmp_path / "new" / "model.safetensors").exists() == (save == "merged")
    assert "typo_entries" not in result["protocol"] or save == "merged"
    vectors = SentenceTransformer(str(tmp_path / "new"), device="cpu").encode(texts[:3])
    assert vectors.shape == (3, 16)
    tensors = load_file(last / "adapter_model.safetensors")
    assert all(".lora_" in name for name in tensors), "without the embeddings, also where entries were added to them"


def test_an_adapter_has_no_vocabulary_of_its_own(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("the dog runs\n" * 20, encoding="utf-8")
    settings = HardenSettings(
        str(encoder),
        str(tmp_path / "mine.txt"),
        tmp_path / "new",
        lora="r=2,save=adapter",
        typo_vocabulary=5,
        audited=False,
    )
    with pytest.raises(UserError, match="--typo-vocabulary: an adapter is saved without a vocabulary of its own"):
        harden(settings)
