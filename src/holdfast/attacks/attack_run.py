"""`holdfast attack`: run recipes against a model on a task, and write one result file."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast import launch
from holdfast.attacks.attack_inputs import (
    AttackedModel,
    AttackInputs,
    cut_texts,
    load_attacked_model,
    load_inputs,
)
from holdfast.attacks.attack_processes import other_processes, wait_for
from holdfast.attacks.attack_progress import AttackProgress, work_of
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.engine import Engine
from holdfast.attacks.ensemble import about_ensembles, attacks_per_text, for_folder, for_target, reads_training, won_by
from holdfast.attacks.examples import Attempt
from holdfast.attacks.journal import Journal, Key
from holdfast.attacks.long_texts import about_long_texts
from holdfast.attacks.metrics import correlations, skip_reasons, summarise
from holdfast.attacks.recipe_choice import make_recipes, recipe_record
from holdfast.attacks.recipes import Recipe
from holdfast.attacks.resource_names import SETS, TRAINING_EDITS
from holdfast.attacks.resources import Resources, availability
from holdfast.attacks.shared_vectors import share_vectors
from holdfast.attacks.work_estimate import WorkEstimate, attack_estimate
from holdfast.backends.backend_options import refuse_precision
from holdfast.data.sources import STDIN
from holdfast.distributed import own_device
from holdfast.endpoint import refuse_call_options
from holdfast.errors import UserError
from holdfast.files import check_file_place, exclusive, output_lock, paths_in, write_text
from holdfast.forms import forms_protocol
from holdfast.input_limits import cut_line
from holdfast.model_lookup import is_function, resolve_model
from holdfast.number_ranges import check_numbers
from holdfast.precision import ResolvedPrecision
from holdfast.precision import resolve as resolve_precision
from holdfast.progress import stage
from holdfast.results import new_result, write_result

if TYPE_CHECKING:
    from rich.console import Console


@exclusive(lambda settings: output_lock(settings.output))
def attack(
    settings: AttackSettings,
    *,
    resume: bool = False,
    console: Console | None = None,
    command: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Run the attack; return and write the result, which is empty in all processes except the first.

    With ``settings.estimate`` the estimate alone is returned, as ``{"estimate": ...}`` (`WorkEstimate.record`). With
    ``settings.output``, each finished example is written to a journal beside that file, which is deleted once the
    result is written; ``resume`` continues from the journal.

    Raises:
        UserError: invalid settings, a missing resource, or a journal of another run.
    """
    check_numbers(settings)
    if settings.output is not None:
        check_file_place("--output", settings.output)
    elif resume:
        raise UserError("--resume continues the attack of a result file: give --output FILE.json")
    refuse_call_options(settings)
    if settings.goal == "poison":
        from holdfast.attacks.poisoning.poison_run import poison

        return poison(settings, resume=resume, console=console, command=command)
    recipes = make_recipes(settings.recipes, settings.constants)
    _check_output(settings)
    _check_forms(settings, recipes)
    run = _load(replace(settings, device=settings.device or own_device()), recipes, console)
    truncated = _print_notes(run)
    protocol = run.protocol()
    output = settings.output
    journal = Journal(output, protocol, rank=run.rank, world=run.world) if output is not None else None
    if settings.estimate:
        return {"estimate": _estimate(run, {}).record()} if run.rank == 0 else {}
    done = journal.open(resume=resume, notify=run.print_line) if journal is not None else {}
    if run.rank == 0 and console is not None:
        _estimate(run, done)
    with other_processes(settings, run.rank, command) as children:
        fresh, seconds = _attack_share(run, done, journal)
        if run.rank > 0:
            return {}
        if journal is not None and run.world > 1:
            with stage(console, "waiting for the other processes", announce=False):
                wait_for(journal, run.world, children, [run.share(rank) for rank in range(run.world)])
    attempts = {**done, **(journal.all() if journal is not None else fresh)}
    with stage(console, "measuring the adversarial texts", announce=False):
        result = _result(run, attempts, protocol, command)
    result |= truncated
    result["timing"] = timing(journal.seconds() if journal is not None else seconds, attempts)
    if output is not None:
        write_attack(output, result)
    if journal is not None:
        journal.remove()
    return result


