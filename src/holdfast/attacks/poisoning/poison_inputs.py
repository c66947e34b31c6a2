"""Inputs of a poisoning: corpus, queries in two halves, encoder, and the perplexity of ordinary passages."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.adversary.pseudo_perplexity import PseudoPerplexity
from holdfast.attacks.attack_inputs import attacked_encoder
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.poisoning.mean_similarity import SearchSpace
from holdfast.attacks.poisoning.passage_making import Attacked, query_groups
from holdfast.attacks.poisoning.passage_measures import Fluency
from holdfast.attacks.poisoning.poison_queries import QuerySplit, split_queries
from holdfast.attacks.poisoning.poison_recipe import PoisonRecipe
from holdfast.attacks.poisoning.proposed_words import MASKED_LM, NaturalText
from holdfast.attacks.poisoning.retrieved_share import DEPTHS
from holdfast.attacks.resources import Resources, availability
from holdfast.attacks.search_corpus import Searched, read_searched
from holdfast.attacks.work_estimate import WorkEstimate
from holdfast.errors import UserError
from holdfast.model_lookup import is_function
from holdfast.models import read_as
from holdfast.progress import stage
from holdfast.text_prompts import prompt_protocol

if TYPE_CHECKING:
    from rich.console import Console

TASK = "poison"


@dataclass(frozen=True, eq=False)
class PoisonInputs:
    """The inputs of a run; each is loaded when it is first used.

    Attributes:
        settings: settings of the run, with the device in use.
        recipes: its recipes.
        console: where progress is shown.
    """

    settings: AttackSettings
    recipes: Sequence[PoisonRecipe]
    console: Console | None
    _fluency: dict[int, Fluency] = field(default_factory=dict)

    def print_line(self, line: str) -> None:
        """Print a message."""
        if self.console is not None:
            self.console.print(line, markup=False, highlight=False)

    @functools.cached_property
    def searched(self) -> Searched:
        """The corpus."""
        return read_searched(str(self.settings.search), data=self.settings.data)

    @functools.cached_property
    def asked(self) -> Searched:
        """The queries."""
        return read_searched(str(self.settings.queries), data=self.settings.data)

    @functools.cached_property
    def corpus(self) -> list[str]:
        """The different documents."""
        return list(dict.fromkeys(self.searched.texts))

    @functools.cached_property
    def split(self) -> QuerySplit:
        """The queries in two halves."""
        settings = self.settings
        return split_queries(self.asked.texts, seed=settings.seed, most=settings.examples, source=str(settings.queries))

    @functools.cached_property
    def resources(self) -> Resources:
        """The linguistic resources."""
        return Resources(self.settings.resource_names, data=self.settings.data, device=self.settings.device)

    @functools.cached_property
    def _model(self) -> tuple[Any, dict[str, Any]]:
        return attacked_encoder(self.settings, sides_only=True)

    @property
    def identity(self) -> dict[str, Any]:
        """The hashes of the model."""
        return self._model[1]

    @functools.cached_property
    def space(self) -> SearchSpace:
        """The encoder."""
        return SearchSpace(self._model[0], source=self.settings.model)

    def require_enough(self) -> None:
        """Refuse a corpus that is not larger than the deepest top k, and too few queries."""
        least = max(DEPTHS) + self.settings.passages
        if len(self.corpus) <= least:
            raise UserError(
                f"{self.searched.source} has {len(self.corpus)} different documents: more than {least} are needed, so "
                f"that the top {max(DEPTHS)} of {self.settings.passages} passages is not trivial"
            )
        if len(self.split.fitted) < self.settings.passages:
            raise UserError(
                f"--passages {self.settings.passages}: more than the {len(self.split.fitted)} queries "
                "that they are made for"
            )

    @functools.cached_property
    def masked_lm_note(self) -> str | None:
        """The reason why perplexity is not measured, or None; a masked LM that a recipe has loaded is used."""
        if MASKED_LM in self.resources.sources():
            return None
        rows = {row.resource: row for row in availability(self.settings.resource_names, data=self.settings.data)}
        found = rows[MASKED_LM]
        return None if found.here else f"perplexity is not measured: the masked LM {found.name} is not here"

    def fluency(self, words: int) -> Fluency | None:
        """Return the perplexity of ordinary passages of a length; None without a masked LM."""
        if self.masked_lm_note is not None:
            return None
        if words not in self._fluency:
            with stage(self.console, "perplexity of ordinary passages", announce=False):
                perplexity = PseudoPerplexity(self.resources.masked_lm)
                self._fluency[words] = Fluency.of(perplexity, self.corpus, words, seed=self.settings.seed)
        return self._fluency[words]

    def bound(self, recipe: PoisonRecipe) -> float | None:
        """Return the bound on the perplexity of a recipe's passages, if it has one."""
        if not isinstance(recipe, NaturalText):
            return None
        fluency = self.fluency(recipe.words)
        assert fluency is not None
        return fluency.bound(recipe.percentile)

    def protocol(self) -> dict[str, Any]:
        """Return all settings that the passages depend on, and the model hash; not those that only affect speed."""
        settings, model = self.settings, self.space.model
        asked = self.asked.record()
        queries = {"fitted": len(self.split.fitted), "held_out": len(self.split.held_out), "split_seed": settings.seed}
        return {
            "task": TASK,
            "split": "all",
            "examples": settings.passages,
            "data": {"source": asked["source"], "sha256": asked["sha256"]},
            "goal": {
                "kind": "poison",
                "passages": settings.passages,
                "similarity": self.space.similarity,
                "depths": list(DEPTHS),
                "searched": self.searched.record(),
                "queries": {**asked, **queries},
            },
            **prompt_protocol(model),
            **{name: form for name, form in read_as(model).items() if name.endswith("backend")},
            "recipes": {recipe.NAME: recipe.record() for recipe in self.recipes},
            "resources": dict(vars(settings.resource_names)),
            "seed": settings.seed,
            "model_sha256": self.identity["model_sha256"],
        }

    def attacked(self) -> Attacked:
        """Encode the corpus and the fitted queries, and group these; held-out queries are not read."""
        settings = self.settings
        with stage(self.console, "encoding the corpus", unit="texts") as message:
            vectors = self.space.documents(self.corpus, message.update)
        fitted = self.split.fitted
        groups = query_groups(self.space, fitted, self.space.queries(fitted), settings.passages, seed=settings.seed)
        return Attacked(self.space, self.corpus, vectors, groups, settings.seed)

    def estimate(self) -> WorkEstimate:
        """Estimate the work by the time of the first documents."""
        first = self.corpus[:16]
        self.space.documents(first[:1])  # the first call is slower than the others
        began = time.monotonic()
        self.space.documents(first)
        steps = sum(recipe.steps * recipe.candidates for recipe in self.recipes)
        return WorkEstimate(
            texts=self.settings.passages * len(self.recipes),
            encodings=len(self.corpus) + len(self.split.fitted) + len(self.split.held_out),
            queries=self.settings.passages * steps,
            seconds_per_text=(time.monotonic() - began) / len(first),
            call_batch=self.settings.call_batch if is_function(self.settings.model) else None,
        )
