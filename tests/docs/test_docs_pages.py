"""What the pages say and the code knows: verbs, methods and recipes have pages, and constants are those of the code."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import pytest
import typer
import yaml
from docs_pages import ROOT, module_at, pages, text

from holdfast.attacks import RECIPES
from holdfast.attacks.poisoning.poison_recipes import POISON_RECIPES
from holdfast.classifiers.defences import DEFENCES
from holdfast.cli.app import app
from holdfast.cli.console import setting
from holdfast.objectives import METHODS
from holdfast.training.method_options import option_defaults

COMMAND: Any = typer.main.get_command(app)
VERBS = list(COMMAND.commands)
METHOD_PAGES = {name: f"docs/methods/{name}.md" for name in METHODS}
RECIPE_PAGES = {name: f"docs/attacks/{name}.md" for name in RECIPES} | {
    "bae-r": "docs/attacks/bae.md",
    "bertattack": "docs/attacks/bert-attack.md",
}


def navigation() -> list[str]:
    """The pages in the navigation of the site."""
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text())

    def within(entries: list[Any]) -> list[str]:
        found: list[str] = []
        for entry in entries:
            (value,) = entry.values()
            if isinstance(value, list):
                found += within(value)
            else:  # a page, or all pages of a folder
                found += sorted(str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").glob(value)) or [value]
        return found

    return within(config["nav"])


def test_every_page_is_in_the_navigation_once() -> None:
    named = navigation()
    assert len(named) == len(set(named))
    tables = ("docs/results/smoke/", "docs/results/small/")  # which docs/results/README.md leads to
    own = {page.removeprefix("docs/") for page in pages() if page.startswith("docs/") and not page.startswith(tables)}
    outside = {page for page in pages() if not page.startswith("docs/")} - {"README.md"}
    assert set(named) == own | outside


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_its_page_with_an_example(verb: str) -> None:
    page = text(f"docs/{verb}.md")
    assert re.search(rf"^holdfast {verb}\b", page, flags=re.MULTILINE)
    assert f"{verb}.md" in navigation()
    assert f"]({verb}.md)" in text("docs/README.md")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_its_page_with_equations_and_options(method: str) -> None:
    page = text(METHOD_PAGES[method])
    assert re.search(r"\$\$.+?\$\$", page, flags=re.DOTALL)
    assert f"holdfast train {method} " in page
    missing = [option for option in option_defaults(METHODS[method]) if not re.search(rf"(`|preset=){option}\b", page)]
    assert missing == []
    assert f"](methods/{method}.md)" in text("docs/methods.md")


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_has_its_page_with_its_constants(recipe: str) -> None:
    page = text(RECIPE_PAGES[recipe])
    table = re.search(r"^\| constant .*\n\|---.*\n((?:\|.*\n)+)", page, flags=re.MULTILINE)
    assert table is not None
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table[1].splitlines()]
    constants = RECIPES[recipe]().constants()
    assert {row[0]: row[1] for row in rows} == {name: setting(value) for name, value in constants.items()}
    for part in ("goal", "ranking", "substitutes", "constraints", "budget"):
        assert f"\n| {part} | " in page, part
    assert "## What differs" in page
    assert f"--recipes {recipe} " in page
    assert f"`{recipe}` | [" in text("docs/recipes.md")


def test_the_page_of_poisoning_has_the_constants_of_its_recipes() -> None:
    page = text("docs/attacks/poisoning.md")
    table = re.search(r"^\| constant .*\n\|---.*\n((?:\|.*\n)+)", page, flags=re.MULTILINE)
    assert table is not None
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table[1].splitlines()]
    assert {row[0]: row[1] for row in rows} == {
        name: setting(value) for recipe in POISON_RECIPES.values() for name, value in vars(recipe()).items()
    }
    assert all(f"\n| `{recipe}` | " in page and f"`{recipe}`" in text("docs/recipes.md") for recipe in POISON_RECIPES)


def test_equations_stand_by_themselves() -> None:
    """Two equations without a blank line between them are one to MkDocs."""
    for page in pages():
        assert not re.search(r"\$\$\n\$\$", text(page)), page


NUMBER = r"-?\d[\d.]*(?:e-?\d+)?(?:/\d+)?"


def is_default(message: str, value: Any) -> bool:
    """Whether a page's word for a value is that value."""
    if isinstance(value, str) or not re.fullmatch(NUMBER, message):
        return message == setting(value)
    return float(Fraction(message)) == value


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"combined"}))
def test_every_method_has_the_defaults_that_its_page_tells(method: str) -> None:
    page, defaults = text(METHOD_PAGES[method]), option_defaults(METHODS[method])
    found = 0
    for cell, values in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", page, flags=re.MULTILINE):
        names, message = re.findall(r"`(\w+)`", cell), [value.strip(" `") for value in values.split(", ")]
        for name, value in zip(names, message, strict=False):
            if name in defaults and re.fullmatch(rf"{NUMBER}|true|false", value):
                assert is_default(value, defaults[name]), (name, value, defaults[name])
                found += 1
    assert found >= 1


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"combined"}))
def test_every_method_is_trained_as_its_page_tells(method: str) -> None:
    page = " ".join(text(METHOD_PAGES[method]).split())
    message = re.search(
        rf"Training defaults: batch (\d+), learning rate ({NUMBER}) falling linearly, (\d+) epochs?\b", page
    )
    assert message is not None
    assert [float(value) for value in message.groups()] == [
        METHODS[method].TRAINING[name] for name in ("batch_size", "learning_rate", "epochs")
    ]


@pytest.mark.parametrize("defence", sorted(DEFENCES.keys() - {"none"}))
def test_every_defence_has_the_defaults_that_the_page_tells(defence: str) -> None:
    row = re.search(rf"^\| `{defence}` \|.*\| (.*) \|$", text("docs/finetune.md"), flags=re.MULTILINE)
    assert row is not None
    defaults = option_defaults(DEFENCES[defence])
    message = re.findall(rf"`(\w+)` ({NUMBER})(?=,|$)", row[1])
    assert len(message) >= 3
    for name, value in message:
        assert is_default(value, defaults[name]), (name, value, defaults[name])


@pytest.mark.parametrize("page", [page for page in pages() if "<!-- options: " in text(page)])
def test_tables_of_options_are_those_of_the_command_line(page: str) -> None:
    assert module_at("docs/site/options.py").with_tables(text(page)) == text(page), "run python docs/site/options.py"
