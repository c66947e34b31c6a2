"""The ensemble of all recipes: as strong as each, within one budget, and nothing is computed twice."""

from __future__ import annotations

import dataclasses
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from small_attacks import ATTACK, WORDS, content, mistake, split

from holdfast.adversary.masked_lm import MaskedLM
from holdfast.attacks import BAE, PWWS, RECIPES, CallableTarget, DriftTarget, Recipe, RetrievalTarget, Typos
from holdfast.attacks.attack_run import attack
from holdfast.attacks.attack_settings import AttackSettings
from holdfast.attacks.classifier import Classifier
from holdfast.attacks.engine import Engine
from holdfast.attacks.ensemble import about_ensembles, for_folder, for_target, won_by
from holdfast.attacks.examples import Attempt, Example, Verdict
from holdfast.attacks.journal import journals
from holdfast.attacks.recipe_choice import make_recipes, recipe_record
from holdfast.attacks.recipes.auto import Auto, published_parts
from holdfast.attacks.targets import ClassifierTarget, Target
from holdfast.cli import main
from holdfast.edits.words import Words
from holdfast.results import read_result


def attempts(target: Target, resources: Any, recipe: Recipe, examples: Sequence[Example]) -> dict[int, Attempt]:
    return {attempt.number: attempt for attempt in Engine(target, resources).run(recipe, examples)}


def broken(found: dict[int, Attempt]) -> set[int]:
    return {number for number, attempt in found.items() if attempt.outcome == "succeeded"}


@pytest.fixture
def encoder_targets(make_encoder_model: Callable[..., Any]) -> list[Target]:
    """An encoder with the goal drift, and one with the goal neighbours."""
    model = make_encoder_model("bert", pooling="mean")
    rng = random.Random(5)
    corpus = [" ".join(rng.choices(WORDS, k=8)) for _ in range(40)]
    return [
        DriftTarget(model, source="encoder", threshold=0.95),
        RetrievalTarget(model, source="encoder", corpus=corpus, k=3),
    ]


# --- as strong as each recipe --------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_a_text_that_a_recipe_breaks_alone_is_broken_as_it_breaks_it(
    share: float, target: ClassifierTarget, resources: Any, examples: list[Example]
) -> None:
    ensemble = Auto(max_share=share)
    found = attempts(target, resources, ensemble, examples)
    alone = [attempts(target, resources, part, examples) for part in ensemble.recipes()]
    assert broken(found) >= set().union(*map(broken, alone))
    assert len(set(map(len, map(broken, alone)))) > 2  # or the recipes are the same
    for number, attempt in found.items():
        winner = next((part[number] for part in alone if part[number].outcome == "succeeded"), None)
        if winner is None:
            continue
        assert (attempt.adversarial, attempt.changed) == (winner.adversarial, winner.changed)
        assert set(attempt.changed_by) == {winner.recipe}
        # Those before it have failed, and cost what they cost alone; later ones were not tried.
        before = [part[number] for part in alone[: [part[number] for part in alone].index(winner)]]
        spent = sum(each.queries - 1 for each in (*before, winner) if each.outcome != "skipped")
        assert attempt.queries == 1 + spent


def test_encoders_too(encoder_targets: list[Target], resources: Any, examples: list[Example]) -> None:
    for target in encoder_targets:
        ensemble = Auto(max_share=0.4)
        found = attempts(target, resources, ensemble, examples)
        alone = [attempts(target, resources, part, examples) for part in ensemble.recipes()]
        assert set().union(*map(broken, alone)) <= broken(found)
        assert broken(found)


def test_a_larger_budget_is_as_strong_as_the_published_budgets(
    target: ClassifierTarget, resources: Any, examples: list[Example]
) -> None:
    found = broken(attempts(target, resources, Auto(max_share=1.0), examples))
    for part in published_parts():
        assert broken(attempts(target, resources, part, examples)) <= found, part.NAME


# --- the last stage ------------------------------------------------------------------------------------------------


def needs_both(texts: list[str]) -> Any:
    """Another class if the second word is misspelled and the last one is another word: no recipe makes both alone."""
    rows = []
    for text in texts:
        words = text.lower().split()
        right = 0.9
        if len(words) == 5:
            second, last = words[1], words[4]
            right -= 0.25 * (second not in WORDS) + 0.1 * (second in WORDS and second != "woman")
            right -= 0.25 * (last in WORDS and last != "dog") + 0.1 * (last not in WORDS)
        rows.append([right, 1.0 - right])
    return np.array(rows)


