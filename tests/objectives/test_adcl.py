"""ADCL against a slow rendering of its equation 1 and Algorithm 1, its invariants, and the quirks of its release."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gradient_checks import gradients, reordered, wider

from holdfast.adversary.geometry import BatchGradients
from holdfast.adversary.gradient_encoder import GradientEncoder
from holdfast.adversary.key_queue import KeyQueue
from holdfast.edits.words import is_content_word
from holdfast.encoder import Encoder
from holdfast.errors import UserError
from holdfast.objectives.adcl import ADCL
from holdfast.objectives.adcl_projection import Projection, mean_cosine
from warm import WarmPython

SETTINGS: dict[str, Any] = {
    "queue_size": 12,
    "momentum": 0.9,
    "projection": "mlp",
    "normalize": False,
    "temperature": 0.3,
    "projection_size": 8,
    "iterations": 4,
    "max_share": 0.5,
    "candidates": 5,
    "min_similarity": -0.1,
    "source": "masked-lm",
}


def old_keys(count: int = 7) -> torch.Tensor:
    generator = torch.Generator().manual_seed(9)
    return torch.randn(count, 8, generator=generator, dtype=torch.float64).tanh()


@pytest.fixture
def make(exact_model: Any, masked_lm: Path) -> Callable[..., ADCL]:
    """``make(**options)``: ADCL in fp64 without dropout, its queue holding seven old keys in twelve slots."""

    def build(**changes: Any) -> ADCL:
        torch.manual_seed(4)
        objective = ADCL(exact_model, **{"masked_lm": str(masked_lm), **SETTINGS, **changes}).double()
        # Apart from the projection as it is initialised: its outputs would be all but equal.
        for p in objective.head.parameters():
            torch.nn.init.normal_(p, std=0.7)
        objective.follower.followed_head.load_state_dict(objective.head.state_dict())
        for module in objective.follower.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        if not objective.as_released:
            objective.queue.push(old_keys())
        return objective

    return build


class Slow:
    """Equation 1 and Algorithm 1 for one sentence at a time, around BERT's own modules, on lists of words."""

    def __init__(self, objective: ADCL, queue: torch.Tensor) -> None:
        self.o, self.queue = objective, queue
        self.bert, self.layers = objective.model.transformers_model, objective.head.layers
        follower = objective.follower
        self.slow_bert, self.slow_layers = follower.followed_model.transformers_model, follower.followed_head.layers
        assert objective.attack is not None
        self.mlm, self.tokenizer = objective._masked_lm.model, objective._masked_lm.tokenizer
        self.table = self.mlm.get_input_embeddings().weight.detach().numpy()

    def ids(self, words: list[str]) -> torch.Tensor:
        return torch.tensor([[2, *self.tokenizer.convert_tokens_to_ids(words), 3]])

    def g(self, layers: Any, hidden: torch.Tensor) -> torch.Tensor:
        first, last = layers[0], layers[2]
        inner = 1 / (1 + torch.exp(-(first.weight @ hidden + first.bias)))
        return torch.tanh(last.weight @ inner + last.bias)

    def z(self, x: torch.Tensor) -> torch.Tensor:
        return self.g(self.layers, self.bert.encoder(x).last_hidden_state[0, 0])

    def x(self, words: list[str]) -> torch.Tensor:
        return self.bert.embeddings(self.ids(words))

    def key(self, words: list[str]) -> torch.Tensor:
        with torch.no_grad():
            x = self.slow_bert.embeddings(self.ids(words))
            return self.g(self.slow_layers, self.slow_bert.encoder(x).last_hidden_state[0, 0])

    def loss(self, z: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        above = torch.exp(z @ key / self.o.temperature)
        return -torch.log(above / (above + sum(torch.exp(z @ old / self.o.temperature) for old in self.queue)))

    def candidates(self, words: list[str], t: int) -> list[str]:
        ids = self.ids([*words[:t], "[MASK]", *words[t + 1 :]])
        with torch.no_grad():
            logits = self.mlm(input_ids=ids).logits[0, 1 + t].numpy()
        order = self.tokenizer.convert_ids_to_tokens(np.argsort(-logits).tolist())
        found = []
        for word in order:
            if word.isalpha() and is_content_word(word) and word != words[t]:
                a, b = (self.table[self.tokenizer.convert_tokens_to_ids(w)] for w in (word, words[t]))
                if a @ b / np.linalg.norm(a) / np.linalg.norm(b) >= SETTINGS["min_similarity"]:
                    found.append(word)
        return found[: SETTINGS["candidates"]]

    def attack(self, words: list[str]) -> list[str]:
        key, touched, replaced = self.key(words), set(), 0
        budget = min(SETTINGS["iterations"], math.floor(SETTINGS["max_share"] * len(words)))
        for _ in range(SETTINGS["iterations"]):
            left = [i for i, word in enumerate(words) if is_content_word(word) and i not in touched]
            if replaced == budget or not left:
                break
            leaf = self.x(words).detach().requires_grad_()
            z = self.z(leaf)
            v, g = torch.autograd.grad(self.loss(z, key), [z, leaf])
            t = max(left, key=lambda i: g[0, 1 + i].norm().item())
            touched.add(t)
            candidates = self.candidates(words, t)
            with torch.no_grad():
                texts = [[*words[:t], candidate, *words[t + 1 :]] for candidate in candidates]
                projections = [((self.z(self.x(text)) - z) @ v / v.norm()).item() for text in texts]
            if projections and max(projections) <= 0:
                break
            if projections:
                words, replaced = texts[projections.index(max(projections))], replaced + 1
        return words


@pytest.mark.parametrize("roles", ["paper", "swapped"])
def test_loss_gradients_and_adversarial_sentences_match_the_slow_reference(
    make: Any, batch: dict[str, Any], sentences: list[str], roles: str
) -> None:
    objective = make(roles=roles)
    for p in objective.follower.parameters():  # apart from the encoder: a mix-up of the two would show
        p.data += 0.02 * torch.randn(p.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    slow = Slow(objective, old_keys())
    originals = [sentence.split() for sentence in sentences]
    adversarial = [slow.attack(words) for words in originals]
    changed = sum(a != b for x, y in zip(adversarial, originals, strict=True) for a, b in zip(x, y, strict=True))
    assert changed > 8
    queries, keyed = (originals, adversarial) if roles == "paper" else (adversarial, originals)
    expected = torch.stack(
        [slow.loss(slow.z(slow.x(q)), slow.key(k)) for q, k in zip(queries, keyed, strict=True)]
    ).mean()
    found: list[Any] = []
    hard_positives = objective.hard_positives
    objective.hard_positives = lambda *args: found.append(hard_positives(*args)) or found[-1]
    terms = objective([dict(batch)])
    assert list(terms) == ["contrastive"]
    texts = objective.model.tokenizer.batch_decode(found[0]["input_ids"], skip_special_tokens=True)
    assert texts == [" ".join(words) for words in adversarial]
    assert objective.diagnostics["replaced_words"].item() == pytest.approx(changed / 8)
    assert terms["contrastive"].item() == pytest.approx(expected.item(), rel=1e-7)
    ours, theirs = gradients(terms["contrastive"], objective), gradients(expected, objective)
    assert ours.keys() == theirs.keys()
    assert not any(name.startswith("follower") for name in ours)
    for name, grad in theirs.items():
        torch.testing.assert_close(ours[name], grad, rtol=1e-6, atol=1e-9)
    assert max(grad.abs().max() for grad in theirs.values()) > 1e-3


def test_the_attack_raises_the_loss(make: Any, batch: dict[str, Any], sentences: list[str]) -> None:
    objective = make()
    encoder = objective.encoder
    keys = objective.follower.keys(batch)
    found = objective.attack_texts(encoder, sentences, keys)

    def loss(texts: list[str]) -> float:
        return objective.compute_loss(objective.head(encoder.encode(encoder.tokenise(texts))), keys).item()

    assert loss(found.texts) > 3 * loss(sentences)
    reported = found.loss_before.item(), found.loss_after.item()
    assert reported == pytest.approx((loss(sentences), loss(found.texts)), rel=1e-6)
    assert not (found.loss_before.requires_grad)
    assert not (found.loss_after.requires_grad)
    assert "masked LM" in found.source


def test_the_positive_counts_once(make: Any) -> None:
    objective = make(queue_size=5)
    key = torch.full((3, 8), 0.4, dtype=torch.float64)
    z = torch.randn(3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    objective.queue.push(key[:1].repeat(5, 1))
    assert objective.compute_loss(z, key).item() == pytest.approx(math.log(1 + 5))
    half = make(queue_size=50)
    half.queue = KeyQueue(50, 8).double()
    half.queue.push(key)
    assert half.compute_loss(z, key).item() == pytest.approx(math.log(1 + 3)), "empty slots must not count"


def test_with_an_empty_queue_there_is_nothing_to_climb(make: Any, batch: dict[str, Any]) -> None:
    objective = make()
    objective.queue = KeyQueue(50, 8).double()
    assert objective([dict(batch)])["contrastive"].item() == 0
    assert objective.diagnostics["replaced_words"] == 0
    assert objective.diagnostics["queue_filled"] == 0


def test_inner_products_or_cosines(make: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    z, keys = (torch.randn(4, 8, generator=generator, dtype=torch.float64) for _ in range(2))
    unit = torch.nn.functional.normalize
    for normalize in (False, True):
        objective = make(normalize=normalize)
        a, b, old = (unit(v, dim=-1) if normalize else v for v in (z, keys, old_keys()))
        logits = torch.cat([(a * b).sum(1, keepdim=True), a @ old.T], dim=1) / 0.3
        expected = torch.nn.functional.cross_entropy(logits, torch.zeros(4, dtype=torch.long))
        assert objective.compute_loss(z, keys).item() == pytest.approx(expected.item(), rel=1e-10)


class TestStateThatFollows:
    def test_keys_enter_the_queue_after_the_step(self, make: Any, batch: dict[str, Any]) -> None:
        objective = make(positives="dropout")
        objective.followed_by_trainer = True
        before = objective.queue.keys.clone()
        weight = objective.head.layers[0].weight.detach().clone()
        first = objective([dict(batch)])
        keys = objective.follower.keys(batch)
        second = objective([{key: value[:2] for key, value in batch.items() if isinstance(value, torch.Tensor)}])
        assert torch.equal(objective.queue.keys, before), "a key was its own negative, or that of the next micro-batch"
        (first["contrastive"] + second["contrastive"]).backward()
        with torch.no_grad():
            objective.head.layers[0].weight += 1.0
        objective.follow()
        torch.testing.assert_close(objective.queue.keys[7:12], keys[:5])
        torch.testing.assert_close(objective.queue.keys[:5], torch.cat([keys[5:], keys[:2]]))
        # θ_k ← mθ_k + (1−m)θ_q
        torch.testing.assert_close(objective.follower.followed_head.layers[0].weight, weight + 0.1)
        after = objective.queue.keys.clone()
        objective.follow()
        assert torch.equal(objective.queue.keys, after)
        torch.testing.assert_close(objective.follower.followed_head.layers[0].weight, weight + 0.1)

    def test_without_a_trainer_the_next_pass_catches_up(self, make: Any, batch: dict[str, Any]) -> None:
        objective = make(positives="dropout")
        objective([dict(batch)])
        assert int(objective.queue.filled) == 7
        objective([dict(batch)])
        assert int(objective.queue.filled) == 12

    def test_evaluation_leaves_it_alone(self, make: Any, batch: dict[str, Any]) -> None:
        objective = make(positives="dropout").eval()
        for _ in range(3):
            objective([dict(batch)])
        objective.train()
        objective.follow()
        assert int(objective.queue.filled) == 7

    def test_what_a_checkpoint_holds(self, make: Any, batch: dict[str, Any]) -> None:
        objective = make()
        objective([dict(batch)])
        objective.follow()
        state = objective.own_state()
        assert {name.split(".")[0] for name in state} == {"head", "follower", "queue"}
        other = make()
        other.load_own_state(state)
        assert all(torch.equal(value, other.own_state()[name]) for name, value in state.items())
        names = [name for name, _ in objective.named_parameters()]
        assert not any("masked_lm" in name for name in names)
        assert [name for name, _ in objective.named_modules() if "." not in name] == [
            "",
            "model",
            "head",
            "follower",
            "queue",
        ]
        assert {id(p) for p in objective.own_parameters()} == {id(p) for p in objective.head.parameters()}


def test_the_attack_leaves_no_trace(make_encoder_model: Any, masked_lm: Path, sentences: list[str]) -> None:
    model = make_encoder_model("bert").train()
    objective = ADCL(model, masked_lm=str(masked_lm), **SETTINGS)
    objective.queue.push(old_keys().float())
    features = dict(model.preprocess(sentences))
    modes = [module.training for module in objective.modules()]
    keys = objective.follower.keys(features)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = objective.hard_positives(objective.encoder, features, keys)
    again = objective.hard_positives(objective.encoder, features, keys)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first["input_ids"], again["input_ids"])
    assert not torch.equal(first["input_ids"], features["input_ids"])
    assert [module.training for module in objective.modules()] == modes
    assert all(p.grad is None for p in objective.parameters())
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("roles", ["paper", "swapped"])
def test_the_attack_runs_against_the_key_of_the_sentence_itself(
    make_encoder_model: Any, masked_lm: Path, sentences: list[str], roles: Any
) -> None:
    """Without dropout where it serves the attack alone; the training's own where it is computed anyway."""
    model = make_encoder_model("bert").train()
    objective = ADCL(model, masked_lm=str(masked_lm), roles=roles, **SETTINGS)
    features = dict(model.preprocess(sentences))
    attacked: list[torch.Tensor] = []
    trained: list[torch.Tensor] = []
    objective.hard_positives = lambda _e, rows, keys, _: attacked.append(keys) or rows  # type: ignore[method-assign]
    objective.compute_loss = lambda z, keys, _: trained.append(keys) or z.sum()  # type: ignore[method-assign]
    objective([dict(features)])
    objective.follower.eval()
    sure = objective.follower.keys(features)
    assert torch.equal(attacked[0], sure) == (roles == "paper")
    assert torch.equal(attacked[0], trained[0]) == (roles == "swapped")
    assert not torch.equal(trained[0], sure), "the keys of the training have dropout"


def test_permuting_the_batch_changes_nothing(make: Any, batch: dict[str, Any]) -> None:
    objective = make()
    objective.followed_by_trainer = True
    torch.testing.assert_close(objective([dict(batch)]), objective([reordered(batch)]), rtol=1e-8, atol=1e-10)


def test_wider_padding_changes_nothing(make: Any, batch: dict[str, Any]) -> None:
    objective = make()
    objective.followed_by_trainer = True
    torch.testing.assert_close(objective([dict(batch)]), objective([wider(batch)]), rtol=1e-8, atol=1e-10)


def test_any_backbone_under_bf16(make_encoder_model: Any, masked_lm: Path, sentences: list[str], backbone: str) -> None:
    model = make_encoder_model(backbone).train()
    objective = ADCL(model, masked_lm=str(masked_lm), **SETTINGS)
    objective.queue.push(old_keys().float())
    features = dict(model.preprocess(sentences))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (loss,) = objective([features]).values()
    assert loss.dtype == torch.float32
    loss.backward()
    assert torch.isfinite(loss)
    assert loss > 0
    assert objective.diagnostics["replaced_words"] > 0
    assert objective.diagnostics["unattacked"] == 0
    objective.follow()
    assert objective.queue.keys.dtype == torch.float32
    assert int(objective.queue.filled) == 12


def test_a_row_that_cannot_be_recovered_keeps_its_ids(make: Any, sentences: list[str]) -> None:
    objective = make()
    without = dict(objective.model.preprocess(sentences[1:]))
    expected = objective.hard_positives(objective.encoder, without, objective.follower.keys(without))
    sentences[0] = "the unheard man sleeps on the big red bed in the house"
    features = dict(objective.model.preprocess(sentences))
    found = objective.hard_positives(objective.encoder, features, objective.follower.keys(features))
    assert torch.equal(found["input_ids"][0], features["input_ids"][0])
    assert torch.equal(found["input_ids"][1:], expected["input_ids"])
    assert not torch.equal(expected["input_ids"], without["input_ids"])
    assert objective.diagnostics["unattacked"].item() == pytest.approx(1 / 8)


class TestGivenAndDropoutPositives:
    def test_a_second_column_is_the_key(self, make: Any, batch: dict[str, Any]) -> None:
        objective = make(positives="given")
        others = {key: value.flip(0) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
        z = objective.head(objective.encoder.encode(batch))
        expected = objective.compute_loss(z, objective.follower.keys(others))
        torch.testing.assert_close(objective([dict(batch), others])["contrastive"], expected)

    def test_or_the_query(self, make: Any, batch: dict[str, Any]) -> None:
        objective = make(positives="given", roles="swapped")
        others = {key: value.flip(0) if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
        z = objective.head(objective.encoder.encode(others))
        expected = objective.compute_loss(z, objective.follower.keys(batch))
        torch.testing.assert_close(objective([dict(batch), others])["contrastive"], expected)

    def test_dropout_makes_the_two_differ(self, make_encoder_model: Any, sentences: list[str]) -> None:
        model = make_encoder_model("bert")
        objective = ADCL(model.train(), positives="dropout")
        objective.queue.push(objective.follower.keys(model.preprocess(sentences)))
        pairs: list[Any] = []
        objective.compute_loss = lambda *pair: pairs.append(pair) or pair[0].sum()  # type: ignore[method-assign]
        objective([dict(model.preprocess(sentences))])
        assert (pairs[0][0] - pairs[0][1]).abs().max() > 1e-3
        assert objective.attack is None

    @pytest.mark.parametrize(
        ("positives", "columns", "says"),
        [
            ("given", 1, "takes two columns with positives=given: sentences and their positives"),
            ("geometry", 2, "takes one column, of sentences, with positives=geometry"),
            ("dropout", 2, "takes one column, of sentences, with positives=dropout"),
            ("given", 3, "takes a column of sentences, or sentences and their positives: got 3"),
        ],
    )
    def test_the_wrong_number_of_columns(
        self, make: Any, batch: dict[str, Any], positives: str, columns: int, says: str
    ) -> None:
        with pytest.raises(ValueError, match=says):
            make(positives=positives)([dict(batch)] * columns)


class TestAsReleased:
    """The quirks that RELEASED behaviour consists of, each by itself."""

    @pytest.fixture
    def objective(self, make: Any) -> ADCL:
        preset = {**ADCL.PRESETS["as_released"], "queue_size": 32}
        released: ADCL = make(**preset)
        return released

    def test_sizes(self, make_encoder_model: Any, masked_lm: Path) -> None:
        objective = ADCL(make_encoder_model("bert"), masked_lm=str(masked_lm), **ADCL.PRESETS["as_released"])
        assert objective.queue.keys.shape == (65536, 128)
        assert len(objective.queue.vectors()) == len(objective.queue.keys)
        assert objective.queue.keys.std() > 0.5
        assert [type(layer).__name__ for layer in objective.head.layers] == ["Linear", "Tanh"]
        assert objective.roles == "swapped"
        assert objective.attack is not None
        assert objective.attack.importance == "sum-l1"

    def test_the_direction_is_taken_before_the_tanh(
        self, objective: ADCL, sentences: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found: list[BatchGradients] = []
        slopes = GradientEncoder.gradients
        monkeypatch.setattr(GradientEncoder, "gradients", lambda *args: found.append(slopes(*args)) or found[-1])
        encoder = objective.encoder
        keys = objective.follower.keys(encoder.tokenise(sentences[:1]))
        objective.attack_texts(encoder, sentences[:1], keys)
        before = objective.head.layers[0](encoder.encode(encoder.tokenise(sentences[:1])))
        loss = objective.compute_loss(before.tanh(), keys)
        (expected,) = torch.autograd.grad(loss, before)
        torch.testing.assert_close(found[0].direction, expected, rtol=1e-7, atol=1e-10)

    def test_dropout_is_off_in_training(self, make_encoder_model: Any, masked_lm: Path, sentences: list[str]) -> None:
        model = make_encoder_model("bert").train()
        options = {**ADCL.PRESETS["as_released"], "queue_size": 32, "masked_lm": str(masked_lm)}
        objective = ADCL(model, **options)
        objective.followed_by_trainer = True
        features = model.preprocess(sentences)
        losses = {objective([dict(features)])["contrastive"].item() for _ in range(2)}
        assert len(losses) == 1
        assert all(module.training for module in objective.modules())
        objective.as_released = False
        assert objective([dict(features)])["contrastive"].item() not in losses


def test_the_paper_projection(make_encoder_model: Any) -> None:
    head = Projection(16, 8)
    assert [type(layer).__name__ for layer in head.layers] == ["Linear", "Sigmoid", "Linear", "Tanh"]
    assert (head.layers[0].out_features, head.layers[2].out_features) == (16, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert head(torch.randn(2, 16).bfloat16()).dtype == torch.float32


def test_the_linear_projection_starts_spread_and_the_papers_collapsed() -> None:
    torch.manual_seed(0)
    h = torch.randn(50, 64) * 0.3 + 0.1
    assert mean_cosine(Projection(64, 32, "mlp")(h)) > 0.9
    assert mean_cosine(Projection(64, 32, "linear")(h)) < mean_cosine(h) + 0.1


def test_the_mean_cosine_is_of_the_pairs() -> None:
    vectors = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    cosines = [torch.cosine_similarity(vectors[i], vectors[j], dim=0) for i in range(7) for j in range(i)]
    assert mean_cosine(vectors).item() == pytest.approx(torch.stack(cosines).mean().item(), abs=1e-6)
    assert mean_cosine(vectors[:1]) == pytest.approx(0, abs=1e-6)


def test_the_spread_of_the_vectors_is_logged(make: Any, batch: dict[str, Any]) -> None:
    objective = make(positives="dropout")
    objective([dict(batch)])
    z = objective.head(objective.encoder.encode(batch))
    assert objective.diagnostics["vector_cosine"].item() == pytest.approx(mean_cosine(z).item(), rel=1e-5)
    assert not objective.diagnostics["vector_cosine"].requires_grad


def test_the_masked_lm_is_the_model_itself_unless_named(
    masked_lm: Path, tmp_path: Path, make_encoder_model: Any
) -> None:
    from holdfast.models import load_sentence_transformer

    model = load_sentence_transformer(str(masked_lm), device="cpu")
    objective = ADCL(model, source="masked-lm")
    assert objective._masked_lm is not None
    assert objective._masked_lm.source == str(masked_lm)
    assert objective._masked_lm.model is not model.transformers_model
    with pytest.raises(UserError, match="masked_lm="):
        ADCL(make_encoder_model("bert"), source="masked-lm")
    model.transformers_model.name_or_path = ""
    with pytest.raises(UserError, match="masked_lm="):
        ADCL(model, source="masked-lm")


def test_a_prompt_is_refused_where_texts_are_changed(masked_lm: Path, tmp_path: Path) -> None:
    from holdfast.models import load_sentence_transformer

    (tmp_path / "near.tsv").write_text("word\tneighbors\ndog\tcat\n")
    model = load_sentence_transformer(str(masked_lm), pooling="prompt", device="cpu")
    for options in ({"source": "masked-lm"}, {"word_vectors": str(tmp_path / "near.tsv")}):
        with pytest.raises(UserError, match="cannot separate a prompt from its sentence"):
            ADCL(model, **options)
    assert ADCL(model, positives="dropout").attack is None


def test_word_vectors_from_a_file(exact_model: Any, masked_lm: Path, tmp_path: Path) -> None:
    path = tmp_path / "near.tsv"
    path.write_text("word\tneighbors\ndog\tcat\n")
    filtered = ADCL(exact_model, masked_lm=str(masked_lm), word_vectors=str(path), source="masked-lm")
    assert filtered.attack is not None
    assert filtered.attack.proposer.source.endswith("neighbour lists of near.tsv")
    assert not filtered.attack.skip_freely
    synonyms = ADCL(exact_model, masked_lm="not loaded", word_vectors=str(path))
    assert synonyms.attack is not None
    assert synonyms.attack.proposer.source.startswith("neighbour lists near.tsv")
    assert synonyms.attack.skip_freely
    assert synonyms.helper_models() == ()
    assert ADCL.completed_options({"positives": "dropout", "source": "neighbours"}, None) == {
        "positives": "dropout",
        "source": "neighbours",
    }


def test_the_attack_takes_synonyms_and_trains_on_them(exact_model: Any, batch: dict[str, Any], tmp_path: Path) -> None:
    words = ("man", "woman", "child", "dog", "cat", "house", "park", "bed", "runs", "sings", "sleeps")
    (tmp_path / "near.tsv").write_text("word\tneighbors\n" + "".join(f"{word}\tcat dog\n" for word in words))
    torch.manual_seed(0)
    options = {**SETTINGS, "source": "auto", "word_vectors": str(tmp_path / "near.tsv")}
    objective = ADCL(exact_model, **options).double()
    objective.queue.push(old_keys())
    objective([dict(batch)])
    assert objective.diagnostics["replaced_words"] > 0
    assert objective.notices == []


def test_without_synonyms_the_masked_lm_proposes_and_says_so(
    exact_model: Any, masked_lm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    objective = ADCL(exact_model, masked_lm=str(masked_lm))
    assert objective._masked_lm is not None
    (line,) = objective.notices
    assert "filtered by its embeddings, since no synonyms are at hand" in line


@pytest.mark.parametrize("preset", ["paper", "as_released"])
def test_the_presets_keep_the_papers_attack_and_head(
    exact_model: Any, masked_lm: Path, preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    objective = ADCL(exact_model, **{**ADCL.PRESETS[preset], "masked_lm": str(masked_lm), "queue_size": 8})
    assert objective.attack is not None
    assert "input embeddings" in objective.attack.proposer.source
    kinds = {"paper": ["Linear", "Sigmoid", "Linear", "Tanh"], "as_released": ["Linear", "Tanh"]}
    assert [type(layer).__name__ for layer in objective.head.layers] == kinds[preset]
    assert objective.notices == []
    default = ADCL(exact_model, positives="dropout")
    assert not objective.follower.warm_up
    assert not default.follower.warm_up
    assert default.normalize
    assert not objective.normalize
    assert [type(layer).__name__ for layer in default.head.layers] == ["Linear", "Tanh"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature"),
        ({"positives": "own"}, "positives must be one of geometry, dropout, given"),
        ({"roles": "both"}, "roles must be one of"),
        ({"projection": "none"}, "projection must be one of"),
        ({"source": "thesaurus"}, "source must be one of auto, masked-lm, neighbours"),
        ({"momentum": 1.5}, "momentum"),
        ({"queue_size": 0}, "queue"),
        ({"projection_size": 0}, "projection_size must be 1 or more, got 0"),
        ({"iterations": 0}, "iteration"),
        ({"max_share": 1.5}, "share"),
        ({"candidates": 0}, "candidate"),
    ],
)
def test_wrong_options_are_refused(exact_model: Any, masked_lm: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ADCL(exact_model, **{"masked_lm": str(masked_lm), **options})


def test_an_evaluation_in_training_mode_moves_nothing(make: Any, batch: dict[str, Any]) -> None:
    """A stock trainer sets the model's mode and not the loss's; what tells its evaluation is that no gradient is."""
    objective = make(positives="dropout", queue_size=20)
    objective([dict(batch)])["contrastive"].backward()
    with torch.no_grad():
        objective.head.layers[0].weight.add_(1.0)
    state = {name: value.clone() for name, value in objective.own_state().items()}
    with torch.no_grad():
        objective([dict(batch)])
    torch.testing.assert_close(objective.own_state(), state, rtol=0, atol=0)
    objective([dict(batch)])
    assert objective.queue.filled == 7 + 8, "the seven old keys, and those of the training pass"
    assert not torch.equal(
        objective.own_state()["follower.followed_head.layers.0.weight"], state["follower.followed_head.layers.0.weight"]
    )


@pytest.mark.slow
def test_two_processes_equal_one(masked_lm: Path, tmp_path: Path, warm: WarmPython) -> None:
    script = Path(__file__).with_name("adcl_processes.py")
    for processes in (1, 2):
        finished = warm.run(script, str(masked_lm), str(tmp_path), processes=processes)
        assert finished.returncode == 0, finished.stderr
    one, two = (torch.load(tmp_path / f"adcl-{n}.pt", weights_only=True) for n in (1, 2))
    for single, double in zip(one["gradients"], two["gradients"], strict=True):
        torch.testing.assert_close(double, single, rtol=1e-7, atol=1e-10)
    torch.testing.assert_close(two["queue"], one["queue"], rtol=1e-7, atol=1e-10)
    assert max(gradient.abs().max() for gradient in one["gradients"][-1].values()) > 1e-4


def test_works_as_a_loss_of_the_stock_trainer(
    make_encoder_model: Any, masked_lm: Path, sentences: list[str], tmp_path: Any
) -> None:
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    model = make_encoder_model("bert")
    objective = ADCL(model, masked_lm=str(masked_lm), **SETTINGS)
    before = objective.head.layers[0].weight.clone()
    slow_before = objective.follower.followed_head.layers[0].weight.clone()
    arguments = SentenceTransformerTrainingArguments(str(tmp_path), max_steps=3, use_cpu=True, report_to="none")
    data = Dataset.from_dict({"sentence": sentences})
    SentenceTransformerTrainer(model, arguments, train_dataset=data, loss=objective).train()
    assert not torch.equal(before, objective.head.layers[0].weight), "the head was not trained"
    assert not torch.equal(slow_before, objective.follower.followed_head.layers[0].weight), "the copy did not follow"
    assert int(objective.queue.filled) == 12
    assert objective.follower.followed_model is not objective.model
    assert Encoder(objective.follower.followed_model).dimension == 16
