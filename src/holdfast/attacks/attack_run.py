"""`holdfast attack`: run recipes against a model on a task, and write one result file."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from holdfast import launch
from holdfast.attacks.attack_inputs import (
    AttackedModel,
    AttackInputs,
    cut_texts,
    load_attacked_model,
    load_inputs,
)
from holdfast.attacks.attack_progress import AttackProgress
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.engine import Engine
from holdfast.attacks.examples import Attempt
from holdfast.attacks.journal import Journal, Key
from holdfast.attacks.long_texts import about_long_texts
from holdfast.attacks.metrics import correlations, skip_reasons, summarise
from holdfast.attacks.recipes import RECIPES, Recipe
from holdfast.attacks.resource_names import SETS
from holdfast.attacks.resources import Resources, availability
from holdfast.data.sources import STDIN
from holdfast.distributed import own_device
from holdfast.errors import UserError, did_you_mean
from holdfast.files import exclusive, output_lock, write_text
from holdfast.input_limits import cut_line
from holdfast.model_lookup import CALL
from holdfast.number_ranges import check_numbers
from holdfast.option_parsing import option_value, paths_in
from holdfast.precision import ResolvedPrecision
from holdfast.precision import resolve as resolve_precision
from holdfast.progress import stage
from holdfast.results import new_result, write_result

if TYPE_CHECKING:
    from rich.console import Console

_WAIT = 0.2


def make_recipes(names: Sequence[str], constants: Mapping[str, Any]) -> list[Recipe]:
    """Create the recipes of a run, with changed constants.

    Raises:
        UserError: an unknown recipe or constant (the message suggests the closest name), or an invalid value.
    """
    for name in names:
        if name not in RECIPES:
            raise UserError(f"unknown recipe {name!r}{did_you_mean(name, RECIPES)}; recipes: {', '.join(RECIPES)}")
    changed: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, value in constants.items():
        recipe, dot, constant = key.rpartition(".")
        recipe = next((name for name in names if name.replace("-", "_") == recipe), recipe)  # options have underscores
        having = [recipe] if dot else [n for n in names if constant in {f.name for f in fields(RECIPES[n])}]
        if dot and recipe not in changed:
            raise UserError(f"{key}: {recipe} is not among the recipes of this run ({', '.join(names)})")
        known = [f.name for name in (having if dot else names) for f in fields(RECIPES[name])]
        if not having or constant not in known:
            raise UserError(f"no constant {constant!r}{did_you_mean(constant, known)}; constants: {', '.join(known)}")
        for name in having:
            hint = get_type_hints(RECIPES[name])[constant]
            changed[name][constant] = option_value(f"{name}.{constant}", value, hint)
    return [_made(name, changed[name]) for name in dict.fromkeys(names)]


def _made(name: str, constants: Mapping[str, Any]) -> Recipe:
    try:
        return RECIPES[name](**constants)
    except ValueError as error:
        raise UserError(f"{name}: {error}") from error


@exclusive(lambda settings: output_lock(settings.output))
def attack(
    settings: AttackSettings,
    *,
    resume: bool = False,
    console: Console | None = None,
    command: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Run the attack; return and write the result, which is empty in all processes except the first.

    With ``settings.output``, each finished example is written to a journal beside that file, which is deleted once the
    result is written; ``resume`` continues from the journal.

    Raises:
        UserError: invalid settings, a missing resource, or a journal of another run.
    """
    check_numbers(settings)
    recipes = make_recipes(settings.recipes, settings.constants)
    settings = replace(settings, device=settings.device or own_device())
    output = _checked_output(settings)
    rank, world = _place(settings)
    with stage(console, f"reading {settings.texts or settings.task}", announce=False):
        material = load_inputs(
            settings.task,
            settings.texts,
            split=settings.split,
            goal=settings.goal,
            count=settings.examples,
            seed=settings.seed,
            data=settings.data,
            search=settings.search,
        )
    resources = Resources(settings.resource_names, data=settings.data, device=settings.device)
    resources.require(dict.fromkeys(name for recipe in recipes for name in recipe.needs()))
    if rank == 0:
        with stage(console, "opening the linguistic resources", announce=False):
            _open_measure(settings, resources)
    with stage(console, f"loading {settings.model}", announce=False):
        victim, material = load_attacked_model(
            settings.model,
            material,
            threshold=settings.threshold,
            k=settings.k,
            margin=settings.margin,
            data=settings.data,
            device=settings.device,
            call_batch=settings.call_batch,
            console=console,
            label_map=settings.label_map,
        )
    tell = None if console is None else functools.partial(console.print, markup=False, highlight=False)
    cuts = cut_texts(victim.target, material.examples)
    truncated = {} if cuts is None else {"truncated": cuts.record()}
    if rank == 0 and tell is not None:
        matched = [] if victim.classes is None else [victim.classes.describe()]
        for line in (*material.notes, *matched, cut_line(truncated.get("truncated"))):
            if line:
                tell(line)
    climbing = [recipe.NAME for recipe in recipes if recipe.GRADIENTS]
    if climbing and not victim.target.has_gradients:
        raise UserError(f"{settings.model} gives no gradients: leave {climbing[0]} out of --recipes")
    if console is not None and rank == 0:
        for line in about_long_texts(material.examples, victim.target):
            console.print(line, markup=False, highlight=False)
    settings = replace(settings, precision=_precision(settings, victim))
    protocol = _protocol(settings, recipes, material, victim)
    journal = Journal(output, protocol, rank=rank, world=world) if output is not None else None
    done = journal.open(resume=resume, tell=tell) if journal is not None else {}
    with _helpers(settings, rank, command) as children:
        fresh, seconds = _run(settings, recipes, material, victim, resources, done, journal, (rank, world), console)
        if rank > 0:
            return {}
        if journal is not None and world > 1:
            with stage(console, "waiting for the other processes", announce=False):
                _wait_for(journal, world, children, _shares(recipes, material, world))
    attempts = {**done, **(journal.all() if journal is not None else fresh)}
    with stage(console, "measuring what the attacks made", announce=False):
        result = _result(settings, recipes, material, victim, resources, attempts, protocol, command)
    result |= truncated
    result["timing"] = _timing(journal.seconds() if journal is not None else seconds, attempts)
    if output is not None:
        write_text(
            examples_path(output), "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in result["examples"])
        )
        write_result(output, result)
    if journal is not None:
        journal.remove()
    return result


