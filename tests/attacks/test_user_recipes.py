"""A recipe, with a constraint, in a file of the user: run, described, resumed, compared, and refused in one line."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from small_attacks import mistake

from holdfast.attacks.journal import journals
from holdfast.cli import main
from holdfast.results import read_result

RECIPE = '''
from dataclasses import dataclass
from typing import ClassVar

from holdfast.attacks import Recipe
from holdfast.attacks.attack_state import AttackState, by_deletion, take_best
from holdfast.attacks.attack_state import Constraint
from holdfast.attacks.requests import Search


@dataclass(frozen=True)
class SameFirstLetter(Constraint):
    """Keep the first letter."""

    def accepts(self, state, place, word):
        return word[0] == state.words.words[place][0]


@dataclass(frozen=True)
class Swap(Recipe):
    """Swap letters.

    Args:
        gap: distance of the swapped letters.
    """

    NAME: ClassVar = "swap"
    IDEA: ClassVar = "swapped letters"
    PAPER: ClassVar = "none"

    gap: int = 1

    def constraints(self):
        return (*super().constraints(), SameFirstLetter())

    def search(self, state: AttackState) -> Search:
        for place in state.within_budget((yield from by_deletion(state))):
            if (yield from take_best(state, place, self.swaps(state.words.words[place]))):
                return

    def swaps(self, word):
        pairs = [(i, i + self.gap) for i in range(len(word) - self.gap)]
        return [word[:i] + word[j] + word[i + 1 : j] + word[i] + word[j + 1 :] for i, j in pairs]
'''

MODEL = ["model", "--task", "textfooler/mnli", "--precision", "fp32"]


@pytest.fixture
def file(here: Path) -> Path:
    path = here / "mine.py"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def changes(path: Path, recipe: str) -> list[tuple[str, str]]:
    rows = [row for row in read_result(path)["examples"] if row["recipe"] == recipe]
    return [(old, new) for row in rows for _, old, new in row["changed"]]


def test_a_recipe_in_a_file_runs_beside_the_published_ones(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*MODEL, "--recipes", "mine.py:Swap,typos", "--examples", "20", "--set", "Swap.gap=2", "--output", "r.json"]
    assert main(["attack", *words]) == 0
    result = read_result(Path("r.json"))
    assert [row["recipe"] for row in result["results"]] == ["swap", "typos"]
    assert result["protocol"]["recipes"]["swap"] == {
        "constants": {"max_share": 1.0, "max_words": None, "valid_synonyms": False, "gap": 2},
        "changed_from_published": {"gap": 2},
        "class": "Swap",
        "sha256": hashlib.sha256(RECIPE.encode()).hexdigest(),
    }
    assert result["protocol"]["recipes"]["typos"].keys() == {"constants", "changed_from_published"}
    made = changes(Path("r.json"), "swap")
    assert made
    assert all(old[0] == new[0] and sorted(old) == sorted(new) for old, new in made), "a constraint was not asked"
    assert main(["show", "r.json", "--recipe", "swap", "--outcome", "all"]) == 0


def test_without_its_constraint_it_changes_first_letters(file: Path) -> None:
    file.write_text(RECIPE.replace(", SameFirstLetter())", ",)"), encoding="utf-8")
    assert main(["attack", *MODEL, "--recipes", "mine.py:Swap", "--output", "r.json"]) == 0
    assert any(old[0] != new[0] for old, new in changes(Path("r.json"), "swap"))


@pytest.mark.slow
def test_several_processes_run_it(file: Path) -> None:
    words = [*MODEL, "--recipes", "mine.py:Swap", "--examples", "6"]
    assert main(["attack", *words, "--output", "one.json"]) == 0
    assert main(["attack", *words, "--processes", "2", "--output", "two.json"]) == 0
    assert changes(Path("one.json"), "swap") == changes(Path("two.json"), "swap")


def test_a_changed_file_is_another_attack(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["attack", *MODEL, "--recipes", "mine.py:Swap", "--examples", "6", "--output", "r.json"]
    with monkeypatch.context() as patch:
        patch.setattr("holdfast.attacks.journal.Journal.remove", lambda self: None)
        assert main(words) == 0
    assert list(journals(Path("r.json")))
    file.write_text(RECIPE + "\n# another\n", encoding="utf-8")
    assert "with another recipes" in mistake(capsys, [*words, "--resume"])
    file.write_text(RECIPE, encoding="utf-8")
    assert main([*words, "--resume"]) == 0

    file.write_text(RECIPE + "\n# another\n", encoding="utf-8")
    assert main([*words[:-1], "other.json"]) == 0
    assert "swap has the code" in mistake(capsys, ["compare", "r.json", "other.json"])


def test_it_is_described(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "mine.py:Swap", "--json"]) == 0
    described: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (described["name"], described["idea"], described["needs"]) == ("swap", "swapped letters", [])
    assert described["constants"]["gap"] == {"value": 1, "meaning": "distance of the swapped letters."}


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("class Swap(", "class Swop(", "mine.py has no recipe 'Swap' (did you mean 'Swop'?); recipes in it: Swop"),
        ("    def search(", "    def seek(", "mine.py:Swap lacks search"),
        ('    NAME: ClassVar = "swap"\n', "", "mine.py:Swap lacks NAME, a line of text"),
        ('"swap"', '"typos"', "NAME 'typos' is the name of a published recipe"),
        ('"swap"', '"a.b"', "may hold letters, digits"),
        ("gap: int = 1", "gap: int", "mine.py:19: TypeError: non-default argument 'gap'"),
        ("@dataclass(frozen=True)\nclass Swap", "class Swap", "decorate it, @dataclass(frozen=True)"),
        ("gap: int = 1", "gap: frozenset = frozenset()", "with its defaults: Object of type frozenset"),
        ("gap: int = 1", "max_share: float = 2.0", "max_share must lie in (0, 1], got 2"),
        ("    gap: int", '    NEEDS: ClassVar = ("tager",)\n    gap: int', "'tager' (did you mean 'tagger'?)"),
        ("from typing", "1 / 0\nfrom typing", "mine.py:3: ZeroDivisionError"),
    ],
)
def test_what_is_wrong_with_it_is_one_line(
    file: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, line: str
) -> None:
    assert old in RECIPE
    file.write_text(RECIPE.replace(old, new), encoding="utf-8")
    assert line in mistake(capsys, ["attack", *MODEL, "--recipes", "mine.py:Swap"])


def test_two_recipes_of_one_name_are_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.py").write_text(RECIPE + "\n", encoding="utf-8")
    words = ["attack", *MODEL, "--recipes", "mine.py:Swap,other.py:Swap"]
    assert "another recipe of this run has the NAME 'swap'" in mistake(capsys, words)
