"""Texts as they are read: evasion undone, honest texts in any script intact."""

from __future__ import annotations

import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.edits.confusables import fold_confusables, latin_readings, look_alikes
from holdfast.edits.display_order import LRI, LRO, PDF, PDI, RLO, in_display_order
from holdfast.edits.evasion import evasion_edits
from holdfast.edits.normalising import normalise
from holdfast.errors import UserError

HONEST = [
    "Привет, это обычный русский текст о погоде и о том, как мы живём.",
    "Он не сам",
    "Купил iPhone и SMSку от IT-отдела",
    "Ελληνικά: η γλώσσα είναι όμορφη και ο καιρός καλός.",
    "これは普通の日本語の文章です。Ｔシャツを２枚買った！",
    "東京Ｔower 全角　スペース",
    "هذا نص عربي عادي، وفيه فاصلة.",
    "می‌خواهم بروم",
    "हिन्दी में क्‍या",
    "กำลัง ไป",
    "한국어 문장입니다",
    "שלום עולם",
    "Bu kızın adı Yıldırım",
    "a man named Yıldırım was born in İzmir",
    "TNFα and NFκB, β-carotene, Kα, σx, the letters α and ρ",
    "3½ cups, 10² m, 82º W, naïve café",
    "2ⁿ states of 10⁻³ mol Ca²⁺, aₙ₊₁ = e⁻ˣ, Windows™ 10",
    "👨‍👩‍👧 family 🏴󠁧󠁢󠁥󠁮󠁧󠁿 1️⃣ ❤️",
    "/fəˈnɛtɪk ɡɑɪd/ the word",
    "the Russian word карта means map",
    "P(A∣B), 500 g ℮, 5 € ☃",
    "tab\tand\nline",
]


@pytest.mark.parametrize("text", HONEST)
def test_an_honest_text_stays_as_it_is(text: str) -> None:
    assert normalise(text) == text


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("p\u0430yp\u0430l", "paypal"),  # Cyrillic in a Latin word
        ("the с\u043eру of it", "the copy of it"),  # a word in one other script, beside Latin words
        ("ιt was on thе ρоst", "it was on the post"),  # Greek in a function word, and beside Cyrillic
        ("a \u0261irl", "a girl"),  # another letter of the Latin script
        ("\U0001d421\U0001d41e\U0001d425\U0001d425\U0001d428 ｗｏｒｌｄ", "hello world"),  # NFKC
        ("\u03f2ity", "city"),  # NFKC makes the lunate sigma a final one, which looks like no letter
        ("z\u200be\u200cr\u200do w\u2060i\u00add\ufefft\u034fh", "zero width"),
        ("a\x00b\x1bc", "abc"),  # controls of ASCII
        (f"{RLO}lla{PDF} the same", "all the same"),
        (f"{LRI}all{PDI} the {LRO}same{PDF}", "all the same"),
        ("he\ufe0fllo", "hello"),
        ("a c\u0430\u0301b", "a c\xe1b"),  # a folded letter composes with its accent
        ("hydro∣y n\u0be6vel wi\U0001d7cfl", "hydroly novel will"),  # a sign and digits between letters
        ("th\u0435 fai\u04cfed", "the failed"),  # as in TextBugger's list; Unicode's has i
    ],
)
def test_a_text_is_written_as_it_is_read(written: str, read: str) -> None:
    assert normalise(written) == read


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0])
def test_evasion_is_undone(strength: float) -> None:
    text = "The committee said that nobody would be able to answer every question about the report."
    undone = {}
    for edit in evasion_edits():
        for number in range(40):
            made = edit(text, random.Random(f"{edit.NAME}/{number}"), strength)
            assert made is not None
            undone.setdefault(edit.NAME, []).append(normalise(made.text) == text)
    shares = {name: sum(found) / len(found) for name, found in undone.items()}
    assert all(shares[name] == 1.0 for name in ("zero-width", "bidi", "bidi.reversed"))
    assert shares["confusables"] >= 0.95
    assert all(shares[name] == 0.0 for name in ("spaced-letters", "leetspeak", "emoji"))


def test_a_word_in_a_script_that_the_text_uses_is_not_folded() -> None:
    assert fold_confusables("the рот is here") == "the рот is here"  # т looks like no ASCII letter in Unicode's list
    assert fold_confusables("the сор is here") == "the cop is here"
    assert fold_confusables("the сор is here, or день") == "the сор is here, or день"
    assert fold_confusables("сор") == "сор"  # no Latin word beside it


def test_mixed_words_in_a_text_of_the_other_script_stay() -> None:
    assert fold_confusables("тест и SMSка для нас") == "тест и SMSка для нас"
    assert fold_confusables("a SMSка for us") == "a SMSka for us"


def test_display_order() -> None:
    assert in_display_order(f"a {RLO}dc b{PDF} e") == "a b cd e"
    assert in_display_order(f"a {RLO}cb\nd") == "a bc\nd", "a span ends with its line"
    hebrew = "שלום"
    assert in_display_order(f"{RLO}{hebrew}{PDF}") == hebrew, "displayed from right to left in any case"
    assert in_display_order(f"{LRO}{hebrew}{PDF}") == hebrew[::-1]
    swapped = f"{LRO}{LRI}{RLO}{LRI}b{PDI}{LRI}a{PDI}{PDF}{PDI}{PDF}"
    assert in_display_order(swapped) == "ab", "the reordering of Boucher et al."
    assert in_display_order(f"{RLO}e\u0301x{PDF}") == "xe\u0301", "a mark stays with its letter"
    assert in_display_order(f"{PDF}a{PDI}") == "a"
    assert in_display_order((RLO + "a") * 5000) == "a" * 5000


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(st.sampled_from("ab cаеоαοtтИ\u200b\u200d\u202e\u202c\u2066\u2069\u00ad½🙂\u0301ا1")))
def test_a_normalised_text_stays_as_it_is(text: str) -> None:
    settled = normalise(normalise(normalise(text)))  # a folded word may tell more of its neighbours
    assert normalise(settled) == settled


def test_unicodes_list_is_read_with_its_direction() -> None:
    readings = latin_readings()
    assert readings["\u0430"] == "a"
    assert readings["\u0627"] == "l"  # written between direction marks in the library
    assert not any(character.isascii() for character in readings)
    assert "ſ" not in readings, "NFKC makes it an s"
    assert "\u0431" not in readings
    assert all(reading in look_alikes() or reading.isalpha() for reading in readings.values())


def test_without_the_library_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confusable_homoglyphs.confusables", None)
    latin_readings.cache_clear()
    with pytest.raises(UserError, match="pip install confusable-homoglyphs"):
        latin_readings()
    monkeypatch.undo()
    assert latin_readings()
