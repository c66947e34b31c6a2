"""Changes of case, full stop and trailing space."""

from __future__ import annotations

from holdfast.edits.casing_and_spacing import add_trailing_space, lower_case, toggle_full_stop, upper_case


def test_changes_without_meaning() -> None:
    assert lower_case("The Dog") == "the dog"
    assert lower_case("the dog") is None
    assert upper_case("the dog") == "THE DOG"
    assert upper_case("THE DOG") is None
    assert toggle_full_stop("The dog.") == "The dog"
    assert toggle_full_stop("The dog ") == "The dog."
    assert [toggle_full_stop(text) for text in ("Dog?", "Dog...", "", "😀", "at 7 a.m.")] == [None] * 5
    assert add_trailing_space("a") == "a "
