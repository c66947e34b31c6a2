"""The engine: how many attacks run side by side changes nothing, and what is claimed holds in fp32."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from small_attacks import ADJECTIVES, CONTENT, cosine, neighbours

from holdfast.attacks import PWWS, RECIPES, Geometry, Recipe, TextFooler, Typos
from holdfast.attacks.attack_state import AttackState
from holdfast.attacks.classifier import Classifier
from holdfast.attacks.engine import Engine
from holdfast.attacks.examples import Attempt, Example, Verdict
from holdfast.attacks.requests import (
    Compare,
    Differentiate,
    Fill,
    Predict,
    Query,
    Search,
    Vectorise,
    characters,
)
from holdfast.attacks.targets import CallableTarget, ClassifierTarget
from holdfast.edits.words import Words

# Random models of few words are not often deceived by typing errors: those may change more words here.
OFTEN = ("typos", "evasion", "adaptive-typos")
ALL = [RECIPES[name](max_share=0.6) if name in OFTEN else RECIPES[name]() for name in RECIPES]
ALL += [Geometry(source="neighbours"), PWWS(reconsider=False)]


def attempts(engine: Engine, recipe: Recipe, examples: Sequence[Example]) -> dict[int, Attempt]:
    found = list(engine.run(recipe, examples))
    assert len(found) == len(examples)
    return {attempt.number: attempt for attempt in found}


def decided(attempt: Attempt) -> Attempt:
    """An attempt without what may differ in the last digits, or with how often the model was asked the same."""
    verdicts = {when: {k: v for k, v in getattr(attempt, when).items() if k != "value"} for when in ("before", "after")}
    return replace(attempt, passes=0, **verdicts)


def label(recipe: Recipe) -> str:
    return f"{recipe.NAME}{'' if not recipe.changed_constants() else recipe.changed_constants()}"


@pytest.mark.parametrize("recipe", ALL, ids=label)
def test_side_by_side_equals_one_at_a_time(
    recipe: Recipe, target: ClassifierTarget, resources: Any, examples: list[Example]
) -> None:
    alone = attempts(Engine(target, resources, side_by_side=1, memory=False), recipe, examples)
    together = attempts(Engine(target, resources, side_by_side=64), recipe, examples)
    shuffled = random.Random(0).sample(examples, len(examples))
    mixed = attempts(Engine(target, resources, side_by_side=7), recipe, shuffled)
    in_turn = attempts(Engine(target, resources, most_kept=3000), recipe, examples)
    assert alone.keys() == together.keys()
    for number in alone:
        # Passes differ: one at a time without a memory asks about a text as often as it comes up.
        assert decided(alone[number]) == decided(together[number]) == decided(mixed[number]) == decided(in_turn[number])
        assert alone[number].after.get("value") == pytest.approx(together[number].after.get("value"), abs=1e-3)
        assert together[number].passes == mixed[number].passes == in_turn[number].passes
    outcomes = [attempt.outcome for attempt in together.values()]
    assert outcomes.count("succeeded") > 3  # or the equality says little
    assert sum(len(attempt.changed) for attempt in together.values()) > 10


class Noting(ClassifierTarget):
    """Notes whose texts it is asked about, how many characters at once, and how many of attacks that have not ended."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__(classifier)
        self.whose: list[int] = []
        self.characters: list[int] = []
        self.kept: dict[int, int] = {}
        self.most_kept = 0

    def model_input(self, example: Example, text: str) -> Any:
        self.whose.append(example.number)
        self.kept[example.number] = self.kept.get(example.number, 0) + len(text)
        return super().model_input(example, text)

    def outputs(self, texts: Any, *, exact: bool) -> Any:
        self.characters.append(sum(len(text) for (text,) in texts))
        self.most_kept = max(self.most_kept, sum(self.kept.values()))
        return super().outputs(texts, exact=exact)

    def attacked(self, examples: Sequence[Example], resources: Any, **how: Any) -> Noting:
        for attempt in Engine(self, resources, **how).run(PWWS(), examples):
            del self.kept[attempt.number]
        return self


