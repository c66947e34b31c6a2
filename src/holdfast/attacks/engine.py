"""Engine that runs many attacks in parallel and answers their requests in batches.

Each attack is a generator (see :mod:`holdfast.attacks.requests`). In every round the engine takes the pending request
of each running attack, answers all requests of a type together (distinct texts only, sorted by length, in batches of a
fixed number of tokens) and sends the answers back. An attack depends on its own answers only, and these are rounded, so
that in fp32 the number of parallel attacks changes neither texts nor counts. In bf16 and on other forms of the model
the scores of a text depend on its batch by more than the rounding, so that an attack may take another of two words.

An attack keeps the texts that it has queried until it ends. For a long text these take much memory (with 1,000 words,
PWWS queries 38 million characters at once), so later attacks wait while earlier ones hold too many.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.attacks.attack_progress import UnderWay, work_of
from holdfast.attacks.attack_settings import SIDE_BY_SIDE
from holdfast.attacks.attack_state import AttackState, random_numbers
from holdfast.attacks.examples import Attempt, Example, Verdict, skipped, verdict_record
from holdfast.attacks.recipes import Recipe
from holdfast.attacks.requests import (
    Compare,
    Differentiate,
    Fill,
    Judge,
    Predict,
    Query,
    Request,
    Search,
    Vectorise,
    characters,
)
from holdfast.attacks.targets import Output, Target
from holdfast.edits.words import Words

if TYPE_CHECKING:
    from holdfast.attacks.resources import Resources

MOST_KEPT = 1 << 28
"""Characters of texts held by the attacks above which further ones wait: 256 MB, more for non-ASCII texts."""


MOST_RANKED = 1 << 31
"""Maximum characters of all copies of a text with one word deleted, by which recipes rank the words: 2 GB."""


@dataclass(eq=False)
class _Running:
    """The state of one running attack."""

    state: AttackState
    recipe: str
    search: Search
    outputs: dict[str, Output]
    confirmed: set[str]
    queries: int = 1  # the original text counts as one
    passes: int = 1
    request: Request | None = None  # None: the answer is there, and the attack waits to continue
    answer: Any = None  # a search begins with None
    cached: int = 0
    pending: int = 0

    @property
    def kept(self) -> int:
        """Characters of the texts in the pending request and of those whose outputs are kept until the attack ends."""
        return self.cached + self.pending

    def advance(self) -> bool:
        """Send the answer; return True if the attack continues."""
        answer, self.answer = self.answer, None
        try:
            self.request = self.search.send(answer)
        except StopIteration:
            return False
        self.pending = characters(self.request)
        if isinstance(self.request, (Query, Vectorise)):
            self.cached, self.pending = self.cached + self.pending, 0
        return True


class Engine:
    """Engine that attacks examples with a recipe.

    Args:
        target: the attacked model with its goal.
        resources: the linguistic resources.
        cheap_search: search with the inexact outputs of the target: in bf16, or of a cheaper form of the model. A text
            that reaches the goal is computed again exactly, and the attack receives the exact answer: if the goal is
            not reached, it goes on.
        side_by_side: number of parallel attacks.
        most_kept: characters of kept texts above which further attacks wait; see `MOST_KEPT`.
        seed: random seed of the recipes that draw random numbers.
        memory: cache the outputs for an example's texts during its attack; otherwise they are cached for one round.
    """

    def __init__(
        self,
        target: Target,
        resources: Resources,
        *,
        cheap_search: bool = False,
        side_by_side: int = SIDE_BY_SIDE,
        most_kept: int = MOST_KEPT,
        seed: int = 42,
        memory: bool = True,
    ) -> None:
        self.target, self.resources = target, resources
        self.cheap_search, self.seed, self.memory = cheap_search, seed, memory
        self.side_by_side, self.most_kept = side_by_side, most_kept
        self.passes = 0
        self._running: list[_Running] = []

    def under_way(self) -> UnderWay:
        """Return the state of the running attacks; may be called from another thread."""
        running = tuple(self._running)
        states = [attack.state for attack in running]
        shares = [state.tried / max(len(state.places), 1) for state in states]
        return UnderWay(
            len(running),
            sum(state.tried for state in states),
            sum(len(state.places) for state in states),
            sum(attack.queries for attack in running),
            sum(shares),
            sum(share * work_of(state.example.text) for share, state in zip(shares, states, strict=True)),
        )

    def run(self, recipe: Recipe, examples: Iterable[Example]) -> Iterator[Attempt]:
        """Attack examples; yield each attempt when it ends, so not in the order of the examples."""
        waiting = iter(examples)
        running: list[_Running] = []
        while True:
            fresh = list(itertools.islice(waiting, self.side_by_side - len(running)))
            if not fresh and not running:
                return
            for item in self._start(recipe, fresh):
                if isinstance(item, Attempt):
                    yield item
                else:
                    running.append(item)
            ended, running = self._advance(running)
            yield from map(self._attempt, ended)
            self._running = running
            self._answer([attack for attack in running if attack.request is not None])

    def _advance(self, running: Sequence[_Running]) -> tuple[list[_Running], list[_Running]]:
        """Advance the attacks within the memory limit; return those that ended, and the others in their order.

        The oldest running attack always advances, so that every attack ends.
        """
        ended: list[_Running] = []
        going: list[_Running] = []
        kept = sum(attack.kept for attack in running)
        for attack in running:
            if going and kept >= self.most_kept:
                going.append(attack)
                continue
            kept -= attack.kept
            if attack.advance():
                going.append(attack)
                kept += attack.kept
            else:
                ended.append(attack)
        return ended, going

    # --- beginning and end ---------------------------------------------------------------------------------------

    def _start(self, recipe: Recipe, examples: Sequence[Example]) -> Iterator[_Running | Attempt]:
        """Query the original texts, and start an attack for each example that can be attacked."""
        with_text = [example for example in examples if example.text.strip()]
        refused = dict(zip((example.number for example in with_text), self.target.prepare(with_text), strict=True))
        accepted = [example for example in with_text if refused[example.number] is None]
        inputs = [self.target.model_input(example, example.text) for example in accepted]
        numbers = [example.number for example in accepted]
        outputs = dict(zip(numbers, self._outputs(inputs, exact=True), strict=True))
        for example in examples:
            reason = refused.get(example.number, "the text is empty")
            if reason is not None:
                yield skipped(example, recipe.NAME, reason)
            else:
                yield self._begin(recipe, example, outputs[example.number])

    def _begin(self, recipe: Recipe, example: Example, output: Output) -> _Running | Attempt:
        verdict = self.target.verdict(example, output)
        rng = random_numbers(self.seed, recipe.NAME, example.number)
        state = AttackState(
            example,
            Words.of(example.text),
            verdict,
            self.resources,
            rng,
            self.target.unknown,
            self.target.seen(example),
            recipe.constraints(),
            seed=self.seed,
            gradients=self.target.has_gradients,
            recipe=recipe.NAME,
        )
        attack = _Running(state, recipe.NAME, recipe.search(state), {example.text: output}, {example.text})
        if verdict.reached:
            reached = "the model is wrong already" if self.target.has_classes else "the goal is reached already"
            return self._attempt(attack, reason=reached)
        if (reason := self.target.unreachable(example)) is not None:
            return self._attempt(attack, reason=reason)
        if not state.places:
            return self._attempt(attack, reason="it holds no word that may be changed")
        if len(state.places) * len(example.text) > MOST_RANKED:
            return self._attempt(attack, reason="it is too long: a copy of it for each of its words fills the memory")
        if state.budget == 0:
            return self._attempt(attack, reason="it is too short: the recipe may change no word of it")
        return attack

    def _attempt(self, attack: _Running, reason: str | None = None) -> Attempt:
        state, example = attack.state, attack.state.example
        reached = state.verdict.reached and reason is None
        text = state.words.text
        if state.changed and text not in attack.confirmed:
            # A failed cheap search: its best text is computed again exactly for the result.
            state.verdict = self.target.verdict(
                example, self._outputs([self.target.model_input(example, text)], exact=True)[0]
            )
            reached = state.verdict.reached
        classes = self.target.has_classes
        return replace(
            skipped(example, attack.recipe, reason),
            outcome="skipped" if reason else "succeeded" if reached else "failed",
            adversarial=text,
            before=verdict_record(state.first, example, classes),
            after=verdict_record(state.verdict, example, classes),
            changed=tuple((p, state.original.words[p], state.words.parts[2 * p + 1]) for p in state.changed),
            changed_by=tuple(state.changed_by) if set(state.changed_by) - {attack.recipe} else (),
            queries=attack.queries,
            passes=attack.passes,
        )

    # --- answers -------------------------------------------------------------------------------------------------

    def _answer(self, running: Sequence[_Running]) -> None:
        """Answer the pending requests, one type at a time, and store the answer in each attack."""
        by_kind: dict[type[Request], list[_Running]] = {}
        for attack in running:
            assert attack.request is not None
            by_kind.setdefault(type(attack.request), []).append(attack)
        for kind, attacks in by_kind.items():
            serve: Callable[[Sequence[_Running]], Iterable[Any]] = {
                Query: self._query,
                Compare: self._compare,
                Judge: self._judge,
                Fill: self._fill,
                Predict: self._predict,
                Differentiate: self._differentiate,
                Vectorise: self._vectorise,
            }[kind]
            for attack, answer in zip(attacks, serve(attacks), strict=True):
                attack.answer, attack.request = answer, None

    def _query(self, attacks: Sequence[_Running]) -> list[list[Verdict]]:
        """Query the target for all texts of all attacks; compute texts that reach the goal again exactly."""
        if not self.memory:
            for attack in attacks:
                attack.outputs.clear()
                attack.confirmed.clear()
        self._compute(attacks, exact=not self.cheap_search, only_reached=False)
        if self.cheap_search:
            self._compute(attacks, exact=True, only_reached=True)
        answers = []
        for attack in attacks:
            texts = attack.request.texts  # type: ignore[union-attr]
            attack.queries += len(texts)
            answers.append([self.target.verdict(attack.state.example, attack.outputs[text]) for text in texts])
        return answers

    def _compute(self, attacks: Sequence[_Running], *, exact: bool, only_reached: bool) -> None:
        """Compute and store the outputs of requested texts that are not known yet."""
        new: list[tuple[_Running, str]] = []
        for attack in attacks:
            texts: tuple[str, ...] = attack.request.texts  # type: ignore[union-attr]
            for text in dict.fromkeys(texts):
                if only_reached:
                    verdict = self.target.verdict(attack.state.example, attack.outputs[text])
                    unknown = verdict.reached and text not in attack.confirmed
                else:
                    unknown = text not in attack.outputs
                if unknown:
                    new.append((attack, text))
        outputs = self._outputs(
            [self.target.model_input(attack.state.example, text) for attack, text in new], exact=exact
        )
        for (attack, text), output in zip(new, outputs, strict=True):
            attack.outputs[text] = output
            attack.passes += 1
            if exact:
                attack.confirmed.add(text)

    def _outputs(self, texts: Sequence[tuple[str, ...]], *, exact: bool) -> Sequence[Output]:
        """Compute the outputs of texts, once for each distinct text."""
        distinct = list(dict.fromkeys(texts))
        self.passes += len(distinct)
        known = dict(zip(distinct, self.target.outputs(distinct, exact=exact), strict=True)) if distinct else {}
        return [known[text] for text in texts]

    def _compare(self, attacks: Sequence[_Running]) -> Iterator[list[float]]:
        pairs = [pair for attack in attacks for pair in attack.request.pairs]  # type: ignore[union-attr]
        cosines = iter(self.resources.similarity.cosines(pairs))
        for attack in attacks:
            yield [next(cosines) for _ in attack.request.pairs]  # type: ignore[union-attr]

    def _judge(self, attacks: Sequence[_Running]) -> Iterator[list[bool]]:
        asked = [each for attack in attacks for each in attack.request.asked]  # type: ignore[union-attr]
        valid = iter(self.resources.valid_synonyms.valid(asked))
        for attack in attacks:
            yield [next(valid) for _ in attack.request.asked]  # type: ignore[union-attr]

    def _fill(self, attacks: Sequence[_Running]) -> list[list[str]]:
        requests: list[Any] = [attack.request for attack in attacks]
        return self.resources.masked_lm.propose([r.words for r in requests], [r.place for r in requests])

    def _predict(self, attacks: Sequence[_Running]) -> list[list[list[str]]]:
        requests: list[Any] = [attack.request for attack in attacks]
        readings: list[list[list[str]]] = [[] for _ in requests]
        for limit in sorted({request.limit for request in requests}):  # several with an ensemble of recipes
            rows = [row for row, request in enumerate(requests) if request.limit == limit]
            read = self.resources.masked_lm.read([requests[row].words for row in rows], limit)
            for row, reading in zip(rows, read, strict=True):
                readings[row] = reading
        return readings

    def _differentiate(self, attacks: Sequence[_Running]) -> list[Any]:
        for attack in attacks:
            attack.queries += 1
            attack.passes += 1
        self.passes += len(attacks)
        return self.target.gradients([(a.state.example, a.request.words) for a in attacks])  # type: ignore[union-attr]

    def _vectorise(self, attacks: Sequence[_Running]) -> Iterator[list[tuple[Any, Verdict]]]:
        known: list[dict[str, Any]] = [self._known_vectors(attack) for attack in attacks]
        new = [
            (number, text)
            for number, attack in enumerate(attacks)
            for text in dict.fromkeys(attack.request.texts)  # type: ignore[union-attr]
            if text not in known[number]
        ]
        located = self.target.vectors([(attacks[number].state.example, text) for number, text in new])
        self.passes += len(new)
        for (number, text), (z, output) in zip(new, located, strict=True):
            attack, known[number][text] = attacks[number], z
            attack.outputs[text] = output
            attack.passes += 1
            attack.confirmed.add(text)
        for attack, vectors in zip(attacks, known, strict=True):
            texts: tuple[str, ...] = attack.request.texts  # type: ignore[union-attr]
            attack.queries += len(texts)
            yield [(vectors[text], self.target.verdict(attack.state.example, attack.outputs[text])) for text in texts]

    def _known_vectors(self, attack: _Running) -> dict[str, Any]:
        """Return the vectors of requested texts whose exact outputs, which are kept, hold them."""
        texts: tuple[str, ...] = attack.request.texts  # type: ignore[union-attr]
        exact = {text: attack.outputs[text] for text in texts if text in attack.confirmed and text in attack.outputs}
        found = {text: self.target.vector(output) for text, output in exact.items()}
        return {text: vector for text, vector in found.items() if vector is not None}
