"""An attack whose search runs on a cheaper form of the encoder, against the search in fp32 torch.

The search in fp32 torch has full batches of distinct texts, sorted by length and padded to the longest of a
batch. Each form searches for the same attacks in every round, and each success is confirmed in fp32 torch. The ratio of
each round is taken, and the median printed, with the share of texts whose outcome is the same as in torch.

    python benchmarks/search_backend.py --model MODEL --data DIR [--recipe pwws] [--examples 40] [--rounds 3]
        [--backends onnx,onnx-int8,onnx-int8-rows,openvino,openvino-bf16] [--json FILE]

Seconds of this process's CPU are compared: other work on the machine does not count into them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from claims import Claim, machine, save
from holdfast.attacks.encoder_targets import DriftTarget, halfway
from holdfast.attacks.engine import Engine
from holdfast.attacks.examples import Attempt, Example
from holdfast.attacks.recipe_choice import make_recipes
from holdfast.attacks.resource_names import SETS
from holdfast.attacks.resources import Resources
from holdfast.backends.backend_options import BACKENDS, Backend
from holdfast.evaluation.sts import load_sts
from holdfast.models import load_sentence_transformer

BF16 = "torch, bf16"
"""The search with --precision bf16, in the same model."""
FLOOR = "the texts are made, tokenised and compared at the same cost in every form"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a sentence encoder: folder, hub name, pypi:...")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--recipe", default="pwws")
    parser.add_argument("--examples", type=int, default=40, help="sentences of STS-B")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backends", default=",".join(name for name in BACKENDS if name != "torch"))
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    sentences = list(dict.fromkeys(load_sts("stsb", data=options.data).sentences))[: options.examples]
    names = ["torch", *options.backends.split(",")]
    forms = {
        name: load_sentence_transformer(options.model, device="cpu", backend=Backend.parse(name)) for name in names
    }
    resources = Resources(SETS["light"], data=options.data, device="cpu")
    examples = [Example(number, (text,)) for number, text in enumerate(sentences)]
    threshold = halfway(DriftTarget(forms["torch"], source=options.model, threshold=0.0), sentences)
    used: dict[str, list[float]] = {name: [] for name in [*names, BF16]}
    found: dict[str, list[Attempt]] = {}
    for _ in range(options.rounds):
        for name in used:
            target = DriftTarget(forms["torch"], source=options.model, threshold=threshold)
            target.search_model = forms.get(name) if name != "torch" else None
            began = time.process_time()
            found[name] = attacked(target, resources, options.recipe, examples, cheap=name != "torch")
            used[name].append(time.process_time() - began)
    report(used, found, options, threshold)


def attacked(
    target: DriftTarget, resources: Resources, recipe: str, examples: Sequence[Example], *, cheap: bool
) -> list[Attempt]:
    (made,) = make_recipes([recipe], {})
    engine = Engine(target, resources, cheap_search=cheap)
    return sorted(engine.run(made, examples), key=lambda attempt: attempt.number)


def report(used: dict[str, list[float]], found: dict[str, list[Attempt]], options: Any, threshold: float) -> None:
    first = found["torch"]
    succeeded = sum(attempt.outcome == "succeeded" for attempt in first)
    print(
        f"{len(first)} sentences of STS-B, {options.recipe}, threshold {threshold}: {succeeded} succeed in torch, "
        f"{sum(attempt.queries for attempt in first):,} queries; {machine()}, {torch.get_num_threads()} threads"
    )
    print("| search | CPU s | times torch | range | same outcome | same text | successes |")
    print("|---|---|---|---|---|---|---|")
    claims = []
    for name, seconds in used.items():
        ratios = [a / b for a, b in zip(used["torch"], seconds, strict=True)]
        pairs = list(zip(found[name], first, strict=True))
        same = 100 * statistics.fmean(ours.outcome == theirs.outcome for ours, theirs in pairs)
        text = 100 * statistics.fmean(ours.adversarial == theirs.adversarial for ours, theirs in pairs)
        print(
            f"| {name} | {statistics.median(seconds):.1f} | {statistics.median(ratios):.2f} "
            f"| {min(ratios):.2f}-{max(ratios):.2f} | {same:.1f} % | {text:.1f} % "
            f"| {sum(ours.outcome == 'succeeded' for ours, _ in pairs)} |"
        )
        if name != "torch":
            claims.append(Claim(f"search: torch fp32 / {name}", ratios, at_least=2.0, unit="CPU", floor=FLOOR))
            claims.append(Claim(f"search: % of texts with torch's outcome, {name}", [same], at_least=97.0))
    if options.json:
        save(options.json, claims)


if __name__ == "__main__":
    main()
