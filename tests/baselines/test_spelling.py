"""Spelling correction with the words of a corpus: what is corrected, and what stays."""

from __future__ import annotations

import math
import pickle
import re
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import pytest

from holdfast.baselines import spelling, spelling_counts, word_model
from holdfast.baselines.letter_model import LetterModel
from holdfast.baselines.spelling import SpellingCorrection, SpellingSettings
from holdfast.baselines.spelling_counts import SpellingCounts
from holdfast.baselines.word_model import EnglishCounts, WordModel, english_counts
from holdfast.errors import UserError

ENGLISH = {
    "the": 5000, "who": 900, "did": 800, "id": 1, "in": 2000, "was": 900, "house": 300, "horse": 300, "he": 900,
    "woman": 200, "sings": 30, "garden": 100, "colour": 60, "high": 200, "school": 300, "sleeps": 30, "where": 300,
    "place": 200, "went": 100, "to": 3000, "form": 200, "from": 900, "a": 2500, "river": 90,
}  # fmt: skip
PAIRS = {("who", "did"): 200, ("the", "garden"): 50, ("high", "school"): 150, ("to", "the"): 400, ("in", "the"): 700}
MILLION = 1_000_000
TOTAL = sum(ENGLISH.values()) * MILLION
DOCUMENTS = [
    "The city of Zorbelin sleeps. Near Zorbelin a river, the Quaxity, is deep.",
    "The town of Zorbelin has a Quaxity school; a bluefrond grows in the garden of Zorbelin by the Quaxity river.",
]