@dataclass(frozen=True)
class _Run:
    """Everything that an attack run has loaded; the settings hold the device and the precision in use."""

    settings: AttackSettings
    recipes: Sequence[Recipe]
    inputs: AttackInputs
    model: AttackedModel
    resources: Resources
    console: Console | None
    rank: int
    world: int

    def print_line(self, line: str) -> None:
        """Print a message."""
        if self.console is not None:
            self.console.print(line, markup=False, highlight=False)

    def share(self, rank: int) -> list[Key]:
        """Return recipe and number of the examples that a process attacks: every ``world``-th example."""
        examples = self.inputs.examples[rank :: self.world]
        return [(recipe.NAME, example.number) for recipe in self.recipes for example in examples]

    def protocol(self) -> dict[str, Any]:
        """Return all settings that the attempts depend on, and the model hash; not those that only affect speed."""
        inputs, classes = self.inputs, self.model.classes
        return {
            "task": inputs.task,
            "split": inputs.split,
            "examples": len(inputs.examples),
            "data": inputs.data,
            "goal": {"kind": inputs.goal, **self.model.goal},
            **({"classes": list(inputs.classes)} if inputs.classes is not None else {}),
            **({"notes": list(inputs.notes)} if inputs.notes else {}),
            **({"class_match": classes.record()} if classes is not None else {}),
            **self.model.prompts,
            **{name: form for name, form in self.model.read_as.items() if name.endswith("backend")},
            **(forms_protocol([self.model.form.form]) if self.model.form is not None else {}),
            "recipes": {recipe.NAME: recipe_record(recipe) for recipe in self.recipes},
            "resources": dict(vars(self.settings.resource_names)),
            **({"training_edits": self.resources.training_edits.record()} if reads_training(self.recipes) else {}),
            "precision": self.settings.precision,
            "seed": self.settings.seed,
            "model_sha256": self.model.identity["model_sha256"],
        }


def _load(settings: AttackSettings, recipes: Sequence[Recipe], console: Console | None) -> _Run:
    """Load the data, the resources and the model."""
    rank, world = _place(settings)
    with stage(console, f"reading {settings.texts or settings.task}", announce=False):
        inputs = load_inputs(settings)
    folder = None if is_function(settings.model) else resolve_model(settings.model)
    recipes = for_folder(recipes, folder)
    resources = Resources(settings.resource_names, data=settings.data, device=settings.device, attacked=folder)
    resources.require(dict.fromkeys(name for recipe in recipes for name in recipe.needs()))
    if reads_training(recipes):
        resources.require([TRAINING_EDITS])
    if rank == 0:
        with stage(console, "loading the linguistic resources", announce=False):
            _load_similarity(settings, resources)
    with stage(console, f"loading {settings.model}", announce=False):
        model, inputs = load_attacked_model(settings, inputs, console)
    needing = [recipe.NAME for recipe in recipes if recipe.GRADIENTS]
    if needing and not model.target.has_gradients:
        form = "" if model.form is None else f" as {model.form.form}"
        raise UserError(f"{settings.model}{form} gives no gradients: leave {needing[0]} out of --recipes")
    recipes = for_target(recipes, model.target)
    share_vectors(model.target, resources, model.identity["model_sha256"])
    settings = replace(settings, precision=_precision(settings, model))
    return _Run(settings, recipes, inputs, model, resources, console, rank, world)


