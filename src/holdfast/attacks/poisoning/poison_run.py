"""`holdfast attack --goal poison`: make passages against an encoder and a corpus, and write one result file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast import launch
from holdfast.attacks.attack_inputs import refuse_of_other_goals
from holdfast.attacks.attack_run import timing, write_attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.poisoning.passage_making import Attacked, make_passage
from holdfast.attacks.poisoning.passage_measures import Search, fluency_metrics, measured, passage_rows
from holdfast.attacks.poisoning.poison_inputs import TASK, PoisonInputs
from holdfast.attacks.poisoning.poison_journal import PoisonJournal
from holdfast.attacks.poisoning.poison_recipe import Passage, PoisonRecipe
from holdfast.attacks.poisoning.poison_recipes import poison_recipes
from holdfast.backends.backend_options import refuse_precision
from holdfast.data.sources import STDIN
from holdfast.distributed import own_device
from holdfast.errors import UserError
from holdfast.files import paths_in
from holdfast.models import read_as
from holdfast.progress import stage
from holdfast.results import new_result
from holdfast.settings import refuse_given

if TYPE_CHECKING:
    from rich.console import Console


def poison(
    settings: AttackSettings,
    *,
    resume: bool = False,
    console: Console | None = None,
    command: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Make passages by each recipe, and measure them on held-out queries; return and write the result.

    With ``settings.estimate`` the estimate alone is returned, as ``{"estimate": ...}``.

    Raises:
        UserError: invalid settings, a missing resource, too few queries or documents, or a journal of another run.
    """
    _check(settings)
    recipes = poison_recipes(settings)
    run = PoisonInputs(replace(settings, device=settings.device or own_device()), recipes, console)
    with stage(console, f"reading {settings.search}", announce=False):
        run.require_enough()
    run.resources.require(dict.fromkeys(name for recipe in recipes for name in recipe.needs()))
    if settings.estimate:
        found = run.estimate()
        run.print_line(found.line())
        return {"estimate": found.record()}
    with stage(console, f"loading {settings.model}", announce=False):
        protocol = run.protocol()
    journal = PoisonJournal(settings.output, protocol)
    journal.open(resume=resume, notify=run.print_line)
    attacked = run.attacked()
    made = {recipe.NAME: _made(run, recipe, attacked, journal) for recipe in recipes}
    with stage(console, "measuring the passages", announce=False):
        result = _result(run, attacked, made, protocol, command)
    result["timing"] = timing(journal.seconds, journal.passages)
    if settings.output is not None:
        write_attack(settings.output, result)
    journal.remove()
    return result


def _check(settings: AttackSettings) -> None:
    """Refuse settings that do not go with this goal, before anything is loaded."""
    if settings.search is None or settings.queries is None:
        missing = "--search CORPUS" if settings.search is None else "--queries FILE"
        raise UserError(f"--goal poison needs {missing}: documents that are searched, and queries that search them")
    if settings.queries == settings.search:
        raise UserError(f"--search and --queries are both {settings.search}: documents and queries are different texts")
    if all(STDIN in paths_in(source) for source in (settings.search, settings.queries)):
        raise UserError("--search and --queries cannot both be standard input (-): it can be read only once")
    refuse_of_other_goals(settings, "poison")
    unread = ("task", "texts", "split", "search_backend", "form")
    refuse_given(settings, unread, "does not go with --goal poison: leave it out")
    refuse_precision(settings.chosen_backend, settings.precision)
    if max(launch.processes(), settings.processes) > 1:
        raise UserError("--goal poison runs in one process: each passage is made step by step")


def _made(run: PoisonInputs, recipe: PoisonRecipe, attacked: Attacked, journal: PoisonJournal) -> list[Passage]:
    """Make the passages of a recipe, from those of the journal on."""
    passages = []
    bound = run.bound(recipe)
    before, began = journal.seconds.get(recipe.NAME, 0.0), time.monotonic()
    total = recipe.steps * len(attacked.groups)
    with stage(run.console, recipe.NAME, unit="steps", announce=False) as shown:
        for number in range(len(attacked.groups)):

            def keep(passage: Passage, number: int = number) -> None:
                journal.add(recipe.NAME, number, passage, before + time.monotonic() - began)
                shown.update(number * recipe.steps + passage.step, total)

            begun = journal.passages.get((recipe.NAME, number))
            passages.append(make_passage(recipe, number, attacked, run.resources, bound=bound, begun=begun, keep=keep))
    return passages


def _result(
    run: PoisonInputs,
    attacked: Attacked,
    made: dict[str, list[Passage]],
    protocol: dict[str, Any],
    command: Sequence[str] | None,
) -> dict[str, Any]:
    settings, held_out = run.settings, run.split.held_out
    queries = run.space.queries(held_out)
    search = Search(run.space, attacked.vectors, held_out, queries, run.corpus, settings.seed)
    rows, examples, bounds = [], [], {}
    for recipe in run.recipes:
        passages = made[recipe.NAME]
        metrics, ranks = measured(passages, search)
        fluency = run.fluency(recipe.words)
        if fluency is not None:
            metrics |= fluency_metrics([p.text for p in passages], fluency, seed=settings.seed)
        if (bound := run.bound(recipe)) is not None:
            bounds[recipe.NAME] = bound
        row = {"task": TASK, "split": "all", "n": len(held_out), "recipe": recipe.NAME, "metrics": metrics}
        rows.append({**row, "skipped": {}, "ranks": ranks.tolist()})
        examples += passage_rows(recipe.NAME, passages, search)
    result = new_result(
        "attack",
        command=command,
        model=settings.model,
        identity=run.identity,
        protocol={
            **protocol,
            **read_as(run.space.model),
            **({"perplexity_bounds": bounds} if bounds else {}),
            **({"notes": [run.masked_lm_note]} if run.masked_lm_note else {}),
            "held_out_sha256": search.held_out_sha256,
            "opened_resources": run.resources.sources(),
        },
        seed=settings.seed,
        results=rows,
        device=str(run.space.model.device),
    )
    result["examples"] = examples
    return result