@pytest.fixture(autouse=True)
def english(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small English, whose index is made at once."""
    if request.node.name != "test_with_the_english_of_symspellpy":
        counts = EnglishCounts(
            *({key: count * MILLION for key, count in own.items()} for own in (ENGLISH, PAIRS)), TOTAL
        )
        for module in (word_model, spelling):
            monkeypatch.setattr(module, "english_counts", lambda: counts)


@pytest.fixture
def correct() -> Callable[[str], str]:
    return SpellingCorrection.of(DOCUMENTS, SpellingSettings(log_unknown=-9.0))  # so few words make any string likely


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("the womna sings in teh gardn", "the woman sings in the garden"),
        ("where was zorbelim", "where was zorbelin"),  # a word of the corpus
        ("Wher was the gardne?", "Where was the garden?"),  # the first word keeps its capital
        ("the bluefornd's river", "the bluefrond's river"),  # a final 's stays
        ("went tothe garden", "went to the garden"),  # words that were typed as one
        ("the gar den sings", "the garden sings"),  # parts of a word
    ],
)
def test_misspelt_words_are_corrected(correct: Callable[[str], str], typed: str, right: str) -> None:
    assert correct(typed) == right


@pytest.mark.parametrize(
    "text",
    [
        "the woman sings in the garden",
        "Zorbelin's Quaxity",
        "the color of the rivers",  # American spelling of a known word, a known word with s
        "NASSA in 3rd plcae9 h_ouse",  # capitals, digits, underscores
        "the xkqzvwp",  # nothing is near
        "",
        " ?! ",
    ],
)
def test_what_is_right_stays(correct: Callable[[str], str], text: str) -> None:
    assert correct(text) == text


def test_a_name_becomes_a_name_of_the_corpus_or_stays() -> None:
    correct = SpellingCorrection.of(DOCUMENTS, SpellingSettings(log_unknown=-5.0))
    assert correct("the woman in Zorbelim") == "the woman in Zorbelin"
    assert correct("the woman in Horsee") == "the woman in Horsee"
    assert correct("the woman in horsee") == "the woman in horse"


def test_a_word_with_two_corrections_alike_stays() -> None:
    untied, tied = (SpellingCorrection.of(DOCUMENTS, SpellingSettings(tie=tie)) for tie in (0.0, 5.0))
    assert untied("the hoese") in ("the house", "the horse")
    assert tied("the hoese") == "the hoese"


def test_a_known_word_is_exchanged_only_beside_its_neighbours() -> None:
    own = SpellingSettings(known_margin=1.0, known_ratio=2.0, language_weight=1.0)
    assert SpellingCorrection.of([], own)("who id the woman") == "who did the woman"
    for stricter in (replace(own, known_ratio=9.0), replace(own, known_margin=9.0), SpellingSettings()):
        assert SpellingCorrection.of([], stricter)("who id the woman") == "who id the woman"


def test_a_rare_word_of_the_corpus_may_be_an_error_and_a_frequent_one_is_not() -> None:
    own, others = SpellingSettings(margin=-9.0, known_margin=99.0, common=3), ["the"] * 2000
    assert SpellingCorrection.of(["gardn", *others], own)("the gardn") == "the garden"
    assert SpellingCorrection.of([*["gardn"] * 3, *others], own)("the gardn") == "the gardn"


@pytest.mark.parametrize(
    "text",
    [
        "it says you’re locked out",
        "why can’t I log in",
        "I think I’d cancel",
        "crème brûlée",
        "the naïve model",
        "a cliché",
    ],
)
def test_typographic_apostrophes_and_accents_are_no_errors(text: str) -> None:
    texts = ["it says your account is locked", "i can log in", "the crime of a nave", "ibm model"] * 3
    assert SpellingCorrection.of(texts)(text) == text


def test_a_typed_accent_stays_and_apostrophes_are_those_of_dictionaries(
    correct: Callable[[str], str],
) -> None:
    assert correct("the woman sings in the gardèn") == "the woman sings in the gardèn"
    assert [token.lower for token in spelling._tokens("We’re here")] == ["we're", "here"], "as dictionaries have it"


def test_an_accent_that_was_typed_stays_in_a_correction() -> None:
    correct = SpellingCorrection.of(["das schöne haus mit dem geschäft"] * 9)
    assert correct("das schönne haus") == "das schöne haus"
    assert correct("mit dem geschàft") == "mit dem geschàft"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_word_is_the_same_however_its_accents_and_apostrophes_are_written(form: Literal["NFC", "NFD"]) -> None:
    texts = ["Beyoncé sang in the café of O’Brien", "the naïve café of O'Brien"]
    correct = SpellingCorrection.of([unicodedata.normalize(form, text) for text in texts] * 3)
    assert (correct.counts.words["café"], correct.counts.words["o'brien"]) == (6, 6)
    assert correct.counts.capitals["o'brien"] == 6
    for other in ("NFC", "NFD"):
        for text in (*texts, "my fiancé sang"):
            written = unicodedata.normalize(other, text)
            assert correct(written) == written
        found = correct(unicodedata.normalize(other, "the café of o’brein"))
        assert unicodedata.normalize("NFC", found) == "the café of o'brien"


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("they havent paid, it doesnt work", "they haven't paid, it doesn't work"),
        ("we werent told why arent my photos loading", "we weren't told why aren't my photos loading"),
        ("Im not able to log in", "I'm not able to log in"),
        ("my printer isnt wroking", "my printer isn't working"),
        ("visit www.bbc.co.uk or www.exmaple.com/helo", "visit www.bbc.co.uk or www.exmaple.com/helo"),
        ("mail helo@exmaple.org about C:\\helo\\wrold", "mail helo@exmaple.org about C:\\helo\\wrold"),
        ("the wi-fi of my pritner", "the wi-fi of my printer"),
    ],
)
def test_a_negation_and_an_address_stay(text: str, corrected: str) -> None:
    texts = ["they have paid", "it does work", "my printer is working", "why are my photos loading", "we were told"]
    texts += ["help at www.example.com", "hello world", "the password of the parent", "if you log in"]
    assert SpellingCorrection.of(texts * 3)(text) == corrected
    assert SpellingCorrection.of(["it doesnt work"] * 3)("it doesnt work") == "it doesnt work"


def test_british_and_american_forms_and_signs_of_html_stay() -> None:
    texts = ["the palaeolithic tools", "a virtualisation of it", "he will get the lot"]
    correct = SpellingCorrection.of(texts * 3)
    for text in ("the paleolithic tools", "a virtualization of it", "the &lt;b&gt;lot&lt;/b&gt;"):
        assert correct(text) == text
    assert correct("the palaeolithc tools") == "the palaeolithic tools"
    typed = SpellingCorrection.of(["he goes to the tomatoes", "she goes there"] * 3)
    assert typed("he ges to the tomates") == "he goes to the tomatoes", "an o before an e may be left out"


def test_a_word_is_not_joined_with_an_abbreviation() -> None:
    correct = SpellingCorrection.of(["their camera is broken"] * 3)
    assert correct("the ir camera is broken") == "their camera is broken"
    assert correct("the IR camera is broken") == "the IR camera is broken"


def test_abbreviations_in_lower_case_and_long_runs_of_letters_stay() -> None:
    correct = SpellingCorrection.of(["the open house was by the firs", "cat did a bell"] * 5)
    assert correct("the opac hosue") == "the opac house", "a word that is no abbreviation is corrected"
    for text in ("the opec vs fbi house", "adhd in dvd", "html, css and usb"):
        assert correct(text) == text
    (token,) = spelling._tokens("ab" * 40)
    assert not token.open


@pytest.mark.parametrize(
    "text", ["see www.hosue.com now", "x" * 5000 + "@hosue", "a.b", "c:\\hosue\\x y", "the. Hosue"]
)
def test_what_stands_in_an_address_is_closed(text: str) -> None:
    closed = {token.text for token in spelling._tokens(text) if not token.open}
    address = next((run for run in text.split() if run not in ("see", "now", "the.", "Hosue", "y")), "")
    assert closed == set(re.findall(r"[^\W_]+", address))


def test_without_texts_the_words_are_english() -> None:
    correct = SpellingCorrection.of([])
    assert correct("teh gardn of zorbelim") == "the garden of zorbelim"


def test_two_corrections_do_not_share_the_words_of_their_corpora() -> None:
    first, second = (SpellingCorrection.of([f"the garden of {name}"] * 3) for name in ("Zorbelin", "Qarvonix"))
    asked = "teh gardn of Zorbelim and Qarvonic"
    assert first(asked) == "the garden of Zorbelin and Qarvonic"
    assert second(asked) == "the garden of Zorbelim and Qarvonix"


def test_a_correction_is_pickled_without_its_index(correct: Callable[[str], str]) -> None:
    assert correct("teh garden") == "the garden"
    data = pickle.dumps(correct)
    assert b"symspellpy" not in data
    assert pickle.loads(data)("teh garden") == "the garden"


@pytest.mark.slow
def test_with_the_english_of_symspellpy() -> None:
    correct = SpellingCorrection.of(DOCUMENTS)
    asked = "What is the name of Zorbelin's highest government? How many colors did it use?"
    assert correct(asked) == asked
    assert correct("whta is the goverment of Zorbelim") == "what is the government of Zorbelin"
    assert english_counts().pairs["high", "school"] > 0


# --- counts --------------------------------------------------------------------------------------------------------


def test_words_names_and_pairs_are_counted() -> None:
    counts = SpellingCounts.of(["The Nile's river 5 was", "the Nile was, the nile was"])
    assert counts.words == {"the": 3, "nile": 3, "was": 3, "river": 1}
    assert counts.capitals == {"nile": 2}  # the first word of a text has a capital anyway
    pairs = {("the", "nile"): 3, ("nile", "was"): 2, ("nile", "river"): 1, ("was", "the"): 1}  # not across a number
    assert counts.pairs == pairs
    assert (counts.total, counts.texts) == (10, 2)


def test_only_frequent_words_and_pairs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spelling_counts, "MOST_WORDS", 2)
    monkeypatch.setattr(spelling_counts, "MOST_PAIRS", 1)
    counts = SpellingCounts.of(["x y y z z z", "y z y z"])
    assert (counts.words, counts.pairs, counts.total) == ({"z": 5, "y": 4}, {("y", "z"): 3}, 10)
    monkeypatch.setattr(spelling_counts, "_COUNTED", 2)
    assert set(SpellingCounts.of(["a a a b b b", "c c c d"]).words) <= {"a", "b", "c"}


# --- probabilities -------------------------------------------------------------------------------------------------


def test_the_probability_of_a_word_after_another() -> None:
    counts = SpellingCounts.of(["the garden", "the garden", "zorb"])
    model = WordModel(counts, corpus_share=0.25, corpus_prior=10.0, english_prior=1e8, log_unknown=-2.0)
    alone = 0.75 * 100 / sum(ENGLISH.values()) + 0.25 * 2 / 5
    assert model.log_alone("garden") == pytest.approx(math.log(alone))
    english = (50 + 100 * alone) / (5000 + 100)
    assert model.log_after("garden", "the") == pytest.approx(math.log((2 + 10.0 * english) / (2 + 10.0)))
    assert model.log_after("garden", None) == model.log_alone("garden")
    letters = LetterModel(["zorb", *list(ENGLISH)[:: word_model.ENGLISH_STEP]])
    assert model.log_alone("zorg") == pytest.approx(-2.0 + letters.log("zorg"))


def test_symspellpy_without_its_files_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_model, "_PAIRS", "missing.txt")
    english_counts.cache_clear()
    with pytest.raises(UserError, match=r"symspellpy has no missing.txt: pip install"):
        english_counts()
