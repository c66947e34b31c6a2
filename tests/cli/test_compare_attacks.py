"""`holdfast compare` of attacks: on which texts, and of which goals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compared_results import attack_row, mistake, rows_of, write
from compared_results import here as here
from scipy.stats import binomtest

from holdfast.cli import main


def attack(
    name: str,
    outcomes: dict[str, str],
    *,
    recipe: str = "pwws",
    goal: str = "class",
    tries: int = 1,
    queries: Sequence[Any] = (),
    **more: Any,
) -> str:
    """A result whose example of text T has the outcome that ``outcomes[T]`` begins; and the queries, where given."""
    words = {"+": "succeeded", "-": "failed", ".": "skipped"}
    examples = [
        {"recipe": recipe, "original": text.rstrip("'"), "other": None, "outcome": words[outcome]}
        for text, outcome in outcomes.items()
    ]
    for example, number in zip(examples, queries, strict=False):
        example["queries"] = number
    recipes = {recipe: {"constants": {"tries": tries}}}
    protocol = {"goal": {"kind": goal, **more}, "recipes": recipes, "opened_resources": {"wordnet": "here"}}
    return write(name, [attack_row(recipe)], kind="attack", examples=examples, protocol=protocol)


def test_attacks_are_compared_on_the_texts_that_both_attacked(capsys: pytest.CaptureFixture[str]) -> None:
    # t is there twice, and its second time is told apart from its first.
    a = attack("a.json", {"p": "+", "q": "+", "r": "+", "s": ".", "t": "-", "t'": "+", "only a": "+"})
    b = attack("b.json", {"t": "+", "t'": "-", "r": "-", "q": "-", "p": ".", "s": "+", "only b": "-"})
    (row,) = rows_of(capsys, a, b)
    assert (row["recipe"], row["metric"], row["n"]) == ("pwws", "success_rate", 4)
    assert (row["metrics"]["baseline"], row["metrics"]["other"]) == (75.0, 25.0)
    assert row["metrics"]["p"] == pytest.approx(binomtest(1, 4).pvalue)
    assert main(["compare", a, b]) == 0
    assert "mr pwws" in capsys.readouterr().out


def test_the_queries_of_attacks_are_paired_on_the_texts_that_both_attacked(capsys: pytest.CaptureFixture[str]) -> None:
    counts = [[3 + i % 5 for i in range(40)], [4 + i % 7 for i in range(40)]]
    ours, theirs = (
        dict.fromkeys((f"text {i}" for i in range(40)), "+") | dict.fromkeys(left_out, ".")
        for left_out in (["text 0"], ["text 1"])
    )
    a = attack("a.json", {**ours, "only a": "-"}, queries=[*counts[0], 900])
    b = attack("b.json", {**theirs, "only b": "+"}, queries=[*counts[1], 1])
    success, queries = rows_of(capsys, a, b)
    assert (success["metric"], success["n"]) == ("success_rate", 38)
    assert (queries["recipe"], queries["metric"], queries["n"], queries["test"]) == ("pwws", "queries", 38, "bootstrap")
    # A skipped text has queries as well, of its prediction alone: they are not those of an attack.
    left = [[own[i] for i in range(2, 40)] for own in counts]
    found, more = queries["metrics"], np.subtract(left[1], left[0])
    assert (found["baseline"], found["other"]) == pytest.approx((np.mean(left[0]), np.mean(left[1])))
    assert found["difference"] == pytest.approx(more.mean())
    half = 1.96 * more.std() / 38**0.5
    assert (found["low"], found["high"]) == pytest.approx((more.mean() - half, more.mean() + half), abs=0.1)
    assert main(["compare", a, b]) == 0
    out = capsys.readouterr().out
    assert "queries" in out
    assert "95 %: paired bootstrap" in out
    few = [attack(f"few-{n}.json", dict.fromkeys("pqrst", "+"), queries=[n * 3, 4, 5, 6, 7]) for n in (1, 2)]
    assert main(["compare", *few]) == 0
    out = capsys.readouterr().out
    assert "95 % and p of means of few items: t" in out
    assert "several seeds" not in out


def test_attacks_without_numbers_of_queries_are_compared_by_their_success(capsys: pytest.CaptureFixture[str]) -> None:
    texts = dict.fromkeys("pqrs", "+")
    a, b = attack("a.json", texts, queries=[3, 4, 5, 6]), attack("b.json", texts)
    assert [row["metric"] for row in rows_of(capsys, a, b)] == ["success_rate"]
    broken = attack("broken.json", texts, queries=[3, 4, "5", 6])
    assert "broken.json: example 3: 'queries' is of the wrong type (str)" in mistake(capsys, a, broken)


def test_attacks_that_share_less_than_half_of_their_texts_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    a = attack("a.json", {**dict.fromkeys("pqrst", "+"), "skipped": "."})
    b = attack("b.json", {**dict.fromkeys("pquvwxyz", "-"), "skipped": "."})
    assert main(["compare", a, b]) == 0
    message = " ".join(capsys.readouterr().out.split())
    assert "few texts that all results attacked: mr all pwws, 2 of at least 5 in each" in message
    half = attack("half.json", dict.fromkeys("pquv", "-"))
    assert main(["compare", a, half]) == 0
    assert "few texts" not in capsys.readouterr().out


def test_attacks_that_differ_are_refused_or_told(capsys: pytest.CaptureFixture[str]) -> None:
    a = attack("a.json", {"p": "+", "q": "-"})
    message = mistake(capsys, a, attack("b.json", {"p": "+"}, tries=2))
    assert (
        "b.json: pwws has the constants {'tries': 2}, in a.json {'tries': 1}: use the same settings for both" in message
    )
    assert "the goal {'kind': 'drift'" in mistake(capsys, a, attack("b.json", {"p": "+"}, goal="drift"))
    assert "no text in common" in mistake(capsys, a, attack("b.json", {"z": "+", "p": "."}))
    assert "a.json holds mr all pwws; b.json holds mr all bae-r" in mistake(
        capsys, a, attack("b.json", {"p": "+"}, recipe="bae-r")
    )
    b = attack("b.json", {"p": "+", "q": "+"})
    Path(b).write_text(Path(b).read_text().replace('"here"', '"there"'))
    assert main(["compare", a, b]) == 0
    assert "the attacks used different resources" in capsys.readouterr().out


def test_ensembles_of_other_recipes_are_compared_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    def ensemble(name: str, **parts: int) -> str:
        made = Path(attack(name, {"p": "+", "q": "-"}, recipe="auto"))
        result = json.loads(made.read_text())
        recipe = result["protocol"]["recipes"]["auto"]
        recipe["parts"] = {part: {"constants": {"tries": tries}} for part, tries in parts.items()}
        made.write_text(json.dumps(result))
        return str(made)

    a = ensemble("a.json", typos=2, pwws=1)
    assert main(["compare", a, ensemble("b.json", typos=2, pwws=1)]) == 0
    assert "in some of the results only" not in capsys.readouterr().out
    assert main(["compare", a, ensemble("b.json", typos=2, pwws=1, adaptive=1)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "mr all auto has adaptive in some of the results only: each is its own worst case" in said
    assert main(["compare", a, ensemble("b.json", typos=3)]) == 2
    assert "auto runs typos with other constants than in a.json" in capsys.readouterr().err


def test_neighbours_are_lost_among_the_same_texts(capsys: pytest.CaptureFixture[str]) -> None:
    a = attack("a.json", {"p": "+", "q": "-", "r": "."}, goal="neighbours", k=5)
    b = attack("b.json", {"p": "+", "q": "+", "s": "-"}, goal="neighbours", k=5)
    message = mistake(capsys, a, b)
    assert (
        "b.json: pwws searched neighbours among other texts than in a.json: attack both with the same --search"
        in message
    )
    (row,) = rows_of(capsys, a, attack("b.json", {"p": ".", "q": "+", "r": "-"}, goal="neighbours", k=5))
    assert row["n"] == 1
    # What was searched is another matter than what was attacked; the results of today say what it was.
    c = attack("c.json", {"p": "+", "q": "-"}, goal="neighbours", k=5, searched={"source": "x", "sha256": "1"})
    d = attack("d.json", {"p": "+", "s": "-"}, goal="neighbours", k=5, searched={"source": "y", "sha256": "1"})
    assert rows_of(capsys, c, d)[0]["n"] == 1
    e = attack("e.json", {"p": "+", "q": "-"}, goal="neighbours", k=5, searched={"source": "x", "sha256": "2"})
    assert "attack both with the same --search" in mistake(capsys, c, e)


def test_a_threshold_that_was_given_is_of_the_goal(capsys: pytest.CaptureFixture[str]) -> None:
    def drift(name: str, threshold: float, chosen: str) -> str:
        return attack(name, {"p": "+", "q": "-"}, goal="drift", threshold=threshold, chosen=chosen)

    a, given = drift("a.json", 0.51, "half-way to other texts"), drift("c.json", 0.5, "given")
    assert rows_of(capsys, a, drift("b.json", 0.52, "half-way to other texts"))
    assert rows_of(capsys, given, drift("d.json", 0.5, "given"))
    for other in (a, drift("d.json", 0.9, "given")):
        assert "'threshold': 0.5}: use the same settings for both" in mistake(capsys, given, other)


@pytest.mark.parametrize(
    ("goal", "one", "other"), [("score", {"margin": 1.0}, {"margin": 0.5}), ("neighbours", {"k": 5}, {"k": 1})]
)
def test_goals_that_are_further_away_are_other_goals(
    goal: str, one: dict[str, Any], other: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = (
        attack(name, {"p": "+", "q": "-"}, goal=goal, **given) for name, given in (("a.json", one), ("b.json", other))
    )
    assert "has the goal" in mistake(capsys, a, b)
