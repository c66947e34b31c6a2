"""The share of the encoder's gradient that each method's own idea contributes, after a short training.

For a batch, g is the gradient of a method's loss with respect to the encoder's weights, g₀ that of the same batch, with
the same dropout, without the idea (`Objective.without_idea`); the share is ‖g − g₀‖ / ‖g‖. Before, each method is
trained with its default options for some steps, with one batch size and learning rate for all, because momentum
encoders, queues and learned negatives begin empty or equal. λF's share of the gradient at the sentence vectors,
V-advCSE's `gradient_share`, is printed beside.

    python benchmarks/idea_share.py --model DIR --corpus FILE [--methods v-advcse,adcse] [--steps 20] [--batches 4]
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainingArguments
from transformers import PrinterCallback, set_seed

from holdfast.data.corpus import read_corpus
from holdfast.encoder import Encoder, freeze_unused
from holdfast.input_limits import set_limit
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS, Objective, VAdvCSE
from holdfast.objectives.own_idea import encoder_gradient, idea_share
from holdfast.precision import auto_here
from holdfast.training.cpu import fast_on_cpu
from holdfast.training.method_options import method_options
from holdfast.training.trainer import HoldfastTrainer

MAX_TOKENS = 32


def shares(objective: Objective, batches: list[list[str]], bf16: bool) -> list[tuple[float, float | None]]:
    """The share of the idea in each batch, and the term's own ratio at the vectors where the method logs it."""
    found = []
    for batch in batches:
        features = [dict(objective.encoder.tokenise(batch))]
        with torch.autocast(objective.encoder.model.device.type, torch.bfloat16, enabled=bf16):
            share = idea_share(objective, features).item()
            if isinstance(objective, VAdvCSE):
                encoder_gradient(objective, features)
        ratio = objective.diagnostics.get("gradient_share")
        found.append((share, None if ratio is None else ratio.item()))
    return found


def trained(name: str, options: argparse.Namespace, sentences: list[str], bf16: bool) -> Objective:
    """The objective of a method after its steps."""
    set_seed(options.seed)
    model = load_sentence_transformer(options.model)
    set_limit(model, MAX_TOKENS)
    encoder = Encoder(model)
    freeze_unused(encoder, encoder.tokenise(["A sentence.", "Another one."]))
    method, _, preset = name.partition(":")
    given = dict(part.split("=", 1) for part in options.set)
    objective = METHODS[method](model, **method_options(method, preset or None, given))
    if not options.steps:
        model.train()
        return objective
    with tempfile.TemporaryDirectory() as folder, fast_on_cpu(objective):
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder,
            max_steps=options.steps,
            per_device_train_batch_size=options.batch_size,
            learning_rate=options.learning_rate,
            bf16=bf16,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=not torch.accelerator.is_available(),
            seed=options.seed,
        )
        data = Dataset.from_dict({"sentence": sentences})
        trainer = HoldfastTrainer(model=model, args=arguments, train_dataset=data, loss=objective)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    model.train()
    return objective


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--methods", default=",".join(METHODS), help="names, or name:preset")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the methods")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=3e-5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wanted = (options.steps + options.batches) * options.batch_size
    sentences = list(itertools.islice(read_corpus(options.corpus), wanted))
    training, held = sentences[: options.steps * options.batch_size], sentences[options.steps * options.batch_size :]
    batches = [held[n : n + options.batch_size] for n in range(0, len(held), options.batch_size)]
    bf16 = auto_here() == "bf16"
    print("| method | share of the idea, % | λF's share at the vectors, % | seconds |\n|---|---|---|---|", flush=True)
    for name in options.methods.split(","):
        if not METHODS[name.partition(":")[0]].OWN_IDEA:
            continue
        began = time.monotonic()
        found = shares(trained(name, options, training, bf16), batches, bf16)
        idea, ratios = [share for share, _ in found], [ratio for _, ratio in found if ratio is not None]
        print(f"| {name} | {spread(idea)} | {spread(ratios)} | {time.monotonic() - began:.0f} |", flush=True)


def spread(values: list[float]) -> str:
    """The median and the range, in percent."""
    if not values:
        return ""
    middle: Any = torch.tensor(values).median().item()
    return f"{100 * middle:.3g} ({100 * min(values):.3g}-{100 * max(values):.3g})"


if __name__ == "__main__":
    main()
