"""Time of one training step, as ratios: ours against the stock sentence-transformers recipe, interleaved in one run.

Every variant is trained by its real trainer for a few steps, in turn, for several rounds; a step is timed from the
end of one to the end of the next, so tokenising and logging count. Ratios are taken within a round, and the median
over rounds is reported with its range: the machine's mood changes between minutes, not between seconds.

    python benchmarks/train_step.py --model DIR --corpus FILE [--rounds 5] [--steps 8] [--batch-size 64] [--methods all]

The stock recipe is the one its documentation gives for unsupervised SimCSE: MultipleNegativesRankingLoss on pairs
(s, s), with the trainer's default arguments. The naive RobustEmbed (``--naive``) is the algorithm as one would first
write it with that trainer: fp32, both views encoded anew at each of the K = T = 5 steps, and the gradient of everything
taken. All variants cut at 32 tokens, pool [CLS], and see the same sentences.

On a GPU, variants of our SimCSE are added: with other attention, compiled, in fp16; what cannot be run is told, with
the reason.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch
from datasets import Dataset
from rich.console import Console
from rich.table import Table
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor, nn
from transformers import PrinterCallback, TrainerCallback

from claims import Claim, machine, save
from holdfast.data.corpus import read_corpus
from holdfast.encoder import Encoder, freeze_unused
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS
from holdfast.objectives.contrastive import info_nce
from holdfast.objectives.heads import Head
from holdfast.precision import auto_here
from holdfast.training.cpu import fast_on_cpu
from holdfast.training.trainer import HoldfastTrainer

MAX_TOKENS = 32
BOUNDS = {"v-advcse": 1.25, "robustembed": 3.5, "adcse": 0.9, "l2p-csr": 3.8}
"""At most so many of our SimCSE steps."""
FLOORS = {
    "robustembed": "3.17: a SimCSE step is 6 forward passes of a batch, each of the 5 inner steps 2, the end 9",
    "l2p-csr": "3.67: a SimCSE step is 6 forward passes of a batch, each of the 4 inner steps 4, the end 6",
}
COMPUTE = "the matrix products alone: see RESULTS.md"
NAIVE = "2.05 times the first ratio: 39 forward passes' worth of a batch against 19"

Precision = Literal["fp32", "bf16", "fp16"]


class StepTimes(TrainerCallback):
    """Seconds from the end of a step to the end of the next."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = 0.0

    def on_step_end(self, *_: Any, **__: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
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


class NaiveRobustEmbed(nn.Module):
    """RobustEmbed as one would first write it; K = T = 5, the other constants as by default."""

    STEPS, PGD, FGSM, MIX, RADIUS, GAMMA, TEMPERATURE = 5, 1e-5, 1e-3, 0.5, 5e-3, 1 / 128, 0.05

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model
        dimension = model.get_embedding_dimension()
        assert dimension is not None
        self.head = Head(dimension)

    def forward(self, sentence_features: Any, labels: Tensor | None = None) -> Tensor:
        (features,) = sentence_features
        words = self.model.transformers_model.get_input_embeddings()(features["input_ids"])
        delta = torch.randn_like(words) * self.RADIUS / 10
        for _ in range(self.STEPS):
            delta = self.climbed(features, words.detach(), delta.detach().requires_grad_())
        z, positive = self.encode(features), self.encode(features)
        adversarial = self.encode(features, words + delta)
        adversarial_term = info_nce(adversarial, [positive], temperature=self.TEMPERATURE)
        return info_nce(z, [positive, adversarial], temperature=self.TEMPERATURE) + self.GAMMA * adversarial_term

    def climbed(self, features: dict[str, Any], words: Tensor, delta: Tensor) -> Tensor:
        """One step: both views encoded, and the gradient of everything, of which δ's is used."""
        loss = info_nce(self.encode(features, words + delta), [self.encode(features)], temperature=self.TEMPERATURE)
        loss.backward()
        slope = delta.grad
        assert slope is not None
        self.zero_grad()
        largest = slope.abs().amax(dim=(1, 2), keepdim=True).clamp(min=1e-12)
        pgd = (delta + self.PGD * slope / largest).clamp(-self.RADIUS, self.RADIUS)
        fgsm = (delta + self.FGSM * slope.sign()).clamp(-self.RADIUS, self.RADIUS)
        return self.MIX * pgd + (1 - self.MIX) * fgsm

    def encode(self, features: dict[str, Any], embeddings: Tensor | None = None) -> Tensor:
        given = dict(features)
        if embeddings is not None:
            del given["input_ids"]
            given["inputs_embeds"] = embeddings
        return self.head(self.model(given)["sentence_embedding"])


def naive(model: SentenceTransformer, sentences: list[str], folder: str, batch_size: int, steps: int) -> float:
    data = Dataset.from_dict({"sentence": sentences})
    trainer = SentenceTransformerTrainer(
        model, arguments(folder, steps, batch_size), train_dataset=data, loss=NaiveRobustEmbed(model)
    )
    return run(trainer)


def ours(
    model: SentenceTransformer,
    sentences: list[str],
    folder: str,
    batch_size: int,
    steps: int,
    method: str,
    precision: Precision,
    **more: Any,
) -> float:
    changes = {
        "bf16": precision == "bf16",
        "fp16": precision == "fp16",
        "optim": "adamw_torch_fused",
        "dataloader_drop_last": True,
        "logging_nan_inf_filter": False,
        **more,
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
    path: str, sentences: list[str], batch_size: int, steps: int, methods: list[str], *, with_naive: bool
) -> dict[str, Callable[[str], float]]:
    """Each variant as a function of a scratch folder.

    Models are loaded once for each precision: Accelerate prepares a model for that of its first trainer, and no more.
    """
    best = auto_here()
    theirs: dict[Precision, SentenceTransformer] = {"fp32": load(path), "bf16": load(path)}
    mine: dict[Precision, SentenceTransformer] = {"fp32": load(path), "bf16": load(path)}
    for model in mine.values():
        encoder = Encoder(model)
        freeze_unused(encoder, encoder.tokenise(sentences[:2]))
    size = (batch_size, steps)
    made: dict[str, Callable[[str], float]] = {
        "stock fp32 (its default)": lambda f: stock(theirs["fp32"], sentences, f, *size, bf16=False),
        "stock bf16": lambda f: stock(theirs["bf16"], sentences, f, *size, bf16=True),
        "simcse fp32": lambda f: ours(mine["fp32"], sentences, f, *size, "simcse", "fp32"),
        "simcse bf16": lambda f: ours(mine["bf16"], sentences, f, *size, "simcse", "bf16"),
    }
    for method in methods:
        made[method] = lambda f, m=method: ours(mine[best], sentences, f, *size, m, best)
    if with_naive:
        made["naive robustembed"] = lambda f: naive(theirs["fp32"], sentences, f, *size)
    return made


def gpu_variants(
    path: str, sentences: list[str], batch_size: int, steps: int
) -> tuple[dict[str, Callable[[str], float]], dict[str, str]]:
    """Variants of our SimCSE that need a GPU, and why those that cannot be run cannot."""
    ways: dict[str, tuple[str | None, Precision, dict[str, Any]]] = {
        "simcse bf16, eager attention": ("eager", "bf16", {}),
        "simcse bf16, sdpa": ("sdpa", "bf16", {}),
        "simcse bf16, flash attention 2": ("flash_attention_2", "bf16", {}),
        "simcse bf16, compiled": ("sdpa", "bf16", {"torch_compile": True}),
        "simcse fp16": ("sdpa", "fp16", {}),
    }
    if not torch.cuda.is_available():
        return {}, dict.fromkeys(ways, "no CUDA device")
    made: dict[str, Callable[[str], float]] = {}
    missing: dict[str, str] = {}
    for name, (attention, precision, more) in ways.items():
        model = load(path)
        encoder = Encoder(model)
        freeze_unused(encoder, encoder.tokenise(sentences[:2]))
        try:
            model.transformers_model.set_attn_implementation(attention)
        except (ImportError, ValueError) as error:
            missing[name] = str(error).splitlines()[0]
            continue
        made[name] = lambda f, m=model, p=precision, x=more: ours(m, sentences, f, batch_size, steps, "simcse", p, **x)
    return made, missing


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
    parser.add_argument("--naive", action="store_true", help="also a naive RobustEmbed, which takes its time")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    sentences = list(itertools.islice(read_corpus(options.corpus), options.steps * options.batch_size))
    methods = [name for name in METHODS if name != "simcse"] if options.methods == "all" else options.methods.split(",")
    size = (options.batch_size, options.steps)
    made = variants(options.model, sentences, *size, methods, with_naive=options.naive)
    on_gpu, missing = gpu_variants(options.model, sentences, *size)
    seconds: dict[str, list[float]] = {name: [] for name in {**made, **on_gpu}}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name, step in {**made, **on_gpu}.items():
                if name in missing:
                    continue
                try:
                    seconds[name].append(step(folder))
                except Exception as error:
                    if name not in on_gpu:
                        raise
                    missing[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    report({name: values for name, values in seconds.items() if name not in missing}, missing, options.json)


def claims_of(seconds: dict[str, list[float]]) -> list[Claim]:
    best = auto_here()
    worse = "fp32" if best == "bf16" else "bf16"
    default, other = f"simcse {best}", f"simcse {worse}"
    first = "stock fp32 (its default)"
    claims = [
        Claim(
            "stock SimCSE at its defaults / our SimCSE at its own", ratios(seconds, first, default), 3.5, floor=COMPUTE
        ),
        Claim("stock SimCSE / our SimCSE, both fp32", ratios(seconds, first, "simcse fp32"), 1.4, floor=COMPUTE),
        Claim("stock SimCSE / our SimCSE, both bf16", ratios(seconds, "stock bf16", "simcse bf16"), 1.4),
        Claim(f"our SimCSE in {worse} / in {best}, which auto means", ratios(seconds, other, default), 1.0),
    ]
    for name in METHODS:
        if name in seconds:
            values = ratios(seconds, name, default)
            claims.append(Claim(f"{name} / our SimCSE", values, at_most=BOUNDS.get(name), floor=FLOORS.get(name, "")))
    if "naive robustembed" in seconds and "robustembed" in seconds:
        values = ratios(seconds, "naive robustembed", "robustembed")
        claims.append(Claim("naive RobustEmbed / ours", values, 6.0, floor=NAIVE))
    variants = [name for name in seconds if name.startswith("simcse") and name not in (default, other)]
    return claims + [Claim(f"{name} / our SimCSE", ratios(seconds, name, default)) for name in variants]


def report(seconds: dict[str, list[float]], missing: dict[str, str], path: Path | None) -> None:
    console = Console()
    table = Table("variant", "median ms a step", title="one training step")
    for name, values in seconds.items():
        table.add_row(name, f"{statistics.median(values) * 1e3:.0f}")
    console.print(table)
    claims = claims_of(seconds)
    table = Table("ratio", "median", "range", "bound", title="ratios, within a round")
    for claim in claims:
        table.add_row(claim.name, f"{claim.value:.2f}", f"{min(claim.values):.2f}-{max(claim.values):.2f}", claim.bound)
    console.print(table)
    for name, why in missing.items():
        console.print(f"not run: {name}: {why}", highlight=False)
    console.print(machine())
    if path:
        save(path, claims, seconds=seconds, missing=missing)


if __name__ == "__main__":
    main()
