"""The audit's numbers by hand, how it changes texts, and which texts it takes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from audited import SEEN, run
from scipy.stats import spearmanr

from holdfast.attacks.encoder_targets import DriftTarget, halfway
from holdfast.audit import audited_texts, changed_copies, random_change_items, verdicts
from holdfast.audit import vector_movement as spaces
from holdfast.audit.audit_inputs import matches
from holdfast.audit.audit_settings import AuditSettings
from holdfast.edits import synonym_edit
from holdfast.edits.casing_and_spacing import upper_case
from holdfast.edits.typing_errors import KEYBOARD
from holdfast.edits.words import Words, is_content_word
from holdfast.errors import UserError
from holdfast.evaluation.intervals import mean_interval, rate_interval, spearman_interval
from holdfast.models import load_sentence_transformer

# --- numbers -----------------------------------------------------------------------------------------------------


def test_verdicts_begin_where_they_say() -> None:
    assert [verdicts.of_rate(rate) for rate in (0, 10, 10.1, 50, 50.1, 100)] == [
        *("holds", "holds", "bends", "bends", "breaks", "breaks")
    ]
    assert [verdicts.of_quality(value) for value in (75.0, 74.9, 60.0, 59.9)] == ["holds", "bends", "bends", "breaks"]
    assert verdicts.worst("holds", "breaks", "bends") == "breaks"
    assert verdicts.worst("holds", "bends") == "bends"


def test_each_number_is_held_against_its_own_thresholds() -> None:
    """Those of docs/audit.md."""

    def verdict(pull: float, *, surface: bool, rate: float = 0.0) -> str:
        found = dict.fromkeys(("found@1", "found@1_low", "found@1_high"), 100.0 - rate)
        metrics = {**dict.fromkeys(("pull", "pull_low", "pull_high"), pull), **found, "stability": 0.5}
        metrics["neighbour_changed"] = 0.0
        space = SimpleNamespace(
            move=lambda copies: SimpleNamespace(copies=copies),
            metrics=lambda moved, seed: metrics, examples=lambda moved, recipe: [], items=lambda moved: {},
        )  # fmt: skip
        context: Any = SimpleNamespace(
            space=space,
            settings=SimpleNamespace(seed=1),
            few_texts=numbered(["The dog"] * verdicts.LEAST, range(verdicts.LEAST)),
            encoded=lambda copies: copies,
        )
        if surface:
            (item,) = random_change_items.surface_items(context, "audit-case", "upper").measure(context)
            return str(item.row["verdict"])
        moved: Any = SimpleNamespace(copies=[1] * verdicts.LEAST)
        item = random_change_items._exchange_item(context, "audit-typos", "typos", moved, "a word", "synthetic noise")
        return str(item.row["verdict"])

    expected = ["holds", "bends", "bends", "breaks"]
    assert [verdict(pull, surface=False) for pull in (1.0, 1.01, 2.0, 2.01)] == expected
    assert [verdict(pull, surface=True) for pull in (0.25, 0.26, 1.0, 1.01)] == expected
    assert verdict(0.1, surface=True, rate=50.1) == verdict(0.1, surface=False, rate=50.1) == "breaks"
    assert verdicts.thresholds()["anisotropic"] == 0.8
    assert verdicts.thresholds()["batch_holds"] == 1e-3


def test_the_interval_of_a_mean_is_the_bootstraps() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, size=400)
    low, high = mean_interval(values, seed=1)
    half = 1.96 * values.std() / math.sqrt(400)
    assert low == pytest.approx(values.mean() - half, abs=0.03)
    assert high == pytest.approx(values.mean() + half, abs=0.03)
    assert mean_interval(values, seed=1) == (low, high)
    assert mean_interval([1.0, 1.0], seed=1) == (1.0, 1.0)
    some = np.array([True, False, True, True])
    assert rate_interval(some, seed=1) == mean_interval(some, seed=1)
    # Of n that are all alike Clopper and Pearson's: nobody can be certain after ten.
    low, high = rate_interval(np.zeros(10, dtype=bool), seed=1)
    assert (low, high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 10)))
    low, high = rate_interval(np.ones(10, dtype=bool), seed=1)
    assert (low, high) == (pytest.approx(0.025 ** (1 / 10)), 1.0)


def test_the_interval_of_spearman_is_that_of_its_pairs() -> None:
    """Against the standard error of Bonett and Wright (2000), which is of normal values: 95 %, two-sided, ×100."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=600)
    second = 0.6 * first + 0.8 * rng.normal(size=600)
    rho = spearmanr(first, second).statistic
    half = 100 * 1.96 * (1 - rho**2) * math.sqrt((1 + rho**2 / 2) / (600 - 3))
    interval = spearman_interval(first, second, seed=1)
    assert interval is not None
    assert interval[0] < 100 * rho < interval[1]
    assert interval[1] - interval[0] == pytest.approx(2 * half, rel=0.08)
    assert spearman_interval([1.0, 1.0], [0.1, 0.2], seed=1) is None, "equal scores have no correlation"


