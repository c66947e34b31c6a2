"""The Geometry Attack against a rendering of Algorithm 1 for one text at a time, and an encoder under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from architectures import DECODERS
from holdfast.adversary.geometry import Attacked, BatchGradients, GeometryAttack, word_importance
from holdfast.adversary.gradient_encoder import GradientEncoder, recovered_texts, with_texts
from holdfast.edits.words import Words, is_content_word
from holdfast.encoder import Encoder
from holdfast.models import load_sentence_transformer

VOCABULARY = "dog cat cow horse barn house tent runs sleeps eats plays red big old small slow".split()
THESAURUS = {word: [other for other in VOCABULARY[i % 5 :: 2] if other != word] for i, word in enumerate(VOCABULARY)}
TEXTS = [
    "The big dog runs, the old cat sleeps; and the red cow eats in 3 barns!",
    "a dog",
    "the and of 12 in on",
    "dog cat cow horse barn house tent runs sleeps eats plays red big old small slow",
    "Old horse eats: slow cow plays.",
    "",
]


class Bag:
    """z = tanh of a weighted sum of word vectors, and a curved loss against each text's key."""

    def __init__(self, seed: int = 0, sign: float = 1.0) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.table = dict(zip(VOCABULARY, torch.randn(len(VOCABULARY), 4, generator=generator).double(), strict=True))
        self.keys = torch.randn(len(TEXTS), 4, generator=generator).double() * sign
        self.sizes: dict[str, list[int]] = {"gradients": [], "vectors": []}

    def tokens(self, text: str) -> tuple[torch.Tensor, list[tuple[int, int]]]:
        words = Words.of(text)
        rows = [self.table.get(word.lower(), torch.zeros(4).double()) for word in words.words]
        return torch.stack(rows), words.spans

    def z(self, tokens: torch.Tensor) -> torch.Tensor:
        weights = 1 / torch.arange(1, len(tokens) + 1).double().sqrt()
        return torch.tanh((weights[:, None] * tokens).sum(dim=0))

    def loss(self, z: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        return torch.stack([self.one(v, row) for v, row in zip(z, rows, strict=True)]).mean()

    def one(self, z: torch.Tensor, row: int) -> torch.Tensor:
        return torch.log1p(torch.exp(-3 * z @ self.keys[row]))

    def gradients(self, texts: Sequence[str], rows: Sequence[int]) -> BatchGradients:
        self.sizes["gradients"].append(len(texts))
        zs, directions, tokens, offsets = [], [], [], []
        for text, row in zip(texts, rows, strict=True):
            leaf, spans = self.tokens(text)
            leaf.requires_grad_()
            z = self.z(leaf)
            v, g = torch.autograd.grad(self.one(z, row), [z, leaf])
            zs.append(z.detach())
            directions.append(v)
            tokens.append(torch.nn.functional.pad(g, (0, 0, 1, 40 - len(g)), value=9.0))  # as special tokens have some
            offsets.append([(0, 0), *spans, *[(0, 0)] * (40 - len(g))])
        return BatchGradients(torch.stack(zs), torch.stack(directions), torch.stack(tokens), offsets)

    def vectors(self, texts: Sequence[str], rows: Sequence[int]) -> torch.Tensor:
        self.sizes["vectors"].append(len(texts))
        return torch.stack([self.z(self.tokens(text)[0]) for text in texts])

    def finished(self, z: torch.Tensor, rows: Sequence[int]) -> list[bool]:
        return [False] * len(z)


class Book:
    """Candidates from a list, whatever the text; ``asked`` keeps what was asked for."""

    source = "a list"

    def __init__(self, book: dict[str, list[str]] | None = None) -> None:
        self.book = THESAURUS if book is None else book
        self.asked: list[list[str]] = []

    def candidates(self, sentences: Sequence[Words], places: Sequence[int]) -> list[list[str]]:
        words = [sentence.words[place] for sentence, place in zip(sentences, places, strict=True)]
        self.asked.append(words)
        return [list(self.book.get(word.lower(), [])) for word in words]


def algorithm_1(text: str, row: int, bag: Bag, book: dict[str, list[str]], n: int, share: float) -> tuple[str, int]:
    """ADCL, Algorithm 1, with the budget of appendix F, step by step on one text."""
    words = Words.of(text)
    touched: set[int] = set()
    replaced = 0
    for _ in range(n):
        if replaced >= min(n, int(share * len(words.words))):
            break
        leaf = bag.tokens(words.text)[0].requires_grad_()
        z = bag.z(leaf)
        v, g = torch.autograd.grad(bag.one(z, row), [z, leaf])
        norms = {
            i: np.sqrt((g[i].numpy() ** 2).sum())
            for i, word in enumerate(words.words)
            if is_content_word(word) and i not in touched
        }
        norms = {i: norm for i, norm in norms.items() if norm > 0}
        if not norms:
            break
        t = max(norms, key=norms.__getitem__)
        touched.add(t)
        best, farthest = None, 0.0
        candidates = book.get(words.words[t].lower(), [])
        for candidate in candidates:
            z_cand = bag.z(bag.tokens(words.exchanged(t, candidate).text)[0])
            projection = ((z_cand - z) @ v / v.norm()).item()
            if projection > farthest:
                best, farthest = candidate, projection
        if best is not None:
            words, replaced = words.exchanged(t, best), replaced + 1
        elif candidates:
            break
    return words.text, replaced


@pytest.mark.parametrize("n", [2, 10])
def test_words_without_candidates_use_up_no_iteration_if_skipped_freely(n: int) -> None:
    book = {word: near for word, near in THESAURUS.items() if word in ("cow", "small", "eats", "old")}
    text = [TEXTS[3]]  # sixteen words, of which four have candidates
    bag = Bag(1)
    counting, free = (
        attack(Book(book), iterations=n, max_share=1.0, skip_freely=skip).run(text, bag) for skip in (False, True)
    )
    assert free.replaced[0] >= min(n, 3) > counting.replaced[0]
    assert free.replaced[0] <= min(n, 4)
    assert free.cost.proposals > free.cost.gradients


def attack(proposer: Any = None, **changes: Any) -> GeometryAttack:
    return GeometryAttack(proposer or Book(), **{"max_share": 0.5, **changes})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n", "share"), [(10, 0.2), (3, 1.0), (10, 0.6)])
def test_it_does_what_algorithm_1_does_to_each_text(seed: int, n: int, share: float) -> None:
    bag, book = Bag(seed), {word: near for word, near in THESAURUS.items() if word not in ("dog", "old")}
    found = attack(Book(book), iterations=n, max_share=share).run(TEXTS, bag)
    expected = [algorithm_1(text, row, bag, book, n, share) for row, text in enumerate(TEXTS)]
    assert found.texts == [text for text, _ in expected]
    assert found.replaced == [count for _, count in expected]
    assert sum(found.replaced) > 2
    assert found.words == [16, 2, 6, 16, 6, 0]


def test_the_reported_losses_are_those_of_the_attacked_texts() -> None:
    bag = Bag()
    found = attack().run(TEXTS, bag)
    rows = [row for row, text in enumerate(TEXTS) if any(map(is_content_word, Words.of(text).words))]
    before, after = (bag.loss(bag.vectors([texts[row] for row in rows], rows), rows) for texts in (TEXTS, found.texts))
    assert (found.loss_before.item(), found.loss_after.item()) == pytest.approx((before.item(), after.item()), rel=1e-9)
    assert found.loss_after - found.loss_before > 0.1


def test_together_and_alone_are_the_same() -> None:
    bag = Bag(1)
    together = attack().run(TEXTS, bag)
    for row, text in enumerate(TEXTS):
        alone = Bag(1)
        alone.keys = bag.keys[row : row + 1]
        assert attack().run([text], alone).texts == [together.texts[row]]
    order = [3, 0, 5, 2, 4, 1]
    mixed = Bag(1)
    mixed.keys = bag.keys[order]
    assert attack().run([TEXTS[i] for i in order], mixed).texts == [together.texts[i] for i in order]


def test_each_iteration_is_one_pass_of_each_kind_and_finished_texts_drop_out() -> None:
    bag, book = Bag(), Book()
    found = attack(book, max_share=0.4).run(TEXTS, bag)
    iterations = len(bag.sizes["vectors"])
    assert len(book.asked) == len(bag.sizes["gradients"]) == iterations
    assert max(found.replaced) <= iterations <= 10
    assert bag.sizes["gradients"] == sorted(bag.sizes["gradients"], reverse=True)
    assert bag.sizes["gradients"][0] == 3, "texts that may not change at all are never looked at"
    assert bag.sizes["gradients"][-1] < 3
    budgets = [6, 0, 0, 6, 2, 0]
    looks = [n + (n < budget) for n, budget in zip(found.replaced, budgets, strict=True)]
    assert found.cost.gradients == sum(bag.sizes["gradients"]) == sum(looks), "a text at its cap was looked at again"
    assert found.cost.scored == sum(bag.sizes["vectors"])
    assert found.cost.proposals == sum(map(len, book.asked))
    assert all(seconds > 0 for seconds in found.cost.seconds.values())


def test_the_model_gets_the_number_of_the_original_of_each_candidate() -> None:
    class Told(Bag):
        def vectors(self, texts: Sequence[str], rows: Sequence[int]) -> torch.Tensor:
            for text, row in zip(texts, rows, strict=True):
                differing = [a for a, b in zip(Words.of(text).parts, Words.of(TEXTS[row]).parts, strict=True) if a != b]
                assert 0 < len(differing) <= 9
            return super().vectors(texts, rows)

    assert sum(attack().run(TEXTS, Told()).replaced) > 2


def test_a_text_stops_where_no_candidate_raises_the_loss() -> None:
    bag = Bag()
    good = algorithm_1(TEXTS[3], 3, bag, THESAURUS, 1, 1.0)[0]
    changed = next(i for i, (a, b) in enumerate(zip(good.split(), TEXTS[3].split(), strict=True)) if a != b)
    word, v = TEXTS[3].split()[changed], bag.gradients([TEXTS[3]], [3])
    away = {
        candidate: ((bag.vectors([Words.of(TEXTS[3]).exchanged(changed, candidate).text], [3]) - v.z) @ v.direction[0])
        for candidate in VOCABULARY
    }
    lowering = [candidate for candidate, projection in away.items() if projection < 0]
    assert len(lowering) > 3
    book = Book({**THESAURUS, word: lowering})
    found = attack(book, max_share=1.0).run([TEXTS[3]], Bag1(bag, 3))
    assert found.texts == [TEXTS[3]], "the largest |projection| is not what counts"
    assert found.replaced == [0]
    assert len(book.asked) == 1, "it went on"


class Bag1(Bag):
    """One text of a bag, by itself."""

    def __init__(self, bag: Bag, row: int) -> None:
        super().__init__()
        self.table, self.keys = bag.table, bag.keys[row : row + 1]


@pytest.mark.parametrize(("iterations", "share", "most"), [(10, 0.2, 3), (2, 1.0, 2), (10, 0.99, 10), (20, 1.0, 16)])
def test_the_cap_is_a_cap(iterations: int, share: float, most: int) -> None:
    book = dict.fromkeys(VOCABULARY, VOCABULARY)
    counts = []
    for seed in range(8):
        found = attack(Book(book), iterations=iterations, max_share=share).run([TEXTS[3]], Bag1(Bag(seed), 3))
        differing = sum(a != b for a, b in zip(found.texts[0].split(), TEXTS[3].split(), strict=True))
        assert differing <= found.replaced[0] <= most
        counts.append(found.replaced[0])
    if most < 10:
        assert max(counts) == most


def test_four_words_are_too_few_for_a_fifth() -> None:
    assert attack(max_share=0.2).run(["big dog eats slow"], Bag()).replaced == [0]
    assert attack(max_share=0.25).run(["big dog eats slow"], Bag()).replaced == [1]


def test_only_content_words_change_and_each_once() -> None:
    book = Book(dict.fromkeys([*VOCABULARY, "the", "and", "in", "3", "barns", "a", "of"], VOCABULARY))
    bag = Bag()
    for word in ("the", "and", "in", "3", "barns", "a", "of"):
        bag.table[word] = torch.ones(4).double()
    found = attack(book, iterations=50, max_share=1.0).run(TEXTS, bag)
    for asked in book.asked:
        assert all(map(is_content_word, asked))
    for text, original in zip(found.texts, TEXTS, strict=True):
        for new, old in zip(Words.of(text).parts, Words.of(original).parts, strict=True):
            assert new == old or is_content_word(old)
    assert len(book.asked) <= 16, "a text of sixteen words was asked about more often"


def test_a_word_without_candidates_is_passed_over_and_takes_an_iteration() -> None:
    few = Book({"cow": ["horse", "tent", "house"]})
    text = "red cow sleeps slow"
    assert attack(few, max_share=1.0, iterations=10).run([text], Bag(2)).replaced == [1]
    first = attack(few, max_share=1.0, iterations=1).run([text], Bag(2))
    assert few.asked[-1] != ["cow"]
    assert first.texts == [text]
    bag = Bag(2)
    attack(few, max_share=1.0, iterations=10).run([text], bag)
    assert bag.sizes["gradients"] == [1, 1], "gradients are only taken anew where the text has changed"


def test_a_text_that_reached_its_goal_is_left_alone() -> None:
    bag = Bag()
    bag.finished = lambda z, rows: [row == 3 for row in rows]  # type: ignore[method-assign]
    found = attack().run(TEXTS, bag)
    free = attack().run(TEXTS, Bag())
    assert found.replaced[3] == 1 < free.replaced[3]
    assert found.texts[:3] == free.texts[:3]


def test_without_a_slope_nothing_happens() -> None:
    bag, book = Bag(), Book()
    bag.one = lambda z, row: (z * 0).sum()  # type: ignore[method-assign]
    found = attack(book).run(TEXTS, bag)
    assert found.texts == TEXTS
    assert (found.cost.proposals, found.cost.scored, found.loss_after - found.loss_before) == (0, 0, 0)
    assert book.asked == []
    assert attack().run([], Bag()).texts == []


def test_word_importance_of_sub_words() -> None:
    """Words "unhappy", "a", "dogs" of sub-words un-happ-y, a, dog-s; a special token each side; "cat" is cut off."""
    text = "unhappy a dogs cat"
    offsets = [(0, 0), (0, 2), (2, 6), (6, 7), (8, 9), (10, 13), (13, 14), (0, 0)]
    gradients = torch.randn(10, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    spans = Words.of(text).spans
    g = gradients.numpy()
    groups = [[1, 2, 3], [4], [5, 6]]
    mean = [np.linalg.norm(g[group].mean(axis=0)) for group in groups]
    total = [np.abs(g[group].sum(axis=0)).sum() for group in groups]
    assert word_importance(gradients, offsets, spans, "mean-l2") == pytest.approx([*mean, 0.0])
    assert word_importance(gradients, offsets, spans, "sum-l1") == pytest.approx([*total, 0.0])
    assert word_importance(gradients, offsets, [], "mean-l2") == []


def test_the_release_ranks_words_by_another_norm() -> None:
    class Split(Bag):
        """Each word is two sub-words with opposite gradients but for a rest: by the mean small, by the sum too."""

        def gradients(self, texts: Sequence[str], rows: Sequence[int]) -> BatchGradients:
            found = super().gradients(texts, rows)
            tokens = torch.zeros(1, 2, 4).double()
            tokens[0, 0] = torch.tensor([1.0, 1.0, 1.0, 1.0])  # "dog": L2 2, L1 4
            tokens[0, 1] = torch.tensor([3.0, 0.0, 0.0, 0.0])  # "cat": L2 3, L1 3
            return BatchGradients(found.z, found.direction, tokens, [[(0, 3), (4, 7)]])

    for importance, first in (("mean-l2", "cat"), ("sum-l1", "dog")):
        book = Book()
        attack(book, importance=importance, iterations=1).run(["dog cat"], Split())
        assert book.asked == [[first]]


@pytest.mark.parametrize(("changes", "message"), [({"iterations": 0}, "one iteration"), ({"max_share": 0.0}, "share")])
def test_wrong_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attack(**changes)


# --- an encoder with a loss -----------------------------------------------------------------------------------------


@pytest.fixture
def keys() -> torch.Tensor:
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def model_with_loss(model: Any, keys: torch.Tensor) -> GradientEncoder:
    def loss(z: torch.Tensor, rows: Sequence[int]) -> torch.Tensor:
        return -(z * keys[list(rows)].to(z) / 8).sum(dim=1).tanh().mean()

    return GradientEncoder(Encoder(model), torch.nn.Tanh(), loss)


def test_gradients_of_any_backbone(make_encoder_model: Any, sentences: list[str], backbone: str, keys: Any) -> None:
    """Against the gradient of a perturbation δ = 0, sentence by sentence."""
    model = make_encoder_model(backbone).double()
    attacked, encoder = model_with_loss(model, keys), Encoder(model)
    with encoder.attack_mode():
        found = attacked.gradients(sentences, range(8))
    for row, sentence in enumerate(sentences):
        features = encoder.tokenise([sentence])
        length = features["input_ids"].shape[1]
        delta = torch.zeros(1, length, 16, dtype=torch.float64, requires_grad=True)
        with encoder.perturbed(delta=delta):
            z = encoder.encode(features).tanh()
        v, g = torch.autograd.grad(attacked.loss(z, [row]) / 8, [z, delta])
        torch.testing.assert_close(found.z[row], z[0].detach(), rtol=1e-5, atol=1e-6)  # ModernBERT's angles are fp32
        torch.testing.assert_close(found.direction[row], v[0], rtol=1e-4, atol=1e-8)
        torch.testing.assert_close(found.tokens[row, :length], g[0], rtol=1e-4, atol=1e-8)
        spans = [sentence[begin:end] for begin, end in found.offsets[row]]
        if backbone in DECODERS:  # bytes, blanks with the words behind them, and no [CLS] in some
            assert "".join(spans) == sentence
        else:
            assert spans == ["", *sentence.split(), ""]
        assert found.tokens[row, :length].abs().max() > 1e-6


def test_vectors_of_many_texts_are_those_of_the_encoder(
    make_encoder_model: Any, sentences: list[str], backbone: str, keys: Any
) -> None:
    model = make_encoder_model(backbone).double()
    if backbone == "modernbert":  # its eager attention gives NaN where padding is wider than the local window
        model.transformers_model.set_attn_implementation("sdpa")
    texts = [f"{a} {b}" for a in sentences for b in sentences] * 2  # more tokens than one batch holds
    encoder = Encoder(model)
    expected = encoder.encode(encoder.tokenise(texts)).tanh().detach()
    attacked = model_with_loss(model, keys)
    with encoder.attack_mode():
        found = attacked.vectors(texts, [0] * len(texts))
    assert not found.requires_grad
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_an_attack_on_an_encoder_leaves_no_trace(make_encoder_model: Any, sentences: list[str], keys: Any) -> None:
    model = make_encoder_model("bert").train()
    encoder, attacked = Encoder(model), model_with_loss(model, keys)
    modes, state = [module.training for module in model.modules()], torch.get_rng_state()
    found: list[Attacked] = []
    words = {word for sentence in sentences for word in sentence.split() if is_content_word(word)}
    for _ in range(2):
        with encoder.attack_mode():
            found.append(attack(Book({word: sorted(words - {word}) for word in words})).run(sentences, attacked))
    assert found[0].texts == found[1].texts != sentences
    assert found[0].loss_after > found[0].loss_before
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert not (found[0].loss_before.requires_grad)
    assert not (found[0].loss_after.requires_grad)


def test_numbers_and_contractions_are_recovered_as_they_were_written() -> None:
    model = load_sentence_transformer("bundled", device="cpu")
    texts = [
        "it cost 1,000,000 dollars, or 3.5 percent, at 10:30",
        "we don't know the children's house, and we’re late",
        "he said ' no ' to 3, 4 and 5, 600",
        "it is 12 : 3",
    ]
    found = recovered_texts(model, model.preprocess(texts))
    assert found[:2] == texts[:2]
    assert found[2] == "he said ' no ' to 3, 4 and 5,600"
    assert found[3] == texts[3]


def test_texts_are_recovered_where_the_ids_allow_it(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert")
    texts = [*sentences[:3], "the unheard dog", "a big cat " * 30]
    features = model.preprocess(texts)
    recovered = recovered_texts(model, features)
    assert recovered[:3] == sentences[:3]
    assert recovered[3] is None, "an unknown token is not in its text"
    assert recovered[4] is not None
    again = model.preprocess([recovered[4]])["input_ids"][0]
    assert torch.equal(again, features["input_ids"][4])


def test_a_word_cut_off_is_not_recovered(tmp_path: Any, make_encoder_model: Any) -> None:
    from transformers import BertTokenizer

    tokens = "[PAD] [UNK] [CLS] [SEP] [MASK] un unfair ##fair ##ly ##ness fair".split()

    class Model:
        tokenizer = BertTokenizer(vocab={token: i for i, token in enumerate(tokens)}, model_max_length=4)

    ids = torch.tensor([[2, 5, 7, 3], [2, 6, 8, 3], [2, 10, 3, 0]])
    found = recovered_texts(Model, {"input_ids": ids, "attention_mask": (ids != 0).long()})
    assert found == [None, "unfairly", "fair"]  # "un ##fair" would be tokenised as "unfair"


def test_some_rows_get_other_texts(make_encoder_model: Any, sentences: list[str]) -> None:
    model = make_encoder_model("bert")
    features = model.preprocess(sentences)
    longer = "the big dog sleeps in the red house on a bed under the park in the park"
    changed = list(sentences)
    changed[1], changed[5] = longer, "a cat"
    found = with_texts(model, features, {5: "a cat", 1: longer})
    expected = model.preprocess(changed)
    assert found.keys() == features.keys()
    for name in ("input_ids", "attention_mask"):
        assert torch.equal(found[name], expected[name])
    assert with_texts(model, features, {}) == dict(features)
