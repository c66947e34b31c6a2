"""Time of one training step, as ratios: ours against the stock sentence-transformers recipe, interleaved in one run.

Every variant is trained by its real trainer for a few steps, in turn, for several rounds; a step is timed from the
end of one to the end of the next, so tokenising and logging count. Ratios are taken within a round, and the median
over rounds is reported with its range: the machine's mood changes between minutes, not between seconds.

    python benchmarks/train_step.py --model DIR --corpus FILE [--rounds 5] [--steps 8] [--batch-size 64] [--methods all]

The stock recipe is the one its documentation gives for unsupervised SimCSE: MultipleNegativesRankingLoss on pairs
(s, s), with the trainer's default arguments. All variants cut at 32 tokens, pool [CLS], and see the same sentences.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from rich.console import Console
from rich.table import Table
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import PrinterCallback, TrainerCallback

from holdfast.data.corpus import read_corpus
from holdfast.encoder import Encoder, freeze_unused
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS
from holdfast.precision import bf16_is_fast
from holdfast.training.cpu import fast_on_cpu
from holdfast.training.trainer import HoldfastTrainer

MAX_TOKENS = 32


class StepTimes(TrainerCallback):
    """Seconds from the end of a step to the end of the next."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = 0.0

    def on_step_end(self, *_: Any, **__: Any) -> None:
        now = time.perf_counter()
        if self._last:
            self.seconds.append(now - self._last)
        self._last = now


def arguments(folder: str, steps: int, batch_size: int, **changes: Any) -> SentenceTransformerTrainingArguments:
    """The trainer's defaults but for what a benchmark must fix."""
    return SentenceTransformerTrainingArguments(
        output_dir=folder,
        max_steps=steps,
        per_device_train_batch_size=batch_size,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        **changes,
    )


def run(trainer: SentenceTransformerTrainer) -> float:
    """Train, and return the median seconds of a step; the first step warms up."""
    times = StepTimes()
    trainer.add_callback(times)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return statistics.median(times.seconds)


def stock(
    model: SentenceTransformer, sentences: list[str], folder: str, batch_size: int, steps: int, bf16: bool
) -> float:
    data = Dataset.from_dict({"anchor": sentences, "positive": sentences})
    trainer = SentenceTransformerTrainer(
        model,
        arguments(folder, steps, batch_size, bf16=bf16),
        train_dataset=data,
        loss=MultipleNegativesRankingLoss(model),
    )
    return run(trainer)


def ours(
    model: SentenceTransformer, sentences: list[str], folder: str, batch_size: int, steps: int, method: str, bf16: bool
) -> float:
    changes = {
        "bf16": bf16,
        "optim": "adamw_torch_fused",
        "dataloader_drop_last": True,
        "logging_nan_inf_filter": False,
    }
    objective = METHODS[method](model)
    with fast_on_cpu(objective):
        trainer = HoldfastTrainer(
            model=model,
            args=arguments(folder, steps, batch_size, **changes),
            train_dataset=Dataset.from_dict({"sentence": sentences}),
            loss=objective,
        )
        return run(trainer)


def load(path: str) -> SentenceTransformer:
    model = load_sentence_transformer(path, pooling="cls")
    model.max_seq_length = MAX_TOKENS
    return model


def variants(
    path: str, sentences: list[str], batch_size: int, steps: int, methods: list[str]
) -> dict[str, Callable[[str], float]]:
    """Each variant as a function of a scratch folder. Models are loaded once."""
    fast = bf16_is_fast(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    theirs, mine = load(path), load(path)
    encoder = Encoder(mine)
    freeze_unused(encoder, encoder.tokenise(sentences[:2]))
    made: dict[str, Callable[[str], float]] = {
        "stock fp32 (its default)": lambda f: stock(theirs, sentences, f, batch_size, steps, bf16=False),
        "simcse fp32": lambda f: ours(mine, sentences, f, batch_size, steps, "simcse", bf16=False),
    }
    if fast:
        made["stock bf16"] = lambda f: stock(theirs, sentences, f, batch_size, steps, bf16=True)
        made["simcse bf16 (our default)"] = lambda f: ours(mine, sentences, f, batch_size, steps, "simcse", bf16=True)
    for method in methods:
        made[method] = lambda f, m=method: ours(mine, sentences, f, batch_size, steps, m, bf16=fast)
    return made


def ratios(seconds: dict[str, list[float]], above: str, below: str) -> list[float]:
    return [a / b for a, b in zip(seconds[above], seconds[below], strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a masked LM: folder or hub name")
    parser.add_argument("--corpus", required=True, help="sentences, as for `holdfast train`")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8, help="steps of each variant in a round")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--methods", default="robustembed", help="joined by commas, or all: beside SimCSE")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    sentences = list(itertools.islice(read_corpus(options.corpus), options.steps * options.batch_size))
    methods = [name for name in METHODS if name != "simcse"] if options.methods == "all" else options.methods.split(",")
    made = variants(options.model, sentences, options.batch_size, options.steps, methods)
    seconds: dict[str, list[float]] = {name: [] for name in made}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name, step in made.items():
                seconds[name].append(step(folder))
    report(seconds, options.json)


def report(seconds: dict[str, list[float]], path: Path | None) -> None:
    names = list(seconds)
    default = next((name for name in names if "our default" in name), "simcse fp32")
    claims = {
        "stock default / our SimCSE default": ratios(seconds, names[0], default),
        "stock fp32 / our SimCSE fp32": ratios(seconds, names[0], "simcse fp32"),
    }
    claims |= {f"{name} / our SimCSE": ratios(seconds, name, default) for name in METHODS if name in seconds}
    if "stock bf16" in seconds:
        claims["stock bf16 / our SimCSE bf16"] = ratios(seconds, "stock bf16", default)
    console = Console()
    table = Table("variant", "median ms a step", title="one training step")
    for name, values in seconds.items():
        table.add_row(name, f"{statistics.median(values) * 1e3:.0f}")
    console.print(table)
    table = Table("ratio", "median", "range", title="ratios, within a round")
    for name, values in claims.items():
        table.add_row(name, f"{statistics.median(values):.2f}", f"{min(values):.2f}-{max(values):.2f}")
    console.print(table)
    console.print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}")
    if path:
        path.write_text(json.dumps({"seconds": seconds, "ratios": claims}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
