"""Run by test_device_objectives.py in a process of its own: training on the second device beside training on the CPU.

Each function is called with words: folders, and the name of a variant.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from places import CPU, THERE, on
from second_device import DEVICE_TYPE, numbers, on_device, register, second_device
from sentence_transformers import SentenceTransformerTrainingArguments
from transformers import set_seed
from variants import VARIANTS, Variant

from conftest import SENTENCES
from holdfast.encoder import Encoder, freeze_unused
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS, Objective
from holdfast.training.trainer import HoldfastTrainer

register()

STEPS, SAVED_AT = 2, 1


def made(variant: Variant, model_folder: str, lm_folder: str, place: str) -> tuple[Any, Objective]:
    """A model on a device, and the variant's objective."""
    set_seed(3)
    model = load_sentence_transformer(model_folder, pooling=variant.pooling, device=place)
    if not variant.bf16:  # where a gradient is nothing but rounding, Adam makes a whole step of it: so small rounding
        model = model.double()
    options = {name: lm_folder if value == "LM" else value for name, value in variant.options.items()}
    objective = METHODS[variant.method](model, **options)
    return model, objective if variant.bf16 else objective.double()


def train(
    variant: Variant, folders: tuple[str, str], place: str, output: Path, *, start: Path | None = None
) -> dict[str, Any]:
    """Two steps, or the last of them from a checkpoint: what was logged, and all numbers at the end."""
    with on(place):
        model, objective = made(variant, *folders, place)
        encoder = Encoder(model)
        freeze_unused(encoder, encoder.tokenise(SENTENCES[:2]))
        columns = {"sentence": SENTENCES, "positive": SENTENCES[1:] + SENTENCES[:1]}
        arguments = SentenceTransformerTrainingArguments(
            str(output),
            max_steps=STEPS,
            per_device_train_batch_size=variant.batch_size,
            learning_rate=1e-3,
            optim="adamw_torch_fused",
            bf16=variant.bf16,
            use_cpu=place == CPU,
            logging_steps=1,
            logging_nan_inf_filter=False,
            save_strategy="steps",
            save_steps=SAVED_AT,
            seed=3,
            report_to="none",
            disable_tqdm=True,
        )
        trainer = HoldfastTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict({name: columns[name] for name in variant.columns}),
            loss=objective,
            keep_checkpoints=3,
        )
        assert str(trainer.args.device).startswith(place), trainer.args.device
        trainer.train_from(start)
        left_out = {"train_runtime", "train_loss", "epoch", "step", "attack_seconds"}
        logged = [
            {name: value for name, value in entry.items() if name not in left_out and "per_second" not in name}
            for entry in trainer.state.log_history
        ]
        for name, parameter in objective.named_parameters():
            assert parameter.device.type == torch.device(place).type, name
        return {"log": logged, "state": {name: numbers(value) for name, value in objective.state_dict().items()}}


def same(first: dict[str, Any], second: dict[str, Any], tolerance: float) -> None:
    """Two trainings came to the same."""
    assert len(first["log"]) == len(second["log"])
    assert any(entry.get("loss") for entry in first["log"])
    for one, other in zip(first["log"], second["log"], strict=True):
        assert one.keys() == other.keys()
        torch.testing.assert_close(one, other, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(first["state"], second["state"], atol=tolerance, rtol=tolerance)


def trains_alike(name: str, model_folder: str, lm_folder: str, output: str) -> None:
    """The device's numbers are the CPU's; and each goes on from the other's checkpoint to the same end."""
    variant, folders, folder = VARIANTS[name], (model_folder, lm_folder), Path(output)
    cpu = train(variant, folders, CPU, folder / "cpu")
    there = train(variant, folders, THERE, folder / "there")
    same(cpu, there, variant.tolerance)
    before = untrained(variant, folders)
    assert any(not torch.equal(value, before[key]) for key, value in cpu["state"].items()), "nothing was learnt"
    if name != variant.method:  # another way through a method that is resumed below
        return
    checkpoint = f"checkpoint-{SAVED_AT}"
    back = train(variant, folders, CPU, folder / "back", start=folder / "there" / checkpoint)
    same(cpu, back, variant.tolerance)
    over = train(variant, folders, THERE, folder / "over", start=folder / "cpu" / checkpoint)
    same(there, over, variant.tolerance)


def untrained(variant: Variant, folders: tuple[str, str]) -> dict[str, Any]:
    """All numbers before training."""
    _, objective = made(variant, *folders, CPU)
    return {name: value.clone() for name, value in objective.state_dict().items()}


def waits_of_a_step(name: str, model_folder: str, lm_folder: str) -> None:
    """Print what the CPU waits for in a step after the first: forward, backward and what follows the optimiser."""
    variant = VARIANTS[name]
    with second_device() as waits:
        _, objective = made(variant, model_folder, lm_folder, THERE)
        objective = objective.to(DEVICE_TYPE).train()
        objective.followed_by_trainer = True
        encoder = objective.encoder
        columns = [SENTENCES, SENTENCES[1:] + SENTENCES[:1]][: len(variant.columns)]
        features = [on_device(encoder.tokenise(column)) for column in columns]
        for _ in range(2):
            waits.clear()
            terms = objective(features)
            torch.stack(list(terms.values())).sum().backward()
            objective.follow()
        print(waits.describe())
        print(f"total {waits.total}")
