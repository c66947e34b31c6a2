"""Human noise: seeded, as strong as asked, for any text in any script, and each kind does what it says."""

import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.edits.edit import ENGLISH, Edit
from holdfast.edits.noise import NOISE, Noise, noise_edits, noisy
from holdfast.edits.sound_alikes import sound_alikes
from holdfast.edits.speech_edit import Speech
from holdfast.errors import UserError

SENTENCES = [
    "How many points did the northern harbour lose, in 1999, to the neighbouring coast?",
    "The curious engineers measured every bridge between the river and the old museum.",
    "Müller's naïve café near Łódź served crème brûlée on the first Sunday of the year.",
    "Which doctor wrote that nobody should drink cold water after an important examination?",
]
BY_STRENGTH = ("typing", "speech", "ocr", "whitespace", "typos")
ANY_TEXT = st.one_of(
    st.text(max_size=60), st.sampled_from(["", " ", "a", "שלום עולם", "한국어 문장", "नमस्ते", "７", "ß", "İ", "\x85"])
)


def edit_named(name: str) -> Edit:
    return noise_edits([name])[0]


@pytest.mark.parametrize("name", NOISE)
def test_each_name_is_that_of_its_edit_which_keeps_the_meaning(name: str) -> None:
    edit = edit_named(name)
    assert (name, "hold") == (edit.NAME, edit.SIDE)
    assert (edit.LANGUAGE == ENGLISH) == (name == "speech")
    assert edit.ABOUT
    assert not edit.ABOUT.endswith(".")


@pytest.mark.parametrize("name", NOISE)
@settings(deadline=None, max_examples=30)
@given(text=ANY_TEXT, seed=st.integers(0, 2**16), strength=st.floats(0, 1))
def test_any_text_is_taken_and_the_same_seed_gives_the_same_text(
    name: str, text: str, seed: int, strength: float
) -> None:
    edit, before = edit_named(name), random.getstate()
    made = edit(text, random.Random(seed), strength)
    assert made == edit(text, random.Random(seed), strength)
    assert made is None or (made.original == text and made.text != text)
    assert random.getstate() == before


@pytest.mark.parametrize("name", BY_STRENGTH)
def test_at_strength_0_one_word_is_changed(name: str) -> None:
    edit = edit_named(name)
    for seed in range(40):
        made = edit("every curious engineer measured another bridge", random.Random(seed))
        assert made is not None
        assert made.share <= 2 / 6, made.text


@pytest.mark.parametrize("name", BY_STRENGTH)
@pytest.mark.parametrize("strength", [0.1, 0.3])
def test_the_share_of_changed_words_is_the_strength(name: str, strength: float) -> None:
    edit = edit_named(name)
    plain = getattr(edit, "plain", str)
    changed = total = 0
    for number, sentence in enumerate(SENTENCES[:2] * 40):
        clean = plain(sentence)
        (text,) = [noisy([f"{sentence}"], name, strength, seed=number)[0]]
        total += len(clean.split(" "))
        changed += words_changed(clean, text)
    assert changed / total == pytest.approx(strength, abs=0.35 * strength)


def words_changed(clean: str, text: str) -> int:
    from difflib import SequenceMatcher

    if "  " in text or "\t" in text or "\xa0" in text or text != text.strip():  # white space: count changed gaps
        return len(re.findall(r"[ \xa0]{2}|\t|\xa0|^ | $", text))
    old, new = clean.split(" "), text.split(" ")
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return sum(max(1, j - i) for kind, i, j, _, _ in codes if kind != "equal")


@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan")])
@pytest.mark.parametrize("name", [*BY_STRENGTH, "accents"])
def test_a_strength_out_of_range_is_refused(name: str, strength: float) -> None:
    with pytest.raises(ValueError, match="strength"):
        edit_named(name)(SENTENCES[2], random.Random(0), strength)
    with pytest.raises(ValueError, match="strength"):
        noisy(SENTENCES, name, strength)


def test_a_text_has_the_same_noise_among_any_others() -> None:
    alone = noisy(SENTENCES[1:2], "typing", 0.5, seed=3)
    assert noisy(SENTENCES, "typing", 0.5, seed=3)[1:2] == alone
    assert alone != SENTENCES[1:2]
    assert noisy(SENTENCES[1:2], "typing", 0.5, seed=4) != alone


def test_at_strength_0_no_text_changes_and_whole_texts_change_at_the_strengths_share() -> None:
    assert noisy(SENTENCES, "typing", 0.0) == SENTENCES
    many = [f"Sentence number {number}" for number in range(400)]
    lower = [text for text, old in zip(noisy(many, "case.lower", 0.25), many, strict=True) if text != old]
    assert len(lower) == pytest.approx(100, abs=30)


def test_a_single_text_is_refused() -> None:
    with pytest.raises(TypeError, match=r"write \[text\]"):
        noisy("the dog runs", "typing")


def test_without_a_strength_the_kinds_usual_one_is_taken() -> None:
    assert noisy(SENTENCES, "typos") == noisy(SENTENCES, "typos", NOISE["typos"].strength)


# --- each kind ---------------------------------------------------------------------------------------------------


