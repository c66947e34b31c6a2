"""One step of a hardening: the loss before it was changed, the default now, and the default with what can be added.

Each variant is trained by its real trainer for a few steps, in turn, for several rounds; a step is timed from the end
of one to the end of the next, so tokenising and the changes of the texts count. The time is *process CPU time*, which
other work on the machine does not count into. Ratios are taken within a round, and the median over the rounds is
reported with its range. All variants cut at 64 tokens and see the same sentences.

    python benchmarks/harden_step.py --model ENCODER --corpus FILE [--rounds 3] [--steps 4] [--batch-size 64]
        [--threads 1] [--precisions bf16,fp32]

The loss before: both forms of each sentence, the worst of four draws of uniform changes, no relations, no synonyms. Its
rate, 1e-4, costs nothing. With cached vectors, those of the clean sentences are labels (`holdfast harden --vectors`)
and no pass computes them; here they are random, which costs the same, like the bank's 20,000. The entries of the
vocabulary are made-up strings. SimCSE with the same batch is the unit of `Anchored.COST`.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import string
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from rich.console import Console
from rich.table import Table
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from transformers import PrinterCallback, TrainerCallback

from claims import Claim, machine, save
from holdfast.data.corpus import read_corpus
from holdfast.encoder import Encoder, freeze_unused
from holdfast.hardening.added_vocabulary import add_typo_vocabulary, whole_words
from holdfast.hardening.harden_settings import EDITS, MAX_LENGTH
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS
from holdfast.training.cpu import fast_on_cpu
from holdfast.training.teacher_vectors import TeacherVectors
from holdfast.training.trainer import HoldfastTrainer

BEFORE = {"forms": "both", "relations": 0.0, "tries": 4, "edits": "key,swap,drop,space,case"}
NOW = {"edits": ",".join(EDITS)}
ENTRIES = 30_000
BOUND = 0.4
"""Of the time before, at most."""

SIMCSE, OLD, DEFAULT, CACHED, WITH_ENTRIES = (
    *("SimCSE", "anchored before", "anchored now", "anchored now, cached vectors"),
    f"anchored now, cached vectors, {ENTRIES:,} misspellings",
)


class StepTimes(TrainerCallback):
    """CPU seconds from the end of a step to the end of the next."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = 0.0

    def on_step_end(self, *_: Any, **__: Any) -> None:
        now = time.process_time()
        if self._last:
            self.seconds.append(now - self._last)
        self._last = now


def load(path: str, entries: int) -> SentenceTransformer:
    model = load_sentence_transformer(path)
    model.max_seq_length = MAX_LENGTH
    if entries:
        letters = itertools.product(string.ascii_lowercase, repeat=5)
        words = itertools.cycle(sorted(whole_words(model)))
        add_typo_vocabulary(model, {f"zqx{''.join(each)}": next(words) for each in itertools.islice(letters, entries)})
    return model


def step_of(
    model: SentenceTransformer, sentences: list[str], given: argparse.Namespace, precision: str, variant: str
) -> float:
    """Train a few steps, and return the median seconds of one; the first warms up."""
    draw = np.random.default_rng(0).standard_normal((len(sentences), model.get_embedding_dimension() or 0))
    vectors = None
    if variant == SIMCSE:
        objective = METHODS["simcse"](model)
    else:
        objective = METHODS["anchored"](model, **(BEFORE if variant == OLD else NOW))
        if variant in (CACHED, WITH_ENTRIES):
            objective.use_labels()
            vectors = TeacherVectors(Path("random"), draw.astype(np.float16))
        if wanted := objective.WANTED_TEXTS:
            objective.see_texts([], torch.randn(wanted, draw.shape[1]))
    times = StepTimes()
    with tempfile.TemporaryDirectory() as folder, fast_on_cpu(objective):
        arguments = SentenceTransformerTrainingArguments(
            folder,
            max_steps=given.steps,
            per_device_train_batch_size=given.batch_size,
            bf16=precision == "bf16",
            use_cpu=True,
            optim="adamw_torch_fused",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        data = Dataset.from_dict({"sentence": sentences})
        trainer = HoldfastTrainer(model=model, args=arguments, train_dataset=data, loss=objective, vectors=vectors)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(times)
        trainer.train()
    return statistics.median(times.seconds)


def claims_of(seconds: dict[str, dict[str, list[float]]]) -> list[Claim]:
    claims = []
    for precision, of in seconds.items():
        pairs = [(DEFAULT, OLD), (CACHED, OLD), (WITH_ENTRIES, OLD), (OLD, SIMCSE), (DEFAULT, SIMCSE)]
        for above, below in pairs:
            ratios = [a / b for a, b in zip(of[above], of[below], strict=True)]
            bound = BOUND if below == OLD else None
            claims.append(Claim(f"{above} / {below}, {precision}", ratios, at_most=bound, unit="CPU"))
    return claims


def report(seconds: dict[str, dict[str, list[float]]], path: Path | None) -> None:
    console = Console()
    table = Table("variant", *(f"{precision}, median ms of CPU" for precision in seconds), title="one training step")
    for variant in (SIMCSE, OLD, DEFAULT, CACHED, WITH_ENTRIES):
        table.add_row(variant, *(f"{statistics.median(of[variant]) * 1e3:.0f}" for of in seconds.values()))
    console.print(table)
    claims = claims_of(seconds)
    table = Table("ratio", "median", "range", "bound", title="ratios, within a round")
    for claim in claims:
        table.add_row(claim.name, f"{claim.value:.2f}", f"{min(claim.values):.2f}-{max(claim.values):.2f}", claim.bound)
    console.print(table)
    console.print(machine())
    if path:
        save(path, claims, seconds=seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="the encoder that is hardened")
    parser.add_argument("--corpus", required=True, help="sentences, as for `holdfast harden`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4, help="steps of each variant in a round")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precisions", default="bf16,fp32")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    sentences = list(itertools.islice(read_corpus(given.corpus), given.steps * given.batch_size))
    variants = (SIMCSE, OLD, DEFAULT, CACHED, WITH_ENTRIES)
    precisions = given.precisions.split(",")
    # A model for each precision: Accelerate prepares it for that of its first trainer, and no more.
    models = {(each, entries): load(given.model, entries) for each in precisions for entries in (0, ENTRIES)}
    for model in models.values():
        encoder = Encoder(model)
        freeze_unused(encoder, encoder.tokenise(sentences[:2]))
    seconds: dict[str, dict[str, list[float]]] = {each: {name: [] for name in variants} for each in precisions}
    for number in range(given.rounds):
        for precision, of in seconds.items():
            for variant in variants:
                model = models[precision, ENTRIES if variant == WITH_ENTRIES else 0]
                of[variant].append(step_of(model, sentences, given, precision, variant))
        print(f"round {number + 1} of {given.rounds}", flush=True)
        if given.json:
            save(given.json, claims_of(seconds), seconds=seconds)
    report(seconds, given.json)


if __name__ == "__main__":
    main()
