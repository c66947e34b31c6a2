"""One training step in mini-batches whose activations are computed again, beside the same step in one pass.

Each variant makes forward and backward passes of the same sentences in turn, for several rounds; the first step of each
warms up. The time is *process CPU time*, which other work on the machine does not count into. Ratios are taken within a
round, and the median over the rounds is reported with its range. A step in one pass is three forward passes of a batch
(one forward, two backward), one that computes again is four: the floor of the ratio is 1.33 where passes cost the same
at any size.

    python benchmarks/grad_cache_step.py --model ENCODER --corpus FILE [--methods simcse] [--rounds 5]
        [--batch-size 64] [--mini-batch-size 16] [--max-length 32] [--threads 1]
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from claims import Claim, machine, save
from holdfast.data.corpus import read_corpus
from holdfast.encoder import Encoder, freeze_unused
from holdfast.models import load_sentence_transformer
from holdfast.objectives import METHODS, Objective
from holdfast.training.cpu import fast_on_cpu

FLOOR = "1.33: a step is 3 forward passes' worth of a batch, and 4 where they are made again"
BOUND = 1.6


def step_of(objective: Objective, sentences: list[str]) -> float:
    """Make a forward and a backward pass, and return the CPU seconds."""
    encoder = Encoder(objective.model)
    features = dict(encoder.tokenise(sentences))
    begin = time.process_time()
    torch.stack(list(objective([features]).values())).sum().backward()
    seconds = time.process_time() - begin
    objective.zero_grad(set_to_none=True)
    return seconds


def seconds_of(given: argparse.Namespace, method: str) -> dict[str, list[float]]:
    """Return the seconds of a step by variant, in each round."""
    model = load_sentence_transformer(given.model, device="cpu")
    model.max_seq_length = given.max_length
    encoder = Encoder(model)
    freeze_unused(encoder, encoder.tokenise(["one sentence", "another"]))
    variants = {}
    for name, size in (("plain", None), ("mini-batches", given.mini_batch_size)):
        torch.manual_seed(0)
        objective = METHODS[method](model).train()
        model.train()
        if size is not None:
            objective.use_mini_batches(size)
        variants[name] = objective
    lines = read_corpus(given.corpus)
    found: dict[str, list[float]] = {name: [] for name in variants}
    for number in range(given.rounds + 1):
        sentences = list(itertools.islice(lines, given.batch_size))
        for name, objective in variants.items():
            with fast_on_cpu(objective):
                seconds = step_of(objective, sentences)
            if number:
                found[name].append(seconds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="an encoder or a masked LM")
    parser.add_argument("--corpus", required=True, help="sentences, as for `holdfast train`")
    parser.add_argument("--methods", default="simcse", help="joined by commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--mini-batch-size", type=int, default=16, help="rows of a pass")
    parser.add_argument("--max-length", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    claims, every = [], {}
    for method in given.methods.split(","):
        every[method] = seconds_of(given, method)
        ratios = [a / b for a, b in zip(every[method]["mini-batches"], every[method]["plain"], strict=True)]
        claims.append(Claim(f"{method}: mini-batches / plain", ratios, at_most=BOUND, floor=FLOOR, unit="CPU"))
    console = Console()
    title = f"a step of {given.batch_size} sentences, {given.mini_batch_size} rows a pass"
    table = Table("ratio", "median", "range", "bound", title=title)
    for claim in claims:
        table.add_row(claim.name, f"{claim.value:.2f}", f"{min(claim.values):.2f}-{max(claim.values):.2f}", claim.bound)
    console.print(table)
    console.print(machine())
    if given.json:
        save(given.json, claims, seconds=every)


if __name__ == "__main__":
    main()