def changed(name: str, text: str, strength: float = 0.0, seed: int = 0) -> str | None:
    made = edit_named(name)(text, random.Random(seed), strength)
    return None if made is None else made.text


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("case.lower", "The RED Door.", "the red door."),
        ("case.upper", "The red door.", "THE RED DOOR."),
        ("case.title", "the red McDoor.", "The Red McDoor."),
        ("case.title", "it's Ann's well-known 'café', I don’t know", "It's Ann's Well-Known 'Café', I Don’t Know"),
        ("case.title", "cafe\u0301s", "Cafe\u0301s"),
        ("case.sentence", "the Red DOOR of Anna.", "The red door of anna."),
        ("case.lower", "the red door", None),
        ("case.upper", "한국어", None),
        ("full-stop", "The red door.", "The red door"),
        ("full-stop", "The red door ", "The red door."),
        ("full-stop", "The red door?", None),
        ("accents", "the red door", None),
        ("accents", "Ärger", ("Arger", "Aerger")),
        ("accents", "cafe\u0301", "cafe"),
        ("accents", "Đorđe", "Dorde"),
        ("accents", "हिन्दी भाषा", None),
        ("accents", "한국어", None),
        ("accents", "Ελλάδα", "Ελλαδα"),
    ],
)
def test_case_full_stop_and_accents(name: str, text: str, expected: str | tuple[str, ...] | None) -> None:
    made = changed(name, text, 1.0)
    assert made in (expected if isinstance(expected, tuple) else (expected,))


def test_both_ways_of_leaving_accents_out_occur() -> None:
    assert {changed("accents", "Müller", 1.0, seed) for seed in range(20)} == {"Muller", "Mueller"}


def test_the_strength_limits_how_many_accented_words_change() -> None:
    made = changed("accents", "é à è ù ê î ô û ë ï", 0.3)
    assert made is not None
    assert sum(letter.isascii() for letter in made.split()) == 3


def test_white_space_changes_and_nothing_else_does() -> None:
    kinds = set()
    for seed in range(60):
        made = changed("whitespace", "Doors open, and close.", 0.0, seed)
        assert made is not None
        assert "".join(made.split()) == "Dooropen,andclose.".replace("Door", "Doors")
        kinds.add(next(mark for mark in ("\t", "\xa0", "  ", ",and", "") if mark in made))
    assert kinds == {"\t", "\xa0", "  ", ",and", ""}


def test_ocr_mistakes_shapes_breaks_joins_and_hyphenates_words_and_keeps_digits_apart() -> None:
    texts = [str(changed("ocr", "the modern corner 1815 house", 0.0, seed)) for seed in range(300)]
    assert any("modem" in text for text in texts)
    assert any("comer" in text for text in texts)
    assert any("-\n" in text for text in texts)
    assert any(len(text.split(" ")) == 6 for text in texts)
    assert any("themodern" in text for text in texts)
    years = {text for text in texts if not text.startswith("the") or "1815" not in text}
    assert years
    assert not any(re.search(r"\d{4}", text.replace("1815", "")) for text in texts)


def test_speech_has_neither_case_nor_marks_and_numbers_are_words() -> None:
    edit = edit_named("speech")
    plain: Callable[[str], str] = edit.plain  # type: ignore[attr-defined]
    assert plain("In 1999, Anna's 2,500 well-known readers won the 3rd prize: 4.5!") == (
        "in nineteen ninety nine annas two thousand five hundred well known readers won the third prize four point five"
    )
    assert plain("nothing to do") == "nothing to do"
    assert noisy(["Is it 7 or 8?"], "speech", 0.001) == ["is it seven or eight"]


def test_speech_mishears_words_as_words_of_like_sound() -> None:
    edit = edit_named("speech")
    heard = {edit.sounds.draw("knot", random.Random(seed)) for seed in range(30)}  # type: ignore[attr-defined]
    assert {"not", "note"} & heard
    names = {edit.sounds.apart("newbridge", random.Random(seed)) for seed in range(30)}  # type: ignore[attr-defined]
    assert any(name and name.count(" ") == 1 for name in names)
    for seed in range(30):
        made = edit("the engineers measured a bridge", random.Random(seed), 0.2)
        assert made is not None
        assert made.text == made.text.strip()
        assert "  " not in made.text
        assert all(word.isalpha() for word in made.text.split())


def test_speech_hears_negations_contractions_letters_and_abbreviations() -> None:
    speech = Speech()
    text = "He didn't not say it's the dog's x UN within the knot, without a notable note"
    for seed in range(200):
        made = speech(text, random.Random(seed), 1.0)
        assert made is not None
        words = made.text.split()
        assert [words.count(word) for word in ("not", "without", "didnt", "its", "dogs", "x", "un")] == [1] * 7
        assert not {"no", "nor", "never", "cannot"} & set(words)


@pytest.mark.parametrize(
    ("word", "heard"), [("xiv", False), ("ltd", False), ("mix", True), ("mild", True), ("not", False)]
)
def test_words_that_may_be_heard(word: str, heard: bool) -> None:
    sounds = sound_alikes()
    assert word in sounds.rank
    assert (word in {other for words in sounds.heard.values() for other in words}) == heard


def test_synthetic_typos_are_in_content_words_and_keep_their_first_letters() -> None:
    for seed in range(30):
        made = changed("typos", "the engineers of the harbour", 0.4, seed)
        assert made is not None
        words = made.split(" ")
        assert (words[0], words[1][0], words[2:4], words[4][0]) == ("the", "e", ["of", "the"], "h")
        assert words[1] != "engineers"
        assert words[4] != "harbour"


# --- the option --------------------------------------------------------------------------------------------------


def test_the_option_is_read_with_and_without_a_strength() -> None:
    read = Noise.parse("typing=0.2, ocr")
    assert read == [Noise("typing", 0.2), Noise("ocr", NOISE["ocr"].strength)]
    assert [str(noise) for noise in read] == ["typing=0.2", "ocr=0.1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("typnig", "did you mean 'typing'"),
        ("typing=2", "share of words"),
        ("typing=0", "share of words"),
        ("typing=much", "share of words"),
        ("typing,typing=0.3", "twice"),
        (" , ", "names no noise"),
    ],
)
def test_a_mistake_in_the_option_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        Noise.parse(text)
    assert "\n" not in str(raised.value)