def test_alignment_is_of_the_pairs_that_mean_the_same(here: Path) -> None:
    """Those of four of five points and more (Wang and Isola 2020 take positives; Gao et al. 2021 these pairs)."""
    lines = [line.split("\t") for line in Path("data/stsb/dev.tsv").read_text().splitlines()[1:]]
    same = [(first, second) for first, second, score in lines if float(score) >= 4]
    assert 0 < len(same) < len(lines)
    model = load_sentence_transformer("lm")
    first, second = (model.encode(list(side), normalize_embeddings=True) for side in zip(*same, strict=True))
    (row,) = [row for row in run(items="quality")["results"] if row["task"] == "audit-quality"]
    assert row["metrics"]["alignment"] == pytest.approx(float(((first - second) ** 2).sum(axis=1).mean()), rel=1e-4)


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> spaces.Space:
    """A space in which the vector of a text is written in it: angles in degrees."""

    def encode(_model: Any, given: list[str], **_: Any) -> Any:
        angles = np.radians([float(text) for text in given])
        return 7.0 * np.stack([np.cos(angles), np.sin(angles)], axis=1)

    monkeypatch.setattr(spaces, "encode_sentences", encode)
    originals = ["0", "30", "90"]
    return spaces.Space(None, originals, [5, 6, 7], spaces.unit_vectors(None, originals))  # type: ignore[arg-type]


def test_how_far_copies_move_by_hand(flat: spaces.Space) -> None:
    cos = lambda degrees: math.cos(math.radians(degrees))  # noqa: E731
    mean_cosine = (cos(30) + cos(90) + cos(60)) / 3
    assert flat.mean_cosine == pytest.approx(mean_cosine)
    assert flat.halfway == round((1 + mean_cosine) / 2, 3)
    # The copy of 0 moves past 30 and stays nearest to it; that of 30 (nearest: 0) goes over to 90.
    moved = flat.move([spaces.Copy(0, "20", (), 0.2), spaces.Copy(1, "70", (), 0.1)])
    assert moved.cosines == pytest.approx([cos(20), cos(40)], abs=1e-5)
    assert moved.found.tolist() == [False, False], "30 is nearer to 20 than 0 is, and 90 to 70"
    assert moved.ranks.tolist() == [1, 1]
    assert moved.neighbours.tolist() == [[1, 1], [0, 2]]
    metrics = flat.metrics(moved, 0)
    stability = np.mean([(cos(20) - mean_cosine) / (1 - mean_cosine), (cos(40) - mean_cosine) / (1 - mean_cosine)])
    assert metrics["stability"] == pytest.approx(stability, abs=1e-4)
    assert metrics["pull"] == pytest.approx((1 - stability) / 0.15, abs=1e-3)
    assert metrics["share"] == pytest.approx(15.0)
    assert metrics["neighbour_changed"] == 50.0
    assert metrics["found@1"] == 0.0
    assert "found@10" not in metrics, "ten of three are all"
    ends = [(1 - metrics[f"stability_{end}"]) / 0.15 for end in ("high", "low")]
    assert [metrics["pull_low"], metrics["pull_high"]] == pytest.approx(ends)
    assert metrics["stability_low"] < metrics["stability"] < metrics["stability_high"]

    worst, other = flat.examples(moved, "turned")
    assert (worst["number"], worst["original"], worst["adversarial"]) == (6, "30", "70")
    assert (worst["outcome"], other["outcome"]) == ("succeeded", "failed")
    assert worst["neighbours"] == ["0", "90"]
    assert other["neighbours"] == []


def test_what_did_not_move_is_found_and_keeps_its_neighbour(flat: spaces.Space) -> None:
    moved = flat.move([spaces.Copy(i, text, (), 0.1) for i, text in enumerate(flat.texts)])
    assert moved.found.all()
    assert (moved.neighbours[:, 0] == moved.neighbours[:, 1]).all()
    assert flat.metrics(moved, 0)["stability"] == pytest.approx(1.0, abs=1e-4)
    far = flat.examples(flat.move([spaces.Copy(2, "25", (), 0.1)]), "x")[0]
    assert (far["outcome"], far["neighbours"]) == ("succeeded", []), "past half-way, with the same neighbour"