def _estimate(run: _Run, done: Mapping[Key, Attempt]) -> WorkEstimate:
    """Estimate the attack on the examples that are not finished, by the time of the first ones, and print it."""
    keys = [(recipe.NAME, example.number) for recipe in run.recipes for example in run.inputs.examples]
    unfinished = {recipe for recipe, number in keys if (recipe, number) not in done}
    recipes = attacks_per_text([recipe for recipe in run.recipes if recipe.NAME in unfinished])
    waiting = {number for recipe, number in keys if (recipe, number) not in done}
    examples = [example for example in run.inputs.examples if example.number in waiting]
    call_batch = run.settings.call_batch if is_function(run.settings.model) else None
    found = attack_estimate(run.model.target, examples, recipes, call_batch)
    run.print_line(found.line())
    return found


def _print_notes(run: _Run) -> dict[str, Any]:
    """Print messages about the data, the classes and long texts; return the record of truncated texts."""
    inputs, target = run.inputs, run.model.target
    cuts = cut_texts(target, inputs.examples)
    truncated = {} if cuts is None else {"truncated": cuts.record()}
    if run.rank == 0 and run.console is not None:
        matched = [] if run.model.classes is None else [run.model.classes.describe()]
        lines = [*about_ensembles(run.recipes), *inputs.notes, *matched, cut_line(truncated.get("truncated"))]
        for line in (*filter(None, lines), *about_long_texts(inputs.examples, target)):
            run.print_line(line)
    return truncated


def examples_path(output: Path) -> Path:
    """Return the path of the file of adversarial texts, one JSON object per line, for a result file."""
    return output.with_name(f"{output.name.removesuffix('.json')}.examples.jsonl")


def write_attack(output: Path, result: dict[str, Any]) -> None:
    """Write a result, and beside it its examples, one JSON object per line."""
    rows = (json.dumps(row, ensure_ascii=False) + "\n" for row in result["examples"])
    write_text(examples_path(output), "".join(rows))
    write_result(output, result)


def _check_output(settings: AttackSettings) -> None:
    output = settings.output
    if settings.processes > 1 and "WORLD_SIZE" in os.environ and launch.processes() != settings.processes:
        raise UserError("the launcher sets the number of processes: leave out --processes")
    if output is None and (settings.processes > 1 or _place(settings)[1] > 1):
        raise UserError("several processes exchange their results beside the result file: give --output FILE.json")
    from_stdin = [STDIN in paths_in(source or "") for source in (settings.texts, settings.search)]
    if any(from_stdin) and _place(settings)[1] > 1:
        raise UserError("standard input can be read by one process only: write the texts to a file")
    if all(from_stdin):
        raise UserError("--texts and --search cannot both be standard input (-): it can be read only once")


def _check_forms(settings: AttackSettings, recipes: Sequence[Recipe]) -> None:
    """Refuse what a form of the model cannot do, before anything is loaded."""
    backend, _ = settings.chosen_backend, settings.search_form
    refuse_precision(backend, settings.precision)
    needing = [recipe.NAME for recipe in recipes if recipe.GRADIENTS]
    if needing and not backend.is_torch:
        raise UserError(
            f"{settings.model} gives no gradients with --backend {backend}: leave {needing[0]} out of --recipes"
        )


def _place(settings: AttackSettings) -> tuple[int, int]:
    """Return the rank and the number of processes, from the launcher or from ``processes``."""
    return launch.rank(), max(launch.processes(), settings.processes)


def _precision(settings: AttackSettings, model: AttackedModel) -> ResolvedPrecision:
    import torch

    if settings.search_form is not None or not settings.chosen_backend.is_torch or is_function(settings.model):
        return "fp32"  # that of a function or a graph is fixed: a second query would give the same answer
    return resolve_precision(settings.precision, torch.device(model.device))


