"""The fitted typing errors: the table holds shares and no words, and the errors are like those that people make."""

import os
import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.edits.typing_edit import PeoplesTyping
from holdfast.edits.typing_rates import (
    LENGTHS,
    MISSPELLING,
    PLACES,
    SLIP,
    TypingRates,
    frequency_class,
    length_class,
    place_class,
    typing_rates,
)

ROOT = Path(__file__).parents[2]
OPERATIONS = {"delete", "double", "insert", "insert near", "join", "single", "split", "substitute", "swap"}
OUTCOMES = {"1", "2", "3", "kept", "lost", "doubled", "function", "other", MISSPELLING, SLIP, *PLACES, *OPERATIONS}


def test_the_shares_of_each_group_sum_to_1() -> None:
    groups = typing_rates().groups
    assert len(groups) > 100
    for key, shares in groups.items():
        assert sum(shares.values()) == pytest.approx(1.0, abs=1e-3), key
        assert min(shares.values()) > 0.0, key


def test_the_table_holds_letters_and_names_of_operations_but_no_words() -> None:
    classes = {f"{frequency} {length}" for frequency in ("function", "other") for length in LENGTHS}
    keys = {"", *LENGTHS, *OPERATIONS, *(f"{operation} last" for operation in OPERATIONS)}
    for (_, key), shares in typing_rates().groups.items():
        assert key in keys or re.fullmatch("[a-z]( last)?", key), key
        assert all(outcome in OUTCOMES | classes or re.fullmatch("[a-z]", outcome) for outcome in shares)


def test_classes_of_words_and_places() -> None:
    assert [length_class("x" * length) for length in (1, 3, 4, 6, 7, 9, 10, 30)] == [
        "1-3", "1-3", "4-6", "4-6", "7-9", "7-9", "10+", "10+",
    ]  # fmt: skip
    assert (frequency_class("The"), frequency_class("bridge")) == ("function", "other")
    assert [place_class(index, 6) for index in range(6)] == [*PLACES[:2], "middle", "middle", *PLACES[3:]]
    assert [place_class(index, 2) for index in range(2)] == ["first", "second"]


def table(*rows: str) -> TypingRates:
    base = ["mixture\t\tmisspelling\t0.5", "mixture\t\tslip\t0.5"]
    base += [f"risk\t\t{frequency} {length}\t0.125" for frequency in ("function", "other") for length in LENGTHS]
    base += [f"{kind}/count\t{length}\t1\t1.0" for kind in (MISSPELLING, SLIP) for length in LENGTHS]
    return TypingRates.parse(
        "\n".join(["table\tkey\toutcome\tshare", *base, *(row.replace(" ", "\t") for row in rows)])
    )


def drawn(rates: TypingRates, kind: str, word: str, count: int = 60) -> set[str | None]:
    made = set()
    for seed in range(count):
        rng = random.Random(seed)
        made.add(rates.mistyped(kind, word, rates.operations(kind, word, rng), rng))
    return made


@pytest.mark.parametrize(
    ("rows", "kind", "word", "expected"),
    [
        (["slip/operation  delete 1.0"], SLIP, "cat", {"at", "ct", "ca"}),
        (["slip/operation  double 1.0"], SLIP, "cat", {"ccat", "caat", "catt"}),
        (["slip/operation  swap 1.0"], SLIP, "cat", {"act", "cta"}),
        (["slip/operation  single 1.0"], SLIP, "better", {"beter"}),
        (["slip/operation  split 1.0"], SLIP, "cat", {"c at", "ca t"}),
        (["slip/operation  delete 1.0", "slip/place delete last 1.0"], SLIP, "catch", {"catc"}),
        (["slip/operation  delete 1.0", "slip/letter delete a 1.0"], SLIP, "cabin", {"cbin", "cabi"}),
        (["slip/operation  substitute 1.0", "slip/place substitute first 1.0"], SLIP, "pan", {"oan", "lan"}),
        (
            ["misspelling/operation 1-3 substitute 1.0", "misspelling/substitute a e 1.0",
             "misspelling/place substitute first 1.0"],
            MISSPELLING, "Aax", {"Eax"},
        ),
        (
            ["misspelling/operation 1-3 insert 1.0", "misspelling/insert t|last e 1.0",
             "misspelling/place insert last 1.0"],
            MISSPELLING, "cat", {"cate"},
        ),
        (["slip/operation  delete 1.0"], SLIP, "a", {None}),
        (["slip/operation  substitute 1.0"], SLIP, "한국어", {None}),
    ],
)  # fmt: skip
def test_operations_places_and_letters_are_those_of_the_table(
    rows: list[str], kind: str, word: str, expected: set[str | None]
) -> None:
    rates = table(*rows)
    rates = TypingRates({(name, key.replace("|", " ")): shares for (name, key), shares in rates.groups.items()})
    assert drawn(rates, kind, word) == expected