def test_half_way_is_what_the_attacks_call_so(make_encoder_model: Callable[..., Any], sentences: list[str]) -> None:
    model = make_encoder_model("bert")
    space = spaces.Space(model, sentences, list(range(8)), spaces.unit_vectors(model, sentences))
    assert space.halfway == halfway(DriftTarget(model, source="x", threshold=0.0), sentences)


def test_texts_that_are_compared_in_parts_have_the_same_neighbours(
    make_encoder_model: Callable[..., Any], sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_encoder_model("bert")
    units = spaces.unit_vectors(model, sentences)
    copies = [spaces.Copy(i % 8, text, (), 0.1) for i, text in enumerate(sentences[1:] + sentences[:3])]
    whole = spaces.Space(model, sentences, list(range(8)), units).move(copies)
    monkeypatch.setattr(spaces, "ROWS_AT_ONCE", 3)
    parts = spaces.Space(model, sentences, list(range(8)), units).move(copies)
    assert len(set(whole.neighbours.ravel().tolist())) > 2
    for name in ("cosines", "found", "neighbours"):
        assert (getattr(parts, name) == getattr(whole, name)).all(), name


# --- changes -----------------------------------------------------------------------------------------------------


def numbered(texts: list[str], numbers: list[int], tokenizer: Any = None) -> Any:
    """The texts of a space, for a tokeniser that gives no offsets unless one is given."""
    model = SimpleNamespace(tokenizer=tokenizer, default_prompt_name=None, prompts={})
    return SimpleNamespace(texts=texts, numbers=numbers, model=model)


def test_one_word_in_ten_is_mistyped() -> None:
    short, long = "The dog runs.", "the " + " ".join(["elephant"] * 24)
    whole = numbered([short, "of the", long], [1, 2, 3])
    copies = changed_copies.exchanged_words(whole, changed_copies.typing_error, kind="typos", seed=4)
    assert [copy.index for copy in copies] == [0, 2], "a text of stop words has no copy"
    assert [len(copy.changed) for copy in copies] == [1, 3], "25 words: 2.5, rounded up"
    assert copies[0].share == pytest.approx(1 / 3)
    for copy, original in zip(copies, (short, long), strict=True):
        text = Words.of(original)
        for place, old, new in copy.changed:
            assert text.words[place] == old != new
            assert is_content_word(old)
            text = text.exchanged(place, new)
        assert text.text == copy.text
    alone = numbered([long], [3])
    again = changed_copies.exchanged_words(alone, changed_copies.typing_error, kind="typos", seed=4)
    assert again[0].text == copies[1].text, "what stands beside a text does not change its copy"
    other = changed_copies.exchanged_words(alone, changed_copies.typing_error, kind="typos", seed=5)
    assert other[0].text != again[0].text


def test_every_kind_of_typing_error_occurs() -> None:
    words, kinds = Words.of("elephant"), set()
    for seed in range(60):
        error = changed_copies.typing_error(words, 0, random.Random(seed))
        assert error is not None
        if len(error) == 7:
            kinds.add("dropped")
        elif sorted(error) == sorted("elephant"):
            kinds.add("swapped")
        else:
            ((old, new),) = [(a, b) for a, b in zip("elephant", error, strict=True) if a != b]
            assert new in KEYBOARD[old]
            kinds.add("key")
    assert kinds == {"dropped", "swapped", "key"}
    assert changed_copies.typing_error(Words.of("日本"), 0, random.Random(0)) is None


def test_what_the_model_cuts_off_is_not_changed(make_masked_lm: Callable[..., Path], tmp_path: Path) -> None:
    from holdfast.models import load_sentence_transformer

    model = load_sentence_transformer(str(make_masked_lm(tmp_path / "short", max_positions=8)), device="cpu")
    text = "dog runs " * 20
    for seed in range(20):
        space = numbered([text], [0], model.tokenizer)
        (copy,) = changed_copies.exchanged_words(space, changed_copies.typing_error, kind="typos", seed=seed)
        assert max(place for place, _, _ in copy.changed) < 6


def test_likely_words_are_those_of_the_masked_lm() -> None:
    asked = []

    class Proposer:
        def propose(self, given: list[Words], places: list[int]) -> list[list[str]]:
            asked.extend(zip([words.text for words in given], places, strict=True))
            return [[words.words[place].upper(), "horse"] for words, place in zip(given, places, strict=True)]

    for seed in range(8):
        (copy,) = changed_copies.filled_words(
            numbered(["The dog is in the"], [0]),
            Proposer(),  # type: ignore[arg-type]
            seed=seed,
        )
        assert copy.text == "The horse is in the", "the word itself is no other word"
    assert set(asked) == {("The dog is in the", 1)}


def test_a_synonym_is_of_the_words_own_part_of_speech() -> None:
    class Told:
        def tags(self, given: list[str]) -> list[str]:
            return [word.upper() for word in given]

        def synonyms(self, word: str, *, tag: str | None, inflected: bool) -> list[str]:
            return [f"{word}/{tag}"]

    message: Any = Told()
    words = Words.of("one two three four five six seven eight nine ten eleven twelve")
    exchange = synonym_edit.wordnet_synonym(message, message)
    for place, word in enumerate(words.words):
        assert exchange(words, place, random.Random(0)) == f"{word}/{word.upper()}"
    assert synonym_edit.wordnet_synonym(message, None)(words, 0, random.Random(0)) == "one/None"


def test_one_of_the_ten_likeliest_words_is_drawn() -> None:
    class Proposer:
        def propose(self, given: list[Words], places: list[int]) -> list[list[str]]:
            return [[f"word{n}" for n in range(50)] for _ in given]

    proposer: Any = Proposer()
    copies = changed_copies.filled_words(numbered(["The dog is in the"] * 200, list(range(200))), proposer, seed=1)
    assert {new for copy in copies for _, _, new in copy.changed} == {f"word{n}" for n in range(10)}


def test_copies_with_another_case() -> None:
    lower, none = changed_copies.changed_texts(numbered(["The Dog barks", "ß", "LOUD"], range(3)), upper_case)
    assert lower.changed == ((0, "The", "THE"), (1, "Dog", "DOG"), (2, "barks", "BARKS"))
    assert lower.share == pytest.approx(1 / 3), "the share of one word"
    assert none.text == "SS"


# --- texts -------------------------------------------------------------------------------------------------------


def test_texts_are_drawn_by_the_seed_and_cut(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("\n".join([f"text number {i}" for i in range(50)] + ["text number 7", "one two three four, five"]))
    draw = lambda seed, **more: audited_texts.choose_texts(  # noqa: E731
        str(file), data=None, **{"count": 20, "max_words": 3, "seed": seed, **more}
    )
    first = draw(1)
    assert len(first.texts) == 20 == len(set(first.texts))
    assert first == draw(1)
    assert first.texts != draw(2).texts
    assert first.available == 51
    everything = draw(1, count=1000)
    assert everything.cut == 1
    assert "one two three" in everything.texts
    assert dict(zip(everything.texts, everything.numbers, strict=True))["text number 7"] == 7
    assert audited_texts.truncate_words("one two three four, five", 4) == "one two three four"
    assert audited_texts.truncate_words("one two", 4) == "one two"


def test_default_texts(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"count": 1000, "max_words": 64, "seed": 1}
    assert audited_texts.choose_texts(None, data=here / "data", **options).source == "STS-B dev"
    assert audited_texts.choose_texts(None, data=here / "data", **options).available == 60
    monkeypatch.setattr(audited_texts, "load_python_prose", lambda: ["One text.", "Another one."])
    assert set(audited_texts.choose_texts(None, data=None, **options).texts) == {"One text.", "Another one."}
    (here / "one.txt").write_text("same\nsame\n")
    with pytest.raises(UserError, match=r"one\.txt.*at least two"):
        audited_texts.choose_texts("one.txt", data=None, **options)


def test_the_item_typing_draws_from_a_list_of_misspellings(here: Path) -> None:
    (here / "list.tsv").write_text("".join(f"{word}\tqxqx\n" for word in (*SEEN, "the")))
    settings = {"texts": "mine.txt", "examples": 1, "tagger": "textblob", "data": here / "data", "items": "typing"}
    result = run("lm", examples=1, items="typing", misspellings=Path("list.tsv"))
    shown = [row["adversarial"] for row in result["examples"] if row["item"] == "audit-typing"]
    assert any("qxqx" in text.lower() for text in shown)
    assert result["protocol"]["misspellings"]["words"] == len(SEEN) + 1
    assert matches(result, AuditSettings("lm", **settings, misspellings=Path("list.tsv")))
    assert not matches(result, AuditSettings("lm", **settings))
    (here / "list.tsv").write_text("bridge brige\n")
    with pytest.raises(UserError, match=r"list\.tsv:1: this is not a word"):
        run("lm", misspellings=Path("list.tsv"))