def test_attacks_wait_while_those_before_them_keep_too_many_texts(
    classifier: Classifier, resources: Any, examples: list[Example]
) -> None:
    alone = Noting(classifier).attacked(examples, resources, side_by_side=1)
    most, whole = max(alone.characters), alone.most_kept
    all_at_once = Noting(classifier).attacked(examples, resources)
    assert max(all_at_once.characters) > 8 * most  # or the limit says little
    limited = Noting(classifier).attacked(examples, resources, most_kept=4 * most)
    assert 2 * most < max(limited.characters) <= 5 * most
    # What was asked about is kept until the end: the eldest goes on with all of its own, another with one question.
    originals = sum(len(example.text) for example in examples)
    assert limited.most_kept <= originals + 4 * most + most + whole < all_at_once.most_kept
    # Where nothing may be kept, each waits for the end of the one before.
    in_turn = Noting(classifier).attacked(examples, resources, most_kept=0)
    turns = [number for number, _ in itertools.groupby(in_turn.whose[len(examples) :])]
    assert len(turns) == len(set(turns)) > 20
    assert len(list(itertools.groupby(all_at_once.whose))) > 3 * len(turns)


def test_whose_turn_it_is(target: ClassifierTarget, resources: Any) -> None:
    class Attack:
        def __init__(self, *kept: int) -> None:
            self.kept, *self.then = kept

        def advance(self) -> bool:
            self.kept = self.then.pop(0) if self.then else 0
            return self.kept > 0

    def waiting(*attacks: Attack) -> list[int]:
        """Which attacks have not gone on, and that the others stay in their order or have ended."""
        before = [list(attack.then) for attack in attacks]
        ended, going = Engine(target, resources, most_kept=8)._advance(attacks)  # type: ignore[arg-type]
        assert going == [attack for attack in attacks if attack.kept]
        assert ended == [attack for attack in attacks if not attack.kept]
        return [place for place, attack in enumerate(attacks) if attack.kept and attack.then == before[place]]

    assert waiting(Attack(6, 1), Attack(3, 1), Attack(2, 2)) == []  # 11, then 6, 4, 4
    assert waiting(Attack(3, 6), Attack(2, 1), Attack(1, 1)) == [1, 2]  # 6, then 9
    assert waiting(Attack(2, 2), Attack(3, 6), Attack(2, 2)) == [2]  # 7, then 7, 10
    assert waiting(Attack(9, 0), Attack(9, 9), Attack(1, 1)) == [2]  # the eldest that is left goes on


def test_the_characters_of_every_kind_of_request_are_counted() -> None:
    words = Words.of("a dog runs")
    texts = ("a dog", "cat")
    requests = [
        Query(texts),
        Vectorise(texts),
        Compare((texts, texts)),
        Fill(words, 1),
        Predict(words, 8),
        Differentiate(words),
    ]
    assert [characters(request) for request in requests] == [8, 8, 16, 10, 10, 10]


@pytest.mark.parametrize("recipe", ALL, ids=label)
def test_only_the_second_text_of_a_pair_is_changed(
    recipe: Recipe, target: ClassifierTarget, resources: Any, pairs: list[Example]
) -> None:
    found = attempts(Engine(target, resources), recipe, pairs)
    assert any(attempt.outcome == "succeeded" for attempt in found.values())
    for example in pairs:
        assert found[example.number].other == example.texts[0]
        assert found[example.number].original == example.texts[1]


@pytest.mark.parametrize("recipe", ALL, ids=label)
def test_a_success_is_a_success_for_a_fresh_forward_pass(
    recipe: Recipe, target: ClassifierTarget, classifier: Classifier, resources: Any, examples: list[Example]
) -> None:
    for attempt in Engine(target, resources, cheap_search=True).run(recipe, examples):
        fresh = int(classifier.logits([(attempt.adversarial,)]).argmax())
        assert (fresh != attempt.label) == (attempt.outcome == "succeeded")
        assert attempt.after["label"] == fresh


class Strict(ClassifierTarget):
    """Refuses an empty text, as services do."""

    def model_input(self, example: Example, text: str) -> Any:
        assert text.strip(), "an empty text"
        return super().model_input(example, text)


@pytest.mark.parametrize("name", ["textfooler", "textbugger", "pwws", "bae-r"])
def test_no_empty_text_is_queried(name: str, classifier: Classifier, resources: Any) -> None:
    recipe, texts = RECIPES[name](), ["house", " dog ", "Sings", "a man"]
    label = int(classifier.logits([("house",)]).argmax())
    found = attempts(
        Engine(Strict(classifier), resources), recipe, [Example(n, (text,), 0, label) for n, text in enumerate(texts)]
    )
    assert found[0].outcome != "skipped"