def examples_path(output: Path) -> Path:
    """Return the path of the file of adversarial texts, one JSON object per line, for a result file."""
    return output.with_suffix(".examples.jsonl")


def _checked_output(settings: AttackSettings) -> Path | None:
    output = settings.output
    if output is not None and output.is_dir():
        raise UserError(f"{output} is a folder; --output takes a file")
    if settings.processes > 1 and "WORLD_SIZE" in os.environ and launch.processes() != settings.processes:
        raise UserError("a launcher says how many processes there are: leave out --processes")
    if output is None and (settings.processes > 1 or _place(settings)[1] > 1):
        raise UserError("several processes meet in the result's folder: give --output FILE.json")
    from_stdin = [STDIN in paths_in(source or "") for source in (settings.texts, settings.search)]
    if any(from_stdin) and _place(settings)[1] > 1:
        raise UserError("standard input is read by one process alone: write the texts to a file for several")
    if all(from_stdin):
        raise UserError("--texts and --search cannot both be standard input (-): it can be read only once")
    return output


def _place(settings: AttackSettings) -> tuple[int, int]:
    """Return the rank and the number of processes, from the launcher or from ``processes``."""
    return launch.rank(), max(launch.processes(), settings.processes)


def _precision(settings: AttackSettings, victim: AttackedModel) -> ResolvedPrecision:
    import torch

    if settings.model.startswith(CALL):
        return "fp32"  # the precision of a function is fixed: a second query would give the same answer
    return resolve_precision(settings.precision, torch.device(victim.device))


def _protocol(
    settings: AttackSettings, recipes: Sequence[Recipe], material: AttackInputs, victim: AttackedModel
) -> dict[str, Any]:
    """Return all settings that the attempts depend on, and the model hash; not those that only affect speed."""
    return {
        "task": material.task,
        "split": material.split,
        "examples": len(material.examples),
        "data": material.data,
        "goal": {"kind": material.goal, **victim.goal},
        **({"classes": list(material.classes)} if material.classes is not None else {}),
        **({"notes": list(material.notes)} if material.notes else {}),
        **({"class_match": victim.classes.record()} if victim.classes is not None else {}),
        "recipes": {
            recipe.NAME: {
                "constants": dict(vars(recipe)),
                "changed_from_published": recipe.changed_constants(),
            }
            for recipe in recipes
        },
        "resources": dict(vars(settings.resource_names)),
        "precision": settings.precision,
        "seed": settings.seed,
        "model_sha256": victim.identity["model_sha256"],
    }


def _run(
    settings: AttackSettings,
    recipes: Sequence[Recipe],
    material: AttackInputs,
    victim: AttackedModel,
    resources: Resources,
    done: Mapping[Key, Attempt],
    journal: Journal | None,
    place: tuple[int, int],
    console: Console | None,
) -> tuple[dict[Key, Attempt], dict[str, float]]:
    """Attack this process's share, every ``world``-th example; return its attempts and the seconds per recipe."""
    rank, world = place
    share = material.examples[rank::world]
    engine = Engine(
        victim.target,
        resources,
        bf16=settings.precision == "bf16",
        side_by_side=settings.side_by_side,
        seed=settings.seed,
    )
    fresh: dict[Key, Attempt] = {}
    spent = dict(journal.spent) if journal is not None else {}
    for recipe in recipes:
        before, began = spent.get(recipe.NAME, 0.0), time.monotonic()
        waiting = [example for example in share if (recipe.NAME, example.number) not in done]
        with AttackProgress(console, recipe.NAME, len(waiting), engine.under_way) as progress:
            for attempt in engine.run(recipe, waiting):
                fresh[recipe.NAME, attempt.number] = attempt
                spent[recipe.NAME] = before + time.monotonic() - began
                if journal is not None:
                    journal.add(attempt, spent[recipe.NAME])
                progress.add(attempt)
    if journal is not None:
        journal.end()
    return fresh, spent