BOTH = Example(0, ("the woman and the dog",), 0, 0)


def test_recipes_that_fail_alone_succeed_together(resources: Any) -> None:
    target = CallableTarget(needs_both, name="f")
    parts = (Typos(tries=4), PWWS())
    ensemble = Auto(max_share=0.4, parts=parts)
    for part in ensemble.recipes():
        assert attempts(target, resources, part, [BOTH])[0].outcome == "failed"
    together = attempts(target, resources, ensemble, [BOTH])[0]
    assert together.outcome == "succeeded"
    assert sorted(set(together.changed_by)) == ["pwws", "typos"]
    assert len(together.changed) == 2  # one of both was changed anew, within the budget
    assert won_by([together]) == {" + ".join(dict.fromkeys(together.changed_by)): 1}
    assert Attempt.from_row(together.row()) == together


def test_the_whole_change_is_within_the_budget_beside_the_original(
    target: ClassifierTarget, resources: Any, examples: list[Example]
) -> None:
    found = attempts(target, resources, Auto(max_share=0.3), examples)
    mixed = 0
    for example in examples:
        attempt, words = found[example.number], split(example.text)
        after = Words.of(example.text)
        for place, old, new in attempt.changed:
            assert after.words[place] == old != new
            after = after.exchanged(place, new)
        assert after.text == attempt.adversarial
        assert len(attempt.changed) == len(attempt.changed_by) <= int(0.3 * len(words) + 1e-9)
        mixed += len(set(attempt.changed_by)) > 1
    assert mixed, "no text was changed by several recipes"


def test_a_similarity_of_one_recipe_holds_for_the_changes_of_those_after_it(
    target: ClassifierTarget, resources: Any, examples: list[Example]
) -> None:
    """Typing errors have no limit of their own, but they have that of the text with which they began."""
    resources.small.minimum = 0.8
    ensemble = Auto(max_share=0.6, parts=(RECIPES["bertattack"](), Typos()))
    found = attempts(target, resources, ensemble, examples)
    mixed = [attempt for attempt in found.values() if len(set(attempt.changed_by)) > 1]
    for attempt in mixed:
        assert resources.similarity.cosines([(attempt.original, attempt.adversarial)])[0] >= 0.8
    typos = [attempt for attempt in found.values() if set(attempt.changed_by) == {"typos"}]
    assert any(resources.similarity.cosines([(a.original, a.adversarial)])[0] < 0.8 for a in typos)


# --- the work ------------------------------------------------------------------------------------------------------


class Second(BAE):
    """Asks the masked LM the same as BAE-R."""

    NAME: ClassVar = "second"


