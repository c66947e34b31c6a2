"""Run by test_device_parts.py in a process of its own: random numbers, number formats, encoding, on a device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from places import CPU, THERE, on
from second_device import DEVICE_TYPE, numbers, register, second_device
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch import nn

from conftest import SENTENCES, WORDS
from holdfast.adversary.translation import Translator
from holdfast.baselines.flow_training import FlowOptions, fit_flow
from holdfast.classifiers.defences.defence import Passes, TaskBatch
from holdfast.devices import device_name, random_numbers_kept, random_states, set_random_states
from holdfast.encoder import Encoder
from holdfast.encoding import encode_sentences
from holdfast.evaluation.positive_controls.frozen_runs import FrozenRun, HeldOut
from holdfast.evaluation.positive_controls.registry import control_of
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS
from holdfast.objectives.contrastive import full_precision
from holdfast.precision import ResolvedPrecision

register()

DEVICE = torch.device(THERE)


def an_attack_leaves_no_random_trace(folder: str) -> None:
    """The state of the device, which is not the CPU's, is as it was after an attack."""
    with second_device(own_random_state=True):
        torch.manual_seed(0)
        encoder = Encoder(load_sentence_transformer(folder, device=THERE))
        before = random_states(DEVICE)
        with encoder.attack_mode():
            first = numbers(torch.rand(8, device=DEVICE)), torch.rand(8)
        assert all(torch.equal(a, b) for a, b in zip(before, random_states(DEVICE), strict=True))
        with random_numbers_kept(DEVICE):
            again = numbers(torch.rand(8, device=DEVICE)), torch.rand(8)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
        torch.rand(8, device=DEVICE)
        assert torch.equal(before[0], random_states(DEVICE)[0]), "the CPU's stays where it is"
        assert not torch.equal(before[1], random_states(DEVICE)[1])
        set_random_states(DEVICE, before)
        assert torch.equal(before[1], random_states(DEVICE)[1])


def passes_share_dropout(folder: str) -> None:
    """All passes of a defence have the dropout masks of the first, drawn on the device."""
    from transformers import AutoModelForSequenceClassification

    with second_device(own_random_state=True):
        model = AutoModelForSequenceClassification.from_pretrained(folder).to(THERE).train()
        ids = torch.arange(2, 10).view(2, 4).to(THERE)
        features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        passes = Passes(model, TaskBatch(features, torch.tensor([0, 1], device=DEVICE), [0, 1]))
        first, again = (numbers(passes.logits()) for _ in range(2))
        assert torch.equal(first, again)
        other = numbers(model(**features).logits)
        assert not torch.equal(first, other), "without dropout this would show nothing"


def a_flow_leaves_no_random_trace() -> None:
    """Fitting a flow, which is done on the CPU, seeds no other device."""
    vectors = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    with second_device(own_random_state=True):
        torch.rand(3, device=DEVICE)
        before = random_states(DEVICE)
        fit_flow(vectors, FlowOptions(levels=1, depth=1, width=8, batch_size=16), seed=0)
        assert all(torch.equal(a, b) for a, b in zip(before, random_states(DEVICE), strict=True))


def autocast_is_the_devices() -> None:
    """Products are in bf16 under the device's autocast, and in fp32 where heads and losses switch it off."""
    with second_device():
        layer, x = nn.Linear(4, 4).to(THERE), torch.ones(2, 4, device=DEVICE)
        with torch.autocast(DEVICE_TYPE, dtype=torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16
            with full_precision(x):
                assert layer(x).dtype == torch.float32
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert layer(x).dtype == torch.float32, "the CPU's is another"
        assert device_name(THERE) == THERE
        assert device_name(CPU) == CPU


def _encoder(kind: str, folder: str, place: str) -> Any:
    if kind == "static":
        made = load_sentence_transformer(folder, device=CPU)
        torch.manual_seed(0)
        embedding = StaticEmbedding(made.tokenizer._tokenizer, embedding_dim=8)
        return SentenceTransformer(modules=[embedding], device=place)
    model = load_sentence_transformer(folder, pooling="prompt" if kind == "prompt" else "mean", device=place)
    if kind == "default prompt":
        model.prompts, model.default_prompt_name = {"query": "the old "}, "query"
    if kind == "truncated":
        model.truncate_dim = 5
    return model


def encodes_alike(kind: str, folder: str) -> None:
    """Vectors are the CPU's, fp32 arrays, in either number format; each batch is waited for as often as it must be."""
    precisions: list[tuple[ResolvedPrecision, float]] = [("fp32", 1e-5), ("bf16", 0.0 if kind == "static" else 0.1)]
    for precision, tolerance in precisions:
        found = []
        for place in (CPU, THERE):
            with on(place) as waits:
                model = _encoder(kind, folder, place)
                if waits is not None:
                    waits.clear()
                found.append(encode_sentences(model, SENTENCES, precision=precision))
                if waits is not None:
                    # The vectors come out, the tokens go in; and transformers asks whether there is padding.
                    assert waits.within("holdfast") <= 1, waits.describe()
                    assert waits.within("transformers") <= 1, waits.describe()
        assert found[0].dtype == found[1].dtype == np.float32
        np.testing.assert_allclose(found[0], found[1], atol=tolerance or 1e-5)


def translates_alike(folder: str) -> None:
    """A translator goes to the device by itself, and says the same there."""
    from transformers import AutoTokenizer, BartConfig, BartForConditionalGeneration

    tokens = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=5 + len(WORDS), d_model=16, init_std=0.5, forced_eos_token_id=None, **sizes, **tokens
    )
    bart = Path(folder) / "bart"
    BartForConditionalGeneration(config).save_pretrained(bart)
    AutoTokenizer.from_pretrained(folder).save_pretrained(bart)
    expected = Translator(str(bart), longest=6, device=CPU)(SENTENCES)
    with second_device():
        translator = Translator(str(bart), longest=6)
        assert translator.model.device.type == DEVICE_TYPE
        assert translator(SENTENCES) == expected
    assert len(set(expected)) > 2


def measures_alike(method: str, folder: str) -> None:
    """A positive control has the same values on the device, in each of its spaces."""
    control, found = control_of(method), []
    options = {"layers": 2} if method == "l2p-csr" else {}  # the model has two
    twelve = [*SENTENCES, *map(str.upper, SENTENCES)][:12]  # CT needs nine and more
    texts = HeldOut(measured=twelve, fitting=twelve[::-1])
    for place in (CPU, THERE):
        with on(place):
            torch.manual_seed(5)
            model = load_sentence_transformer(folder, device=place)
            objective = METHODS[method](model, **options).to(place) if "head" in control.spaces else None
            run = FrozenRun(model, objective, folder)
            found.append({at: control.values(run, texts, 1, space=at, options=options) for at in control.spaces})
    for space in control.spaces:
        for name, expected in found[0][space].items():
            assert np.isfinite(expected).all(), name
            there = found[1][space][name]
            np.testing.assert_allclose(expected, there, rtol=1e-3, atol=1e-5, err_msg=f"{space}: {name}")
