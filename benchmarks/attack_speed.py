"""How fast attacks are, against the loop that they replace.

The same recipe attacks the same examples on the same classifier, with the engine and with a loop that attacks one
example at a time and scores its texts in fixed batches of 32 in fp32, as TextAttack does: padded to the model's maximum
(as TextAttack's wrapper does) or to the longest text of the batch. What differs is how texts are scored, and nothing
else. All are interleaved in one process; the ratio of each round is taken, and the median printed.

    python benchmarks/attack_speed.py --model CLASSIFIER --data DIR [--task textfooler/mr] [--recipe pwws]

With `--textattack-python PATH`, the Python of an environment with TextAttack (it does not install beside transformers
5: `python -m venv TA; TA/bin/pip install textattack==0.3.11 transformers==4.57.6`), nothing is timed: TextAttack's
version of the recipe, or of all that it has with `--recipe all`, attacks the same examples with the same resources, in
a process of its own, and the table compares outcomes, texts and queries with the engine's in fp32.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from claims import Claim, save
from holdfast.attacks.attack_inputs import load_inputs
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.classifier import load_classifier
from holdfast.attacks.engine import Engine
from holdfast.attacks.examples import Attempt, Example
from holdfast.attacks.metrics import summarise
from holdfast.attacks.recipes import RECIPES
from holdfast.attacks.resource_names import SETS
from holdfast.attacks.resources import Resources
from holdfast.attacks.targets import ClassifierTarget
from holdfast.edits.words import Words
from textattack_process import Row, TextAttack, recipes

BATCH = 32
"""Texts in a batch of TextAttack's."""


class Loop(ClassifierTarget):
    """Texts scored in the order they come, in batches of 32."""

    def __init__(self, classifier: Any, *, pad_to: int | None, bf16: bool) -> None:
        super().__init__(classifier)
        self.pad_to, self.bf16 = pad_to, bf16

    def outputs(self, texts: Sequence[tuple[str, ...]], *, exact: bool) -> list[Any]:
        found: list[Any] = []
        model, tokenizer = self.classifier.model, self.classifier.tokenizer
        padding: dict[str, Any] = {"padding": True}
        if self.pad_to is not None:
            padding = {"padding": "max_length", "max_length": self.pad_to}
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=self.bf16 and not exact):
            for begin in range(0, len(texts), BATCH):
                columns = [list(column) for column in zip(*texts[begin : begin + BATCH], strict=True)]
                features = tokenizer(*columns, truncation=True, return_tensors="pt", **padding)
                found += list(model(**features).logits.double().numpy())
        return found


def timed(engine: Engine, recipe: Any, examples: Sequence[Example]) -> tuple[float, list[Attempt]]:
    began = time.perf_counter()
    attempts = list(engine.run(recipe, examples))
    return time.perf_counter() - began, attempts