class TwoFaced(ClassifierTarget):
    """In bf16 every text seems to reach the goal."""

    def outputs(self, texts: Any, *, exact: bool) -> Any:
        return super().outputs(texts, exact=True) if exact else [np.full(3, np.nan) for _ in texts]

    def verdict(self, example: Example, output: Any) -> Verdict:
        return Verdict(9.0, 0.0, True, 0.0, 9) if np.isnan(output).any() else super().verdict(example, output)


def test_a_claim_in_bf16_that_fp32_denies_is_searched_on(
    classifier: Classifier, resources: Any, examples: list[Example]
) -> None:
    honest = attempts(Engine(ClassifierTarget(classifier), resources), PWWS(), examples)
    lied_to = attempts(Engine(TwoFaced(classifier), resources, cheap_search=True), PWWS(), examples)
    # Every text is asked about again in fp32, so the search is the one in fp32.
    assert {n: decided(a) for n, a in lied_to.items()} == {n: decided(a) for n, a in honest.items()}
    assert sum(a.passes for a in lied_to.values()) > sum(a.passes for a in honest.values())
    for number, attempt in lied_to.items():  # once in each precision, however often it is asked about
        assert attempt.passes <= 2 * honest[number].passes


@dataclass(frozen=True)
class Twice(Recipe):
    """Queries one text twice, and takes the second answer."""

    NAME = "twice"
    IDEA = PAPER = "a test"

    def search(self, state: AttackState) -> Search:
        place = state.places[0]
        words = state.words.exchanged(place, "house")
        for _ in range(2):
            (verdict,) = yield Query((words.text,))
        state.take(place, words, verdict)


@pytest.mark.parametrize("memory", [True, False])
def test_a_claim_is_denied_each_time(memory: bool, classifier: Classifier, resources: Any) -> None:
    label = int(classifier.logits([("house sings",)]).argmax())
    engine = Engine(TwoFaced(classifier), resources, cheap_search=True, memory=memory)
    (attempt,) = engine.run(Twice(), [Example(0, ("house sings",), 0, label)])
    assert (attempt.outcome, attempt.after["label"]) == ("failed", label)


def test_queries_count_every_question_and_passes_each_text_once(
    target: ClassifierTarget, resources: Any, examples: list[Example]
) -> None:
    asked: list[int] = []

    class Counting(ClassifierTarget):
        def outputs(self, texts: Any, *, exact: bool) -> Any:
            asked.append(len(texts))
            assert len(set(texts)) == len(texts)
            return super().outputs(texts, exact=exact)

    engine = Engine(Counting(target.classifier), resources)
    found = attempts(engine, TextFooler(), examples)
    assert engine.passes == sum(asked) <= sum(a.passes for a in found.values())
    for attempt in found.values():
        assert attempt.passes <= attempt.queries
    # By hand, for one example: the original, a deletion for each content word, then its candidates.
    attempt = next(a for a in found.values() if a.outcome == "succeeded" and len(a.changed) == 1)
    place = attempt.changed[0][0]
    words = Words.of(attempt.original)
    content = [w for w in words.words if resources.tagger.tags([w]) != ["X"]]
    candidates = [c for c in resources.synonyms.nearest(words.words[place], 50) if _alike(words.words[place], c)]
    candidates = [c for c in candidates if _near(words, place, c)]
    tried_before = _before(attempt, target, words)
    assert attempt.queries == 1 + len(content) + len(candidates) + tried_before


def _alike(a: str, b: str) -> bool:
    return (a.lower() in ADJECTIVES) == (b.lower() in ADJECTIVES)


def _near(words: Words, place: int, candidate: str) -> bool:
    return len(words.words) < 15 or cosine(words.text, words.exchanged(place, candidate).text) >= 0.3


def _before(attempt: Attempt, target: ClassifierTarget, words: Words) -> int:
    """Queries for words that were tried before the one that succeeded; by an own ranking."""
    assert attempt.label is not None
    right = int(attempt.label)

    def probabilities(text: str) -> Any:
        logits = target.classifier.logits([(text,)])[0].astype(float)
        return np.exp(logits) / np.exp(logits).sum()

    first = probabilities(attempt.original)
    importance = {}
    for place, word in enumerate(words.words):
        if word.lower() in CONTENT:
            p = probabilities(words.without(place))
            importance[place] = first[right] - p[right]
            if p.argmax() != right:
                importance[place] += p[p.argmax()] - first[p.argmax()]
    order = sorted(importance, key=lambda place: -importance[place])
    tried = order[: order.index(attempt.changed[0][0])]
    return sum(sum(_alike(words.words[p], c) and _near(words, p, c) for c in neighbours(words.words[p])) for p in tried)


