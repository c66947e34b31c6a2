"""From text to a method's options."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import UserError
from holdfast.objectives import METHODS
from holdfast.option_parsing import split_settings
from holdfast.training.method_options import describe, method_options, objective_class, option_defaults


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gamma=0.25", {"gamma": 0.25}),
        ("pgd-size=1e-4", {"pgd_size": 1e-4}),
        ("pgd_steps=7", {"pgd_steps": 7}),
        ("radius=null", {"radius": None}),
        ("radius=1", {"radius": 1.0}),
        ("norm=2", {"norm": "2"}),
        ("norm=inf", {"norm": "inf"}),
        ("as-released=false", {"as_released": False}),
        ("positives=adversarial", {"positives": "adversarial"}),
    ],
)
def test_values_take_the_type_of_the_option(text: str, expected: dict[str, Any]) -> None:
    options = method_options("robustembed", None, split_settings([text]))
    assert options == expected
    assert all(type(value) is type(expected[name]) for name, value in options.items())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("gama=1", "no option 'gama' (did you mean 'gamma'?)"),
        ("gamma=much", "option 'gamma' takes a number, not 'much'"),
        ("gamma=true", "option 'gamma' takes a number, not True"),
        ("pgd_steps=2.5", "option 'pgd_steps' takes a whole number, not 2.5"),
        ("norm=3", "1, 2, inf"),
        ("as_released=7", "option 'as_released' takes true or false, not 7"),
        ("gamma", "--set takes name=value, got 'gamma'"),
    ],
)
def test_mistakes_are_told(text: str, line: str) -> None:
    with pytest.raises(UserError) as message:
        method_options("robustembed", None, split_settings([text]))
    assert line in str(message.value)


def test_settings_go_before_the_preset() -> None:
    options = method_options("robustembed", "as_released", {"radius": 0.5})
    assert options["radius"] == 0.5
    assert options["as_released"] is True


def test_unknown_names_offer_the_nearest() -> None:
    with pytest.raises(UserError, match=r"did you mean 'robustembed'"):
        method_options("robustembd", None, {})
    with pytest.raises(UserError, match=r"did you mean 'as_released'"):
        method_options("robustembed", "as_release", {})


@pytest.mark.parametrize("method", METHODS)
def test_every_option_is_documented_and_every_preset_fits(method: str) -> None:
    described = describe(method, METHODS[method])
    assert all(option["meaning"] for option in described["options"].values()), described
    assert described["idea"]
    assert described["paper"]
    for preset in METHODS[method].PRESETS:
        assert set(method_options(method, preset, {})) <= set(option_defaults(METHODS[method]))


def test_a_class_of_ones_own_is_a_method() -> None:
    method = "holdfast.objectives.simcse:SimCSE"
    assert objective_class(method) is METHODS["simcse"]
    assert method_options(method, None, {"temperature": "0.1"}) == {"temperature": 0.1}
    with pytest.raises(UserError, match=r"did you mean 'temperature'"):
        method_options(method, None, {"temprature": "0.1"})
