"""What a person wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.data.registry import load_labelled
from holdfast.data.sources import resolve
from holdfast.errors import UserError
from holdfast.files import expanded, paths_in
from holdfast.model_lookup import resolve_model
from holdfast.option_parsing import fitted, option_value


def test_paths_are_apart_at_commas() -> None:
    assert paths_in("a.json, b.json,") == ["a.json", "b.json"]
    assert paths_in("") == paths_in(" , ") == []


def test_a_path_with_a_comma_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a, b.json").touch()
    assert paths_in("a, b.json") == ["a, b.json"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths_in("~/a, b.json") == ["~/a, b.json"]


def test_homes_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expanded("~/a") == tmp_path / "a"
    assert expanded(Path("a~/~b")) == Path("a~/~b")


def _load_task(path: str) -> None:
    load_labelled(path, "all")


@pytest.mark.parametrize("takes", [expanded, paths_in, resolve, resolve_model, _load_task])
def test_the_home_of_nobody_is_one_line(takes: Callable[[str], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    with pytest.raises(UserError, match=r"no home folder ~no-such-user; a file of that name is \./~no-such-user$"):
        takes("~no-such-user/a.tsv")


@pytest.mark.parametrize(("hint", "digits"), [(float, 400), (int, 5000)])
def test_numbers_of_many_digits_are_one_line(hint: type, digits: int) -> None:
    """Python turns neither the first into a float nor the second into a whole number."""
    with pytest.raises(UserError, match="option 'radius' takes a"):
        option_value("radius", "1" * digits, hint)


@pytest.mark.parametrize("value", ["nan", ".nan", "-nan", float("nan")])
def test_what_is_no_number_is_none(value: object) -> None:
    with pytest.raises(UserError, match=r"option 'share' takes a number, not '?-?\.?nan'?"):
        option_value("share", value, float)
    assert option_value("share", "3e-5", float) == 3e-5


@pytest.mark.parametrize("value", ["inf", ".inf", "1e400", "-1.0e+400", float("inf")])
def test_no_option_takes_a_number_without_end(value: object) -> None:
    with pytest.raises(UserError, match=r"option 'share' must be from -1000000000 to 1000000000, got -?inf"):
        option_value("share", value, float)


@pytest.mark.parametrize("value", [",", " ", " , ", ["", " "]])
def test_a_list_without_a_name_is_not_an_empty_list(value: object) -> None:
    """Where an empty list stands for all rows, "," must not."""
    with pytest.raises(UserError, match="option 'only' takes a list of names"):
        option_value("only", value, tuple[str, ...])


def test_lists_of_names() -> None:
    assert fitted("--only", "a, b,", tuple[str, ...]) == ("a", "b")
    assert fitted("--only", "", tuple[str, ...]) == fitted("--only", [], tuple[str, ...]) == ()