ODD = {
    "": "the text is empty",
    "   ": "the text is empty",
    "the of and": "it holds no word that may be changed",
    "12 345 !!!": "it holds no word that may be changed",
    "👍🏽 👨‍👩‍👧": "it holds no word that may be changed",
}


@pytest.mark.parametrize("recipe", ALL, ids=label)
def test_odd_texts_are_skipped_with_a_reason_or_attacked(
    recipe: Recipe, target: ClassifierTarget, resources: Any
) -> None:
    texts = [
        *ODD,
        "dog",
        "the \x00 dog \x00 runs",
        "مرحبا dog بالعالم",
        "te\u0301xt wi\u0301th dog",
        "DOG" * 200,
        " ".join(random.Random(0).choices(["dog", "cat", "the", "sings", "zebra"], k=1500)),
    ]
    labels = target.classifier.logits([(text,) for text in texts]).argmax(axis=1)
    given = [Example(i, (text,), 0, int(y)) for i, (text, y) in enumerate(zip(texts, labels, strict=True))]
    given += [
        Example(90, ("the dog runs",), 0, 7),
        Example(91, ("the dog runs",), 0, -1),
        Example(92, ("the dog runs",), 0, None),
        Example(93, ("the dog runs",), 0, 1.5),
        Example(94, ("the dog runs",), 0, (int(labels[6]) + 1) % 3),
    ]
    found = attempts(Engine(target, resources), recipe, given)
    for number, reason in enumerate(ODD.values()):
        assert (found[number].outcome, found[number].reason) == ("skipped", reason)
        # The model is right about what cannot be changed, which counts in its accuracy.
        assert found[number].before.get("correct") == (None if "empty" in reason else True)
    for number in (90, 91, 92, 93):
        assert "none of the model's 3 classes" in str(found[number].reason)
    wrong = found[94]
    assert wrong.outcome == "skipped" or wrong.before["correct"]
    long = found[10]
    # Words beyond the 64 tokens that the model sees are never touched.
    assert all(place < 64 for place, _, _ in long.changed)
    assert long.queries < 64 * 30


def test_wrong_already_is_told_apart_from_failure(
    target: ClassifierTarget, resources: Any, examples: list[Example]
) -> None:
    wrong = [replace(example, label=(int(example.label or 0) + 1) % 3) for example in examples]
    for attempt in Engine(target, resources).run(PWWS(), wrong):
        assert (attempt.outcome, attempt.reason) == ("skipped", "the model is wrong already")
        assert attempt.before["correct"] is False
        assert attempt.queries == 1


def test_a_pair_for_a_model_of_single_texts_is_skipped(classifier: Classifier, resources: Any) -> None:
    class Single:
        def __init__(self) -> None:
            self.takes_pairs, self.classes = False, classifier.classes
            self.tokenizer, self.source, self.has_gradients = classifier.tokenizer, "single", True

    found = list(Engine(ClassifierTarget(Single()), resources).run(PWWS(), [Example(0, ("a dog", "a cat"), 1, 0)]))  # type: ignore[arg-type]
    assert found[0].reason == "the model takes single texts"


def test_any_function_can_be_attacked(resources: Any) -> None:
    def says(texts: list[str]) -> Any:
        red = np.array(["red" in text.lower() for text in texts], dtype=float)
        return np.stack([0.1 + 0.8 * red, 0.9 - 0.8 * red], axis=1)

    target = CallableTarget(says, name="says red")
    given = [Example(0, ("the red dog sings in the park",), 0, 0), Example(1, ("the dog sings",), 0, 1)]
    found = attempts(Engine(target, resources), TextFooler(), given)
    assert found[0].outcome == "succeeded"
    assert [change[1] for change in found[0].changed] == ["red"]
    assert found[1].outcome == "failed"
    assert found[0].before["value"] == pytest.approx(0.9, abs=1e-3)


def test_random_recipes_follow_the_seed(target: ClassifierTarget, resources: Any, examples: list[Example]) -> None:
    first = attempts(Engine(target, resources, seed=1), Typos(), examples)
    again = attempts(Engine(target, resources, seed=1), Typos(), examples)
    other = attempts(Engine(target, resources, seed=2), Typos(), examples)
    assert first == again
    assert first != other