def told(attempts: Sequence[Attempt]) -> str:
    metrics = summarise(attempts, has_classes=True)
    return f"{metrics['success_rate']:.1f} % success, {metrics['queries']:.1f} queries"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a classifier: a Hugging Face folder")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--task", default="textfooler/mr")
    parser.add_argument("--recipe", default="pwws", choices=[*RECIPES, "all"])
    parser.add_argument("--resources", choices=tuple(SETS), default="light")
    parser.add_argument("--examples", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pad-to", type=int, help="of the padded loop [default: the model's position embeddings]")
    parser.add_argument("--textattack-python", type=Path)
    parser.add_argument("--read-once", action="store_true", help="TextAttack's BERT-Attack with the paper's candidates")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    if options.recipe == "all" and options.textattack_python is None:
        parser.error("--recipe all is for --textattack-python")

    material = load_inputs(
        AttackSettings(
            options.model, task=options.task, goal="class", examples=options.examples, seed=1, data=options.data
        )
    )
    classifier = load_classifier(options.model)
    resources = Resources(SETS[options.resources], data=options.data)
    if options.textattack_python is not None:
        _agreement(options, material.examples, Engine(ClassifierTarget(classifier), resources))
        return
    recipe = RECIPES[options.recipe]()
    resources.require(recipe.needs())
    pad_to = options.pad_to or int(classifier.model.config.max_position_embeddings)
    ways = {
        "engine, bf16 confirmed in fp32": Engine(ClassifierTarget(classifier), resources, cheap_search=True),
        "engine, fp32": Engine(ClassifierTarget(classifier), resources),
        f"loop, fp32, padded to {pad_to}": _loop(classifier, resources, pad_to, bf16=False),
        "loop, fp32": _loop(classifier, resources, None, bf16=False),
        "loop, bf16": _loop(classifier, resources, None, bf16=True),
    }
    first = next(iter(ways))
    # Synonyms, tags and the like are looked up once for all: they are memoised, and the first way would pay for them.
    timed(ways[first], recipe, material.examples)
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    made: dict[str, list[Attempt]] = {}
    for number in range(options.rounds):
        for way, engine in ways.items():
            took, made[way] = timed(engine, recipe, material.examples)
            seconds[way].append(took)
            print(f"round {number + 1}: {way}: {took:.1f} s", file=sys.stderr, flush=True)
    print(f"{options.recipe} on {options.task}, {len(material.examples)} examples, {torch.get_num_threads()} threads")
    print("| way | median s | examples/s | times the engine in bf16 | range | attack |")
    print("|---|---|---|---|---|---|")
    for way, times in seconds.items():
        ratios = [time / ours for time, ours in zip(times, seconds[first], strict=True)]
        median = statistics.median(times)
        spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
        print(
            f"| {way} | {median:.1f} | {len(material.examples) / median:.2f} | {statistics.median(ratios):.2f} "
            f"| {spread} | {told(made[way])} |"
        )
    if options.json:
        save(options.json, _claims(seconds, pad_to), seconds=seconds)


def _claims(seconds: dict[str, list[float]], pad_to: int) -> list[Claim]:
    """The loops against the engine: as TextAttack's wrapper pads, in fp32, and at equal precision."""
    bound_by = "matrix products: 96 % of the engine's time are forward passes of the model"
    ours = "engine, bf16 confirmed in fp32"
    bounds = {f"loop, fp32, padded to {pad_to}": 15.0, "loop, fp32": 3.0, "loop, bf16": 1.4}
    claims = []
    for way, bound in bounds.items():
        ratios = [theirs / mine for theirs, mine in zip(seconds[way], seconds[ours], strict=True)]
        claims.append(Claim(f"attack: {way} / {ours}", ratios, bound, floor="" if bound == 15.0 else bound_by))
    return claims


def _loop(classifier: Any, resources: Resources, pad_to: int | None, *, bf16: bool) -> Engine:
    return Engine(Loop(classifier, pad_to=pad_to, bf16=bf16), resources, cheap_search=bf16, side_by_side=1)


# --- TextAttack itself -------------------------------------------------------------------------------------------


def _agreement(options: argparse.Namespace, examples: Sequence[Example], engine: Engine) -> None:
    """Print how far TextAttack's results, with our resources, are those of the engine in fp32."""
    print(
        "| recipe | texts | success, ours / TextAttack | queries | same outcome | same text | same queries | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|")
    max_tokens = int(load_classifier(options.model).model.config.max_position_embeddings)
    for recipe in recipes(options.recipe):
        engine.resources.require(recipe.needs())
        other = TextAttack(
            options.textattack_python,
            options.model,
            recipe,
            engine.resources,
            max_tokens,
            threads=torch.get_num_threads(),
            bertattack_rereads=not options.read_once,
        )
        seconds, attempts = timed(engine, recipe, examples)
        ours = {attempt.number: attempt for attempt in attempts}
        rows = zip([ours[example.number] for example in examples], other.run(examples), strict=True)
        pairs = [(attempt, row) for attempt, row in rows if Words.of(attempt.original).words == row.words]
        print(_compared(recipe.NAME, pairs, seconds), flush=True)
        _print_differences(recipe.NAME, pairs, len(examples) - len(pairs), other.misplaced)


def _compared(name: str, pairs: Sequence[tuple[Attempt, Row]], seconds: float) -> str:
    """Return a row of the table; of the texts those are attacked that the classifier has right."""
    attacked = [(attempt, row) for attempt, row in pairs if "skipped" not in (attempt.outcome, row.outcome)]
    rates = [100 * np.mean([each[side].outcome == "succeeded" for each in attacked]) for side in (0, 1)]
    queries = [np.mean([each[side].queries for each in attacked]) for side in (0, 1)]
    same = [
        np.sum([attempt.outcome == row.outcome for attempt, row in pairs]),
        np.sum([attempt.adversarial == row.text for attempt, row in attacked]),
        np.sum([attempt.queries == row.queries for attempt, row in attacked]),
    ]
    return (
        f"| {name} | {len(pairs)}, {len(attacked)} attacked | {rates[0]:.1f} % / {rates[1]:.1f} % "
        f"| {queries[0]:.1f} / {queries[1]:.1f} | {same[0]} of {len(pairs)} | {same[1]} of {len(attacked)} "
        f"| {same[2]} of {len(attacked)} | {seconds:.0f} / {sum(row.seconds for _, row in pairs):.0f} |"
    )


def _print_differences(name: str, pairs: Sequence[tuple[Attempt, Row]], unequal: int, misplaced: int) -> None:
    """Print to stderr the texts with another outcome, and how many texts are split into other words."""
    print(f"{name}: {unequal} texts are left out, which TextAttack splits into other words", file=sys.stderr)
    if misplaced:
        print(f"{name}: {misplaced} words were not found at TextAttack's index", file=sys.stderr)
    for attempt, row in pairs:
        if (attempt.outcome, attempt.adversarial, attempt.queries) != (row.outcome, row.text, row.queries):
            text = "the same" if attempt.adversarial == row.text else "another"
            both = f"{attempt.outcome} / {row.outcome}, {attempt.queries} / {row.queries} queries, {text} text"
            print(f"{name}, text {attempt.number}: {both}", file=sys.stderr)


if __name__ == "__main__":
    main()