def _attack_share(
    run: _Run, done: Mapping[Key, Attempt], journal: Journal | None
) -> tuple[dict[Key, Attempt], dict[str, float]]:
    """Attack the share of this process; return its attempts and the seconds per recipe."""
    settings = run.settings
    engine = Engine(
        run.model.target,
        run.resources,
        cheap_search=settings.precision == "bf16" or settings.search_form is not None,
        side_by_side=settings.side_by_side,
        seed=settings.seed,
    )
    examples = run.inputs.examples[run.rank :: run.world]
    fresh: dict[Key, Attempt] = {}
    spent = dict(journal.spent) if journal is not None else {}
    for recipe in run.recipes:
        before, began = spent.get(recipe.NAME, 0.0), time.monotonic()
        waiting = [example for example in examples if (recipe.NAME, example.number) not in done]
        work = sum(work_of(example.text) for example in waiting)
        with AttackProgress(run.console, recipe.NAME, len(waiting), engine.under_way, work=work) as progress:
            for attempt in engine.run(recipe, waiting):
                fresh[recipe.NAME, attempt.number] = attempt
                spent[recipe.NAME] = before + time.monotonic() - began
                if journal is not None:
                    journal.add(attempt, spent[recipe.NAME])
                progress.add(attempt)
    if journal is not None:
        journal.end()
    return fresh, spent


def timing(seconds: Mapping[str, float], attempts: Mapping[Key, Any]) -> dict[str, Any]:
    """Return the duration in seconds, in total and per recipe, summed over interrupted and resumed runs."""
    counts = Counter(recipe for recipe, _ in attempts)
    each = {name: {"seconds": spent, "seconds_per_example": spent / counts[name]} for name, spent in seconds.items()}
    total = sum(seconds.values())
    return {"attack_seconds": total, "seconds_per_example": total / max(1, len(attempts)), "recipes": each}


def _result(
    run: _Run, attempts: Mapping[Key, Attempt], protocol: dict[str, Any], command: Sequence[str] | None
) -> dict[str, Any]:
    inputs, model, settings, form = run.inputs, run.model, run.settings, run.model.form
    rows, examples = [], []
    measured = _measure_similarity(run.resources, attempts)
    for recipe in run.recipes:
        own = [measured[recipe.NAME, e.number] for e in inputs.examples]
        metrics = summarise(own, has_classes=model.target.has_classes, seed=settings.seed)
        if inputs.goal == "score":
            metrics.update(correlations(own))
        rows.append(
            {
                "task": inputs.task,
                "split": inputs.split,
                "n": len(own),
                "recipe": recipe.NAME,
                **({} if form is None else {"form": str(form.form), "vectors": form.record()}),
                "metrics": metrics,
                "skipped": skip_reasons(own),
            }
        )
        if winners := won_by(own):
            rows[-1]["won_by"] = winners
        examples += [attempt.row() for attempt in own]
    result = new_result(
        "attack",
        command=command,
        model=settings.model,
        identity=model.identity,
        protocol={**protocol, **model.read_as, "opened_resources": run.resources.sources()},
        seed=settings.seed,
        results=rows,
        device=model.device,
    )
    result["examples"] = examples
    return result


def _load_similarity(settings: AttackSettings, resources: Resources) -> None:
    """Load the similarity encoder if it is available, so that a damaged one raises an error before the attack.

    It also measures the adversarial texts if no recipe needs it. The default encoder of a set may be missing; one that
    the user named must exist.
    """
    here = {row.resource: row.here for row in availability(settings.resource_names, data=settings.data)}
    if here["similarity"] or settings.resource_names.similarity not in {names.similarity for names in SETS.values()}:
        resources.require(["similarity"])


def _measure_similarity(resources: Resources, attempts: Mapping[Key, Attempt]) -> dict[Key, Attempt]:
    """Add the similarity of original and adversarial text to successful attempts, if the encoder is loaded."""
    changed = [key for key, attempt in attempts.items() if attempt.outcome == "succeeded"]
    if "similarity" not in resources.sources() or not changed:
        return dict(attempts)
    pairs = [(attempts[key].original, attempts[key].adversarial) for key in changed]
    cosines = dict(zip(changed, resources.similarity.cosines(pairs), strict=True))
    return {key: replace(attempt, similarity=cosines.get(key)) for key, attempt in attempts.items()}