def _timing(seconds: Mapping[str, float], attempts: Mapping[Key, Attempt]) -> dict[str, Any]:
    """Return the duration in seconds, in total and per recipe, summed over interrupted and resumed runs."""
    counts = Counter(recipe for recipe, _ in attempts)
    each = {name: {"seconds": spent, "seconds_per_example": spent / counts[name]} for name, spent in seconds.items()}
    whole = sum(seconds.values())
    return {"attack_seconds": whole, "seconds_per_example": whole / max(1, len(attempts)), "recipes": each}


@contextlib.contextmanager
def _helpers(
    settings: AttackSettings, rank: int, command: Sequence[str] | None
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start the other processes of ``--processes N``: the same command, each with its rank."""
    if settings.processes == 1 or "WORLD_SIZE" in os.environ or rank > 0:
        yield []
        return
    import torch

    count = settings.processes
    threads = max(1, torch.get_num_threads() // count)
    if command is None:
        raise UserError("several processes run the same command: start this script with torchrun or accelerate launch")
    words = [sys.executable, "-m", "holdfast", *command[1:]]
    children = []
    for number in range(1, count):
        environment = {**os.environ, "RANK": str(number), "WORLD_SIZE": str(count), "OMP_NUM_THREADS": str(threads)}
        children.append(subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield children
    finally:
        torch.set_num_threads(before)
        for child in children:
            if sys.exc_info()[0] is not None:
                child.terminate()
            child.wait()


def _shares(recipes: Sequence[Recipe], material: AttackInputs, world: int) -> list[list[Key]]:
    """Return recipe and number of the examples that each process attacks: every ``world``-th example."""
    return [
        [(recipe.NAME, e.number) for recipe in recipes for e in material.examples[rank::world]] for rank in range(world)
    ]


def _wait_for(
    journal: Journal, world: int, children: Sequence[subprocess.Popen[bytes]], shares: Sequence[Sequence[Key]]
) -> None:
    """Wait until the other processes have finished their shares.

    Raises:
        UserError: one of them has ended early; processes of a launcher are not checked.
    """
    waiting = list(range(1, world))
    while waiting := [rank for rank in waiting if not journal.finished(rank, shares[rank])]:
        for rank, child in enumerate(children, start=1):
            if rank in waiting and child.poll() is not None and not journal.finished(rank, shares[rank]):
                raise UserError(
                    f"process {rank} of {world} ended early, with exit code {child.returncode}: "
                    "what is finished is kept, continue with --resume"
                )
        time.sleep(_WAIT)


def _result(
    settings: AttackSettings,
    recipes: Sequence[Recipe],
    material: AttackInputs,
    victim: AttackedModel,
    resources: Resources,
    attempts: Mapping[tuple[str, int], Attempt],
    protocol: dict[str, Any],
    command: Sequence[str] | None,
) -> dict[str, Any]:
    rows, examples = [], []
    measured = _measure_similarity(resources, attempts)
    for recipe in recipes:
        own = [measured[recipe.NAME, e.number] for e in material.examples]
        metrics = summarise(own, has_classes=victim.target.has_classes, seed=settings.seed)
        if material.goal == "score":
            metrics.update(correlations(own))
        rows.append(
            {
                "task": material.task,
                "split": material.split,
                "n": len(own),
                "recipe": recipe.NAME,
                "metrics": metrics,
                "skipped": skip_reasons(own),
            }
        )
        examples += [attempt.row() for attempt in own]
    result = new_result(
        "attack",
        command=command,
        model=settings.model,
        identity=victim.identity,
        protocol={**protocol, **victim.read_as, "opened_resources": resources.sources()},
        seed=settings.seed,
        results=rows,
        device=victim.device,
    )
    result["examples"] = examples
    return result


def _open_measure(settings: AttackSettings, resources: Resources) -> None:
    """Load the similarity encoder if it is available, so that a damaged one raises an error before the attack.

    It also measures the adversarial texts if no recipe needs it. The default encoder of a set may be missing; one that
    the user named must exist.
    """
    here = {row.resource: row.here for row in availability(settings.resource_names, data=settings.data)}
    if here["similarity"] or settings.resource_names.similarity not in {names.similarity for names in SETS.values()}:
        resources.require(["similarity"])


def _measure_similarity(
    resources: Resources, attempts: Mapping[tuple[str, int], Attempt]
) -> dict[tuple[str, int], Attempt]:
    """Add the similarity of original and adversarial text to successful attempts, if the encoder is loaded."""
    changed = [key for key, attempt in attempts.items() if attempt.outcome == "succeeded"]
    if "similarity" not in resources.sources() or not changed:
        return dict(attempts)
    pairs = [(attempts[key].original, attempts[key].adversarial) for key in changed]
    cosines = dict(zip(changed, resources.similarity.cosines(pairs), strict=True))
    return {key: replace(attempt, similarity=cosines.get(key)) for key, attempt in attempts.items()}
