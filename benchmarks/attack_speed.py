"""How fast attacks are, against the loop that they replace.

The same recipe attacks the same examples on the same classifier, with the engine and with a loop that attacks one
example at a time and scores its texts in fixed batches of 32 in fp32, as TextAttack does: padded to the model's maximum
(as TextAttack's wrapper does) or to the longest text of the batch. What differs is how texts are scored, and nothing
else. All are interleaved in one process; the ratio of each round is taken, and the median printed.

    python benchmarks/attack_speed.py --model CLASSIFIER --data DIR [--task textfooler/mr] [--recipe pwws]

With `--textattack-python PATH`, the Python of an environment with TextAttack (it does not install beside transformers
5), its own PWWS attacks the same examples too, with the same synonyms, in a process of its own; the comparison of
success rates and queries is printed beside the time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
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
    parser.add_argument("--recipe", default="pwws", choices=list(RECIPES))
    parser.add_argument("--resources", choices=tuple(SETS), default="light")
    parser.add_argument("--examples", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pad-to", type=int, help="of the padded loop [default: the model's position embeddings]")
    parser.add_argument("--textattack-python", type=Path)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()

    material = load_inputs(
        AttackSettings(
            options.model, task=options.task, goal="class", examples=options.examples, seed=1, data=options.data
        )
    )
    classifier = load_classifier(options.model)
    resources = Resources(SETS[options.resources], data=options.data)
    recipe = RECIPES[options.recipe]()
    resources.require(recipe.needs())
    pad_to = options.pad_to or int(classifier.model.config.max_position_embeddings)
    ways = {
        "engine, bf16 confirmed in fp32": Engine(ClassifierTarget(classifier), resources, bf16=True),
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
    if options.textattack_python is not None:
        _textattack(options, material.examples, resources, made["engine, fp32"], statistics.median(seconds[first]))


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
    return Engine(Loop(classifier, pad_to=pad_to, bf16=bf16), resources, bf16=bf16, side_by_side=1)


# --- TextAttack itself -------------------------------------------------------------------------------------------

SCRIPT = """
import json, sys, time
import numpy as np, torch, transformers
from textattack import Attack
from textattack.constraints.pre_transformation import RepeatModification, StopwordModification
from textattack.goal_function_results import GoalFunctionResultStatus
from textattack.goal_functions import UntargetedClassification
from textattack.models.wrappers import HuggingFaceModelWrapper
from textattack.search_methods import GreedyWordSwapWIR
from textattack.shared import AttackedText
from textattack.transformations import WordSwap

given = json.load(open(sys.argv[1]))
stop = set(given["stop_words"])


class Synonyms(WordSwap):
    def _get_replacement_words(self, word):
        return given["synonyms"].get(word, [])


model = transformers.AutoModelForSequenceClassification.from_pretrained(given["model"])
tokenizer = transformers.AutoTokenizer.from_pretrained(given["model"], model_max_length=given["pad_to"])
attack = Attack(
    UntargetedClassification(HuggingFaceModelWrapper(model, tokenizer)),
    [RepeatModification(), StopwordModification(stopwords=stop)],
    Synonyms(),
    GreedyWordSwapWIR(wir_method="weighted-saliency"),
)
rows = []
began = time.perf_counter()
for text, label in given["examples"]:
    result = attack.attack(text, label)
    rows.append([type(result).__name__, result.num_queries, result.perturbed_text()])
print(json.dumps({"seconds": time.perf_counter() - began, "rows": rows}))
"""


def _textattack(
    options: argparse.Namespace,
    examples: Sequence[Example],
    resources: Resources,
    ours: Sequence[Attempt],
    ours_s: float,
) -> None:
    """TextAttack's PWWS on the same classifier, texts, stop words and synonyms."""
    from holdfast.edits.words import STOP_WORDS, Words, is_content_word

    if options.recipe != "pwws" or any(len(example.texts) == 2 for example in examples):
        sys.exit("TextAttack is compared on pwws and single texts")
    words = {word for example in examples for word in Words.of(example.text).words}
    classifier = load_classifier(options.model)
    given = {
        "model": str(Path(options.model).resolve()),
        "pad_to": options.pad_to or int(classifier.model.config.max_position_embeddings),
        "examples": [[example.text, example.label] for example in examples],
        "stop_words": sorted(STOP_WORDS | {word for word in words if not is_content_word(word)}),
        "synonyms": {word: resources.wordnet.synonyms(word) for word in words if is_content_word(word)},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.json"
        path.write_text(json.dumps(given), encoding="utf-8")
        # TextAttack reads NLTK's stop words when it is imported, and the attack is given ours.
        stop_words = Path(folder) / "corpora" / "stopwords" / "english"
        stop_words.parent.mkdir(parents=True)
        stop_words.write_text("\n".join(given["stop_words"]), encoding="utf-8")
        done = subprocess.run(
            [str(options.textattack_python), "-c", SCRIPT, str(path)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "NLTK_DATA": folder},
        )
    if done.returncode:
        sys.exit(f"TextAttack failed:\n{done.stderr[-3000:]}")
    theirs = json.loads(done.stdout.splitlines()[-1])
    attacked = [row for row in theirs["rows"] if row[0] != "SkippedAttackResult"]
    succeeded = [row for row in attacked if row[0] == "SuccessfulAttackResult"]
    by_number = {attempt.number: attempt for attempt in ours}
    same = sum(
        (row[0] == "SuccessfulAttackResult") == (by_number[example.number].outcome == "succeeded")
        for example, row in zip(examples, theirs["rows"], strict=True)
    )
    queries = np.mean([row[1] for row in attacked])
    print(
        f"TextAttack: {theirs['seconds']:.1f} s, {theirs['seconds'] / ours_s:.1f} times the engine in bf16; "
        f"{100 * len(succeeded) / len(attacked):.1f} % success, {queries:.1f} queries; "
        f"the same outcome as ours (fp32: {told(ours)}) on {same} of {len(examples)}"
    )


if __name__ == "__main__":
    main()