def test_words_are_hit_by_their_keys_and_words_with_digits_never() -> None:
    kinds = typing_rates().kinds(["boat", "Rome", "bridges", "2015", "3rd", "with"])
    slips = [slip for _, slip in kinds]
    assert slips[:5] == pytest.approx([slips[0] * keys / 4 for keys in (4, 5, 7, 0, 0)])
    assert sum(slips) == pytest.approx(typing_rates().shares("mixture", "")[SLIP])
    key = typing_rates().shares("slip/key", "")
    assert slips[5] / slips[0] == pytest.approx(key["function"] / key["other"])
    assert kinds[3:5] == [(0.0, 0.0)] * 2
    assert kinds[2][0] > kinds[0][0] > kinds[5][0] > 0.0
    edit = PeoplesTyping()
    for seed in range(50):
        made = edit("bridges of 2015", random.Random(seed), 1.0)
        assert made is not None
        assert made.text.rstrip("?").endswith("2015")
    assert edit("2015 3rd 44", random.Random(0)) is None


def test_spaces_apostrophes_capitals_and_final_marks_are_lost_at_the_tables_rates() -> None:
    def made(rates: TypingRates, text: str) -> str:
        new = PeoplesTyping(rates)(text, random.Random(0), 0.0)
        assert new is not None
        return new.text

    join = ["slip/operation  join 1.0", "misspelling/operation 1-3 swap 1.0"]
    only_slips = {("mixture", ""): {MISSPELLING: 0.0, SLIP: 1.0}}
    rates = TypingRates({**table(*join).groups, **only_slips})
    assert made(rates, "ab cd") == "abcd"
    lost = TypingRates({**rates.groups, ("slip/capital", ""): {"lost": 1.0}, ("final mark", ""): {"lost": 1.0}})
    assert made(lost, "Rome?") == "rome"
    doubled = TypingRates({**rates.groups, ("slip/capital", ""): {"doubled": 1.0}})
    assert made(doubled, "Rome?") == "ROme?"
    wrong = TypingRates(
        {
            **rates.groups,
            ("mixture", ""): {MISSPELLING: 1.0, SLIP: 0.0},
            (f"{MISSPELLING}/apostrophe", ""): {"lost": 1.0},
        }
    )
    assert made(wrong, "dog's") == "dogs"


@given(text=st.text(max_size=80), seed=st.integers(0, 1000), strength=st.floats(0, 1))
def test_changes_do_not_overlap_and_touch_no_more_words_than_asked(text: str, seed: int, strength: float) -> None:
    made = PeoplesTyping()(text, random.Random(seed), strength)
    if made is not None:
        assert all(a.end <= b.begin for a, b in zip(made.changes, made.changes[1:], strict=False))


# --- likeness, with data ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def likeness() -> Any:
    """The benchmark that compares typing errors with those of people."""
    data = os.environ.get("HOLDFAST_DATA", "")
    if not (Path(data) / "noiseqa").is_dir():
        pytest.skip("needs noiseqa/ in HOLDFAST_DATA")
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import noise_likeness
    finally:
        sys.path.pop(0)
    return noise_likeness, Path(data)


@pytest.mark.slow
def test_operations_on_questions_that_the_rates_never_saw_are_nearer_to_peoples_than_synthetic_ones(
    likeness: Any,
) -> None:
    module, data = likeness
    found = module.questions(data, chosen=False)
    counts = [module.count_changed(each.clean, each.changed) for each in found]

    def shares(texts: list[str]) -> Counter[str]:
        rows = [row for each, text in zip(found, texts, strict=True) for row in module.features(each.clean, text)]
        totals = dict(
            zip(module.OPERATIONS, map(sum, list(zip(*rows, strict=True))[-len(module.OPERATIONS) :]), strict=True)
        )
        return Counter({name: total / sum(totals.values()) for name, total in totals.items()})  # type: ignore[misc]

    people = shares([each.changed for each in found])
    apart = {}
    for name, make in module.MAKERS["keyboard"].items():
        texts = [
            make(each.clean, count, random.Random(f"0/{number}")) if count else each.clean
            for number, (each, count) in enumerate(zip(found, counts, strict=True))
        ]
        made = shares(texts)
        apart[name] = sum(abs(people[key] - made[key]) for key in module.OPERATIONS) / 2  # total variation
    own = apart.pop("typing (fitted)")
    assert own < 0.2
    assert own < min(apart.values()) / 2, (own, apart)


@pytest.mark.slow
def test_the_table_is_what_the_script_fits(likeness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, data = likeness
    if not (data / "misspellings").is_dir():
        pytest.skip("needs misspellings/ in HOLDFAST_DATA")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import fit_typing

    monkeypatch.setattr(sys, "argv", ["fit_typing.py", "--data", str(data), "--output", str(tmp_path / "rates.tsv")])
    fit_typing.main()
    assert (tmp_path / "rates.tsv").read_text() == (ROOT / "src/holdfast/edits/typing_rates.tsv").read_text()
