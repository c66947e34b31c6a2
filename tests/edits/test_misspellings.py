"""Lists of people's misspellings: both forms of the file, its errors, and what the noise "typing" draws from it."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from holdfast.edits.misspellings import SHARE, Misspellings, read_misspellings
from holdfast.edits.noise import Noise, noise_edits, noisy
from holdfast.edits.random_edits import RandomEdits
from holdfast.edits.typing_edit import PeoplesTyping
from holdfast.errors import UserError

ALWAYS = Misspellings.of([("harbour", "harbur"), ("harbour", "haarber")], share=1.0)
TEXT = "The harbour is old"


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_both_forms_of_lines_are_read(tmp_path: Path) -> None:
    text = (
        "word\tmisspellings\nHarbour\tharbur  haarber\n\nalot->a lot\nbrige->bridge, Brig\nharbour\tharbur harbor\r\n"
    )
    found = read_misspellings(written(tmp_path / "list.tsv", text))
    assert found.by_word == {"harbour": ("harbur", "haarber", "harbor"), "bridge": ("brige",), "brig": ("brige",)}
    assert found.share == SHARE == 0.5


def test_a_header_is_one_in_the_first_line_only(tmp_path: Path) -> None:
    found = read_misspellings(written(tmp_path / "list.tsv", "bridge\tbrige\nword\tmisspellings\n"))
    assert found.by_word["word"] == ("misspellings",)


def test_a_packed_list_is_read(tmp_path: Path) -> None:
    path = tmp_path / "list.tsv.gz"
    path.write_bytes(gzip.compress(b"bridge\tbrige\n"))
    assert read_misspellings(path).by_word == {"bridge": ("brige",)}


def test_digits_and_other_cases_are_no_misspellings() -> None:
    found = Misspellings.of([("four", "4"), ("Four", "FOUR"), ("four", "fuor")])
    assert found.by_word == {"four": ("fuor",)}


@pytest.mark.parametrize(
    "line",
    ["bridge", "bridge\t", "\tbrige", "bridge\tbrige\tbirdge", "->bridge", "brige->", "a->b->c", "brige->bridge,"],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    path = written(tmp_path / "list.tsv", f"harbour\tharbur\n{line}\n")
    with pytest.raises(UserError, match=r"list\.tsv:2: this is not a word with its misspellings: write WORD, a tab"):
        read_misspellings(path)


def test_a_file_without_misspellings_that_is_not_text_or_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no misspelling of a word"):
        read_misspellings(written(tmp_path / "list.tsv", "alot->a lot\ndont->don't\nwellknown->well-known\n"))
    (tmp_path / "latin").write_bytes(b"caf\xe9\tcafee\n")
    with pytest.raises(UserError, match=r"latin:1: byte 3 .* not valid UTF-8"):
        read_misspellings(tmp_path / "latin")
    with pytest.raises(UserError, match="cannot read"):
        read_misspellings(tmp_path / "missing")


def test_the_case_of_the_word_is_kept() -> None:
    rng = random.Random(0)
    one = Misspellings.of([("harbour", "harbur"), ("i", "ii")], share=1.0)
    words = ("harbour", "Harbour", "HARBOUR", "I")
    assert [one.draw(word, rng) for word in words] == ["harbur", "Harbur", "HARBUR", "Ii"]


def test_a_word_without_misspellings_draws_nothing() -> None:
    rng = random.Random(0)
    before = rng.getstate()
    assert ALWAYS.draw("bridge", rng) is None
    assert rng.getstate() == before


def test_a_share_of_the_mistyped_words_is_misspelt() -> None:
    for share, low, high in ((0.0, 0.0, 0.0), (0.5, 0.4, 0.6), (1.0, 1.0, 1.0)):
        edit = PeoplesTyping(misspellings=Misspellings.of([("harbour", "qxqx")], share))
        made = [edit("harbour", random.Random(seed)) for seed in range(400)]
        found = sum(each is not None and each.text == "qxqx" for each in made)
        assert low <= found / len(made) <= high, share


def test_all_misspellings_of_a_word_are_drawn() -> None:
    made = set(noisy([f"{TEXT}{' ' * number}" for number in range(60)], "typing", 1.0, misspellings=ALWAYS))
    assert {word for text in made for word in text.lower().split() if word in ("harbur", "haarber")} == {
        "harbur",
        "haarber",
    }


def test_the_changed_place_is_told() -> None:
    made = PeoplesTyping(misspellings=ALWAYS)("harbour", random.Random(1))
    assert made is not None
    assert [(change.begin, change.end) for change in made.changes] == [(0, 7)]
    assert made.text in ("harbur", "haarber")


def test_other_noise_takes_no_misspellings_and_random_edits_pass_them_on() -> None:
    (typing, upper) = noise_edits(["typing", "case.upper"], misspellings=ALWAYS)
    assert isinstance(typing, PeoplesTyping)
    assert typing.misspellings is ALWAYS
    assert upper(TEXT, random.Random(0), 1.0).text == TEXT.upper()  # type: ignore[union-attr]
    edits = RandomEdits(("typing",), 1.0, misspellings=ALWAYS)
    assert edits.of("harbour", random.Random(0)) in ("harbur", "haarber")


def test_the_option_goes_with_the_noise_typing() -> None:
    typing, upper = Noise.parse("typing=0.2,case.upper", misspellings=ALWAYS)
    assert (typing.misspellings, upper.misspellings, str(typing)) == (ALWAYS, None, "typing=0.2")
    with pytest.raises(UserError, match=r"--misspellings is for the noise typing: add it to --noise case\.upper"):
        Noise.parse("case.upper", misspellings=ALWAYS)


def test_the_record_depends_on_the_content_only() -> None:
    other = Misspellings.of([("harbour", "haarber"), ("Harbour", "harbur")], share=1.0)
    assert other.record() == ALWAYS.record()
    assert ALWAYS.record() | {"sha256": ""} == {"words": 1, "misspellings": 2, "share": 1.0, "sha256": ""}
    assert Misspellings.of([("harbour", "haarber")], share=1.0).record() != ALWAYS.record()