class Counting(ClassifierTarget):
    """Counts how often each text is computed; no text reaches the goal, so that all recipes run."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__(classifier)
        self.computed: Counter[tuple[str, ...]] = Counter()

    def outputs(self, texts: Any, *, exact: bool) -> Any:
        self.computed.update(texts)
        return super().outputs(texts, exact=exact)

    def verdict(self, example: Example, output: Any) -> Verdict:
        return dataclasses.replace(super().verdict(example, output), reached=False)


def test_nothing_is_computed_twice(classifier: Classifier, resources: Any, examples: list[Example]) -> None:
    target = Counting(classifier)
    filled: Counter[tuple[Any, int]] = Counter()
    read: Counter[Any] = Counter()
    lm: MaskedLM = resources.masked_lm

    class Noting:
        tokenizer = lm.tokenizer

        def propose(self, sentences: Any, places: Any) -> Any:
            filled.update(zip(sentences, places, strict=True))
            return lm.propose(sentences, places)

        def read(self, sentences: Any, limit: int) -> Any:
            read.update(sentences)
            return lm.read(sentences, limit)

    resources.masked_lm = Noting()
    parts = tuple(part for part in published_parts() if not part.GRADIENTS)  # a classifier's vectors are no outputs
    (attempt,) = Engine(target, resources).run(Auto(max_share=0.3, parts=(*parts, Second())), examples[:1])
    assert set(target.computed.values()) == set(filled.values()) == set(read.values()) == {1}
    assert attempt.passes == len(target.computed)
    assert attempt.queries > 1.2 * attempt.passes  # they are counted as the recipes make them


def test_vectors_of_encoders_are_not_computed_twice(
    encoder_targets: list[Target], resources: Any, examples: list[Example]
) -> None:
    for target in encoder_targets:
        computed: Counter[str] = Counter()
        encoded = target.encoded  # type: ignore[attr-defined]

        def noting(texts: Any, *rest: Any, encoded: Any = encoded, computed: Any = computed, **more: Any) -> Any:
            computed.update(texts)
            return encoded(texts, *rest, **more)

        target.encoded = noting  # type: ignore[attr-defined]
        longest = max(examples, key=lambda example: len(example.text))
        verdict = target.verdict  # no text reaches the goal, so that all recipes run
        target.verdict = lambda *given, verdict=verdict: dataclasses.replace(verdict(*given), reached=False)  # type: ignore
        list(Engine(target, resources).run(Auto(max_share=0.3), [longest]))
        computed.subtract([longest.text])  # once to prepare the goal
        assert max(computed.values()) == 1
        assert sum(computed.values()) > 20


# --- order, and what is left out -----------------------------------------------------------------------------------


class Dear(Typos):
    NAME: ClassVar = "dear"
    COST: ClassVar = float("inf")


def test_the_cheapest_recipe_comes_first_and_a_recipe_without_a_cost_last() -> None:
    order = [part.NAME for part in Auto(parts=(Dear(), *published_parts())).recipes()]
    costs = [RECIPES[name].COST for name in order[:-1]]
    assert costs == sorted(costs)
    assert all(0.0 < cost < 1e3 for cost in costs)
    assert order[-1] == "dear"
    assert "auto" not in order


def test_all_recipes_have_one_budget() -> None:
    for part in Auto(max_share=0.3, max_words=2).recipes():
        assert (part.max_share, part.max_words) == (0.3, 2)
    (valid,) = make_recipes(["auto"], {"valid_synonyms": True})
    assert isinstance(valid, Auto)
    assert {part.NAME for part in valid.recipes() if not part.valid_synonyms} == {"typos", "adaptive-typos", "evasion"}


def test_constants_of_parts_can_be_set_but_not_their_budgets(capsys: pytest.CaptureFixture[str]) -> None:
    (ensemble,) = make_recipes(["auto"], {"pwws.same_tag": True, "max_share": 0.3})
    record = recipe_record(ensemble)
    assert record["changed_from_published"] == {"max_share": 0.3}
    assert record["parts"]["pwws"]["changed_from_published"] == {"max_share": 0.3, "same_tag": True}
    line = mistake(capsys, ["attack", "m", "--task", "mr", "--recipes", "auto", "--set", "pwws.max_share=0.5"])
    assert "one budget" in line
    (more,) = make_recipes(["auto", "typos"], {})
    assert [part.NAME for part in more.recipes()].count("typos") == 1  # type: ignore[attr-defined]


def test_recipes_that_need_gradients_are_left_out_where_there_are_none_and_that_is_said(resources: Any) -> None:
    target = CallableTarget(needs_both, name="f")
    (fitted,) = for_target([Auto()], target)
    assert isinstance(fitted, Auto)
    assert "geometry" not in [part.NAME for part in fitted.recipes()]
    assert recipe_record(fitted)["left_out"] == {"geometry": "the model gives no gradients in this form"}
    lines = list(about_ensembles([fitted]))
    assert any("geometry is left out" in line for line in lines)
    # The engine alone leaves them out, too; with them it would raise an error.
    assert attempts(target, resources, Auto(max_share=0.2), [BOTH])[0].outcome == "failed"


def test_the_ensemble_attacks_the_training_of_hardened_encoders_alone(tmp_path: Path) -> None:
    (made,) = make_recipes(["auto"], {})

    def names(folder: Path | None) -> list[str]:
        (fitted,) = for_folder([made], folder)
        assert isinstance(fitted, Auto)
        assert fitted.left_out == ()
        said = any("hardened" in line for line in about_ensembles([fitted]))
        assert said == ("adaptive-typos" in [part.NAME for part in fitted.recipes()])
        return [part.NAME for part in fitted.recipes()]

    assert "adaptive-typos" not in names(None) + names(tmp_path)
    (tmp_path / "harden.json").write_text("{}")
    assert "adaptive-typos" in names(tmp_path)
    assert "training_edits" not in made.needs()


# --- a run ---------------------------------------------------------------------------------------------------------

AUTO = [*ATTACK[:-4], "--recipes", "auto", "--precision", "fp32", "--set", "max_share=0.3", "--examples", "12"]


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch, resources: Any) -> None:
    """The small resources in a run."""
    resources.require = lambda names: None
    resources.sources = dict
    monkeypatch.setattr("holdfast.attacks.attack_run.Resources", lambda *_, **__: resources)
    monkeypatch.setattr("holdfast.attacks.attack_run._load_similarity", lambda *_: None)


def test_a_run_says_who_broke_what(here: Path, light: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*AUTO, "--output", "r.json"]) == 0
    shown = capsys.readouterr()
    result = read_result(here / "r.json")
    (row,) = result["results"]
    assert row["recipe"] == "auto"
    assert sum(row["won_by"].values()) == row["metrics"]["succeeded"] > 0
    assert f"broken by {next(iter(row['won_by']))}" in shown.out
    withstood = int(row["metrics"]["attacked"] - row["metrics"]["succeeded"])
    assert f"; {withstood} withstood all recipes" in shown.out
    assert "each may change 30 % of the words" in shown.err
    parts = result["protocol"]["recipes"]["auto"]["parts"]
    assert set(parts) == set(RECIPES) - {"auto", "adaptive-typos"}
    assert main(["check", "r.json", "--fail-if", "textfooler/mnli.auto.success_rate > 0"]) == 1
    assert main(["check", "r.json", "--fail-if", "textfooler/mnli.auto.success_rate > 100"]) == 0
    assert main(["show", "r.json", "--limit", "1"]) == 0
    assert "(" + next(iter(row["won_by"])) in capsys.readouterr().out.replace("\n", " ")


def test_a_stopped_run_goes_on_to_the_same_result(here: Path, light: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main([*AUTO, "--output", "whole.json"]) == 0
    run = Engine.run

    def stopped(engine: Engine, recipe: Recipe, examples: Any) -> Any:
        for count, attempt in enumerate(run(engine, recipe, examples)):
            if count == 5:
                raise KeyboardInterrupt
            yield attempt

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "run", stopped)
        assert main([*AUTO, "--output", "parts.json"]) != 0
    assert list(journals(here / "parts.json"))
    assert main([*AUTO, "--output", "parts.json", "--resume"]) == 0
    assert content(here / "parts.json") == content(here / "whole.json")


def test_a_function_is_attacked_without_the_recipes_that_need_gradients(
    here: Path, light: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = AttackSettings(
        "call:service:scores", ["auto"], task="textfooler/mnli", goal="class", examples=3, constants={"max_share": 0.3}
    )
    monkeypatch.chdir(here)
    (here / "service.py").write_text(
        "def scores(pairs):\n    return [[0.9 - 0.01 * len(b), 0.05, 0.05 + 0.01 * len(b)] for _, b in pairs]\n"
    )
    result = attack(settings)
    assert result["protocol"]["recipes"]["auto"]["left_out"].keys() == {"geometry"}


def test_a_hardened_model_is_attacked_by_what_its_folder_tells(
    here: Path, light: None, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(here / "model", here / "hardened")
    (here / "hardened" / "harden.json").write_text('{"protocol": {"options": {"edits": "typing"}}}')
    words = [word if word != "model" else "hardened" for word in AUTO]
    assert main([*words, "--output", "r.json"]) == 0
    assert "the model is hardened: adaptive-typos avoids what it was trained on" in capsys.readouterr().err
    protocol = read_result(here / "r.json")["protocol"]
    assert "adaptive-typos" in protocol["recipes"]["auto"]["parts"]
    assert protocol["training_edits"]["edits"] == ["typing"]


def test_a_recipe_that_is_no_ensemble_has_no_winner(
    target: ClassifierTarget, resources: Any, examples: list[Example]
) -> None:
    found = list(Engine(target, resources).run(Typos(max_share=0.5), examples))
    assert won_by(found) == {}
    assert all("changed_by" not in attempt.row() for attempt in found)
    assert dataclasses.replace(found[0], changed_by=("typos",)).row()["changed_by"] == ["typos"]
