"""Time of one fine-tuning step with each defence, as a ratio to an undefended one, interleaved in one run.

Every defence is trained by the real trainer for a few steps on the same texts, in turn, for several rounds; a step is
timed from the end of one to the end of the next. Ratios are taken within a round, and the median over rounds is
reported with its range: the machine's mood changes between minutes, not between seconds. All are as by default, but
that adv attacks from its first step: a clean one is an undefended one. adv's time depends on the model, on how much
there is to exchange and how soon a text deceives; with a new head about half of the texts are wrong and not attacked.

    python benchmarks/finetune_defences.py --model LM --data DATA [--task sst2] [--rounds 5] [--steps 6]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from transformers import PrinterCallback, TrainingArguments

from claims import Claim, machine, save
from holdfast.classifiers.classifier_trainer import ClassifierTrainer
from holdfast.classifiers.defences import DEFENCES, make_defence
from holdfast.classifiers.initial_model import new_classifier
from holdfast.classifiers.training_data import TrainingData, load_training_data
from holdfast.precision import bf16_is_fast
from holdfast.training.cpu import fast_on_cpu
from train_step import StepTimes

OPTIONS = {"adv": {"clean_epochs": 0.0}}
MAX_TOKENS = 128


def step(model: Any, tokenizer: Any, material: TrainingData, name: str, arguments: dict[str, Any]) -> float:
    """Train with a defence, and return the median seconds of a step; the first step warms up."""
    fast = bf16_is_fast(model.device) and not DEFENCES[name].NEEDS_FP32
    trainer = ClassifierTrainer(
        model=model,
        tokenizer=tokenizer,
        defence=make_defence(name, OPTIONS.get(name, {})),
        train=material.train,
        dev=material.dev.rows(range(2)),
        max_length=tokenizer.model_max_length,
        precision="fp32",
        args=TrainingArguments(**arguments, bf16=fast, use_cpu=model.device.type == "cpu"),
    )
    times = StepTimes()
    trainer.add_callback(times)
    trainer.remove_callback(PrinterCallback)
    with fast_on_cpu(model):
        trainer.train()
    return statistics.median(times.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a masked LM: folder or hub name")
    parser.add_argument("--data", type=Path, help="the folder of labelled data")
    parser.add_argument("--task", default="sst2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6, help="steps of each defence in a round")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--defences", default=",".join(DEFENCES), help="joined by commas; none is always there")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    names = list(dict.fromkeys(["none", *options.defences.split(",")]))
    texts = options.steps * options.batch_size
    material = load_training_data(options.task, train_split=None, examples=texts, seed=0, data=options.data)
    # One for each defence: Accelerate prepares a model for the precision of its first trainer, and some need fp32.
    made = {name: new_classifier(options.model, material, MAX_TOKENS) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        arguments = {
            "output_dir": folder,
            "max_steps": options.steps,
            "per_device_train_batch_size": options.batch_size,
            "learning_rate": 2e-5,
            "optim": "adamw_torch_fused",
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
            "remove_unused_columns": False,
        }
        for _ in range(options.rounds):
            for name in names:
                model, tokenizer = made[name].model, made[name].tokenizer
                seconds[name].append(step(model, tokenizer, material, name, arguments))
    report(seconds, options.json)


def report(seconds: dict[str, list[float]], path: Path | None) -> None:
    console = Console()
    table = Table("defence", "median ms a step", "ratio to none", "range", title="one fine-tuning step")
    for name, values in seconds.items():
        ratios = [mine / none for mine, none in zip(values, seconds["none"], strict=True)]
        row = (f"{statistics.median(values) * 1e3:.0f}", f"{statistics.median(ratios):.2f}")
        table.add_row(name, *row, f"{min(ratios):.2f}-{max(ratios):.2f}")
    console.print(table)
    console.print(machine())
    if path:
        claims = [
            Claim(f"fine-tuning step with {name} / none", [a / b for a, b in zip(mine, seconds["none"], strict=True)])
            for name, mine in seconds.items()
            if name != "none"
        ]
        save(path, claims, seconds=seconds)


if __name__ == "__main__":
    main()
